"""What the courts tell the world: their events, and why a call can fail."""

from typing import Annotated

from gpu_tasks.market.courts.cases import COURT_SEATS_MAX, CaseKind
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Opinion, Statement
from runtime.encoding.codec import U8, Bounded
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class CaseOpened:
    """A case waits for its judges; `handler` is the index of the pallet that brought it."""

    case: Hash
    handler: U8
    kind: CaseKind


@event
class BenchDrawn:
    """Judges were drawn; each holds `seat` for the case from here."""

    case: Hash
    bench: U8
    judges: Annotated[tuple[AccountId, ...], Bounded(COURT_SEATS_MAX)]
    seat: Balance


@event
class OpinionCommitted:
    """A judge knows what it will say."""

    case: Hash
    judge: AccountId


@event
class OpinionOpened:
    """A judge said it."""

    case: Hash
    judge: AccountId
    statement: Statement


@event
class CaseDecided:
    """A verdict that stands if nobody appeals up to a block; 0: there is no court to appeal to."""

    case: Hash
    verdict: Opinion
    appealable_until: BlockNumber


@event
class CaseAppealed:
    """Somebody puts a bond against a verdict: a court is drawn."""

    case: Hash
    appellant: AccountId
    bond: Balance


@event
class CourtCalled:
    """A case goes before the court by itself: nothing was decided, or somebody is found to lie for the third time."""

    case: Hash


@event
class CaseEnded:
    """A case is over; its money has moved as the table of its outcome says."""

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
    """The signer is no judge of the bench that sits."""


class OutOfTurn(DispatchError):
    """The window for this is not open."""


class SaidAlready(DispatchError):
    """The judge has done this."""


class OpensNothing(DispatchError):
    """This is not what the judge committed to."""


class NotAppealable(DispatchError):
    """The case has no verdict that can be appealed, or no longer."""
