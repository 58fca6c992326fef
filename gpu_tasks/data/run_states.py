"""A provider's record of a task's run: a state, and the hashes of all states up to it, in one blob.

A checkpoint is the run up to a milestone, a result the run up to its end. Both are the same record. Like the input, it
is sealed to the customer's reply key and to each provider that may check it or take over. The chain has the root of the
trace up to there. A provider that continues from a checkpoint therefore states the root of an uninterrupted run.

Invariant: a blob counts only if it hashes to the stated root. Milestone k of m ends at the beginning of segment `n k /
m`.
"""

from __future__ import annotations

from typing import Annotated

from gpu_tasks.market.training.items import leg_segments
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.tasks import Milestone, Task
from gpu_tasks.traces.trace import SEGMENTS_MAX, state_hash, trace_root
from runtime.encoding.codec import U8, Bounded, DecodeError, Fixed, codec, struct
from wallet.errors import CodedError

VERSION = 1
STATE_BYTES_MAX = 1_000_000
"""With its hashes it fits the limit of sealed content, a mebibyte."""

Digests = Annotated[tuple[Annotated[bytes, Fixed(32)], ...], Bounded(SEGMENTS_MAX + 1)]
"""The hashes of the states of a run."""


@struct
class RunState:
    """s(i) of a run, and the hashes of s(0) to s(i)."""

    version: U8
    digests: Digests
    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]


_RUN_STATE = codec(RunState)


class WrongRunStateError(CodedError, ValueError):
    """The blob differs from the statement on the chain. The text says how."""


def encode_run_state(digests: tuple[bytes, ...], last_state: bytes) -> bytes:
    """Return the content of a checkpoint's or a result's blob."""
    return _RUN_STATE.encode(RunState(VERSION, digests, last_state))


def root_of(digests: tuple[bytes, ...]) -> bytes:
    """Return the root that the provider states on the chain for a milestone or a result."""
    return trace_root(digests)


def state_index(order: TaskOrder, milestone: int) -> int:
    """Return the state's index i of s(i) for a milestone, counted from 1 over all legs."""
    return leg_segments(order.segments, milestone, order.milestones).start


def read_run_state(content: bytes, order: TaskOrder, milestone: int, root: bytes) -> RunState:
    """Return the stated run up to a milestone. Raise WrongRunStateError for any other content."""
    try:
        run_state = _RUN_STATE.decode(content)
    except DecodeError as error:
        raise WrongRunStateError(f"it is not a state of a run ({error})", code="not_a_state") from None
    if run_state.version != VERSION:
        text = f"its format has version {run_state.version}; this program reads version {VERSION}"
        raise WrongRunStateError(text, code="unknown_version")
    needed_count = state_index(order, milestone) + 1
    if len(run_state.digests) != needed_count:
        hash_count = len(run_state.digests)
        text = f"it has the hashes of {hash_count} states; milestone {milestone} has {needed_count}"
        raise WrongRunStateError(text, code="other_length")
    if state_hash(run_state.state) != run_state.digests[-1]:
        raise WrongRunStateError("its state does not match its last hash", code="other_state")
    if trace_root(run_state.digests) != root:
        raise WrongRunStateError("its hashes do not match the root on the chain", code="other_root")
    return run_state


def begins_as_stated(digests: tuple[bytes, ...], task: Task) -> bool:
    """Return True if a result continues from the start of its leg, and from its own newest milestone that counts."""
    order, held = task.order, task.checkpoint
    stated = [] if held is None else [(held.milestone.number, held.milestone.root)]
    if task.begun_from is not None:
        stated.append((task.behind, task.begun_from))
    return all(
        trace_root(digests[: state_index(order, milestone_number) + 1]) == root for milestone_number, root in stated
    )


def goes_on_from(digests: tuple[bytes, ...], order: TaskOrder, counted: Milestone) -> bool:
    """Return True if a run begins with the hashes of an earlier milestone, from which a takeover started."""
    return trace_root(digests[: state_index(order, counted.number) + 1]) == counted.root
