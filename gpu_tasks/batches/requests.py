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


# The work of a unit: its tokens in one measure, by which prices, asks and payments compare.
#
# A price of a service and an ask of a device are grains per thousand output tokens; an input token counts for a share
# of one, which the service names. Work is in millionths of an output token, so every figure is a whole number:
#
# work = tokens in * input share + tokens out * 1,000,000
#
# Always: an ask is met by a price exactly if what the ask comes to is the price at most; nothing that was paid for less
# work than was allowed comes to more than the price.
TOKEN = 1_000_000
"""An output token, in work."""
PRICED = 1_000 * TOKEN
"""What prices and asks are for: a thousand output tokens."""


def work_of(input_share: int, tokens_in: int, tokens_out: int) -> int:
    """What so many tokens come to; `input_share` in millionths."""
    return tokens_in * input_share + tokens_out * TOKEN


def price_of(per_thousand: int, work: int) -> int:
    """Grains for so much work at a price per thousand output tokens, rounded up."""
    return -(-per_thousand * work // PRICED)


def rate_of(price: int, work: int) -> int:
    """The highest ask that a price for so much work meets, in grains per thousand output tokens."""
    return price * PRICED // work


def due_of(price: int, done: int, allowed: int) -> int:
    """What of the price for `allowed` work is due for what was `done` of it, rounded down."""
    assert 0 <= done <= allowed, "nobody reveals more work than a unit allows"
    return price * done // allowed


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
