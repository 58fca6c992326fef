"""The messages between a daemon and its worker process: SCALE after a length, over pipes."""

from __future__ import annotations

from typing import Annotated, BinaryIO

from gpu_tasks.batches.requests import REQUEST_BYTES_MAX as BATCH_REQUEST_BYTES_MAX
from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX
from gpu_tasks.data.unit_input import OUTPUT_BYTES_MAX, REQUEST_BYTES_MAX
from gpu_tasks.market.claims.findings import FINGERPRINT_BYTES
from gpu_tasks.traces.trace import SEGMENTS_MAX
from gpu_tasks.workloads.fingerprints import TRAIL_BYTES
from runtime.encoding.codec import U8, U32, U64, Bounded, Fixed, Tagged, codec, struct, variant
from runtime.encoding.types import Hash

LENGTH_BYTES = 4
STATE_BYTES_MAX = CONTENT_BYTES_MAX
"""The state of a run in steps. A blob holds as much."""
# The longest message is `AdvanceRun`: a request and a state.
MESSAGE_BYTES_MAX = REQUEST_BYTES_MAX + STATE_BYTES_MAX + 1024
REASON_BYTES_MAX = 2_000
PART_BYTES = STATE_BYTES_MAX // 2
"""A worker reports finished requests at this size, so that one more still fits into a message."""


@variant(0)
class RunRequest:
    """Execute a request."""

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]


@variant(3)
class BeginRun:
    """Return the first state of a run in steps, and the steps at each state of its trace."""

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]


@variant(4)
class AdvanceRun:
    """Return the state after some more steps, and the trail there if one comes with the question.

    With 0 steps, only check the state and count its steps.
    """

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]
    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]
    steps: U32
    trail: Annotated[bytes, Fixed(TRAIL_BYTES)] | None


@variant(5)
class MetricAt:
    """Return the metric of a state."""

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]
    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]


@variant(6)
class RunMany:
    """Execute many requests. `RanSome` reports finished ones, and a `Ran` without output ends the answer."""

    requests: Annotated[tuple[Annotated[bytes, Bounded(BATCH_REQUEST_BYTES_MAX)], ...], Bounded(REQUESTS_MAX)]


@variant(7)
class FingerprintAt:
    """Return the fingerprint of a right output at a seed."""

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]
    output: Annotated[bytes, Bounded(OUTPUT_BYTES_MAX)]
    seed: Hash


@variant(8)
class CheckOutput:
    """Check an output, and return the fingerprint of a right one at a seed."""

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]
    output: Annotated[bytes, Bounded(OUTPUT_BYTES_MAX)]
    seed: Hash


OneRequest = RunRequest | FingerprintAt | CheckOutput
"""The questions that compute one request as a whole."""
InSteps = BeginRun | AdvanceRun | MetricAt
Question = Annotated[OneRequest | InSteps | RunMany, Tagged("ogpu::Question")]


@struct
class Asked:
    """A question, and the CPU seconds for its answer, or for each report on it."""

    question: Question
    cpu_seconds: U32


@variant(0)
class Ready:
    """The workload is loaded, and its conformance vectors passed."""

    workload: Hash
    model: Hash


@variant(1)
class Ran:
    """The output of a request, and its cost."""

    output: Annotated[bytes, Bounded(OUTPUT_BYTES_MAX)]
    cpu_ms: U64
    memory_peak_bytes: U64


@variant(3)
class BadRequest:
    """The request is invalid. This is a property of the input, the same on every machine."""

    reason: Annotated[str, Bounded(REASON_BYTES_MAX)]


@variant(4)
class Failed:
    """The worker failed. This is a property of the machine."""

    reason: Annotated[str, Bounded(REASON_BYTES_MAX)]


@variant(6)
class Begun:
    """The first state of a run, and the completed steps at each state of its trace."""

    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]
    boundaries: Annotated[tuple[U32, ...], Bounded(SEGMENTS_MAX + 1)]


