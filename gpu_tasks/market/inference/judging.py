"""What units bring before the courts, and what comes of it: the market as a handler of cases.

Always: a case of a unit has the unit's id, and the unit has no other meanwhile; what its parties may be charged is the
collateral that they hold for the unit; a dispute that nobody can decide costs nobody anything.
"""

from collections.abc import Sequence
from dataclasses import replace

from gpu_tasks.batches.requests import TOKEN
from gpu_tasks.market.courts.cases import CaseTerms, ClaimKind, PartyClaim, PartyFault
from gpu_tasks.market.courts.handlers import CaseRuling
from gpu_tasks.market.courts.money import FIRST_JUDGES
from gpu_tasks.market.courts.numbers import PromisedNumbers
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.inference import money, queue, race_results, schedules, settlement, turns
from gpu_tasks.market.inference.events import ProviderSlashed, ResultRefuted, UnitDisputed
from gpu_tasks.market.inference.race_results import RaceResult
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import (
    UNIT_MONEY,
    OpenUnit,
    Racer,
    Refund,
    Unit,
    UnitState,
    holds_collateral,
)
from gpu_tasks.market.leaf_checks.checks import LEAF_FEE, Answerer, CheckTerms
from gpu_tasks.market.leaf_checks.fees import withheld_shares
from gpu_tasks.market.leaf_disputes.disputes import Side
from runtime.frame.holds import Hold
from runtime.pallets.staking.slashing import Share


def dispute(market: InferenceStorage, unit: OpenUnit) -> None:
    """Answers differ, or several owners say that there can be none: a committee finds out.

    Where answers to a batch that is checked by its leaves differ, and that is all, it computes one leaf.
    """
    _hand_over(market, unit)
    sides = _sides(unit.record)
    if sides:
        market.leaf_disputes.open(market.index, unit.id, unit.record.terms.requests, sides)
    else:
        market.courts.open(market.index, unit.id, _terms(market, unit.record), _promised(unit.record))


def confirm(market: InferenceStorage, unit: OpenUnit, output_root: bytes) -> None:
    """One answer of several that were asked for: a pair looks at it before it is paid.

    Else fast garbage would win by shutting the others out.
    """
    _hand_over(market, unit)
    market.courts.confirm(market.index, unit.id, _terms(market, unit.record), _promised(unit.record), output_root)


def settle(market: InferenceStorage, unit: OpenUnit, result: RaceResult) -> None:
    """Pay for what was agreed on, and have it looked at again if the beacon says so; of a batch drawn leaves."""
    if unit.record.leaf_audit_ppm:
        _settle_batch(market, unit, result)
        return
    settlement.settle(market, unit, result, is_watched=True)
    price = money.due(unit.record, result.winner)
    terms, promised = _terms(market, unit.record, paid=price), _promised(unit.record)
    market.courts.watch(market.index, unit.id, terms, promised, result.output_root)


def open_late(market: InferenceStorage, unit_id: bytes, owner: bytes, output_root: bytes) -> None:
    """A racer opens what it withheld while the case about it is open."""
    market.courts.open_late(unit_id, owner, output_root)


def judge_leaf(market: InferenceStorage, unit_id: bytes, claims: Sequence[tuple[bytes, bytes]]) -> None:
    """One leaf goes before the courts: each root with what it claims of that."""
    record, claim_of = _of_case(market, unit_id).record, dict(claims)
    said = tuple(
        PartyClaim(racer.owner, ClaimKind.ANSWERED, claim_of[root], racer.collateral)
        for racer in record.racers
        if (root := _root_of(racer)) in claim_of
    )
    market.courts.open(market.index, unit_id, replace(_terms(market, record), claims=said), _promised(record))


def let_fall(market: InferenceStorage, unit_id: bytes, roots: Sequence[bytes]) -> None:
    """Nobody showed the trees of these roots: who answered with them loses what it holds, as liars do."""
    unit = _of_case(market, unit_id)
    racers, price = unit.record.racers, unit.record.price
    # whoever lost something before paid the customer's price back, by this or by a verdict
    answered = [racer for racer in racers if racer.reveal is not None]  # what idling costs, no customer is paid
    is_whole = all(racer.collateral == money.collateral(unit.record.rules, price) for racer in answered)
    fallen = [racer for racer in racers if _root_of(racer) in roots]
    held = [(racer.owner, racer.collateral) for racer in fallen]
    for owner, shares in withheld_shares(price if is_whole else 0, unit.record.customer, held):
        charge_party(market, unit_id, owner, shares)
    for racer in fallen:
        unit = _note_fault(market, unit, racer.owner, PartyFault.LIED)


