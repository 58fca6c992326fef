"""The cases of units: the market as a handler of the courts.

Invariants: a case of a unit has the unit's id, and a unit has at most one case. Its parties pay at most the collateral
that they hold for the unit. A dispute that no bench can decide costs no party anything.
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
    """Open a dispute, because answers differ or several owners declined: a committee decides.

    If the unit is a batch that is checked by its leaves, and only its answers differ, the committee computes one leaf.
    """
    _hand_over(market, unit)
    answer_sides = _sides(unit.record)
    if answer_sides:
        market.leaf_disputes.open(market.index, unit.id, unit.record.terms.requests, answer_sides)
    else:
        market.courts.open(market.index, unit.id, _terms(market, unit.record), _promised(unit.record))


def confirm(market: InferenceStorage, unit: OpenUnit, output_root: bytes) -> None:
    """Let a pair of judges compute a lone answer, although several were wanted, before it is paid.

    Otherwise fast garbage would win by shutting the others out.
    """
    _hand_over(market, unit)
    market.courts.confirm(market.index, unit.id, _terms(market, unit.record), _promised(unit.record), output_root)


def settle(market: InferenceStorage, unit: OpenUnit, result: RaceResult) -> None:
    """Pay for the agreed result, and let the beacon decide about an audit, or draw leaves of a batch."""
    if unit.record.leaf_audit_ppm:
        _settle_batch(market, unit, result)
        return
    settlement.settle(market, unit, result, is_watched=True)
    due_grains = money.due(unit.record, result.winner)
    case_terms, promised = _terms(market, unit.record, paid_grains=due_grains), _promised(unit.record)
    market.courts.watch(market.index, unit.id, case_terms, promised, result.output_root)


def open_late(market: InferenceStorage, unit_id: bytes, owner: bytes, output_root: bytes) -> None:
    """Pass a racer's late opening on to the courts, while its case is open."""
    market.courts.open_late(unit_id, owner, output_root)


def judge_leaf(market: InferenceStorage, unit_id: bytes, claims: Sequence[tuple[bytes, bytes]]) -> None:
    """Open the case about one leaf: each root with its claim about the leaf."""
    record, claim_of = _of_case(market, unit_id).record, dict(claims)
    leaf_claims = tuple(
        PartyClaim(racer.owner, ClaimKind.ANSWERED, claim_of[claimed_root], racer.collateral)
        for racer in record.racers
        if (claimed_root := _root_of(racer)) in claim_of
    )
    market.courts.open(market.index, unit_id, replace(_terms(market, record), claims=leaf_claims), _promised(record))


def let_fall(market: InferenceStorage, unit_id: bytes, fallen: Sequence[bytes]) -> None:
    """Charge the racers behind these roots all their collateral, as liars: no racer showed the trees."""
    unit = _of_case(market, unit_id)
    racers, price = unit.record.racers, unit.record.price
    # After an earlier charge, by this function or by a verdict, the customer has the price back already.
    # The penalty for idling pays no customer, so idle racers do not count.
    answered = [racer for racer in racers if racer.reveal is not None]
    is_whole = all(racer.collateral == money.collateral(unit.record.rules, price) for racer in answered)
    fallen_racers = [racer for racer in racers if _root_of(racer) in fallen]
    held = [(racer.owner, racer.collateral) for racer in fallen_racers]
    for owner, shares in withheld_shares(price if is_whole else 0, unit.record.customer, held):
        charge_party(market, unit_id, owner, shares)
    for racer in fallen_racers:
        unit = _note_fault(market, unit, racer.owner, PartyFault.LIED)


def agree(market: InferenceStorage, unit_id: bytes, agreed: bytes | None) -> None:
    """Settle with the one remaining answer, and draw its leaves as a lone racer's, or requeue without any."""
    unit = _of_case(market, unit_id)
    result = None if agreed is None else race_results.result(unit.record.racers, agreed)
    if result is None:
        queue.requeue_after_case(market, unit)
    else:
        settle(market, unit, result)


