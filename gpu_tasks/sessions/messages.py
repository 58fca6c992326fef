"""The messages of a session's stream: SCALE after a length of four bytes.

    customer                              provider
    EnterSession(secret, period)    ->
                                    <-    SessionEntered(period, totals, unpaid)
    Pay(totals)                     ->                                    for those of the unpaid tokens that arrived
    Ask(request, totals)            ->                                    the prompt is paid before it is read
                                    <-    Tokens(tokens, is_last)         at most UNPAID_TOKENS_MAX are unpaid
    Pay(totals)                     ->
    Cut()                           ->                                    the customer has enough
                                    <-    PeriodOver(period)              between two requests
    EnterSession(secret, period)    ->

Invariant: the length of a message is checked before its content is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from gpu_tasks.batches.requests import REQUEST_BYTES_MAX
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.sessions.vouchers import SECRET_BYTES
from runtime.encoding.codec import U32, Bounded, DecodeError, Fixed, Tagged, codec, variant

UNPAID_TOKENS_MAX = 64
"""The most tokens that a provider sends before their voucher arrives."""
VOUCHER_SIGNATURE_BYTES = 65
"""The number of the scheme, and the signature (`MultiSignature`)."""
CODE_BYTES_MAX = 64
TEXT_BYTES_MAX = 512
LENGTH_BYTES = 4
MESSAGE_BYTES_MAX = REQUEST_BYTES_MAX + 256
"""The longest message is an `Ask`."""

SignatureBytes = Annotated[bytes, Fixed(VOUCHER_SIGNATURE_BYTES)]


@variant(0)
class EnterSession:
    """The customer enters, or comes back after a break."""

    secret: Annotated[bytes, Fixed(SECRET_BYTES)]
    """A number that only customer, provider and checkers have. It salts the leaves of the session's items."""
    period: U32
    """The period that the customer is in."""


@variant(1)
class Ask:
    """A request, with a voucher that pays for its prompt."""

    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]
    totals: Totals
    signature: SignatureBytes


@variant(2)
class Pay:
    """A voucher of the stream's session and period."""

    totals: Totals
    signature: SignatureBytes


@variant(3)
class Cut:
    """The customer wants no more tokens of this answer."""


CustomerMessage = Annotated[EnterSession | Ask | Pay | Cut, Tagged("ogpu::SessionQuestion")]


@variant(0)
class SessionEntered:
    """The provider serves this period. Its newest voucher has these totals."""

    period: U32
    totals: Totals | None
    """None before the first voucher of the period."""
    unpaid: U32 = 0
    """The tokens beyond this voucher that the provider sent and still has. A voucher for them is welcome."""


@variant(1)
class Tokens:
    """The next tokens of the answer, in the workload's ids."""

    tokens: Annotated[tuple[U32, ...], Bounded(UNPAID_TOKENS_MAX)]
    is_last: bool


@variant(2)
class PeriodOver:
    """The provider claims the period, and ignores messages that cross this one. The customer enters the next period."""

    period: U32


@variant(3)
class SessionRefused:
    """The request was refused, or the stream ends. `code` is one of `provider_end`."""

    code: Annotated[str, Bounded(CODE_BYTES_MAX)]
    text: Annotated[str, Bounded(TEXT_BYTES_MAX)]


ProviderMessage = Annotated[SessionEntered | Tokens | PeriodOver | SessionRefused, Tagged("ogpu::SessionAnswer")]

CUSTOMER_MESSAGE, PROVIDER_MESSAGE = codec(CustomerMessage), codec(ProviderMessage)


def framed(body: bytes) -> bytes:
    """Return a message with its length in front."""
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


class MessageReader:
    """Cuts the bytes of a stream into messages."""

    def __init__(self) -> None:
        """Start without bytes."""
        self._waiting = bytearray()

    def take(self, data: bytes) -> Iterator[bytes]:
        """Yield each message that is complete now. Raise DecodeError for one that is too long."""
        self._waiting += data
        while len(self._waiting) >= LENGTH_BYTES:
            length = int.from_bytes(self._waiting[:LENGTH_BYTES], "little")
            if length > MESSAGE_BYTES_MAX:
                raise DecodeError(f"a message of {length} bytes, of at most {MESSAGE_BYTES_MAX}")
            end = LENGTH_BYTES + length
            if len(self._waiting) < end:
                return
            body = bytes(self._waiting[LENGTH_BYTES:end])
            del self._waiting[:end]
            yield body
