"""A case from its opening to its last opinion: draws, commits, openings, verdicts, appeals.

Invariants: no opinion is opened before all commits are closed and the close is final. A judge holds its seat's money
from the draw on. An undecided bench is followed by the next one, once, and a court by none.
"""

from dataclasses import replace

from gpu_tasks.market import rounds
from gpu_tasks.market.courts import closing
from gpu_tasks.market.courts.benches import (
    AGREEING,
    AUDIT_DELAYS,
    COURT_MIN,
    BenchKind,
    committee_opinion,
    court_opinion,
    draw_bench,
    is_audited,
    joint_opinion,
)
from gpu_tasks.market.courts.cases import (
    APPEAL_BOND,
    JUDGE_SEAT,
    STAGE_OF,
    CaseAppeal,
    CaseKind,
    CaseStage,
    ClaimKind,
    CourtCase,
    DrawnBench,
    JudgeSeat,
    PartyFault,
    fault_of,
    judges_of,
    sitting,
)
from gpu_tasks.market.courts.events import (
    BenchDrawn,
    CaseAppealed,
    CaseDecided,
    CaseOpened,
    CourtCalled,
    NotAppealable,
    NotSeated,
    OpensNothing,
    OpinionCommitted,
    OpinionOpened,
    OutOfTurn,
    SaidAlready,
)
from gpu_tasks.market.courts.opinions import Answered, Statement, Unanswerable, opinion_commitment, probe_place
from gpu_tasks.market.courts.storage import CONVICTIONS_MAX, CourtsStorage
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.rounds import Round
from runtime.encoding.types import Weight
from runtime.frame.holds import Hold
from runtime.frame.measured import times
from runtime.frame.pallet import ensure, known
from runtime.frame.weights import work
from runtime.pallets.staking.stakers import VALIDATORS_MAX

LOOK_WEIGHT = work(reads=20, writes=10, microseconds=50)
"""The weight of a case's step that only begins or ends a window."""
SKIP_WEIGHT = work(reads=40, writes=40, microseconds=150)
"""The weight of the chance of an audit. Most often it ends the case, and the handler releases the parties."""
FEW_WEIGHT = work(reads=230, writes=100, microseconds=300)
"""The weight of drawing or reading a pair or a committee."""
COURT_WEIGHT = work(reads=700, writes=600, microseconds=1_700)
"""The weight of drawing or reading a court."""
END_WEIGHT = work(reads=200, writes=100, microseconds=2_000)
"""The weight of paying, charging and releasing judges and parties, without reading the bench."""
SEAT_LOOK_WEIGHT = work(reads=6, microseconds=9)
"""The weight of checking that one validator may sit. Usually the first few may. If few can pay for a seat, all 128 are
checked."""
LOOKS_MAX = 2 * VALIDATORS_MAX
"""The most validators checked in one step: the set once for a bench that cannot be filled, and once for a court."""

_BENCH_OF = {stage: bench for bench, stage in STAGE_OF.items()}
_Verdict = Answered | Unanswerable