def charge_party(market: InferenceStorage, unit_id: bytes, party: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of a racer's collateral."""
    unit = _of_case(market, unit_id)
    market.devices.charge(_standing(unit.record, party).device, unit_id, shares)


def charge_customer(market: InferenceStorage, unit_id: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of the customer's lock."""
    customer = _of_case(market, unit_id).record.customer
    market.lock.pay_out(customer, Hold(UNIT_MONEY, unit_id), shares)


def carry_out(market: InferenceStorage, unit_id: bytes, ruling: CaseRuling) -> None:
    """Carry out a ruling, after its payments: pay for the right result, draw again, or refund."""
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
    # Racers without an answer have no duty any more: the case needs no new answers.
    for racer in unit.record.racers:
        turns.free(market, racer.device, unit.id)
    market.units[unit.id] = replace(unit.record, state=UnitState.JUDGING)
    schedules.drop(market, unit.record.posted_at, unit.id)
    market.emit(UnitDisputed(unit.id))


def _settle_batch(market: InferenceStorage, unit: OpenUnit, result: RaceResult) -> None:
    record, right_root = unit.record, result.output_root
    auditor_fee = money.check_fee(record.rules, record.price, record.terms.requests)
    # The auditor's fee stays held, because the settlement pays out all the rest.
    settlement.settle(market, unit, result, is_watched=True, set_aside=(Hold(LEAF_FEE, unit.id), auditor_fee))
    answerers = (
        racer for racer in record.racers if racer.reveal is not None and racer.reveal.output_root == right_root
    )
    check_terms = CheckTerms(
        handler=market.index,
        customer=record.customer,
        output_root=right_root,
        requests=record.terms.requests,
        allowed=-(-money.work_allowed(record) // TOKEN),
        input_share=record.input_share,
        price=money.due(record, result.winner),
        collateral=money.collateral(record.rules, record.price),
        fee=auditor_fee,
        judge_fee=money.fee_of_judge(record.rules, record.price),
        rate_ppm=record.leaf_audit_ppm,
        sealed_at=record.terms.sealed_at,
        run_blocks=market.longest_commit_window(record),
        excluded=_outside(record),
        answerers=tuple(Answerer(racer.owner, racer.collateral) for racer in answerers),
    )
    market.leaf_checks.open(unit.id, check_terms)


def _terms(market: InferenceStorage, record: Unit, *, paid_grains: int | None = None) -> CaseTerms:
    """Return the terms of a case. For a paid unit, none of the customer's money is held any more."""
    is_paid = paid_grains is not None
    claims = tuple(
        claim
        for racer in _involved(record)
        # Beside agreeing answers, withholding was punished at their payment.
        if (claim := _claim(racer)) is not None and not (is_paid and claim.kind is ClaimKind.WITHHELD)
    )
    has_spare = not is_paid and record.terms.racers > 1
    return CaseTerms(
        customer=record.customer,
        price=record.price if paid_grains is None else paid_grains,
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
    """Pause the device of a party at fault. Return the unit with the collateral that it still holds."""
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
    paid_root = unit.record.output_root
    is_refuted = isinstance(ruling.verdict, Answered) and ruling.verdict.root != paid_root
    if is_refuted and paid_root is not None:
        market.emit(ResultRefuted(unit.id, paid_root))
    settlement.let_go(market, OpenUnit(unit.id, replace(unit.record, is_refuted=is_refuted)))


def _enforce(market: InferenceStorage, unit: OpenUnit, output_root: bytes) -> None:
    """Pay the racers that revealed the right root in time, or draw the unit again."""
    result = race_results.result(unit.record.racers, output_root)
    if result is None:
        queue.requeue_after_case(market, unit)
    else:
        settlement.settle(market, unit, result)


def _of_case(market: InferenceStorage, unit_id: bytes) -> OpenUnit:
    record = market.units[unit_id]
    assert record is not None, "a unit's record outlives its case"
    return OpenUnit(unit_id, record)


def _involved(record: Unit) -> tuple[Racer, ...]:
    return (*record.racers, *record.decliners)


def _outside(record: Unit) -> tuple[bytes, ...]:
    """Return the owners that have a part in the unit and may not judge it."""
    return tuple(dict.fromkeys((*record.declined_by, *(racer.owner for racer in record.racers))))


def _promised(record: Unit) -> PromisedNumbers:
    """Return the numbers promised at the unit's post, by which its racers' collateral was computed."""
    return PromisedNumbers(money.fee_of_judge(record.rules, record.price), record.rules.audit_rate_ppm)


def _sides(record: Unit) -> tuple[Side, ...]:
    """Return the answers with their accounts, if the dispute of a leaf-checked batch is about them alone.

    Return an empty tuple for any other dispute.
    """
    claims = [claim for racer in _involved(record) if (claim := _claim(racer)) is not None]
    if not record.leaf_audit_ppm or any(claim.kind is not ClaimKind.ANSWERED for claim in claims):
        return ()
    accounts_by_root: dict[bytes, tuple[bytes, ...]] = {}
    for claim in claims:
        assert claim.root is not None, "an answered claim has a root"
        accounts_by_root[claim.root] = (*accounts_by_root.get(claim.root, ()), claim.account)
    return (
        tuple(Side(root, accounts) for root, accounts in accounts_by_root.items()) if len(accounts_by_root) > 1 else ()
    )


def _root_of(racer: Racer) -> bytes | None:
    return None if racer.reveal is None else racer.reveal.output_root


def _standing(record: Unit, party: bytes) -> Racer:
    """Return the racer whose collateral is liable for the party's claim."""
    assert holds_collateral(record), "collateral is held until the case is over"
    return next(racer for racer in _involved(record) if racer.owner == party)


def _claim(racer: Racer) -> PartyClaim | None:
    """Return a racer's claim, or None for a racer without a commitment.

    Such a racer has paid for its miss already, or commits closed before its time was over.
    """
    if racer.reveal is not None:
        return PartyClaim(racer.owner, ClaimKind.ANSWERED, racer.reveal.output_root, racer.collateral)
    if racer.has_declined:
        return PartyClaim(racer.owner, ClaimKind.DECLINED, None, racer.collateral)
    if racer.commitment is not None:
        return PartyClaim(racer.owner, ClaimKind.WITHHELD, None, racer.collateral)
    return None
