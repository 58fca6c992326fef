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


def dispute(market: InferenceStorage, open_unit: OpenUnit) -> None:
    """Open a dispute, because answers differ or several owners declined: a committee decides.

    If the unit is a batch that is checked by its leaves, and only its answers differ, the committee computes one leaf.
    """
    _hand_over(market, open_unit)
    answer_sides = _sides(open_unit.record)
    if answer_sides:
        market.leaf_disputes.open(market.index, open_unit.id, open_unit.record.terms.requests, answer_sides)
    else:
        market.courts.open(market.index, open_unit.id, _terms(market, open_unit.record), _promised(open_unit.record))


def confirm(market: InferenceStorage, open_unit: OpenUnit, output_root: bytes) -> None:
    """Let a pair of judges compute a lone answer, although several were wanted, before it is paid.

    Otherwise fast garbage would win by shutting the others out.
    """
    _hand_over(market, open_unit)
    market.courts.confirm(
        market.index, open_unit.id, _terms(market, open_unit.record), _promised(open_unit.record), output_root
    )


def settle(market: InferenceStorage, open_unit: OpenUnit, race_result: RaceResult) -> None:
    """Pay for the agreed result, and let the beacon decide about an audit, or draw leaves of a batch."""
    if open_unit.record.leaf_audit_ppm:
        _settle_batch(market, open_unit, race_result)
        return
    settlement.settle(market, open_unit, race_result, is_watched=True)
    due_grains = money.due(open_unit.record, race_result.winner)
    case_terms, promised = _terms(market, open_unit.record, paid_grains=due_grains), _promised(open_unit.record)
    market.courts.watch(market.index, open_unit.id, case_terms, promised, race_result.output_root)


def open_late(market: InferenceStorage, unit_id: bytes, owner_stash: bytes, output_root: bytes) -> None:
    """Pass a racer's late opening on to the courts, while its case is open."""
    market.courts.open_late(unit_id, owner_stash, output_root)


def judge_leaf(market: InferenceStorage, unit_id: bytes, claims_by_root: Sequence[tuple[bytes, bytes]]) -> None:
    """Open the case about one leaf: each root with its claim about the leaf."""
    unit_record, claim_of = _of_case(market, unit_id).record, dict(claims_by_root)
    leaf_claims = tuple(
        PartyClaim(racer.owner, ClaimKind.ANSWERED, claim_of[claimed_root], racer.collateral)
        for racer in unit_record.racers
        if (claimed_root := _root_of(racer)) in claim_of
    )
    market.courts.open(
        market.index, unit_id, replace(_terms(market, unit_record), claims=leaf_claims), _promised(unit_record)
    )


def let_fall(market: InferenceStorage, unit_id: bytes, fallen_roots: Sequence[bytes]) -> None:
    """Charge the racers behind these roots all their collateral, as liars: no racer showed the trees."""
    open_unit = _of_case(market, unit_id)
    racers, race_price = open_unit.record.racers, open_unit.record.price
    # After an earlier charge, by this function or by a verdict, the customer has the price back already.
    # The penalty for idling pays no customer, so idle racers do not count.
    answered = [racer for racer in racers if racer.reveal is not None]
    is_whole = all(racer.collateral == money.collateral(open_unit.record.rules, race_price) for racer in answered)
    fallen_racers = [racer for racer in racers if _root_of(racer) in fallen_roots]
    held_collateral = [(racer.owner, racer.collateral) for racer in fallen_racers]
    for owner_stash, paid_shares in withheld_shares(
        race_price if is_whole else 0, open_unit.record.customer, held_collateral
    ):
        charge_party(market, unit_id, owner_stash, paid_shares)
    for racer in fallen_racers:
        open_unit = _note_fault(market, open_unit, racer.owner, PartyFault.LIED)


def agree(market: InferenceStorage, unit_id: bytes, agreed_root: bytes | None) -> None:
    """Settle with the one remaining answer, and draw its leaves as a lone racer's, or requeue without any."""
    open_unit = _of_case(market, unit_id)
    race_result = None if agreed_root is None else race_results.result(open_unit.record.racers, agreed_root)
    if race_result is None:
        queue.requeue_after_case(market, open_unit)
    else:
        settle(market, open_unit, race_result)


def charge_party(market: InferenceStorage, unit_id: bytes, party: bytes, paid_shares: Sequence[Share]) -> None:
    """Pay the shares out of a racer's collateral."""
    open_unit = _of_case(market, unit_id)
    market.devices.charge(_standing(open_unit.record, party).device, unit_id, paid_shares)


