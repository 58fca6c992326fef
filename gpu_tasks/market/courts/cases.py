"""The records of the courts: a case with its terms, its parties' claims, its benches, and a judge's seat.

Invariants: the costs and the eligible judges of a case are frozen when it opens. A case has each kind of bench at most
once. A withheld claim gets its root by one late opening.
"""

from enum import IntEnum
from typing import Annotated

from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.opinions import Answered, Opinion, Statement, Unanswerable
from gpu_tasks.market.rounds import Round
from runtime.encoding.codec import U8, U32, Bounded, named, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import HoldReason

COURT_SEATS_MAX = 64
CLAIMS_MAX = 16
EXCLUDED_MAX = 35
"""Eight racers, 24 decliners, and three auditors of a batch."""
BENCHES_MAX = len(BenchKind)
EARLIER_JUDGES_MAX = 5
"""A pair and a committee. A court's doubts have a bit for each of them."""

JUDGE_SEAT = HoldReason("JudgeSeat", "The bond of a judge for its seat, one for each judged case.")
APPEAL_BOND = HoldReason("AppealBond", "The bond of an appeal, lost if the appeal fails. One for each appealed case.")
AUDIT_POT = b"modlog/audit".ljust(32, b"\0")
"""The account that settlements pay into. It pays the judges of cases without a party at fault."""


@named("ogpu::CaseKind")
class CaseKind(IntEnum):
    """The subject of a case."""

    DISPUTE = 0
    """Answers differ, or an input was declined."""
    AUDIT = 1
    """An accepted answer is checked, if the beacon orders it."""


@named("ogpu::CaseStage")
class CaseStage(IntEnum):
    """The stage of a case."""

    CHANCE = 0
    """The beacon has not decided about an audit yet."""
    PAIR = 1
    COMMITTEE = 2
    APPEALABLE = 3
    """The case is decided. A party that disagrees may appeal."""
    COURT = 4


STAGE_OF = {
    BenchKind.PAIR: CaseStage.PAIR,
    BenchKind.COMMITTEE: CaseStage.COMMITTEE,
    BenchKind.COURT: CaseStage.COURT,
}


@named("ogpu::ClaimKind")
class ClaimKind(IntEnum):
    """The kind of a party's claim."""

    ANSWERED = 0
    WITHHELD = 1
    """The party committed to an answer and did not open it in time."""
    DECLINED = 2
    """The party stated that it could not open the input."""
    ABSENT = 3
    """The party made no statement, although it had the time."""


@named("ogpu::PartyFault")
class PartyFault(IntEnum):
    """The fault of a party."""

    LIED = 0
    MISSED = 1
    DECLINED = 2


@struct
class PartyClaim:
    """One party: its claim, and the grains that it holds with the handler for the case."""

    account: AccountId
    kind: ClaimKind
    root: Hash | None
    held: Balance


@struct
class CaseTerms:
    """A handler's terms of a case at its opening. Only a late opening changes them."""

    customer: AccountId
    price: Balance
    customer_bond: Balance
    """The customer's hold beyond the price, for a bad input."""
    customer_price: Balance
    """The part of the price that the customer still holds: none once it is settled."""
    customer_spare: Balance
    """The customer's reserve for a check of a result before it is paid. It pays for the check before the pot does, if
    the result is right."""
    collateral: Balance
    """The cost of a wrong answer, which a judge must hold too."""
    pot_max: Balance
    """The most that the audit pot pays to this case."""
    sealed_at: BlockNumber
    """Only validators with keys of this height or earlier can read the input, so only they judge."""
    run_blocks: BlockNumber
    """The most blocks of a computation of the case. Judges get one and a half times as many."""
    excluded: Annotated[tuple[AccountId, ...], Bounded(EXCLUDED_MAX)]
    """Accounts that may not judge, besides customer and parties: earlier judges, decliners, their accounts."""
    claims: Annotated[tuple[PartyClaim, ...], Bounded(CLAIMS_MAX)]


@struct
class DrawnBench:
    """The members of a bench in the order drawn."""

    kind: U8
    members: Annotated[tuple[AccountId, ...], Bounded(COURT_SEATS_MAX)]


@struct
class CaseAppeal:
    """An appellant, and its bond."""

    appellant: AccountId
    bond: Balance


@struct
class CaseRules:
    """The parameters of a case, as they were when it opened."""

    rate_ppm: U32
    """The chance of an audit."""
    court_seats: U8
    commit_blocks: BlockNumber
    open_blocks: BlockNumber
    appeal_blocks: BlockNumber


@struct
class CourtCase:
    """The record of an open case."""

    handler: U8
    """The index of the pallet that opened it."""
    kind: CaseKind
    terms: CaseTerms
    fee: Balance
    """The fee of each judge."""
    seat: Balance
    """The hold of each judge."""
    rules: CaseRules
    settled: Hash | None
    """The root under audit, or the settled root that a dispute is about."""
    stage: CaseStage
    recorded_at: BlockNumber
    """The next draw uses the beacon of two blocks after this one. The chance of an audit uses those of two to five."""
    round: Round | None = None
    to_commit: U8 = 0
    """Members of the sitting bench that have not committed."""
    to_open: U8 = 0
    """Members of the sitting bench that have committed and not opened."""
    benches: Annotated[tuple[DrawnBench, ...], Bounded(BENCHES_MAX)] = ()
    verdict: Opinion | None = None
    """The decision of a pair or a committee."""
    has_court: bool = False
    """True if a court of three existed at the verdict."""
    appealable_until: BlockNumber = 0
    appeal: CaseAppeal | None = None


@struct
class JudgeSeat:
    """One judge of a case, and its actions so far."""

    bench: U8
    votes: Balance
    held: Balance
    probe_place: Hash
    commitment: Hash | None = None
    statement: Statement | None = None


def fault_of(claim: PartyClaim, verdict: Opinion | None) -> PartyFault | None:
    """Return the fault of a party if the case ends with this verdict, or None.

    Without a right answer no answer counts as wrong. A withheld one is a miss, which costs what the outcome says.
    """
    if not isinstance(verdict, Answered):
        return None
    if claim.kind is ClaimKind.DECLINED:
        return PartyFault.DECLINED
    if claim.kind is ClaimKind.ABSENT:
        return PartyFault.MISSED
    # An unopened commitment counts as a wrong answer, or else withholding would be the cheap way to lie.
    if claim.root != verdict.root:
        return PartyFault.LIED
    return PartyFault.MISSED if claim.kind is ClaimKind.WITHHELD else None


def fault_in(case: CourtCase, claim: PartyClaim, verdict: Opinion | None) -> PartyFault | None:
    """Return the fault of a party if this case ends with this verdict, or None.

    A decline is no fault if the first judges found the input bad, even if a court found it good: the court may have
    received an input that the others did not.
    """
    fault = fault_of(claim, verdict)
    is_upheld = fault is PartyFault.DECLINED and isinstance(case.verdict, Unanswerable)
    return None if is_upheld else fault


def sitting(case: CourtCase) -> DrawnBench:
    """Return the bench that was drawn last."""
    return case.benches[-1]


def judges_of(case: CourtCase) -> tuple[bytes, ...]:
    """Return all judges of the case, in order of benches and draws."""
    return tuple(member for bench in case.benches for member in bench.members)


def parties_of(case: CourtCase) -> tuple[bytes, ...]:
    """Return the accounts that may not judge."""
    terms = case.terms
    appellant = (case.appeal.appellant,) if case.appeal else ()
    return (terms.customer, *terms.excluded, *(claim.account for claim in terms.claims), *judges_of(case), *appellant)
