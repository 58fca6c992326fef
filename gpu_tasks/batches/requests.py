"""The requests of a batch, as its customer seals them: a SCALE list, in the order of their leaves.

A request is the encoded form of the workload's input. An unreadable request does not invalidate the batch: it gets an
outcome of its own.

Invariant: the decoder refuses too large a batch before it reads any request.
"""

from collections.abc import Sequence
from typing import Annotated

from runtime.encoding.codec import Bounded, DecodeError, EncodeError, codec

REQUESTS_MAX = 4_096
REQUEST_BYTES_MAX = 64 * 1024
"""The most bytes of one request."""
BATCH_BYTES_MAX = 16 * 1024 * 1024
"""The most bytes of all requests together, encoded. The same limit binds all outcomes."""
_REQUESTS = codec(Annotated[tuple[Annotated[bytes, Bounded(REQUEST_BYTES_MAX)], ...], Bounded(REQUESTS_MAX)])


# The work of a unit: its tokens in one measure, in which prices, asks and payments compare.
#
# Service prices and device asks are grains per thousand output tokens. An input token counts as a share of an output
# token, which the service sets. Work is in millionths of an output token, so every figure is a whole number:
#
# work = tokens in * input share + tokens out * 1,000,000
#
# Invariants: a price meets an ask exactly if the cost of the work at the ask is at most the price. Payment for part of
# the allowed work never exceeds the price.
TOKEN = 1_000_000
"""An output token, in work."""
PRICED = 1_000 * TOKEN
"""The work that prices and asks refer to: a thousand output tokens."""


def work_of(input_share: int, tokens_in: int, tokens_out: int) -> int:
    """Return the work of these tokens. `input_share` is in millionths of an output token."""
    return tokens_in * input_share + tokens_out * TOKEN


def price_of(per_thousand: int, work: int) -> int:
    """Return the grains for `work` at a price per thousand output tokens, rounded up."""
    return -(-per_thousand * work // PRICED)


def rate_of(unit_price: int, work: int) -> int:
    """Return the highest ask that `unit_price` for this work meets, in grains per thousand output tokens."""
    # Rounded down: at an ask of one grain more, the work would cost more than the price.
    return unit_price * PRICED // work


def due_of(unit_price: int, done_work: int, allowed_work: int) -> int:
    """Return the part of `unit_price` due for `done_work` of `allowed_work` work, in grains, rounded down."""
    # Rounded down, so that payments for parts never exceed the price.
    assert 0 <= done_work <= allowed_work, "a batch has at most the work that its unit allows"
    return unit_price * done_work // allowed_work


def encode_requests(requests: Sequence[bytes]) -> bytes:
    """Return the bytes of a batch of 1 to `REQUESTS_MAX` requests.

    Raise EncodeError for no request, too many, or too many bytes.
    """
    if not requests:
        raise EncodeError("the batch is empty; add a request")
    packed = _REQUESTS.encode(tuple(requests))
    if len(packed) > BATCH_BYTES_MAX:
        raise EncodeError(f"the requests have {len(packed)} bytes, of at most {BATCH_BYTES_MAX}; split the batch")
    return packed


def decode_requests(packed: bytes) -> tuple[bytes, ...]:
    """Return the requests of a batch, in their order.

    Raise DecodeError if the bytes are no such list, or the list is empty.
    """
    if len(packed) > BATCH_BYTES_MAX:
        raise DecodeError(f"{len(packed)} bytes of requests, of at most {BATCH_BYTES_MAX}")
    requests: tuple[bytes, ...] = _REQUESTS.decode(packed)
    if not requests:
        raise DecodeError("a batch without requests")
    return requests