@variant(7)
class Advanced:
    """A later state, its completed steps, the trail there if one came with the question, and the cost."""

    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]
    done: U32
    trail: Annotated[bytes, Fixed(TRAIL_BYTES)] | None
    cpu_ms: U64
    memory_peak_bytes: U64


@variant(8)
class Weighed:
    """The metric of a state, in the workload's unit."""

    metric: U64


@variant(9)
class BadState:
    """The bytes are no state of this request. This is the same on every machine."""

    reason: Annotated[str, Bounded(REASON_BYTES_MAX)]


@struct
class FinishedRequest:
    """One finished request of many: its place and output. The output is None for an invalid request."""

    place: U32
    output: Annotated[bytes, Bounded(OUTPUT_BYTES_MAX)] | None


@variant(10)
class RanSome:
    """Some of many requests are finished."""

    finished: Annotated[tuple[FinishedRequest, ...], Bounded(REQUESTS_MAX)]


@variant(11)
class Fingerprinted:
    """The result of checking an output, and the fingerprint of a right one."""

    is_right: bool
    fingerprint: Annotated[bytes, Fixed(FINGERPRINT_BYTES)] | None


WorkerAnswer = Annotated[
    Ready | Ran | BadRequest | Failed | Begun | Advanced | Weighed | BadState | RanSome | Fingerprinted,
    Tagged("ogpu::Answer"),
]

LIVE_WINDOW = 32
"""The most tokens that a live worker sends beyond those that the customer of the request has taken."""


@variant(0)
class LiveBegin:
    """Begin to answer a request. Its number is new."""

    number: U32
    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]


@variant(1)
class LiveDrop:
    """End a request. Its number may be that of an answer that has just ended."""

    number: U32


@variant(2)
class LiveMore:
    """The customer has taken so many more tokens."""

    number: U32
    tokens: U32


@variant(16)
class LiveTokens:
    """The next tokens of an answer, or none after a part of its prompt. `finish` is the reason for its end."""

    number: U32
    tokens: Annotated[tuple[U32, ...], Bounded(LIVE_WINDOW)]
    finish: U8 | None


@variant(17)
class LiveFailed:
    """The worker did not begin a request. This is a property of the machine."""

    number: U32
    reason: Annotated[str, Bounded(REASON_BYTES_MAX)]


@variant(18)
class LiveBad:
    """The request is invalid, or cannot be streamed. This is the same on every machine."""

    number: U32
    reason: Annotated[str, Bounded(REASON_BYTES_MAX)]


LiveQuestion = Annotated[LiveBegin | LiveDrop | LiveMore, Tagged("ogpu::LiveQuestion")]
LiveAnswer = Annotated[Ready | Failed | LiveTokens | LiveFailed | LiveBad, Tagged("ogpu::LiveAnswer")]
"""`Failed` ends the worker and all its requests."""

ASKED = codec(Asked)
ANSWER = codec(WorkerAnswer)
LIVE_QUESTION = codec(LiveQuestion)
LIVE_ANSWER = codec(LiveAnswer)
LIVE_QUESTION_BYTES_MAX = REQUEST_BYTES_MAX + 1024
LIVE_ANSWER_BYTES_MAX = REASON_BYTES_MAX + 1024


def framed(body: bytes) -> bytes:
    """Return a message with its length in front."""
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


def read_message(source: BinaryIO, bytes_max: int) -> bytes:
    """Return the next message of a pipe; empty at its end or for an invalid length."""
    body_length = int.from_bytes(source.read(LENGTH_BYTES), "little")
    # A wrong length cannot be resynchronised, so it counts as the end.
    return source.read(body_length) if 0 < body_length <= bytes_max else b""


def write_message(sink: BinaryIO, body: bytes) -> None:
    """Send a message at once."""
    sink.write(framed(body))
    sink.flush()


def shortened(failure_reason: object) -> str:
    """Return a text that fits into an answer."""
    return str(failure_reason).encode()[:REASON_BYTES_MAX].decode(errors="ignore")
