"""What a daemon and its worker process say to each other: SCALE behind a length, over pipes."""

from __future__ import annotations

from typing import Annotated, BinaryIO

from gpu_tasks.batches.requests import REQUEST_BYTES_MAX as BATCH_REQUEST_BYTES_MAX
from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX
from gpu_tasks.data.unit_input import OUTPUT_BYTES_MAX, REQUEST_BYTES_MAX
from gpu_tasks.traces.trace import SEGMENTS_MAX
from runtime.encoding.codec import U32, U64, Bounded, Tagged, codec, struct, variant
from runtime.encoding.types import Hash

LENGTH_BYTES = 4
STATE_BYTES_MAX = CONTENT_BYTES_MAX
"""Of a run in steps: what a blob holds."""
MESSAGE_BYTES_MAX = REQUEST_BYTES_MAX + STATE_BYTES_MAX + 1024
REASON_BYTES_MAX = 2_000
PART_BYTES = STATE_BYTES_MAX // 2
"""Finished requests are told once they have so many bytes: with one more they fit into a message."""


@variant(0)
class RunRequest:
    """Execute a request."""

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]


@variant(1)
class VerifyOutput:
    """Check an output."""

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]
    output: Annotated[bytes, Bounded(OUTPUT_BYTES_MAX)]


@variant(2)
class TraceAt:
    """The hash of the computation of a right output at a place."""

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]
    output: Annotated[bytes, Bounded(OUTPUT_BYTES_MAX)]
    place: Hash


@variant(3)
class BeginRun:
    """Where a run in steps begins, and where its states stand."""

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]


@variant(4)
class AdvanceRun:
    """The state so many steps later; none: whether it is a state, and where."""

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]
    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]
    steps: U32


@variant(5)
class MetricAt:
    """How good a state is."""

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]
    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]


@variant(6)
class RunMany:
    """Execute many requests; what is done is told with `RanSome`, and `Ran` with no output ends it."""

    requests: Annotated[tuple[Annotated[bytes, Bounded(BATCH_REQUEST_BYTES_MAX)], ...], Bounded(REQUESTS_MAX)]


Question = Annotated[
    RunRequest | VerifyOutput | TraceAt | BeginRun | AdvanceRun | MetricAt | RunMany, Tagged("ogpu::Question")
]


@variant(0)
class Ready:
    """The workload is loaded and its conformance vectors passed."""

    workload: Hash
    model: Hash


@variant(1)
class Ran:
    """The output of a request, and what it took."""

    output: Annotated[bytes, Bounded(OUTPUT_BYTES_MAX)]
    cpu_ms: U64
    memory_peak_bytes: U64


@variant(2)
class Checked:
    """Whether an output is the right one."""

    is_right: bool
    recomputed: U32


@variant(3)
class BadRequest:
    """The request is none: a property of the input, the same on every machine."""

    reason: Annotated[str, Bounded(REASON_BYTES_MAX)]


@variant(4)
class Failed:
    """The worker could not do it: a property of this machine."""

    reason: Annotated[str, Bounded(REASON_BYTES_MAX)]


@variant(5)
class Traced:
    """The hash of a computation at a place."""

    trace: Hash


@variant(6)
class Begun:
    """The first state, and the steps that are done at each state of the trace."""

    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]
    boundaries: Annotated[tuple[U32, ...], Bounded(SEGMENTS_MAX + 1)]


@variant(7)
class Advanced:
    """A later state, the steps that are done there, and what it took."""

    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]
    done: U32
    cpu_ms: U64
    memory_peak_bytes: U64


@variant(8)
class Weighed:
    """How good a state is, in the workload's unit."""

    metric: U64


@variant(9)
class BadState:
    """The bytes are no state of this request, on whatever machine."""

    reason: Annotated[str, Bounded(REASON_BYTES_MAX)]


@struct
class FinishedRequest:
    """One of many requests is done: its place, and its output; none for one that is no request."""

    place: U32
    output: Annotated[bytes, Bounded(OUTPUT_BYTES_MAX)] | None


@variant(10)
class RanSome:
    """Some of many requests are done."""

    finished: Annotated[tuple[FinishedRequest, ...], Bounded(REQUESTS_MAX)]


WorkerAnswer = Annotated[
    Ready | Ran | Checked | BadRequest | Failed | Traced | Begun | Advanced | Weighed | BadState | RanSome,
    Tagged("ogpu::Answer"),
]

QUESTION = codec(Question)
ANSWER = codec(WorkerAnswer)


def framed(body: bytes) -> bytes:
    """A message with its length before it."""
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


def read_message(source: BinaryIO, bytes_max: int) -> bytes:
    """The next message of a pipe; empty at its end, or for what is none."""
    length = int.from_bytes(source.read(LENGTH_BYTES), "little")
    return source.read(length) if 0 < length <= bytes_max else b""


def write_message(sink: BinaryIO, body: bytes) -> None:
    """Send a message at once."""
    sink.write(framed(body))
    sink.flush()


def shortened(reason: object) -> str:
    """Text that fits into an answer."""
    return str(reason).encode()[:REASON_BYTES_MAX].decode(errors="ignore")
