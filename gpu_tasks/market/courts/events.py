"""The events and errors of the pallet Courts."""

from typing import Annotated

from gpu_tasks.market.courts.cases import COURT_SEATS_MAX, CaseKind
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Opinion, Statement
from runtime.encoding.codec import U8, Bounded
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class CaseOpened:
    """A case was opened and waits for its judges. `handler` is the index of the pallet that opened it."""

    case: Hash
    handler: U8
    kind: CaseKind


@event
class BenchDrawn:
    """Judges were drawn. Each holds `seat` for the case from here on."""

    case: Hash
    bench: U8
    judges: Annotated[tuple[AccountId, ...], Bounded(COURT_SEATS_MAX)]
    seat: Balance


@event
class OpinionCommitted:
    """A judge committed to its opinion."""

    case: Hash
    judge: AccountId


@event
class OpinionOpened:
    """A judge opened its opinion."""

    case: Hash
    judge: AccountId
    statement: Statement


@event
class CaseDecided:
    """A verdict was reached. An appeal is possible until block `appealable_until`, or never if that is 0."""

    case: Hash
    verdict: Opinion
    appealable_until: BlockNumber


@event
class CaseAppealed:
    """A party appealed a verdict with a bond. A court will be drawn."""

    case: Hash
    appellant: AccountId
    bond: Balance


@event
class CourtCalled:
    """A case went before the court without appeal: nothing was decided, or an account lied for the third time."""

    case: Hash


@event
class CaseEnded:
    """A case ended, and its money moved by the table of its outcome."""

    case: Hash
    outcome: CaseOutcome
    verdict: Opinion | None


@event
class JudgeCharged:
    """A judge lost a fee because it was silent, or its seat because the court found it wrong."""

    case: Hash
    judge: AccountId
    amount: Balance
    is_convicted: bool


class UnknownCase(DispatchError):
    """There is no such case, or it is over."""


class NotSeated(DispatchError):
    """The signer is no judge of the sitting bench."""


class OutOfTurn(DispatchError):
    """The window for this call is not open."""


class SaidAlready(DispatchError):
    """The judge has already done this."""


class OpensNothing(DispatchError):
    """The statement and the salt do not open the judge's commitment."""


class NotAppealable(DispatchError):
    """The case has no verdict that can be appealed, or the window is over."""
