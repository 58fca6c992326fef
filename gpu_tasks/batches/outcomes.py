"""The outcome of each request of a batch.

The provider refuses a request that the workload cannot read. A refused request costs nothing, and the rest of the batch
must still be computed. A refusal can be wrong like any output, so its leaf is drawn and checked like the others.

Invariant: the decoder refuses too large a batch before it reads any outcome.
"""

from collections.abc import Sequence
from typing import Annotated

from gpu_tasks.batches.requests import BATCH_BYTES_MAX, REQUESTS_MAX
from runtime.encoding.codec import U32, Bounded, DecodeError, EncodeError, Tagged, codec, variant

COMPLETED_BYTES_MAX = 256 * 1024
"""The most bytes of one request's output."""
FRAME_BYTES = 16
"""More than the encoding adds to each output, and to the list."""


@variant(0)
class Completed:
    """The output of a request, with the tokens that the workload read and wrote."""

    output: Annotated[bytes, Bounded(COMPLETED_BYTES_MAX)]
    tokens_in: U32
    tokens_out: U32


@variant(1)
class RefusedRequest:
    """The workload cannot read the request at this place: nothing was computed, and nothing is paid."""


BatchOutcome = Annotated[Completed | RefusedRequest, Tagged("ogpu::BatchOutcome")]
OUTCOME = codec(BatchOutcome)
_OUTCOMES = codec(Annotated[tuple[BatchOutcome, ...], Bounded(REQUESTS_MAX)])


def encode_outcomes(outcomes: Sequence[BatchOutcome]) -> bytes:
    """Return the bytes of a batch's outcomes, in the order of its requests.

    Raise EncodeError for no outcome, too many, or too many bytes.
    """
    if not outcomes:
        raise EncodeError("a batch without outcomes")
    packed = _OUTCOMES.encode(tuple(outcomes))
    if len(packed) > BATCH_BYTES_MAX:
        raise EncodeError(f"{len(packed)} bytes of outcomes, of at most {BATCH_BYTES_MAX}")
    return packed


def decode_outcomes(packed: bytes) -> tuple[BatchOutcome, ...]:
    """Return the outcomes of a whole batch. The caller compares their number with the unit's.

    Raise DecodeError if the bytes are no such list, or the list is empty.
    """
    if len(packed) > BATCH_BYTES_MAX:
        raise DecodeError(f"{len(packed)} bytes of outcomes, of at most {BATCH_BYTES_MAX}")
    outcomes: tuple[BatchOutcome, ...] = _OUTCOMES.decode(packed)
    if not outcomes:
        raise DecodeError("a batch without outcomes")
    return outcomes
