"""A round opens and closes by heights and finality, never twice and never backwards."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.rounds import (
    Round,
    Windows,
    advanced,
    can_commit,
    can_reveal,
    commit_deadline,
    committed,
    is_over,
    is_void,
    next_change,
    refilled,
    reveal_deadline,
)

WINDOWS = Windows(commit_window=30, close=10, reveal=12)


@pytest.mark.parametrize(
    ("state", "deadline"),
    [
        (Round(5), None),
        (Round(5, commits_from=7), 37),
        (Round(5, first_commit=9), 19),
        (Round(5, commits_from=7, first_commit=9), 19),
        (Round(5, commits_from=7, first_commit=35), 37),
    ],
)
def test_commits_close_at_the_earlier_of_lease_and_first_commit(state: Round, deadline: int | None) -> None:
    assert commit_deadline(state, WINDOWS) == deadline


def test_a_round_step_by_step() -> None:
    state = Round(drawn_at=5)
    assert not can_commit(state, WINDOWS, 5)
    assert can_commit(state, WINDOWS, 6), "racers may be fast; the lease has not begun"
    state = advanced(state, WINDOWS, 7, 4)
    assert state.commits_from == 0, "the draw is not final"
    state = advanced(state, WINDOWS, 8, 5)
    assert state.commits_from == 8
    state = committed(state, 9, is_last=False)
    assert (state.first_commit, state.closed_at) == (9, 0)
    state = advanced(state, WINDOWS, 19, 17)
    assert can_commit(state, WINDOWS, 19)
    assert state.closed_at == 0
    state = advanced(state, WINDOWS, 20, 18)
    assert state.closed_at == 19
    assert not can_commit(state, WINDOWS, 20)
    assert not can_reveal(state, WINDOWS, 20), "the close is not final"
    state = advanced(state, WINDOWS, 21, 19)
    assert reveal_deadline(state, WINDOWS) == 33
    assert can_reveal(state, WINDOWS, 33)
    assert not is_over(state, WINDOWS, 33)
    assert is_over(state, WINDOWS, 34)
    assert not can_reveal(state, WINDOWS, 34)


def test_the_last_commit_closes_at_once() -> None:
    state = committed(Round(5, commits_from=8, first_commit=9), 11, is_last=True)
    assert state.closed_at == 11
    assert not can_commit(state, WINDOWS, 11)


def test_a_lease_that_runs_out() -> None:
    state = advanced(Round(5, commits_from=8), WINDOWS, 39, 37)
    assert state.closed_at == 38


def test_a_lease_begins_anew_where_a_place_is_filled_and_commits_count_meanwhile() -> None:
    state = refilled(Round(5, commits_from=7), 20)
    assert commit_deadline(state, WINDOWS) is None, "no clock runs until that draw is final"
    assert can_commit(state, WINDOWS, 20), "those who were drawn before lose no block"
    assert next_change(state, WINDOWS) == (None, 20)
    state = advanced(state, WINDOWS, 40, 19)
    assert (state.commits_from, state.closed_at) == (0, 0)
    state = advanced(state, WINDOWS, 41, 20)
    assert commit_deadline(state, WINDOWS) == 71


def test_no_place_is_filled_once_somebody_has_committed() -> None:
    with pytest.raises(AssertionError, match="is not refilled"):
        refilled(Round(5, commits_from=7, first_commit=9), 20)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "", "commit", "last", "refill"])), max_size=80),
    st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20)),
)
def test_heights_only_grow(steps: list[tuple[int, str]], sizes: tuple[int, int, int]) -> None:
    windows = Windows(*sizes)
    state, final = Round(drawn_at=3), 0
    for height, (progress, wanted) in enumerate(steps, start=4):
        if wanted == "refill" and not state.first_commit and can_commit(state, windows, height):
            state = refilled(state, height)
            assert can_commit(state, windows, height)
        before = state
        final = min(final + progress, height - 1)
        state = advanced(state, windows, height, final)
        assert advanced(state, windows, height, final) == state
        if wanted in ("commit", "last") and can_commit(state, windows, height):
            assert not can_reveal(state, windows, height)
            state = committed(state, height, is_last=wanted == "last")
        if can_reveal(state, windows, height):
            assert final >= state.closed_at > state.drawn_at
            assert state.closed_at >= state.refilled_at, "whoever was drawn is known to all before anybody reveals"
        fields = ("commits_from", "first_commit", "closed_at", "reveals_from")
        assert all(getattr(before, name) in (0, getattr(state, name)) for name in fields)
        assert replace(state, drawn_at=3) == state
        assert_nothing_changes_earlier(state, windows, height, final)


def assert_nothing_changes_earlier(state: Round, windows: Windows, height: int, final: int) -> None:
    """Check that a round stays as it is by itself until `next_change`."""
    deadline, awaited = next_change(state, windows)
    last = height + 30 if deadline is None else deadline
    for later in range(height, last + 1, max(1, last - height)):
        for newest in {final, max(final, awaited - 1)}:
            after = advanced(state, windows, later, newest)
            assert (after.closed_at, after.reveals_from) == (state.closed_at, state.reveals_from)
            assert state.closed_at or after.commits_from == state.commits_from, "of a closed round nobody asks"
            assert not is_over(after, windows, later)


@pytest.mark.parametrize(
    ("state", "deadline", "awaited"),
    [
        (Round(5), None, 5),
        (Round(5, first_commit=9), 19, 5),
        (Round(5, refilled_at=8), None, 8),
        (Round(5, first_commit=9, refilled_at=8), 19, 8),
        (Round(5, commits_from=10, refilled_at=8), 40, 0),
        (Round(5, commits_from=7), 37, 0),
        (Round(5, commits_from=7, first_commit=9, closed_at=11), None, 11),
        (Round(5, commits_from=7, first_commit=9, closed_at=11, reveals_from=14), 26, 11),
    ],
)
def test_what_a_round_waits_for(state: Round, deadline: int | None, awaited: int) -> None:
    assert next_change(state, WINDOWS) == (deadline, awaited)


def test_a_round_that_closes_without_a_commit_is_void() -> None:
    assert not is_void(Round(5, commits_from=8))
    assert is_void(advanced(Round(5, commits_from=8), WINDOWS, 39, 37))
    assert not is_void(Round(5, commits_from=8, first_commit=9, closed_at=19))
