"""The records of the courts: a case with its terms, its parties' claims, its benches, and a judge's seat.

Always: what a case costs and whom it may seat is frozen when it opens; a case has each kind of bench once at most; a
claim that was withheld gets its root by being opened late, once.
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
"""Eight racers, 24 who declined, and three auditors of a batch."""
BENCHES_MAX = len(BenchKind)
EARLIER_JUDGES_MAX = 5
"""A pair and a committee: a court's doubts have a bit for each."""

JUDGE_SEAT = HoldReason("JudgeSeat", "What a judge stands for; the case is what it judges.")
APPEAL_BOND = HoldReason("AppealBond", "What an appeal costs if it is lost; the case is the one appealed.")
AUDIT_POT = b"modlog/audit".ljust(32, b"\0")
"""Settlements pay into it; it pays the judges of cases in which nobody was at fault."""


@named("ogpu::CaseKind")
class CaseKind(IntEnum):
    """What a case is about."""

    DISPUTE = 0
    """Answers differ, or an input was declined."""
    AUDIT = 1
    """An answer that was believed is looked at again, if the beacon says so."""


@named("ogpu::CaseStage")
class CaseStage(IntEnum):
    """How far a case is."""

    CHANCE = 0
    """Whether there will be an audit is not known yet."""
    PAIR = 1
    COMMITTEE = 2
    APPEALABLE = 3
    """Decided; who thinks otherwise may appeal."""
    COURT = 4


STAGE_OF = {
    BenchKind.PAIR: CaseStage.PAIR,
    BenchKind.COMMITTEE: CaseStage.COMMITTEE,
    BenchKind.COURT: CaseStage.COURT,
}


@named("ogpu::ClaimKind")
class ClaimKind(IntEnum):
    """What a party has said."""

    ANSWERED = 0
    WITHHELD = 1
    """It committed to an answer and did not open it in time."""
    DECLINED = 2
    """It said that it could not open the input."""
    ABSENT = 3
    """It said nothing, though it had the time."""


@named("ogpu::PartyFault")
class PartyFault(IntEnum):
    """What a party turned out to have done."""

    LIED = 0
    MISSED = 1
    DECLINED = 2


@struct
class PartyClaim:
    """One party: what it says, and what it holds for the case with the handler."""

    account: AccountId
    kind: ClaimKind
    root: Hash | None
    held: Balance


@struct
class CaseTerms:
    """What a handler says of a case when it opens it; nothing of it changes any more but a late opening."""

    customer: AccountId
    price: Balance
    customer_bond: Balance
    """What the customer holds beside the price, for an input that is bad."""
    customer_price: Balance
    """What of the price the customer still holds: none once it is settled."""
    customer_spare: Balance
    """What the customer set aside for looking at a result before it is believed: it pays for that before the pot does,
    if the result is found right."""
    collateral: Balance
    """What a wrong answer costs, so what a judge must stand for as well."""
    pot_max: Balance
    """What the audit pot gives to this case at most."""
    sealed_at: BlockNumber
    """Only validators whose keys date from then or earlier can read the input, so only they judge."""
    run_blocks: BlockNumber
    """How long a computation of it may take: judges get one and a half times as long."""
    excluded: Annotated[tuple[AccountId, ...], Bounded(EXCLUDED_MAX)]
    """Who may not judge beside customer and parties: earlier judges, decliners, accounts of theirs."""
    claims: Annotated[tuple[PartyClaim, ...], Bounded(CLAIMS_MAX)]


@struct
class DrawnBench:
    """The members of a bench in the order drawn."""

    kind: U8
    members: Annotated[tuple[AccountId, ...], Bounded(COURT_SEATS_MAX)]


@struct
class CaseAppeal:
    """Who appealed, and the bond it holds."""

    appellant: AccountId
    bond: Balance


@struct
class CaseRules:
    """The parameters that a case goes by: as they were when it opened, whatever becomes of them."""

    rate_ppm: U32
    """The chance of an audit."""
    court_seats: U8
    commit_blocks: BlockNumber
    open_blocks: BlockNumber
    appeal_blocks: BlockNumber


@struct
class CourtCase:
    """A case as it stands."""

    handler: U8
    """The index of the pallet that opened it."""
    kind: CaseKind
    terms: CaseTerms
    fee: Balance
    """What each judge is paid."""
    seat: Balance
    """What each judge holds."""
    rules: CaseRules
    settled: Hash | None
    """The root that an audit looks at, or a dispute about what was settled."""
    stage: CaseStage
    recorded_at: BlockNumber
    """The next draw uses the beacon of two blocks after this one; the chance of an audit that of two to five."""
    round: Round | None = None
    to_commit: U8 = 0
    """Members of the sitting bench who have not committed."""
    to_open: U8 = 0
    """Members of the sitting bench who have committed and not opened."""
    benches: Annotated[tuple[DrawnBench, ...], Bounded(BENCHES_MAX)] = ()
    verdict: Opinion | None = None
    """What a pair or a committee decided."""
    has_court: bool = False
    """Whether a court of three existed when the verdict was given."""
    appealable_until: BlockNumber = 0
    appeal: CaseAppeal | None = None


@struct
class JudgeSeat:
    """One judge of a case, and what it has done so far."""

    bench: U8
    votes: Balance
    held: Balance
    probe_place: Hash
    commitment: Hash | None = None
    statement: Statement | None = None


def fault_of(claim: PartyClaim, verdict: Opinion | None) -> PartyFault | None:
    """What a party has done wrong if the case ends with this verdict; None if nothing.

    Where nobody's answer was found right, nobody is found wrong: whoever withheld one has missed, and pays as the
    outcome says.
    """
    if not isinstance(verdict, Answered):
        return None
    if claim.kind is ClaimKind.DECLINED:
        return PartyFault.DECLINED
    if claim.kind is ClaimKind.ABSENT:
        return PartyFault.MISSED
    if claim.root != verdict.root:  # never opened counts as another one, or withholding were the cheap way to lie
        return PartyFault.LIED
    return PartyFault.MISSED if claim.kind is ClaimKind.WITHHELD else None


def fault_in(case: CourtCase, claim: PartyClaim, verdict: Opinion | None) -> PartyFault | None:
    """What a party has done wrong if this case ends with this verdict; None if nothing.

    Who declined an input that the first judges found to be bad is not at fault, though a court found it good: that
    court may have been shown what they were not.
    """
    fault = fault_of(claim, verdict)
    is_upheld = fault is PartyFault.DECLINED and isinstance(case.verdict, Unanswerable)
    return None if is_upheld else fault


def sitting(case: CourtCase) -> DrawnBench:
    """The bench that was drawn last."""
    return case.benches[-1]


def judges_of(case: CourtCase) -> tuple[bytes, ...]:
    """All who sat or sit, in order of benches and draws."""
    return tuple(member for bench in case.benches for member in bench.members)


def parties_of(case: CourtCase) -> tuple[bytes, ...]:
    """Who may not judge."""
    terms = case.terms
    appellant = (case.appeal.appellant,) if case.appeal else ()
    return (terms.customer, *terms.excluded, *(claim.account for claim in terms.claims), *judges_of(case), *appellant)
