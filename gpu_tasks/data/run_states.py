"""What a provider of a task keeps of its run: a state, and the hashes of all states up to it, in one blob.

A checkpoint is the run up to a milestone, a result the run up to its end: both are the same record, sealed as the
input is, to the customer's reply key and to whoever may judge or take over. What stands on the chain of either is the
root of the trace up to there, so that who goes on from a checkpoint states the root of an undisturbed run.

Always: a blob is believed only as far as it hashes to the root that was stated; milestone k of m ends where segment
`n k / m` begins.
"""

from __future__ import annotations

from typing import Annotated

from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.showing import leg_segments
from gpu_tasks.market.training.tasks import Milestone, Task
from gpu_tasks.traces.trace import SEGMENTS_MAX, state_hash, trace_root
from runtime.encoding.codec import U8, Bounded, DecodeError, Fixed, codec, struct

VERSION = 1
STATE_BYTES_MAX = 1_000_000
"""With its hashes it fits what may be sealed, a mebibyte."""


@struct
class RunState:
    """s(i) of a run, and the hashes of s(0) to s(i)."""

    version: U8
    digests: Annotated[tuple[Annotated[bytes, Fixed(32)], ...], Bounded(SEGMENTS_MAX + 1)]
    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]


_RUN_STATE = codec(RunState)


class WrongRunStateError(ValueError):
    """A blob does not hold what was stated; the text says in what."""


def encode_run_state(digests: tuple[bytes, ...], state: bytes) -> bytes:
    """The content of a checkpoint's or a result's blob."""
    return _RUN_STATE.encode(RunState(VERSION, digests, state))


def root_of(digests: tuple[bytes, ...]) -> bytes:
    """What is stated of a milestone, or of a result, on the chain."""
    return trace_root(digests)


def state_index(order: TaskOrder, milestone: int) -> int:
    """Which state milestone `milestone`, counted from 1 over all legs, is: the i of s(i)."""
    return leg_segments(order.segments, milestone, order.milestones).start


def read_run_state(content: bytes, order: TaskOrder, milestone: int, root: bytes) -> RunState:
    """The run up to a milestone, as it was stated; WrongRunStateError for everything else."""
    try:
        found = _RUN_STATE.decode(content)
    except DecodeError as error:
        raise WrongRunStateError(f"it holds no state of a run ({error})") from None
    if found.version != VERSION:
        raise WrongRunStateError(f"its form is of version {found.version}, and this program reads {VERSION}")
    wanted = state_index(order, milestone) + 1
    if len(found.digests) != wanted:
        said = len(found.digests)
        raise WrongRunStateError(f"it has the hashes of {said} states, and milestone {milestone} {wanted}")
    if state_hash(found.state) != found.digests[-1]:
        raise WrongRunStateError("its state is not the one that its last hash names")
    if trace_root(found.digests) != root:
        raise WrongRunStateError("its hashes are not those whose root was stated on the chain")
    return found


def begins_as_stated(digests: tuple[bytes, ...], task: Task) -> bool:
    """Whether a result goes on from where its leg began, and from the newest milestone of its own that counts."""
    order, held = task.order, task.checkpoint
    stated = [] if held is None else [(held.milestone.number, held.milestone.root)]
    if task.begun_from is not None:
        stated.append((task.behind, task.begun_from))
    return all(trace_root(digests[: state_index(order, number) + 1]) == root for number, root in stated)


def goes_on_from(digests: tuple[bytes, ...], order: TaskOrder, counted: Milestone) -> bool:
    """Whether a run begins with the hashes of an earlier milestone: who took the task over began where that ended."""
    return trace_root(digests[: state_index(order, counted.number) + 1]) == counted.root
