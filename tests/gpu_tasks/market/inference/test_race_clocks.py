"""The deadline of each racer: by its own clock, once its device has begun the unit."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpu_tasks.market import rounds
from gpu_tasks.market.inference import race_clocks
from gpu_tasks.market.inference.units import Racer
from gpu_tasks.market.rounds import Round, Windows

WINDOWS = Windows(commit_window=30, close=10, reveal=12)


def racer(name: str, began: int, committed: int = 0, *, is_out: bool = False, declined: bool = False) -> Racer:
    commitment = b"c" * 32 if committed else None
    return Racer(
        name.encode().ljust(32), name.encode().ljust(32), 1, commitment, committed, None, declined, began, is_out
    )


@pytest.mark.parametrize(
    ("who", "others", "current", "deadline"),
    [
        (racer("a", 0), (), Round(5), None),  # it waits for its turn: no clock of its runs
        (racer("a", 0), (racer("b", 5, 9),), Round(5, 7, 9), None),
        (racer("a", 5), (), Round(5), None),  # the draw is not final
        (racer("a", 5), (), Round(5, 7), 37),  # a lease, from the finality of the draw on
        (racer("a", 20), (), Round(5, 7), 50),  # or from its turn
        (racer("a", 5), (racer("b", 5, 9),), Round(5, 7, 9), 23),  # as long again as the first took, and ten blocks
        (racer("a", 5), (racer("b", 5, 12),), Round(5, 7, 12), 29),
        (racer("a", 5), (racer("b", 5, 36),), Round(5, 7, 36), 37),  # its own deadline
        (racer("a", 20), (racer("b", 5, 9),), Round(5, 7, 9), 38),  # twice as long as the first took, and the close
        (racer("a", 20), (racer("b", 5, 34),), Round(5, 7, 34), 50),
        (racer("a", 6), (racer("b", 15, 16),), Round(5, 7, 16), 37),  # a later starter took since the draw
        (racer("a", 8), (racer("b", 0, 12),), Round(5, 7, 12), 32),  # so did a racer that commits before its turn
        (racer("a", 9), (racer("b", 5, 9), racer("c", 7, 9)), Round(5, 7, 9), 27),  # of several first ones the slower
    ],
)
def test_the_last_block_to_commit_in(
    who: Racer, others: tuple[Racer, ...], current: Round, deadline: int | None
) -> None:
    racers = (who, *others)
    assert race_clocks.commit_deadline(who, current, WINDOWS) == deadline
    if deadline is not None:
        assert race_clocks.can_commit(who, current, WINDOWS, deadline)
        assert not race_clocks.can_commit(who, current, WINDOWS, deadline + 1)
        assert race_clocks.out_of_time(racers, current, WINDOWS, deadline) == {}
        assert race_clocks.out_of_time(racers, current, WINDOWS, deadline + 1) == {who.owner: deadline}
    else:
        assert race_clocks.can_commit(who, current, WINDOWS, 10_000)
        assert race_clocks.out_of_time(racers, current, WINDOWS, 10_000) == {}


def test_nobody_commits_in_the_draws_block_twice_or_after_the_close() -> None:
    alone = racer("a", 5)
    assert not race_clocks.can_commit(alone, Round(5), WINDOWS, 5)
    assert race_clocks.can_commit(alone, Round(5), WINDOWS, 6)
    assert not race_clocks.can_commit(alone, Round(5, 6, 0, 8), WINDOWS, 7)
    for spent in (racer("a", 5, 6), racer("a", 5, is_out=True), racer("a", 5, declined=True)):
        assert not race_clocks.is_open(spent)
        assert not race_clocks.can_commit(spent, Round(5), WINDOWS, 7)


def test_when_a_race_changes_next_and_when_it_closes() -> None:
    first, second, waiting = racer("a", 5), racer("b", 20), racer("c", 0)
    current = Round(5, 7)
    assert race_clocks.next_change((first, second), current, WINDOWS) == (37, 0)
    assert race_clocks.latest_deadline((first, second), current, WINDOWS) == 50
    assert race_clocks.next_change((first, waiting), current, WINDOWS) == (37, 0)
    assert race_clocks.latest_deadline((first, waiting), current, WINDOWS) is None, "who waits has all its time"
    assert race_clocks.next_change((waiting,), current, WINDOWS) == (67, 0), "it waits for two leases"
    assert race_clocks.next_change((first,), Round(5), WINDOWS) == (None, 5)
    assert race_clocks.next_change((first,), Round(5, 7, 9, 12, 14), WINDOWS) == (26, 12)
    found = race_clocks.as_found(Round(5), (first, second), WINDOWS, 51, 50)
    assert (found.commits_from, found.closed_at, found.reveals_from) == (51, 0, 0)
    found = race_clocks.as_found(Round(5, 7), (first, second), WINDOWS, 51, 50)
    assert (found.commits_from, found.closed_at, found.reveals_from) == (7, 50, 51)
    assert race_clocks.closed_by(Round(5, 7), (racer("a", 5, 9), racer("b", 5)), 8).closed_at == 9


@given(st.integers(1, 50), st.integers(0, 20), st.integers(0, 40), st.integers(1, 60))
def test_with_all_at_it_from_the_draw_on_it_is_the_rounds_clock(
    drawn: int, final_after: int, first_after: int, height_after: int
) -> None:
    first_commit = drawn + first_after if first_after else 0
    current = Round(drawn, drawn + final_after if final_after else 0, first_commit)
    assume(not (first_commit and current.commits_from) or first_commit <= current.commits_from + WINDOWS.commit_window)
    racers = (racer("a", drawn), *((racer("b", drawn, first_commit),) if first_commit else ()))
    longer = replace(WINDOWS, close=WINDOWS.close + first_after)
    assert race_clocks.commit_deadline(racers[0], current, WINDOWS) == rounds.commit_deadline(current, longer)
    height = drawn + height_after
    assert race_clocks.can_commit(racers[0], current, WINDOWS, height) == rounds.can_commit(current, longer, height)
    assert race_clocks.as_found(current, racers, WINDOWS, height, height - 1) == rounds.advanced(
        current, longer, height, height - 1
    )
