"""Signs of life in the economy, also in a short season."""

from simulation.economy.season import Season


def test_who_has_no_seat_shows_that_it_is_on_line() -> None:
    assert Season(1, 0).play(1_500).events["HeartbeatReceived"]
