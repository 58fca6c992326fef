"""The customer's end of a session's stream: tokens that arrived, and vouchers that are due.

Without input or output: the caller passes messages in, signs the totals that are due, keeps the vouchers on disk, and
sends them.

Invariants:

* A voucher never pays for tokens that did not arrive, except for the prompt of the open request.
* A provider that breaks the protocol gets no further voucher: the caller closes the stream at a SessionFault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.sessions.vouchers import Voucher, session_claim_id
from gpu_tasks.sessions.messages import (
    UNPAID_TOKENS_MAX,
    EnterSession,
    PeriodOver,
    ProviderMessage,
    SessionEntered,
    SessionRefused,
    Tokens,
)
from gpu_tasks.sessions.provider_end import NOTHING, SessionRefusal, SessionTerms
from gpu_tasks.sessions.transcript import Exchange, Place, SessionName, StreamedForm, Transcript
from wallet.errors import CodedError

PAY_EVERY = UNPAID_TOKENS_MAX // 4
"""The unpaid tokens at which a voucher is due. The provider then never waits for one on a usual line."""


class SessionFault(CodedError):  # the provider's fault
    """The provider broke the protocol.

    Codes: `no_tokens`, `not_asked`, `other_period`, `too_many_tokens`, `unknown_totals`.
    """


@dataclass(frozen=True, slots=True)
class Arrived:
    """The tokens of a message."""

    tokens: tuple[int, ...] = ()
    is_last: bool = False


class CustomerEnd:
    """One session at its customer, from period to period."""

    def __init__(self, terms: SessionTerms, form: StreamedForm, secret: bytes, period: int = 0) -> None:
        """Enter a session. `period` is the newest one in which the customer signed a voucher, or 0."""
        self.terms = terms
        self.period = period
        self._form = form
        self._secret = secret
        self._paid = self._before = NOTHING
        self.transcript = self._new_transcript()

    def resume(self, exchanges: Sequence[Exchange]) -> None:
        """Go on from the disk, with the exchanges of the period up to its newest voucher."""
        self.transcript = self._new_transcript(exchanges)
        self._paid = self._before = self.transcript.place
        self.transcript.cut_to(self._paid)

    def hello(self) -> EnterSession:
        """Return the first message of a stream."""
        return EnterSession(self._secret, self.period)

    def ask(self, request: bytes) -> Voucher:
        """Begin a request. Return the voucher of its prompt, which the `Ask` carries."""
        assert self._paid == self.transcript.place, "the last answer is paid"
        self._before = self._paid
        self.transcript.ask(request)
        return self._voucher()

    def due(self) -> Voucher | None:
        """Return the voucher that is due for tokens, or None. Sign it, keep it, call `paid`, and send it."""
        unpaid = self.transcript.place.tokens - self._paid.tokens
        if not unpaid or (self.transcript.is_answering and unpaid < PAY_EVERY):
            return None
        return self._voucher()

    def paid(self) -> None:
        """Note that the voucher of `ask` or `due` is signed and kept."""
        self._paid = self.transcript.place

    def take(self, message: ProviderMessage) -> Arrived:
        """Return the tokens of a message. Raise SessionRefusal or SessionFault."""
        match message:
            case SessionEntered():
                self._ready(message)
            case Tokens():
                return self._tokens(message)
            case PeriodOver():
                self._period_over(message.period)
            case SessionRefused():
                # The provider took neither the request nor its voucher.
                if self.transcript.is_answering and not self.transcript.exchanges[-1].tokens:
                    self.transcript.cut_to(self._before)
                    self._paid = self._before
                raise SessionRefusal(message.code, message.text)
        return Arrived()

    def _ready(self, ready: SessionEntered) -> None:
        """Go on from the newest voucher that the provider has.

        It may have missed later ones. A voucher is due again for tokens that arrived and that the provider still has.
        """
        if ready.period == self.period + 1 and ready.totals is None:
            # An answer that a break cut is over, as far as it came.
            self._next_period()
            return
        if ready.period != self.period:
            raise SessionFault(f"the provider is in period {ready.period}, not {self.period}", code="other_period")
        place = NOTHING if ready.totals is None else self._place_of(ready.totals)
        # A request that the provider missed is asked again, so its place is the end.
        is_newest = 0 < place.requests == self.transcript.place.requests
        end = Place(place.requests, place.tokens + ready.unpaid) if is_newest else place
        self.transcript.cut_to(min(end, self.transcript.place))
        self._paid = place

    def _place_of(self, totals: Totals) -> Place:
        place = self.transcript.place_of(totals)
        if place is None or place > self._paid:
            raise SessionFault("the provider names a voucher that was not signed here", code="unknown_totals")
        return place

    def _tokens(self, message: Tokens) -> Arrived:
        transcript = self.transcript
        if not transcript.is_answering:
            raise SessionFault("tokens without a request", code="not_asked")
        if not message.tokens and not message.is_last:
            raise SessionFault("a message without tokens amid an answer", code="no_tokens")
        transcript.answer(message.tokens, is_last=message.is_last)
        if transcript.place.tokens - self._paid.tokens > UNPAID_TOKENS_MAX:
            raise SessionFault(f"more than {UNPAID_TOKENS_MAX} unpaid tokens", code="too_many_tokens")
        return Arrived(message.tokens, message.is_last)

    def _period_over(self, period: int) -> None:
        """Begin the next period. Raise SessionRefusal if a request was on its way: ask it again there."""
        is_asking = self.transcript.is_answering
        if period != self.period or (is_asking and self.transcript.exchanges[-1].tokens):
            raise SessionFault(f"the provider ends period {period} in period {self.period}", code="other_period")
        self._next_period()
        if is_asking:
            raise SessionRefusal("period_over", "the period ended before this request", is_final=False)

    def _next_period(self) -> None:
        self.period += 1
        self._paid = self._before = NOTHING
        self.transcript = self._new_transcript()

    def _voucher(self) -> Voucher:
        return Voucher(self.terms.session, self.period, self.transcript.totals())

    def _new_transcript(self, exchanges: Sequence[Exchange] = ()) -> Transcript:
        claim = session_claim_id(self.terms.session, self.period)
        return Transcript(SessionName(self.terms.genesis, claim, self._secret), self._form, exchanges)
