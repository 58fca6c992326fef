"""The provider's end of a session's stream: tokens that it may send, and vouchers that it takes.

Without input or output: the caller passes messages and tokens in, and carries out the returned steps in order.

Invariants:

* At most `UNPAID_TOKENS_MAX` tokens are sent beyond the newest voucher, and none before the prompt is paid.
* A voucher counts once it is on disk: `KeepVoucher` comes before the steps that it allows.
* A refused message changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.sessions.vouchers import Voucher, amount_of, session_claim_id
from gpu_tasks.sessions.messages import (
    UNPAID_TOKENS_MAX,
    Ask,
    CustomerMessage,
    Cut,
    EnterSession,
    Pay,
    ProviderMessage,
    SessionEntered,
    SessionRefused,
    Tokens,
)
from gpu_tasks.sessions.transcript import ITEMS_MAX, Place, SessionName, StreamedForm, Transcript, require_answerable
from runtime.encoding.codec import DecodeError
from wallet.errors import CodedError

NOTHING = Place(0, 0)
NO_TOTALS = Totals(0, 0, 0, bytes(32))
REASON_MAX = 200
PAID_FOR_ONE_LOST = 16
"""The paid tokens for which one more token may stay unpaid. A customer that comes back pays the tokens that arrived, so
it could claim each time that none did."""
LOSSES_FIRST = UNPAID_TOKENS_MAX * PAID_FOR_ONE_LOST
"""The right of a new session to unpaid tokens: `UNPAID_TOKENS_MAX`, each worth `PAID_FOR_ONE_LOST`."""
VerifyVoucher = Callable[[Voucher, bytes], bool]
"""Returns True if the session's signer has signed the voucher."""


class SessionRefusal(CodedError):  # a message of the protocol, not a fault
    """A message was refused. `is_final` ends the stream.

    Codes: `answering`, `bad_request`, `deposit_spent`, `other_secret`, `period_full`, `period_over`, `smaller_voucher`,
    `unexpected_message`, `unknown_totals`, `unpaid`, `wrong_signature`.
    """

    def __init__(self, code: str, text: str, *, is_final: bool = True) -> None:
        """State the reason and its code."""
        super().__init__(text, code=code)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """The session on the chain, as far as a stream needs it."""

    genesis: bytes
    session: bytes
    rate: int
    """Grains per 1,000 output tokens."""
    input_share: int
    """The count of an input token, in millionths of an output token."""

    def amount(self, totals: Totals) -> int:
        """Return the grains that these totals are worth."""
        return amount_of(self.rate, self.input_share, totals)


@dataclass(frozen=True, slots=True)
class SendAnswer:
    """Send a message to the customer."""

    message: ProviderMessage


@dataclass(frozen=True, slots=True)
class KeepVoucher:
    """Write a voucher to disk."""

    voucher: Voucher
    signature: bytes


