"""The end of a case: its outcome, one pass over its money, and the release of all holds.

Invariants: a case ends once. Payments are those that `money.settle` lists, each from the hold that it names. Then no
judge and no appellant holds anything for the case, it is on no schedule, and its handler receives the ruling.
"""

from collections.abc import Sequence

from gpu_tasks.market.courts.benches import (
    HALF,
    BenchKind,
    court_opinion,
    doubted_places,
    is_beyond_a_third,
    weight_of,
)
from gpu_tasks.market.courts.cases import (
    APPEAL_BOND,
    AUDIT_POT,
    EARLIER_JUDGES_MAX,
    JUDGE_SEAT,
    CaseKind,
    CaseStage,
    CourtCase,
    JudgeSeat,
    PartyFault,
    fault_in,
    judges_of,
)
from gpu_tasks.market.courts.events import CaseEnded, JudgeCharged
from gpu_tasks.market.courts.handlers import CaseRuling
from gpu_tasks.market.courts.money import CaseMoney, CaseOutcome, Flow, Payee, Purse, settle
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.courts.storage import CONVICTIONS_MAX, CourtsStorage
from runtime.frame.holds import Hold
from runtime.pallets.staking.slashing import Share

EXPELLING_COURT_MIN = 5
"""The least opinions of a court that end a registration."""
SPOKEN_PART = 2
"""If fewer than one judge in this many gives an opinion, and nothing is decided, silence is no fault.

A coalition with less than a third of the stake is less than half of the judges that a race leaves. So it cannot pass
for a heard bench when others lack the input, nor fake an unheard case by its silence.
"""
FINING_PARTS, FINED_PARTS = 2, 3
"""Silence costs a fee only if two thirds of the judges gave an opinion: two of a committee, four of a pair and a
committee.

A coalition is assumed to have less than a third of the judges. So if more are silent, they probably lack the input."""

_Verdict = Answered | Unanswerable | None
_Seats = list[tuple[bytes, JudgeSeat]]
_CUSTOMER = (Purse.CUSTOMER_BOND, Purse.CUSTOMER_PRICE, Purse.CUSTOMER_SPARE)
_FAULT_PURSES = {
    PartyFault.LIED: Purse.LIED,
    PartyFault.MISSED: Purse.MISSED,
    PartyFault.DECLINED: Purse.DECLINED,
}


def outcome_of(
    case: CourtCase, decided: _Verdict, *, is_heard: bool, is_borne_out: bool = False
) -> tuple[CaseOutcome, _Verdict]:
    """Return the outcome of a case and its final verdict. `decided` is the decision of its court, if it had one.

    `is_heard` means that enough judges gave an opinion, or there were none. `is_borne_out` means that most judges
    confirm the settled result. The settled result then remains if the court does not decide. Otherwise two of a
    committee's three could take a collateral, because a third of a court's votes can prevent a decision.
    """
    in_court, first = case.stage is CaseStage.COURT, case.verdict
    if decided is None and is_borne_out and case.settled is not None and first != Answered(case.settled):
        return CaseOutcome.AUDIT_RIGHT, Answered(case.settled)
    verdict = decided or first if in_court else first
    if verdict is None and not is_heard:
        outcome = CaseOutcome.UNHEARD
    elif verdict is None:
        outcome = CaseOutcome.UNDECIDED if case.kind is CaseKind.DISPUTE else CaseOutcome.AUDIT_UNDECIDED
    elif isinstance(verdict, Unanswerable):
        outcome = CaseOutcome.INPUT_BAD
    elif case.appeal and decided is None:
        outcome = CaseOutcome.APPEAL_UNDECIDED
    elif case.appeal:
        outcome = CaseOutcome.APPEAL_LOST if decided == first else CaseOutcome.APPEAL_WON
    elif in_court and decided is not None:
        outcome = CaseOutcome.COURT_DECIDED
    elif case.kind is CaseKind.DISPUTE:
        outcome = CaseOutcome.DECIDED
    else:
        is_right = case.settled == verdict.root
        outcome = CaseOutcome.AUDIT_RIGHT if is_right else CaseOutcome.AUDIT_WRONG
    return outcome, verdict