def begin(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> None:
    """Open a case. Its first bench, or the chance of one, is drawn once the beacon is final."""
    assert case_id not in courts.cases, "a case has an id of its own"
    # Raises if there is no such handler: no ruling of the case could be carried out.
    courts.handler(case.handler)
    courts.prices[case_id] = case.terms.price
    if case.stage is CaseStage.CHANCE:
        _await_chance(courts, case_id, case)
        return
    courts.emit(CaseOpened(case_id, case.handler, case.kind))
    _record(courts, case_id, case, case.stage)


def step(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> Weight:
    """Do what is due in a case. Return the weight, with all checked validators."""
    before = courts.tally.looks
    weight = _step(courts, case_id, case)
    if case.stage is not CaseStage.CHANCE and case_id not in courts.cases:
        weight += END_WEIGHT
    return weight + times(courts.tally.looks - before, SEAT_LOOK_WEIGHT)


def _step(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> Weight:
    height, final = courts.system.number.get(), courts.beacon.final_height()
    if case.stage is CaseStage.CHANCE:
        _take_chance(courts, case_id, case)
        return SKIP_WEIGHT
    if case.stage is CaseStage.APPEALABLE:
        return _end_if_over(courts, case_id, case)
    if case.round is None:
        if final < case.recorded_at + BEACON_DELAY:
            return LOOK_WEIGHT
        _draw(courts, case_id, case)
        return _bench_weight(case.stage)
    windows = courts.windows(case)
    current = rounds.advanced(case.round, windows, height, final)
    is_heard = bool(current.closed_at) and not case.to_open
    if is_heard or rounds.is_over(current, windows, height):
        _read(courts, case_id, case)
        return _bench_weight(case.stage)
    _go_on(courts, case_id, replace(case, round=current))
    return LOOK_WEIGHT


def commit(courts: CourtsStorage, case_id: bytes, case: CourtCase, judge: bytes, commitment: bytes) -> None:
    """Record a commitment of a judge of the sitting bench."""
    seat, current = _acting(courts, case_id, case, judge)
    height = courts.system.number.get()
    ensure(seat.commitment is None, SaidAlready)
    ensure(rounds.can_commit(current, courts.windows(case), height), OutOfTurn)
    courts.seats[judge, case_id] = replace(seat, commitment=commitment)
    current = rounds.committed(current, height, is_last=case.to_commit == 1)
    courts.emit(OpinionCommitted(case_id, judge))
    case = replace(case, round=current, to_commit=case.to_commit - 1, to_open=case.to_open + 1)
    _go_on(courts, case_id, case)


def open_opinion(
    courts: CourtsStorage, case_id: bytes, case: CourtCase, judge: bytes, said: Statement, salt: bytes
) -> None:
    """Record the opinion of a judge of the sitting bench. After the last one the bench is read."""
    seat, current = _acting(courts, case_id, case, judge)
    ensure(seat.statement is None, SaidAlready)
    ensure(seat.commitment is not None, OutOfTurn)
    ensure(rounds.can_reveal(current, courts.windows(case), courts.system.number.get()), OutOfTurn)
    genesis = courts.system.block_hash[0]
    ensure(seat.commitment == opinion_commitment(genesis, case_id, seat.bench, judge, said, salt), OpensNothing)
    courts.seats[judge, case_id] = replace(seat, statement=said)
    courts.emit(OpinionOpened(case_id, judge, said))
    courts.cases[case_id] = replace(case, round=current, to_open=case.to_open - 1)
    if case.to_open == 1:
        # The next block's hook reads the bench: a call that ends a case would weigh many times its charge.
        courts.agenda.put(courts.system.number.get() + 1, case_id)


def appeal(courts: CourtsStorage, case_id: bytes, case: CourtCase, appellant: bytes) -> None:
    """Appeal a verdict with a bond, which pays the court for any decision."""
    height = courts.system.number.get()
    ensure(case.stage is CaseStage.APPEALABLE and height <= case.appealable_until, NotAppealable)
    # The appellant may not judge its own appeal.
    against = replace(case, appeal=CaseAppeal(appellant, 0))
    seats = courts.count_left(against, case.rules.court_seats)
    ensure(seats >= COURT_MIN, NotAppealable)
    bond = appeal_bond(case, appellant, seats)
    courts.lock.lock(appellant, Hold(APPEAL_BOND, case_id), bond)
    courts.emit(CaseAppealed(case_id, appellant, bond))
    _record(courts, case_id, replace(case, appeal=CaseAppeal(appellant, bond)), CaseStage.COURT)


def appeal_bond(case: CourtCase, appellant: bytes, seats: int) -> int:
    """Return the bond of an appeal to a court of `seats`.

    An appellant with collateral at stake adds the price once. If its collateral is less than the fees of all judges, as
    for cheap work, it adds the missing fees too. Otherwise a grain would seat a court for nothing.
    """
    fees = case.fee * (len(judges_of(case)) + seats)
    for claim in case.terms.claims:
        if claim.account == appellant and fault_of(claim, case.verdict) is not None:
            return max(case.terms.price, case.terms.price + fees - claim.held)
    return case.fee * seats


def open_late(courts: CourtsStorage, case_id: bytes, case: CourtCase, party: bytes, root: bytes) -> None:
    """Record the late opening of a withheld answer. A right one then counts as a miss and not as a lie."""
    withheld = [
        claim
        for claim in case.terms.claims
        if claim.account == party and claim.kind is ClaimKind.WITHHELD and claim.root is None
    ]
    ensure(bool(withheld) and case.stage is not CaseStage.COURT, OutOfTurn)
    claims = tuple(replace(claim, root=root) if claim in withheld else claim for claim in case.terms.claims)
    courts.cases[case_id] = replace(case, terms=replace(case.terms, claims=claims))


def _end_if_over(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> Weight:
    if courts.system.number.get() <= case.appealable_until:
        return LOOK_WEIGHT
    closing.end(courts, case_id, case)
    return FEW_WEIGHT


def _bench_weight(stage: CaseStage) -> Weight:
    """Return the weight of drawing a bench, or of reading it with the consequences."""
    return COURT_WEIGHT if stage is CaseStage.COURT else FEW_WEIGHT


def _acting(courts: CourtsStorage, case_id: bytes, case: CourtCase, judge: bytes) -> tuple[JudgeSeat, Round]:
    """Return the account's seat on the sitting bench, and the bench's round as this block finds it.

    The clock decides, not the hook, which may reach the case many blocks late, behind more valuable ones.
    """
    seat = known(courts.seats[judge, case_id], NotSeated)
    ensure(bool(case.benches) and seat.bench == sitting(case).kind, NotSeated)
    height, final = courts.system.number.get(), courts.beacon.final_height()
    return seat, rounds.advanced(known(case.round, OutOfTurn), courts.windows(case), height, final)


def _record(courts: CourtsStorage, case_id: bytes, case: CourtCase, stage: CaseStage) -> None:
    """Schedule the draw of a stage's bench by a beacon that is still unknown."""
    height = courts.system.number.get()
    courts.cases[case_id] = replace(case, stage=stage, recorded_at=height, round=None)
    courts.agenda.drop(case_id)
    courts.once_final(case_id, height + BEACON_DELAY)


def _await_chance(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> None:
    height = courts.system.number.get()
    courts.cases[case_id] = replace(case, recorded_at=height)
    courts.once_final(case_id, height + AUDIT_DELAYS[-1])


def _take_chance(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> None:
    """Open the audit if one of the four values orders it."""
    values = [courts.beacon.value_at(case.recorded_at + delay) for delay in AUDIT_DELAYS]
    there = [value for value in values if value is not None]
    # Finality halted for longer than the beacon remembers.
    if len(there) < len(values):
        _await_chance(courts, case_id, case)
    elif is_audited(there, case_id, case.rules.rate_ppm):
        courts.emit(CaseOpened(case_id, case.handler, case.kind))
        _record(courts, case_id, case, CaseStage.PAIR)
    else:
        closing.skip(courts, case_id, case)


def _draw(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> None:
    seed, kind = courts.beacon.value_at(case.recorded_at + BEACON_DELAY), _BENCH_OF[case.stage]
    # Finality halted for longer than the beacon remembers.
    if seed is None:
        _record(courts, case_id, case, case.stage)
        return
    drawn = draw_bench(seed, case_id, kind, courts.entrants(), courts.may_sit(case), case.rules.court_seats)
    if len(drawn) < _least(case, kind):
        _undrawn(courts, case_id, case, kind)
        return
    hold, height = Hold(JUDGE_SEAT, case_id), courts.system.number.get()
    for judge, votes in drawn:
        courts.lock.lock(judge, hold, case.seat)
        place = probe_place(seed, case_id, judge)
        courts.seats[judge, case_id] = JudgeSeat(bench=kind, votes=votes, held=case.seat, probe_place=place)
    members = tuple(judge for judge, _ in drawn)
    benches = (*case.benches, DrawnBench(kind, members))
    courts.emit(BenchDrawn(case_id, kind, members, case.seat))
    _go_on(
        courts,
        case_id,
        replace(case, benches=benches, round=Round(drawn_at=height), to_commit=len(members), to_open=0),
    )


def _least(case: CourtCase, kind: BenchKind) -> int:
    """Return the least members of a bench of this kind."""
    if kind is BenchKind.COURT:
        return COURT_MIN
    is_retrial = kind is BenchKind.COMMITTEE and case.kind is CaseKind.AUDIT
    # Fewer than three join the pair of the audit, and decide with it.
    return 1 if is_retrial else AGREEING


def _undrawn(courts: CourtsStorage, case_id: bytes, case: CourtCase, kind: BenchKind) -> None:
    """End a case with too few validators for a bench, or decide it by the pair alone."""
    if kind is BenchKind.COMMITTEE and case.benches:
        agreed = joint_opinion(_said_by_all(courts, case_id, case))
        # The pair of an audit alone: both agree, and contradict the settled result.
        if agreed is not None:
            _decide(courts, case_id, case, agreed)
            return
    closing.end(courts, case_id, case)


def _read(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> None:
    """Read the opinions of the bench, which has opened all that it will."""
    case = replace(case, round=None, to_commit=0, to_open=0)
    votes = _opinions(courts, case_id, case)
    if case.stage is CaseStage.COURT:
        closing.end(courts, case_id, case, court_opinion(votes))
        return
    agreed = committee_opinion([said for said, _ in votes])
    if case.stage is CaseStage.PAIR:
        is_right = isinstance(agreed, Answered) and agreed.root == case.settled
        if agreed is not None and is_right:
            _decide(courts, case_id, replace(case, has_court=courts.has_court(case)), agreed)
        else:
            _record(courts, case_id, case, CaseStage.COMMITTEE)
    else:
        _read_committee(courts, case_id, replace(case, has_court=courts.has_court(case)), agreed)


def _read_committee(courts: CourtsStorage, case_id: bytes, case: CourtCase, agreed: _Verdict | None) -> None:
    """Act on a committee's opinions: two equal ones decide, or else a court is called."""
    if case.kind is CaseKind.AUDIT and not case.has_court:
        # Without a court there is no appeal from a committee in which a coalition has two of three, so the pair before
        # it counts too.
        agreed = joint_opinion(_said_by_all(courts, case_id, case))
    if agreed is not None:
        _decide(courts, case_id, case, agreed)
    elif case.has_court and _is_for_a_court(case, _said_by_all(courts, case_id, case)):
        _call_court(courts, case_id, case)
    else:
        closing.end(courts, case_id, case)


def _is_for_a_court(case: CourtCase, said: list[_Verdict | None]) -> bool:
    """Return True if an undecided case is for a court. A case about a missing input never is.

    An audit is for a court if at least half of its judges gave an opinion. A dispute is for a court if a party has
    answered or committed to an answer. Otherwise the court could be the first to receive the input, at the cost of
    parties without fault.
    """
    if case.kind is CaseKind.AUDIT:
        return closing.is_half(len(said) - said.count(None), len(said))
    return any(claim.kind in (ClaimKind.ANSWERED, ClaimKind.WITHHELD) for claim in case.terms.claims)


def _opinions(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> list[tuple[_Verdict | None, int]]:
    """Return the opinion of each judge of the last bench, with its votes."""
    found = []
    for judge in sitting(case).members:
        seat = courts.seats[judge, case_id]
        assert seat is not None, "a judge has a seat until its case ends"
        found.append((seat.statement.opinion if seat.statement else None, seat.votes))
    return found


def _said_by_all(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> list[_Verdict | None]:
    """Return the opinion of each judge of the case, on any bench."""
    seats = [courts.seats[judge, case_id] for judge in judges_of(case)]
    return [seat.statement.opinion if seat and seat.statement else None for seat in seats]


def _decide(courts: CourtsStorage, case_id: bytes, case: CourtCase, verdict: _Verdict) -> None:
    """Record the verdict of a pair or a committee. It waits for an appeal, if there is a court (`case.has_court`)."""
    case = replace(case, verdict=verdict)
    until = courts.system.number.get() + case.rules.appeal_blocks if case.has_court else 0
    courts.emit(CaseDecided(case_id, verdict, until))
    if not case.has_court:
        closing.end(courts, case_id, case)
    elif _is_third_lie(courts, case):
        _call_court(courts, case_id, case)
    else:
        courts.cases[case_id] = replace(case, stage=CaseStage.APPEALABLE, appealable_until=until)
        courts.agenda.put(until + 1, case_id)
        courts.final_agenda.drop(case_id)


def _is_third_lie(courts: CourtsStorage, case: CourtCase) -> bool:
    """Return True if the verdict is the third recent one that calls the same account a liar."""
    return any(
        fault_of(claim, case.verdict) is PartyFault.LIED
        and len(closing.recent_lies(courts, claim.account)) >= CONVICTIONS_MAX
        for claim in case.terms.claims
    )


def _call_court(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> None:
    courts.emit(CourtCalled(case_id))
    _record(courts, case_id, case, CaseStage.COURT)


def _go_on(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> None:
    """Store a case whose bench continues, and schedule its next change that needs no call."""
    assert case.round is not None, "judges in session have a round"
    courts.cases[case_id] = case
    deadline, awaited = rounds.next_change(case.round, courts.windows(case))
    if deadline is not None:
        courts.agenda.put(max(deadline, courts.system.number.get()) + 1, case_id)
    if awaited > courts.beacon.final_height():
        courts.once_final(case_id, awaited)
