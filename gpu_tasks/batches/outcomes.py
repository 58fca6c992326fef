"""What came of each request of a batch.

A request that the workload cannot read is refused, costs nothing, and is no excuse for the rest of the batch. That it
is none can be wrong as any output can: its leaf is drawn and judged like the others.

Always: outcomes that are too large are refused before anything of them is read.
"""

from collections.abc import Sequence
from typing import Annotated

from gpu_tasks.batches.requests import BATCH_BYTES_MAX, REQUESTS_MAX
from runtime.encoding.codec import U32, Bounded, DecodeError, EncodeError, Tagged, codec, variant

COMPLETED_BYTES_MAX = 256 * 1024
"""Of the output of each request of a batch."""
FRAME_BYTES = 16
"""More than stands around each output, and around all of them."""


@variant(0)
class Completed:
    """The output of a request, with the tokens that it read and wrote."""

    output: Annotated[bytes, Bounded(COMPLETED_BYTES_MAX)]
    tokens_in: U32
    tokens_out: U32


@variant(1)
class RefusedRequest:
    """What stands at this place is no request of the workload: nothing was computed, and nothing is paid."""


BatchOutcome = Annotated[Completed | RefusedRequest, Tagged("ogpu::BatchOutcome")]
OUTCOME = codec(BatchOutcome)
_OUTCOMES = codec(Annotated[tuple[BatchOutcome, ...], Bounded(REQUESTS_MAX)])


def encode_outcomes(outcomes: Sequence[BatchOutcome]) -> bytes:
    """The outcomes of a whole batch, in the order of its requests; EncodeError for none, too many or too many bytes."""
    if not outcomes:
        raise EncodeError("a batch without an outcome: there is one for each request")
    data = _OUTCOMES.encode(tuple(outcomes))
    if len(data) > BATCH_BYTES_MAX:
        raise EncodeError(f"{len(data)} bytes of outcomes where {BATCH_BYTES_MAX} are allowed")
    return data


def decode_outcomes(data: bytes) -> tuple[BatchOutcome, ...]:
    """The outcomes of a whole batch; DecodeError if they are none. How many there must be, the unit says."""
    if len(data) > BATCH_BYTES_MAX:
        raise DecodeError(f"{len(data)} bytes of outcomes where {BATCH_BYTES_MAX} are allowed")
    outcomes: tuple[BatchOutcome, ...] = _OUTCOMES.decode(data)
    if not outcomes:
        raise DecodeError("a batch without an outcome")
    return outcomes
