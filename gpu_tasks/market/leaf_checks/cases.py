"""The cases of a check: LeafChecks as a handler of the courts.

A doubt is a dispute about one leaf. The answerers claim the shown leaf, the doubter another one, and judges compute it.
An auditor's pass is watched like a result: judges compute the same proof.

Invariants: a check has one case at a time. Each party pays only from its own hold.
"""

from collections.abc import Sequence
from dataclasses import replace

from gpu_tasks.market.courts.cases import CaseTerms, ClaimKind, PartyClaim, PartyFault
from gpu_tasks.market.courts.handlers import CaseRuling
from gpu_tasks.market.courts.money import FIRST_JUDGES
from gpu_tasks.market.courts.numbers import PromisedNumbers
from gpu_tasks.market.leaf_checks import ending
from gpu_tasks.market.leaf_checks.checks import (
    LEAF_BOND,
    LEAF_SEAT,
    CheckOutcome,
    LeafCheck,
    LeafDoubt,
    LeafDuty,
    LeafStage,
    check_case,
    is_shown,
)
from gpu_tasks.market.leaf_checks.events import LeafDoubted
from gpu_tasks.market.leaf_checks.storage import LeafStorage, seat_of
from runtime.frame.holds import Hold
from runtime.pallets.staking.slashing import Share


def doubt(room: LeafStorage, handler: int, unit: bytes, check: LeafCheck, said: LeafDoubt, held: int) -> None:
    """Open a case about a leaf. The doubter holds `held` grains for it."""
    terms = check.terms
    claims = [_claim(each.account, said.shown.claim, each.held) for each in terms.answerers]
    claims.append(_claim(said.doubter, said.found, held))
    if check.auditor is not None and check.auditor != said.doubter and is_shown(check, said.shown.index):
        claims.append(_claim(check.auditor, said.shown.claim, seat_of(terms)))
    case = _new_case(room, unit, replace(check, stage=LeafStage.DOUBTED, doubt=said))
    room.emit(LeafDoubted(unit, case, said))
    about = _terms(check, terms.price, terms.collateral, terms.judge_fee, tuple(claims))
    # If judges find no usable input, no party has lied. The customer that called them pays then, and the pot pays at
    # most the fee of the check. Otherwise customers with such inputs could empty the pot.
    bond = held if said.doubter == terms.customer else 0
    about = replace(about, customer_price=bond, pot_max=terms.fee)
    # The shown leaf is the settled one: a third of a court's votes that prevents a decision must not undo it.
    room.courts.open(handler, case, about, PromisedNumbers(terms.judge_fee, terms.rate_ppm), said.shown.claim)


def watch(room: LeafStorage, handler: int, unit: bytes, check: LeafCheck, auditor: bytes, proof: bytes) -> None:
    """Let an auditor's pass be audited like a settled result."""
    terms, seat = check.terms, seat_of(check.terms)
    case = _new_case(room, unit, replace(check, stage=LeafStage.PROVING, proof=proof))
    about = _terms(check, terms.fee, seat, terms.fee, (_claim(auditor, proof, seat),))
    room.courts.watch(handler, case, about, PromisedNumbers(terms.fee, terms.rate_ppm), proof)


def charge_party(room: LeafStorage, case: bytes, party: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of an auditor's seat, a customer's bond, or an answerer's hold for the batch."""
    unit, check = room.of_case(case)
    if party == check.auditor:
        room.lock.pay_out(party, Hold(LEAF_SEAT, unit), shares)
    elif party == check.terms.customer:
        room.lock.pay_out(party, Hold(LEAF_BOND, unit), shares)
    else:
        room.handler(check).charge_party(unit, party, shares)


def charge_customer(room: LeafStorage, case: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of the bond of a customer whose input the judges could not use."""
    unit, check = room.of_case(case)
    room.lock.pay_out(check.terms.customer, Hold(LEAF_BOND, unit), shares)


def carry_out(room: LeafStorage, case: bytes, ruling: CaseRuling) -> None:
    """Carry out a ruling: a wrong answer ends the check, and the next auditor follows a refuted one."""
    unit, check = room.of_case(case)
    del room.unit_of_case[case]
    ending.drop_duties(room, unit, check)
    check = replace(check, case=None)
    for party in ruling.expelled:
        room.devices.expel(party, ruling.expelled_until)
    wrong = {party for party, fault in ruling.faults if fault is PartyFault.LIED}
    if check.stage is LeafStage.PROVING:
        if check.auditor in wrong:
            _follow(room, unit, check)
        else:
            _open_up(room, unit, check)
        return
    assert check.doubt is not None, "a judged leaf was doubted"
    faults = tuple((each.account, PartyFault.LIED) for each in check.terms.answerers if each.account in wrong)
    is_auditors = check.doubt.doubter == check.auditor
    stands = check.auditor is not None and check.auditor not in wrong
    if faults:
        ending.end(room, unit, check, CheckOutcome.REFUTED, earner=check.auditor if stands else None, faults=faults)
    elif is_auditors:
        _follow(room, unit, check)
    else:
        conclude(room, unit, check)


def conclude(room: LeafStorage, unit: bytes, check: LeafCheck) -> None:
    """End a check that no party doubts any more."""
    outcome = CheckOutcome.UNLOOKED if check.auditor is None else CheckOutcome.PASSED
    ending.end(room, unit, check, outcome, earner=check.auditor)


def _follow(room: LeafStorage, unit: bytes, check: LeafCheck) -> None:
    """Release a refuted auditor with its remaining hold. The hook draws the next one."""
    assert check.auditor is not None, "a judged auditor is named"
    ending.release_auditor(room, unit, check.auditor)
    to_draw = replace(check, stage=LeafStage.CHECKING, auditor=None, proof=None, doubt=None, deadline=room.height)
    room.put(unit, to_draw)


def _open_up(room: LeafStorage, unit: bytes, check: LeafCheck) -> None:
    """Open the window of the customer's disputes. The auditor's seat stays until its end."""
    room.put(unit, replace(check, stage=LeafStage.OPEN, deadline=room.height + check.windows.dispute))


def _new_case(room: LeafStorage, unit: bytes, check: LeafCheck) -> bytes:
    """Record the next case of a check. No block steps the check meanwhile, and its parties may appeal."""
    case = check_case(unit, check.cases)
    room.unit_of_case[case] = unit
    auditor = () if check.auditor is None else (check.auditor,)
    answerers = (each.account for each in check.terms.answerers) if check.doubt is not None else ()
    for who in (*answerers, *auditor):
        room.duties[who, unit] = LeafDuty.STAND
    room.put(unit, replace(check, case=case, cases=check.cases + 1, deadline=0))
    return case


def _claim(who: bytes, root: bytes, held: int) -> PartyClaim:
    return PartyClaim(who, ClaimKind.ANSWERED, root, held)


def _terms(check: LeafCheck, price: int, collateral: int, fee: int, claims: tuple[PartyClaim, ...]) -> CaseTerms:
    """Return the terms of a case about a paid batch: of its customer, only a bond of doubt is still held."""
    terms = check.terms
    return CaseTerms(
        customer=terms.customer,
        price=price,
        customer_bond=0,
        customer_price=0,
        customer_spare=0,
        collateral=collateral,
        pot_max=FIRST_JUDGES * fee,
        sealed_at=terms.sealed_at,
        run_blocks=terms.run_blocks,
        # Earlier auditors are excluded too: they were refuted, or silent, which costs a fee if a later one is right.
        excluded=(*terms.excluded, *check.drawn),
        claims=claims,
    )