def charge_customer(market: InferenceStorage, unit_id: bytes, paid_shares: Sequence[Share]) -> None:
    """Pay the shares out of the customer's lock."""
    customer = _of_case(market, unit_id).record.customer
    market.lock.pay_out(customer, Hold(UNIT_MONEY, unit_id), paid_shares)


def carry_out(market: InferenceStorage, unit_id: bytes, ruling: CaseRuling) -> None:
    """Carry out a ruling, after its payments: pay for the right result, draw again, or refund."""
    open_unit = _of_case(market, unit_id)
    for party, fault in ruling.faults:
        open_unit = _note_fault(market, open_unit, party, fault)
    for party in ruling.expelled:
        market.devices.expel(party, ruling.expelled_until)
    if open_unit.record.state is UnitState.SETTLED:
        _end_watch(market, open_unit, ruling)
    elif isinstance(ruling.verdict, Answered):
        if market.leaf_disputes.is_disputed(unit_id):
            market.leaf_disputes.narrow(unit_id, ruling.verdict.root)
        else:
            _enforce(market, open_unit, ruling.verdict.root)
    else:
        if market.leaf_disputes.is_disputed(unit_id):
            market.leaf_disputes.close(unit_id)
        is_bad = isinstance(ruling.verdict, Unanswerable)
        settlement.refund(market, open_unit, Refund.INPUT_BAD if is_bad else Refund.INCONCLUSIVE)


def _hand_over(market: InferenceStorage, open_unit: OpenUnit) -> None:
    # Racers without an answer have no duty any more: the case needs no new answers.
    for racer in open_unit.record.racers:
        turns.free(market, racer.device, open_unit.id)
    market.units[open_unit.id] = replace(open_unit.record, state=UnitState.JUDGING)
    schedules.drop(market, open_unit.record.posted_at, open_unit.id)
    market.emit(UnitDisputed(open_unit.id))