@dataclass(frozen=True, slots=True)
class Begin:
    """Compute the answer to the request."""

    request: bytes


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop computing the answer."""


Step = SendAnswer | KeepVoucher | Begin | Stop


class ProviderEnd:
    """One period of a session at its provider. A break of the stream does not end it."""

    def __init__(
        self,
        terms: SessionTerms,
        period: int,
        form: StreamedForm,
        verify: VerifyVoucher,
        amount_max: int,
        losses: int = LOSSES_FIRST,
    ) -> None:
        """Start a period in which vouchers may reach `amount_max` grains. `losses` is that of the former end."""
        self.terms = terms
        self.period = period
        self.transcript: Transcript | None = None
        self.newest: KeepVoucher | None = None
        self._paid = NOTHING
        self._may_stay_unpaid = False
        """True from an entry to the next request: the customer pays the tokens that had arrived, and no others."""
        self._form = form
        self._verify = verify
        self.amount_max = amount_max
        self.losses = losses
        """The right to leave tokens unpaid. Each paid token adds 1, and each lost one takes `PAID_FOR_ONE_LOST`."""

    def resume(self, transcript: Transcript, newest: KeepVoucher) -> None:
        """Go on from the disk, with the transcript up to its newest voucher.

        The last answer may have more tokens, which a former stream sent and nobody has paid.
        """
        place = transcript.place_of(newest.voucher.totals)
        assert place is not None, "a kept voucher is one of the kept transcript"
        self.transcript, self.newest, self._paid = transcript, newest, place
        self._end_answer(transcript)

    @property
    def allowance(self) -> int:
        """The number of tokens that may be sent before the next voucher."""
        transcript = self.transcript
        if transcript is None or not transcript.is_answering:
            return 0
        return UNPAID_TOKENS_MAX - (len(transcript.exchanges[-1].tokens) - self._paid.tokens)

    @property
    def is_settled(self) -> bool:
        """True if no answer is open and no payment is owed, so that the period may be claimed."""
        transcript = self.transcript
        if transcript is None or transcript.is_answering:
            return False
        return self._may_stay_unpaid or self._paid == transcript.place

    @property
    def unpaid(self) -> tuple[int, ...]:
        """The tokens of the last answer beyond the newest voucher."""
        transcript = self.transcript
        if transcript is None or not transcript.exchanges or transcript.place.requests != self._paid.requests:
            return ()
        return tuple(transcript.exchanges[-1].tokens[self._paid.tokens :])

    @property
    def losses_after(self) -> int:
        """The right to leave tokens unpaid, once the present ones are given up."""
        return self.losses - PAID_FOR_ONE_LOST * len(self.unpaid)

    def take(self, message: CustomerMessage) -> list[Step]:
        """Return the steps that a message causes. Raise SessionRefusal for a message that is not due."""
        if isinstance(message, EnterSession):
            return self._enter(message)
        if self.transcript is None:
            raise SessionRefusal("unexpected_message", "the first message enters the session")
        match message:
            case Ask():
                return self._asked(self.transcript, message)
            case Pay():
                return [self._taken(self.transcript, message.totals, message.signature)]
            case Cut():
                return self._cut(self.transcript)

    def answer(self, tokens: tuple[int, ...], *, is_last: bool) -> list[Step]:
        """Return the steps for tokens of the open answer, at most `allowance`."""
        assert self.transcript is not None, "an answer has a request"
        assert len(tokens) <= self.allowance, "tokens beyond the unpaid limit wait"
        self.transcript.answer(tokens, is_last=is_last)
        return [SendAnswer(Tokens(tokens, is_last))]

    def _enter(self, hello: EnterSession) -> list[Step]:
        name = SessionName(self.terms.genesis, session_claim_id(self.terms.session, self.period), hello.secret)
        transcript = Transcript(name, self._form) if self.transcript is None else self.transcript
        if transcript.name != name:
            raise SessionRefusal("other_secret", "the session began with another secret")
        steps: list[Step] = [Stop()] if transcript.is_answering else []
        # Both ends go on from the newest voucher that this end has. Its successor may have been on its way.
        self._end_answer(transcript)
        self.transcript = transcript
        totals = None if self.newest is None else self.newest.voucher.totals
        return [*steps, SendAnswer(SessionEntered(self.period, totals, len(self.unpaid)))]

    def _end_answer(self, transcript: Transcript) -> None:
        """End an open answer with its unpaid tokens."""
        transcript.cut_to(transcript.place if transcript.place.requests == self._paid.requests else self._paid)
        self._may_stay_unpaid = True

    def _asked(self, transcript: Transcript, ask: Ask) -> list[Step]:
        if transcript.is_answering:
            raise SessionRefusal("answering", "the last answer is not over", is_final=False)
        if not self.is_settled:
            raise SessionRefusal("unpaid", "the last answer is not paid", is_final=False)
        losses = self.losses_after
        if losses < 0:
            raise SessionRefusal("unpaid", "too many tokens of former answers are not paid", is_final=False)
        # The customer has paid what it received before the break.
        transcript.cut_to(self._paid)
        if len(transcript.exchanges) >= ITEMS_MAX:
            raise SessionRefusal("period_full", f"a period has {ITEMS_MAX} requests", is_final=False)
        self._check_price(ask.request)
        transcript.ask(ask.request)
        try:
            keep = self._taken(transcript, ask.totals, ask.signature)
        except SessionRefusal:
            transcript.cut_to(self._paid)
            raise
        self._may_stay_unpaid, self.losses = False, losses
        return [keep, Begin(ask.request)]

    def _check_price(self, request: bytes) -> None:
        """Raise SessionRefusal for an invalid request, or one that could exceed the rest of the deposit."""
        try:
            require_answerable(self._form, request)
            tokens_in, tokens_out = self._form.cost_in(request), self._form.cost_asked(request)
        except DecodeError as error:
            raise SessionRefusal("bad_request", str(error)[:REASON_MAX], is_final=False) from None
        before = NO_TOTALS if self.newest is None else self.newest.voucher.totals
        most = replace(before, tokens_in=before.tokens_in + tokens_in, tokens_out=before.tokens_out + tokens_out)
        if self.terms.amount(most) > self.amount_max:
            raise SessionRefusal("deposit_spent", "the request may cost more than the session has left", is_final=False)

    def _taken(self, transcript: Transcript, totals: Totals, signature: bytes) -> KeepVoucher:
        """Take a voucher."""
        place = transcript.place_of(totals)
        if place is None:
            raise SessionRefusal("unknown_totals", "the voucher is not for the tokens that were sent")
        if place <= self._paid:
            raise SessionRefusal("smaller_voucher", "an earlier voucher is worth as much")
        voucher = Voucher(self.terms.session, self.period, totals)
        if not self._verify(voucher, signature):
            raise SessionRefusal("wrong_signature", "the session's signer did not sign the voucher")
        before = self._paid.tokens if place.requests == self._paid.requests else 0
        self.losses += place.tokens - before
        self.newest, self._paid = KeepVoucher(voucher, signature), place
        return self.newest

    def _cut(self, transcript: Transcript) -> list[Step]:
        if not transcript.is_answering:
            return []  # the answer ended while the message was under way
        transcript.answer((), is_last=True)
        return [Stop(), SendAnswer(Tokens((), is_last=True))]


def refusal_message(refusal: SessionRefusal) -> SessionRefused:
    """Return the message that tells the customer of a refusal."""
    return SessionRefused(refusal.code, str(refusal))
