"""Checkpoints and results: what is in their blobs is believed as far as it hashes to what was stated."""

from dataclasses import replace

import pytest

from gpu_tasks.data.run_states import (
    _RUN_STATE,
    STATE_BYTES_MAX,
    VERSION,
    RunState,
    WrongRunStateError,
    encode_run_state,
    read_run_state,
    root_of,
    state_index,
)
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX
from gpu_tasks.traces.trace import SEGMENTS_MAX, state_hash
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
    for changed, says in (
        (replace(right, version=2), "version 2, and this program reads 1"),
        (replace(right, state=b"another"), "its state is not the one that its last hash names"),
        (replace(right, digests=digests[1:]), "it has the hashes of 5 states, and milestone 2 6"),
        (replace(right, digests=(bytes(32), *digests[1:])), "not those whose root was stated"),
    ):
        with pytest.raises(WrongRunStateError, match=says):
            read_run_state(_RUN_STATE.encode(changed), ORDER, 2, root)
    with pytest.raises(WrongRunStateError, match="it holds no state of a run"):
        read_run_state(b"anything", ORDER, 2, root)