def _settle_batch(market: InferenceStorage, open_unit: OpenUnit, race_result: RaceResult) -> None:
    unit_record, right_root = open_unit.record, race_result.output_root
    auditor_fee = money.check_fee(unit_record.rules, unit_record.price, unit_record.terms.requests)
    # The auditor's fee stays held, because the settlement pays out all the rest.
    settlement.settle(
        market, open_unit, race_result, is_watched=True, set_aside=(Hold(LEAF_FEE, open_unit.id), auditor_fee)
    )
    answerers = (
        racer for racer in unit_record.racers if racer.reveal is not None and racer.reveal.output_root == right_root
    )
    check_terms = CheckTerms(
        handler=market.index,
        customer=unit_record.customer,
        output_root=right_root,
        requests=unit_record.terms.requests,
        allowed=-(-money.work_allowed(unit_record) // TOKEN),
        input_share=unit_record.input_share,
        price=money.due(unit_record, race_result.winner),
        collateral=money.collateral(unit_record.rules, unit_record.price),
        fee=auditor_fee,
        judge_fee=money.fee_of_judge(unit_record.rules, unit_record.price),
        rate_ppm=unit_record.leaf_audit_ppm,
        sealed_at=unit_record.terms.sealed_at,
        run_blocks=market.longest_commit_window(unit_record),
        excluded=_outside(unit_record),
        answerers=tuple(Answerer(racer.owner, racer.collateral) for racer in answerers),
    )
    market.leaf_checks.open(open_unit.id, check_terms)


def _terms(market: InferenceStorage, unit_record: Unit, *, paid_grains: int | None = None) -> CaseTerms:
    """Return the terms of a case. For a paid unit, none of the customer's money is held any more."""
    is_paid = paid_grains is not None
    party_claims = tuple(
        party_claim
        for racer in _involved(unit_record)
        # Beside agreeing answers, withholding was punished at their payment.
        if (party_claim := _claim(racer)) is not None and not (is_paid and party_claim.kind is ClaimKind.WITHHELD)
    )
    has_spare = not is_paid and unit_record.terms.racers > 1
    return CaseTerms(
        customer=unit_record.customer,
        price=unit_record.price if paid_grains is None else paid_grains,
        customer_bond=0 if is_paid else unit_record.bond,
        customer_price=0 if is_paid else unit_record.price,
        customer_spare=money.spare(unit_record.rules, unit_record.price) if has_spare else 0,
        collateral=money.collateral(unit_record.rules, unit_record.price),
        pot_max=FIRST_JUDGES * _promised(unit_record).fee,
        sealed_at=unit_record.terms.sealed_at,
        run_blocks=market.longest_commit_window(unit_record),
        excluded=_outside(unit_record),
        claims=party_claims,
    )


def _note_fault(market: InferenceStorage, open_unit: OpenUnit, party: bytes, party_fault: PartyFault) -> OpenUnit:
    """Pause the device of a party at fault. Return the unit with the collateral that it still holds."""
    faulty_racer = _standing(open_unit.record, party)
    taken_grains = faulty_racer.collateral - market.devices.collateral_of(faulty_racer.owner, open_unit.id)
    market.devices.halt(faulty_racer.device, open_unit.id)
    market.emit(ProviderSlashed(open_unit.id, faulty_racer.owner, faulty_racer.device, party_fault, taken_grains))
    if faulty_racer not in open_unit.record.racers:
        return open_unit
    updated_racers = race_results.with_racer(
        open_unit.record.racers, replace(faulty_racer, collateral=faulty_racer.collateral - taken_grains)
    )
    market.units[open_unit.id] = replace(open_unit.record, racers=updated_racers)
    return _of_case(market, open_unit.id)


def _end_watch(market: InferenceStorage, open_unit: OpenUnit, ruling: CaseRuling) -> None:
    paid_root = open_unit.record.output_root
    is_refuted = isinstance(ruling.verdict, Answered) and ruling.verdict.root != paid_root
    if is_refuted and paid_root is not None:
        market.emit(ResultRefuted(open_unit.id, paid_root))
    settlement.let_go(market, OpenUnit(open_unit.id, replace(open_unit.record, is_refuted=is_refuted)))


def _enforce(market: InferenceStorage, open_unit: OpenUnit, output_root: bytes) -> None:
    """Pay the racers that revealed the right root in time, or draw the unit again."""
    race_result = race_results.result(open_unit.record.racers, output_root)
    if race_result is None:
        queue.requeue_after_case(market, open_unit)
    else:
        settlement.settle(market, open_unit, race_result)


def _of_case(market: InferenceStorage, unit_id: bytes) -> OpenUnit:
    unit_record = market.units[unit_id]
    assert unit_record is not None, "a unit's record outlives its case"
    return OpenUnit(unit_id, unit_record)


def _involved(unit_record: Unit) -> tuple[Racer, ...]:
    return (*unit_record.racers, *unit_record.decliners)


def _outside(unit_record: Unit) -> tuple[bytes, ...]:
    """Return the owners that have a part in the unit and may not judge it."""
    return tuple(dict.fromkeys((*unit_record.declined_by, *(racer.owner for racer in unit_record.racers))))


def _promised(unit_record: Unit) -> PromisedNumbers:
    """Return the numbers promised at the unit's post, by which its racers' collateral was computed."""
    return PromisedNumbers(money.fee_of_judge(unit_record.rules, unit_record.price), unit_record.rules.audit_rate_ppm)


def _sides(unit_record: Unit) -> tuple[Side, ...]:
    """Return the answers with their accounts, if the dispute of a leaf-checked batch is about them alone.

    Return an empty tuple for any other dispute.
    """
    party_claims = [party_claim for racer in _involved(unit_record) if (party_claim := _claim(racer)) is not None]
    if not unit_record.leaf_audit_ppm or any(
        party_claim.kind is not ClaimKind.ANSWERED for party_claim in party_claims
    ):
        return ()
    accounts_by_root: dict[bytes, tuple[bytes, ...]] = {}
    for party_claim in party_claims:
        assert party_claim.root is not None, "an answered claim has a root"
        accounts_by_root[party_claim.root] = (*accounts_by_root.get(party_claim.root, ()), party_claim.account)
    return (
        tuple(Side(output_root, accounts) for output_root, accounts in accounts_by_root.items())
        if len(accounts_by_root) > 1
        else ()
    )


def _root_of(racer: Racer) -> bytes | None:
    return None if racer.reveal is None else racer.reveal.output_root


def _standing(unit_record: Unit, party: bytes) -> Racer:
    """Return the racer whose collateral is liable for the party's claim."""
    assert holds_collateral(unit_record), "collateral is held until the case is over"
    return next(racer for racer in _involved(unit_record) if racer.owner == party)


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
