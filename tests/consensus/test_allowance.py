"""The work that one peer may cause in a second, counted for each peer and each second."""

from consensus.machine import Allowance


def test_so_many_in_a_second_and_as_many_in_the_next() -> None:
    allowance = Allowance()
    for second in (5, 6, 7):
        used = [allowance.is_used_up(b"a", 3, 1_000 * second + number) for number in range(5)]
        assert used == [False, False, False, True, True]


def test_one_peers_flood_uses_up_nobody_elses() -> None:
    allowance = Allowance()
    for _ in range(100):
        allowance.is_used_up(b"a", 3, 0)
    assert not allowance.is_used_up(b"b", 3, 0)
