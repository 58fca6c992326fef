"""A provider's record of a task's run: a state, and the hashes of all states up to it, in one blob.

A checkpoint is the run up to a milestone, a result the run up to its end. Both are the same record. Like the input, it
is sealed to the customer's reply key and to each provider that may judge or take over. The chain has the root of the
trace up to there. A provider that continues from a checkpoint therefore states the root of an uninterrupted run.

Invariant: a blob counts only if it hashes to the stated root. Milestone k of m ends at the beginning of segment `n k /
m`.
"""

from __future__ import annotations

from typing import Annotated

from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.showing import leg_segments
from gpu_tasks.market.training.tasks import Milestone, Task
from gpu_tasks.traces.trace import SEGMENTS_MAX, state_hash, trace_root
from runtime.encoding.codec import U8, Bounded, DecodeError, Fixed, codec, struct
from wallet.errors import CodedError

VERSION = 1
STATE_BYTES_MAX = 1_000_000
"""With its hashes it fits the limit of sealed content, a mebibyte."""


@struct
class RunState:
    """s(i) of a run, and the hashes of s(0) to s(i)."""

    version: U8
    digests: Annotated[tuple[Annotated[bytes, Fixed(32)], ...], Bounded(SEGMENTS_MAX + 1)]
    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]


_RUN_STATE = codec(RunState)


class WrongRunStateError(CodedError, ValueError):
    """The blob differs from the statement on the chain. The text says how."""


def encode_run_state(state_digests: tuple[bytes, ...], last_state: bytes) -> bytes:
    """Return the content of a checkpoint's or a result's blob."""
    return _RUN_STATE.encode(RunState(VERSION, state_digests, last_state))


def root_of(state_digests: tuple[bytes, ...]) -> bytes:
    """Return the root that the provider states on the chain for a milestone or a result."""
    return trace_root(state_digests)


def state_index(task_order: TaskOrder, milestone: int) -> int:
    """Return the state's index i of s(i) for a milestone, counted from 1 over all legs."""
    return leg_segments(task_order.segments, milestone, task_order.milestones).start


def read_run_state(blob_content: bytes, task_order: TaskOrder, milestone: int, stated_root: bytes) -> RunState:
    """Return the stated run up to a milestone. Raise WrongRunStateError for any other content."""
    try:
        run_state = _RUN_STATE.decode(blob_content)
    except DecodeError as decoding_error:
        raise WrongRunStateError(f"it is not a state of a run ({decoding_error})", code="not_a_state") from None
    if run_state.version != VERSION:
        problem_text = f"its format has version {run_state.version}; this program reads version {VERSION}"
        raise WrongRunStateError(problem_text, code="unknown_version")
    needed_count = state_index(task_order, milestone) + 1
    if len(run_state.digests) != needed_count:
        hash_count = len(run_state.digests)
        problem_text = f"it has the hashes of {hash_count} states; milestone {milestone} has {needed_count}"
        raise WrongRunStateError(problem_text, code="other_length")
    if state_hash(run_state.state) != run_state.digests[-1]:
        raise WrongRunStateError("its state does not match its last hash", code="other_state")
    if trace_root(run_state.digests) != stated_root:
        raise WrongRunStateError("its hashes do not match the root on the chain", code="other_root")
    return run_state


def begins_as_stated(state_digests: tuple[bytes, ...], task: Task) -> bool:
    """Return True if a result continues from the start of its leg, and from its own newest milestone that counts."""
    task_order, held_checkpoint = task.order, task.checkpoint
    stated_milestones = (
        [] if held_checkpoint is None else [(held_checkpoint.milestone.number, held_checkpoint.milestone.root)]
    )
    if task.begun_from is not None:
        stated_milestones.append((task.behind, task.begun_from))
    return all(
        trace_root(state_digests[: state_index(task_order, milestone_number) + 1]) == stated_root
        for milestone_number, stated_root in stated_milestones
    )


def goes_on_from(state_digests: tuple[bytes, ...], task_order: TaskOrder, counted_milestone: Milestone) -> bool:
    """Return True if a run begins with the hashes of an earlier milestone, from which a takeover started."""
    return trace_root(state_digests[: state_index(task_order, counted_milestone.number) + 1]) == counted_milestone.root
