"""The requests of a batch, as its customer seals them: a SCALE list, in the order of their leaves.

A request is what a workload's form encodes. One that the workload cannot read is no reason to refuse the batch: it has
an outcome of its own.

Always: a batch that is too large is refused before anything of it is read.
"""

from collections.abc import Sequence
from typing import Annotated

from runtime.encoding.codec import Bounded, DecodeError, EncodeError, codec

REQUESTS_MAX = 4_096
REQUEST_BYTES_MAX = 64 * 1024
"""Of each request of a batch."""
BATCH_BYTES_MAX = 16 * 1024 * 1024
"""Of all requests of a batch together, encoded; and of all its outcomes."""
_REQUESTS = codec(Annotated[tuple[Annotated[bytes, Bounded(REQUEST_BYTES_MAX)], ...], Bounded(REQUESTS_MAX)])


def encode_requests(requests: Sequence[bytes]) -> bytes:
    """A batch of 1 to `REQUESTS_MAX` requests; EncodeError for none, for too many, and for too many bytes."""
    if not requests:
        raise EncodeError("a batch without a request: give at least one")
    data = _REQUESTS.encode(tuple(requests))
    if len(data) > BATCH_BYTES_MAX:
        raise EncodeError(f"{len(data)} bytes of requests where {BATCH_BYTES_MAX} are allowed: split the batch")
    return data


def decode_requests(data: bytes) -> tuple[bytes, ...]:
    """The requests of a batch, in their order; DecodeError if it is none."""
    if len(data) > BATCH_BYTES_MAX:
        raise DecodeError(f"{len(data)} bytes of requests where {BATCH_BYTES_MAX} are allowed")
    requests: tuple[bytes, ...] = _REQUESTS.decode(data)
    if not requests:
        raise DecodeError("a batch without a request")
    return requests