def end(courts: CourtsStorage, case_id: bytes, case: CourtCase, decided: _Verdict = None) -> None:
    """End a case. `decided` is the decision of its court, if it had one that decided."""
    seats = _seats(courts, case_id, case)
    outcome, verdict, flows = _reckoned(courts, case, seats, decided)
    _move(courts, case_id, case, flows)
    _dissolve(courts, case_id, case, seats, flows)
    faults = _faults(case, verdict)
    expelled = _remember(courts, faults, is_final=_is_expelling(case, seats, decided))
    courts.emit(CaseEnded(case_id, outcome, verdict))
    until = courts.system.number.get() + courts.conviction_blocks
    ruling = CaseRuling(outcome, verdict, faults, expelled, expelled_until=until)
    courts.handler(case.handler).carry_out(case_id, ruling)


def reckoned(
    courts: CourtsStorage, case_id: bytes, case: CourtCase, decided: _Verdict
) -> tuple[CaseOutcome, _Verdict, tuple[Flow, ...]]:
    """Return the outcome, verdict and payments of a case with this decision of its court, without making them."""
    return _reckoned(courts, case, _seats(courts, case_id, case), decided)


def _reckoned(
    courts: CourtsStorage, case: CourtCase, seats: _Seats, decided: _Verdict
) -> tuple[CaseOutcome, _Verdict, tuple[Flow, ...]]:
    is_borne_out = _is_borne_out(courts, case, seats)
    outcome, verdict = outcome_of(case, decided, is_heard=_is_heard(seats), is_borne_out=is_borne_out)
    return outcome, verdict, settle(outcome, _money(courts, case, seats, decided, verdict))


