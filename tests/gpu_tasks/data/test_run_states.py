"""Checkpoints and results: the content of their blobs counts only if it hashes to the stated root."""

from dataclasses import replace

import pytest

from error_codes import raises_code
from gpu_tasks.data.run_states import (
    _RUN_STATE,
    STATE_BYTES_MAX,
    VERSION,
    RunState,
    WrongRunStateError,
    begins_as_stated,
    encode_run_state,
    goes_on_from,
    read_run_state,
    root_of,
    state_index,
)
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX
from gpu_tasks.market.training.tasks import HeldCheckpoint, Milestone
from gpu_tasks.traces.trace import SEGMENTS_MAX, state_hash
from priced_tasks import a_task
from task_chain import an_order

ORDER = an_order(milestones=4, segments=10)
STATES = [f"state {number}".encode() for number in range(11)]
DIGESTS = tuple(state_hash(state) for state in STATES)


def test_milestones_end_at_the_segments_at_which_legs_begin() -> None:
    assert [state_index(ORDER, milestone) for milestone in range(5)] == [0, 2, 5, 7, 10]


@pytest.mark.parametrize("milestone", [1, 2, 3, 4])
def test_a_run_is_read_as_it_was_written(milestone: int) -> None:
    index = state_index(ORDER, milestone)
    digests = DIGESTS[: index + 1]
    content = encode_run_state(digests, STATES[index])
    assert read_run_state(content, ORDER, milestone, root_of(digests)) == RunState(VERSION, digests, STATES[index])


def test_the_largest_run_can_be_sealed() -> None:
    content = encode_run_state((bytes(32),) * (SEGMENTS_MAX + 1), bytes(STATE_BYTES_MAX))
    assert len(content) <= CONTENT_BYTES_MAX


def test_what_was_not_stated_is_refused_with_what_is_wrong() -> None:
    digests, root = DIGESTS[:6], root_of(DIGESTS[:6])
    right = RunState(VERSION, digests, STATES[5])
    for changed, code in (
        (replace(right, version=2), "unknown_version"),
        (replace(right, state=b"another"), "other_state"),
        (replace(right, digests=digests[1:]), "other_length"),
        (replace(right, digests=(bytes(32), *digests[1:])), "other_root"),
    ):
        with raises_code(WrongRunStateError, code):
            read_run_state(_RUN_STATE.encode(changed), ORDER, 2, root)
    with raises_code(WrongRunStateError, "not_a_state"):
        read_run_state(b"anything", ORDER, 2, root)


def milestone(number: int, digests: tuple[bytes, ...] = DIGESTS) -> Milestone:
    """Return the statement of a run's milestone."""
    return Milestone(number, root_of(digests[: state_index(ORDER, number) + 1]), 7, b"b" * 32)


def other_from(index: int) -> tuple[bytes, ...]:
    """Return a run that differs from s(index) on."""
    return (*DIGESTS[:index], *(state_hash(digest) for digest in DIGESTS[index:]))


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_run_goes_on_from_a_milestone_whose_last_state_it_has(number: int) -> None:
    end = state_index(ORDER, number)
    assert goes_on_from(other_from(end + 1), ORDER, milestone(number))
    assert not goes_on_from(other_from(end), ORDER, milestone(number))
    assert not goes_on_from((other_from(0)[0], *DIGESTS[1:]), ORDER, milestone(number))


def test_a_result_begins_with_its_leg_and_with_what_counts_of_that() -> None:
    """The leg begins behind milestone 1, and milestone 3 counts: s(2) begins it, and s(7) ends milestone 3."""
    task = replace(a_task(behind=1, done=2), order=ORDER)
    begun = replace(task, begun_from=milestone(1).root)
    held = HeldCheckpoint(milestone(3), b"h" * 32)
    counted = replace(begun, checkpoint=held)
    for stated, first_free in ((task, 0), (begun, 3), (replace(task, checkpoint=held), 8), (counted, 8)):
        assert all(begins_as_stated(other_from(index), stated) for index in range(first_free, 11))
        assert not any(begins_as_stated(other_from(index), stated) for index in range(first_free))
    # the counted milestone was of another run than the one that the leg continues
    elsewhere = replace(counted, begun_from=milestone(1, other_from(1)).root)
    assert not any(begins_as_stated(digests, elsewhere) for digests in (DIGESTS, other_from(1)))