def agree(market: InferenceStorage, unit_id: bytes, root: bytes | None) -> None:
    """Of the answers one is left, which is believed as a lone racer's: its leaves are drawn. Or none is."""
    unit = _of_case(market, unit_id)
    result = None if root is None else race_results.result(unit.record.racers, root)
    if result is None:
        queue.requeue_after_case(market, unit)
    else:
        settle(market, unit, result)


def charge_party(market: InferenceStorage, unit_id: bytes, party: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of a racer's collateral."""
    unit = _of_case(market, unit_id)
    market.devices.charge(_standing(unit.record, party).device, unit_id, shares)


def charge_customer(market: InferenceStorage, unit_id: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of what the customer locked."""
    customer = _of_case(market, unit_id).record.customer
    market.lock.pay_out(customer, Hold(UNIT_MONEY, unit_id), shares)


def carry_out(market: InferenceStorage, unit_id: bytes, ruling: CaseRuling) -> None:
    """The case is over, and what it moved has moved: pay for the right result, or draw again, or give back."""
    unit = _of_case(market, unit_id)
    for party, fault in ruling.faults:
        unit = _note_fault(market, unit, party, fault)
    for party in ruling.expelled:
        market.devices.expel(party, ruling.expelled_until)
    if unit.record.state is UnitState.SETTLED:
        _end_watch(market, unit, ruling)
    elif isinstance(ruling.verdict, Answered):
        if market.leaf_disputes.is_disputed(unit_id):
            market.leaf_disputes.narrow(unit_id, ruling.verdict.root)
        else:
            _enforce(market, unit, ruling.verdict.root)
    else:
        if market.leaf_disputes.is_disputed(unit_id):
            market.leaf_disputes.close(unit_id)
        is_bad = isinstance(ruling.verdict, Unanswerable)
        settlement.refund(market, unit, Refund.INPUT_BAD if is_bad else Refund.INCONCLUSIVE)


def _hand_over(market: InferenceStorage, unit: OpenUnit) -> None:
    for racer in unit.record.racers:  # who had not answered need not any more
        turns.free(market, racer.device, unit.id)
    market.units[unit.id] = replace(unit.record, state=UnitState.JUDGING)
    schedules.drop(market, unit.record.posted_at, unit.id)
    market.emit(UnitDisputed(unit.id))


def _settle_batch(market: InferenceStorage, unit: OpenUnit, result: RaceResult) -> None:
    record, root = unit.record, result.output_root
    fee = money.check_fee(record.rules, record.price, record.terms.requests)
    settlement.settle(market, unit, result, is_watched=True, aside=(Hold(LEAF_FEE, unit.id), fee))
    answerers = (racer for racer in record.racers if racer.reveal is not None and racer.reveal.output_root == root)
    terms = CheckTerms(
        handler=market.index,
        customer=record.customer,
        output_root=root,
        requests=record.terms.requests,
        allowed=-(-money.work_allowed(record) // TOKEN),
        input_share=record.input_share,
        price=money.due(record, result.winner),
        collateral=money.collateral(record.rules, record.price),
        fee=fee,
        judge_fee=money.fee_of_judge(record.rules, record.price),
        rate_ppm=record.leaf_audit_ppm,
        sealed_at=record.terms.sealed_at,
        run_blocks=market.longest_commit_window(record),
        excluded=_outside(record),
        answerers=tuple(Answerer(racer.owner, racer.collateral) for racer in answerers),
    )
    market.leaf_checks.open(unit.id, terms)


def _terms(market: InferenceStorage, record: Unit, *, paid: int | None = None) -> CaseTerms:
    """What a case is about. Of a unit that is paid for, nothing of its customer's is held any more."""
    is_paid = paid is not None
    claims = tuple(
        claim
        for racer in _involved(record)
        # beside answers that agreed, withholding was punished when these were paid
        if (claim := _claim(racer)) is not None and not (is_paid and claim.kind is ClaimKind.WITHHELD)
    )
    has_spare = not is_paid and record.terms.racers > 1
    return CaseTerms(
        customer=record.customer,
        price=record.price if paid is None else paid,
        customer_bond=0 if is_paid else record.bond,
        customer_price=0 if is_paid else record.price,
        customer_spare=money.spare(record.rules, record.price) if has_spare else 0,
        collateral=money.collateral(record.rules, record.price),
        pot_max=FIRST_JUDGES * _promised(record).fee,
        sealed_at=record.terms.sealed_at,
        run_blocks=market.longest_commit_window(record),
        excluded=_outside(record),
        claims=claims,
    )


def _note_fault(market: InferenceStorage, unit: OpenUnit, party: bytes, fault: PartyFault) -> OpenUnit:
    """Pause the device of who did wrong; the unit with what that holds now."""
    racer = _standing(unit.record, party)
    taken = racer.collateral - market.devices.collateral_of(racer.owner, unit.id)
    market.devices.halt(racer.device, unit.id)
    market.emit(ProviderSlashed(unit.id, racer.owner, racer.device, fault, taken))
    if racer not in unit.record.racers:
        return unit
    racers = race_results.with_racer(unit.record.racers, replace(racer, collateral=racer.collateral - taken))
    market.units[unit.id] = replace(unit.record, racers=racers)
    return _of_case(market, unit.id)


def _end_watch(market: InferenceStorage, unit: OpenUnit, ruling: CaseRuling) -> None:
    root = unit.record.output_root
    is_refuted = isinstance(ruling.verdict, Answered) and ruling.verdict.root != root
    if is_refuted and root is not None:
        market.emit(ResultRefuted(unit.id, root))
    settlement.let_go(market, OpenUnit(unit.id, replace(unit.record, is_refuted=is_refuted)))


def _enforce(market: InferenceStorage, unit: OpenUnit, output_root: bytes) -> None:
    """Pay who revealed the right root in time, or draw the unit again."""
    result = race_results.result(unit.record.racers, output_root)
    if result is None:
        queue.requeue_after_case(market, unit)
    else:
        settlement.settle(market, unit, result)


def _of_case(market: InferenceStorage, unit_id: bytes) -> OpenUnit:
    record = market.units[unit_id]
    assert record is not None, "a unit is there until its case is over"
    return OpenUnit(unit_id, record)


def _involved(record: Unit) -> tuple[Racer, ...]:
    return (*record.racers, *record.decliners)


def _outside(record: Unit) -> tuple[bytes, ...]:
    """Who has to do with the unit, and judges nothing of it."""
    return tuple(dict.fromkeys((*record.declined_by, *(racer.owner for racer in record.racers))))


def _promised(record: Unit) -> PromisedNumbers:
    """What was promised when the unit was posted: who took it stands for it with a collateral reckoned by that."""
    return PromisedNumbers(money.fee_of_judge(record.rules, record.price), record.rules.audit_rate_ppm)


def _sides(record: Unit) -> tuple[Side, ...]:
    """Who answered what, where a dispute is about nothing else, and leaves are what such a batch is looked at by."""
    claims = [claim for racer in _involved(record) if (claim := _claim(racer)) is not None]
    if not record.leaf_audit_ppm or any(claim.kind is not ClaimKind.ANSWERED for claim in claims):
        return ()
    by_root: dict[bytes, tuple[bytes, ...]] = {}
    for claim in claims:
        assert claim.root is not None, "who answered has said what"
        by_root[claim.root] = (*by_root.get(claim.root, ()), claim.account)
    return tuple(Side(root, accounts) for root, accounts in by_root.items()) if len(by_root) > 1 else ()


def _root_of(racer: Racer) -> bytes | None:
    return None if racer.reveal is None else racer.reveal.output_root


def _standing(record: Unit, party: bytes) -> Racer:
    """The racer whose collateral stands for what the party said."""
    assert holds_collateral(record), "parties stand for what they said until the case is over"
    return next(racer for racer in _involved(record) if racer.owner == party)


def _claim(racer: Racer) -> PartyClaim | None:
    """What a racer has said; None for who said nothing, and paid for that already or was shut out."""
    if racer.reveal is not None:
        return PartyClaim(racer.owner, ClaimKind.ANSWERED, racer.reveal.output_root, racer.collateral)
    if racer.has_declined:
        return PartyClaim(racer.owner, ClaimKind.DECLINED, None, racer.collateral)
    if racer.commitment is not None:
        return PartyClaim(racer.owner, ClaimKind.WITHHELD, None, racer.collateral)
    return None