def skip(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> None:
    """End a case that the beacon picked for no audit."""
    assert not case.benches, "a case without an audit has no judges"
    del courts.prices[case_id]
    del courts.cases[case_id]
    courts.handler(case.handler).carry_out(case_id, CaseRuling(CaseOutcome.NOT_AUDITED, None))


def recent_lies(courts: CourtsStorage, account: bytes) -> tuple[int, ...]:
    """Return the blocks of an account's proven lies that still count."""
    oldest = courts.system.number.get() - courts.conviction_blocks
    return tuple(height for height in courts.convictions[account] if height >= oldest)


def _seats(courts: CourtsStorage, case_id: bytes, case: CourtCase) -> _Seats:
    found = []
    for judge in judges_of(case):
        seat = courts.seats[judge, case_id]
        assert seat is not None, "a judge has a seat until its case ends"
        found.append((judge, seat))
    return found


def _money(courts: CourtsStorage, case: CourtCase, seats: _Seats, decided: _Verdict, verdict: _Verdict) -> CaseMoney:
    convicted = _convicted(seats, decided)
    silent = tuple((judge, seat.held) for judge, seat in seats if seat.statement is None) if _fines(seats) else ()
    # Its last grains stay: an account below the existential deposit could not take the small premium of a cheap unit.
    in_pot = max(0, courts.balances.free_balance(AUDIT_POT) - courts.balances.existential_deposit)
    pot = min(in_pot, case.terms.pot_max)
    payers: dict[Purse, tuple[tuple[bytes, int], ...]] = {
        Purse.CONVICTED: convicted,
        Purse.SILENT: silent,
        Purse.CUSTOMER_BOND: ((case.terms.customer, case.terms.customer_bond),),
        Purse.CUSTOMER_PRICE: ((case.terms.customer, case.terms.customer_price),),
        Purse.POT: ((AUDIT_POT, pot),),
    }
    # If the result was wrong, the customer needs its reserve for the next race.
    if isinstance(verdict, Answered) and verdict.root == case.settled:
        payers[Purse.CUSTOMER_SPARE] = ((case.terms.customer, case.terms.customer_spare),)
    for fault, purse in _FAULT_PURSES.items():
        payers[purse] = tuple(
            (claim.account, claim.held) for claim in case.terms.claims if fault_in(case, claim, verdict) is fault
        )
    wrong = {judge: None for judge, _ in convicted}
    right = tuple(
        judge
        for judge, seat in seats
        if seat.statement is not None and seat.statement.opinion == verdict and judge not in wrong
    )
    payees: dict[Payee, tuple[bytes, ...]] = {Payee.JUDGES: right, Payee.CUSTOMER: (case.terms.customer,)}
    if case.appeal:
        is_won = decided is not None and decided != case.verdict
        is_no_fault = is_won and isinstance(case.verdict, Unanswerable)
        # The bond is charged if the appeal did not change the verdict, and the appellant is paid if it did. If the
        # court had an input that the first judges lacked, no fault shows, and the bond pays the court.
        if is_won:
            payees[Payee.APPELLANT] = (case.appeal.appellant,)
        if is_no_fault or (not is_won and (decided is not None or isinstance(verdict, Answered))):
            payers[Purse.BOND] = ((case.appeal.appellant, case.appeal.bond),)
    # Without a court there is no appeal. A court of all remaining validators may have a majority from one coalition, if
    # large stakes are parties. Then a liar loses all only by judges with more than a third of the stake.
    is_safe = case.has_court and not _have_all_sat(seats)
    takes_whole = is_safe or is_beyond_a_third(right, courts.entrants())
    return CaseMoney(case.terms.price, case.fee, takes_whole, payers, payees)


def _is_borne_out(courts: CourtsStorage, case: CourtCase, seats: _Seats) -> bool:
    """Return True if a court has sat and most judges confirm the settled result.

    A drawn court counts one vote a member. Otherwise all judges count by weight, and need more than a third of the
    stake.
    """
    if case.settled is None or not _court(seats):
        return False
    settled = Answered(case.settled)
    if not _have_all_sat(seats):
        votes = [(seat.statement.opinion if seat.statement else None, seat.votes) for seat in _court(seats)]
        return court_opinion(votes, more_than=HALF) == settled
    entrants = courts.entrants()
    for_it, spoken = (
        [judge for judge, seat in seats if seat.statement and (not is_for or seat.statement.opinion == settled)]
        for is_for in (True, False)
    )
    return is_beyond_a_third(for_it, entrants) and 2 * weight_of(for_it, entrants) > weight_of(spoken, entrants)


def _have_all_sat(seats: _Seats) -> bool:
    """Return True if the case had a court of all remaining validators, which vote by stake."""
    return any(seat.votes > 1 for seat in _court(seats))


def _court(seats: _Seats) -> list[JudgeSeat]:
    return [seat for _, seat in seats if seat.bench == BenchKind.COURT]


def _is_heard(seats: _Seats) -> bool:
    """Return True if half of its judges gave an opinion."""
    return is_half(_spoken(seats), len(seats))


def is_half(spoken: int, judges: int) -> bool:
    """Return True if enough of a case's judges gave an opinion to show that there was an input."""
    return spoken * SPOKEN_PART >= judges


def _fines(seats: _Seats) -> bool:
    """Return True if so many judges gave an opinion that the silent ones could have."""
    return _spoken(seats) * FINED_PARTS >= len(seats) * FINING_PARTS


def _spoken(seats: _Seats) -> int:
    return sum(seat.statement is not None for _, seat in seats)


def _convicted(seats: _Seats, decided: _Verdict) -> tuple[tuple[bytes, int], ...]:
    """Return the earlier judges that the court found wrong, in their opinion or their probe.

    A judge that found no usable input is not convicted if the court had one: the court alone may have received it.
    """
    if decided is None:
        return ()
    court = _court(seats)
    earlier = [(judge, seat) for judge, seat in seats if seat.bench != BenchKind.COURT]
    doubts = [(seat.statement.doubted if seat.statement else None, seat.votes) for seat in court]
    doubted = doubted_places(doubts, EARLIER_JUDGES_MAX)
    return tuple(
        (judge, seat.held)
        for place, (judge, seat) in enumerate(earlier)
        if seat.statement is not None
        and not (isinstance(seat.statement.opinion, Unanswerable) and isinstance(decided, Answered))
        and (seat.statement.opinion != decided or place in doubted)
    )


def _move(courts: CourtsStorage, case_id: bytes, case: CourtCase, flows: Sequence[Flow]) -> None:
    """Make the payments: judges and appellants from their holds here, parties and customer through the handler."""
    handler = courts.handler(case.handler)
    sources: dict[tuple[Purse, bytes], list[Share]] = {}
    for flow in flows:
        sources.setdefault((flow.purse, flow.source), []).append(Share(flow.payee, flow.amount))
    for (purse, source), shares in sources.items():
        if purse in (Purse.CONVICTED, Purse.SILENT):
            courts.lock.pay_out(source, Hold(JUDGE_SEAT, case_id), shares)
        elif purse is Purse.BOND:
            courts.lock.pay_out(source, Hold(APPEAL_BOND, case_id), shares)
        elif purse is Purse.POT:
            _pay_from_pot(courts, shares)
        elif purse in _CUSTOMER:
            handler.charge_customer(case_id, shares)
        else:
            handler.charge_party(case_id, source, shares)


def _pay_from_pot(courts: CourtsStorage, shares: Sequence[Share]) -> None:
    # Debited at once: with two debits, the first could leave less than the existential deposit, which would burn.
    courts.balances.debit(AUDIT_POT, sum(share.amount for share in shares))
    for share in shares:
        assert share.payee is not None, "the pot pays judges, and burns nothing"
        courts.balances.credit(share.payee, share.amount)


def _dissolve(courts: CourtsStorage, case_id: bytes, case: CourtCase, seats: _Seats, flows: Sequence[Flow]) -> None:
    """Return the rest of seats and bonds, and drop the case."""
    for judge, _ in seats:
        _charged(courts, case_id, judge, flows)
        hold = Hold(JUDGE_SEAT, case_id)
        courts.lock.unlock(judge, hold, courts.lock.locked(judge, hold))
        del courts.seats[judge, case_id]
    if case.appeal:
        hold = Hold(APPEAL_BOND, case_id)
        courts.lock.unlock(case.appeal.appellant, hold, courts.lock.locked(case.appeal.appellant, hold))
    courts.lock.end(Hold(JUDGE_SEAT, case_id))
    courts.lock.end(Hold(APPEAL_BOND, case_id))
    courts.agenda.drop(case_id)
    courts.final_agenda.drop(case_id)
    del courts.prices[case_id]
    del courts.cases[case_id]


def _charged(courts: CourtsStorage, case_id: bytes, judge: bytes, flows: Sequence[Flow]) -> None:
    for purse in (Purse.CONVICTED, Purse.SILENT):
        amount = sum(flow.amount for flow in flows if flow.purse is purse and flow.source == judge)
        if amount:
            courts.emit(JudgeCharged(case_id, judge, amount, purse is Purse.CONVICTED))


def _faults(case: CourtCase, verdict: _Verdict) -> tuple[tuple[bytes, PartyFault], ...]:
    found = []
    for claim in case.terms.claims:
        fault = fault_in(case, claim, verdict)
        if fault is not None:
            found.append((claim.account, fault))
    return tuple(found)


def _is_expelling(case: CourtCase, seats: _Seats, decided: _Verdict) -> bool:
    """Return True if a court decided that is large enough to end a registration."""
    spoken = [seat for seat in _court(seats) if seat.statement is not None]
    return case.stage is CaseStage.COURT and decided is not None and len(spoken) >= EXPELLING_COURT_MIN


def _remember(
    courts: CourtsStorage, faults: tuple[tuple[bytes, PartyFault], ...], *, is_final: bool
) -> tuple[bytes, ...]:
    """Record the liars. Return those whose third lie this is, if the court is large enough."""
    expelled = []
    for account, fault in faults:
        if fault is not PartyFault.LIED:
            continue
        before = recent_lies(courts, account)
        if is_final and len(before) >= CONVICTIONS_MAX:
            expelled.append(account)
        courts.convictions[account] = (*before, courts.system.number.get())[-CONVICTIONS_MAX:]
    return tuple(expelled)
