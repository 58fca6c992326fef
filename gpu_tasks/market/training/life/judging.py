"""The checks of results, by audit, dispute or fraud proof: the market as a handler of the courts.

A judged slot has a case of its own, under the slot's id. It begins with an audit's pair for any cause, so a customer
that disputes a right result pays its judges. If the task has a trace, the provider first shows the states that the
beacon draws, and judges compute only these segments.

Invariants: no part of a result is paid before its audit is ruled out or decided. A case charges a provider only from
that slot's collateral. The courts' charge for a lie is the whole cost of a lie.
"""

from collections.abc import Sequence
from dataclasses import replace

from gpu_tasks.market.courts.benches import AUDIT_DELAYS, is_audited
from gpu_tasks.market.courts.cases import EXCLUDED_MAX, CaseTerms, ClaimKind, PartyClaim, PartyFault
from gpu_tasks.market.courts.handlers import CaseRuling
from gpu_tasks.market.courts.money import FIRST_JUDGES, CaseOutcome
from gpu_tasks.market.courts.numbers import PromisedNumbers
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.training import money, purses
from gpu_tasks.market.training.events import (
    DoneAlready,
    FraudProven,
    NoSuchSegment,
    NotShown,
    ResultAccepted,
    SegmentsDrawn,
    StatesShown,
    TaskJudged,
    WrongTaskState,
)
from gpu_tasks.market.training.fraud_claims import burn_bond, return_bond
from gpu_tasks.market.training.life import ending
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import is_replicated
from gpu_tasks.market.training.replica_events import ReplicasNotDisputable
from gpu_tasks.market.training.showing import ShownStretch, is_shown, judged_stretches, own_segments
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import (
    TASK_CHALLENGE,
    TASK_DISPUTE,
    TASK_ESCROW,
    Acceptance,
    Challenge,
    JudgedFor,
    Slot,
    Task,
    TaskState,
    slot_case,
    with_slot,
)
from gpu_tasks.market.training.terms import covered
from runtime.frame.holds import Hold
from runtime.frame.pallet import ensure, known
from runtime.pallets.staking.slashing import Share


def take_results(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Take all stated results. The customer may accept or dispute, and the beacon may order an audit."""
    task = replace(task, finished_at=market.height, state=TaskState.SUBMITTED)
    if len({slot.result.root for slot in task.slots if slot.result is not None}) > 1:
        # Partners with different results: one of them must be wrong.
        _have_judged(market, task_id, task, JudgedFor.AUDIT)
        return
    market.put(task_id, replace(task, deadline=market.height + task.windows.accept))
    _await_chance(market, task_id, market.height)


def accept(market: TrainingStorage, task_id: bytes, customer: bytes) -> None:
    """Accept the result. It is paid as soon as the beacon has ruled an audit out."""
    task = market.customers(task_id, customer)
    market.ensure_in(task, TaskState.SUBMITTED)
    ensure(task.accepted is None, DoneAlready)
    market.emit(ResultAccepted(task_id, Acceptance.ACCEPTED))
    # The next block's hook pays: the call would otherwise weigh as much as the settlement.
    market.put(task_id, replace(task, accepted=Acceptance.ACCEPTED, deadline=market.height))


def dispute(market: TrainingStorage, task_id: bytes, customer: bytes, named: int | None) -> None:
    """Dispute the result, with a bond for each slot that pays the judges if the result is right.

    Judges look at a named segment in addition to the drawn parts. So a customer that knows the wrong segment does not
    depend on chance.
    """
    task = market.customers(task_id, customer)
    ensure(not is_replicated(task.order), ReplicasNotDisputable)
    market.ensure_in(task, TaskState.SUBMITTED)
    ensure(task.accepted is None and market.height <= task.finished_at + task.windows.dispute, WrongTaskState)
    ensure(named is None or named in own_segments(task), NoSuchSegment)
    for place, slot in enumerate(task.slots):
        bond_grains = money.dispute_bond(task.rules, task.terms.price_max, slot.price)
        market.lock.lock(customer, Hold(TASK_DISPUTE, slot_case(task_id, place)), bond_grains)
    _have_judged(market, task_id, replace(task, named=named), JudgedFor.DISPUTE)


def show(
    market: TrainingStorage,
    task_id: bytes,
    place: int,
    account: bytes,
    stretches: tuple[ShownStretch, ...],
) -> None:
    """Show the states before and after the drawn stretches of a slot's trace."""
    task, slot = market.worked(task_id, place, account)
    market.ensure_in(task, TaskState.SHOWING)
    ensure(not slot.is_shown, DoneAlready)
    result = known(slot.result, WrongTaskState)
    ensure(task.drawn is not None, WrongTaskState)
    wanted = judged_stretches(task_id, task, place)
    ensure(is_shown(result.root, task.order.segments, wanted, stretches), NotShown)
    market.emit(StatesShown(task_id, place))
    task = with_slot(task, place, replace(slot, is_shown=True))
    is_last = all(other.is_shown for other in task.slots)
    # The next block's hook opens the cases.
    market.put(task_id, replace(task, deadline=market.height) if is_last else task)


def fee_of_case(task: Task, slot: Slot) -> int:
    """Return the fee of each judge of a slot's result."""
    fee_basis = slot.price if task.judged_for is JudgedFor.AUDIT else task.terms.price_max
    return money.fee_of_judge(task.rules, fee_basis)


def judge_challenge(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Let judges compute the segment of a fraud proof. The chance of an audit is drawn as before.

    A liar sees the beacon before it is final, so a friend's wrong proof must not cause a draw by another beacon.
    """
    _open_cases(market, task_id, replace(task, judged_for=JudgedFor.FRAUD_PROOF, close=None))


# ---------------------------------------------------------------------------------------------------- scheduled steps


def take_chance(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Decide about an audit by the beacon's four values, which are final. Without one, a payment may follow."""
    first_height = _chance_from(task)
    values = [market.beacon.value_at(first_height + delay) for delay in AUDIT_DELAYS]
    known = [beacon for beacon in values if beacon is not None]
    # Finality halted for longer than the beacon remembers.
    if len(known) < len(values):
        market.put(task_id, replace(task, beacon_at=market.height))
        _await_chance(market, task_id, market.height)
        return
    is_audit_drawn = is_audited(known, task_id, task.rules.audit_rate_ppm)
    if task.challenge is not None:
        market.put(task_id, replace(task, is_checked=True, is_due=is_audit_drawn))
    elif is_audit_drawn:
        _have_judged(market, task_id, task, JudgedFor.AUDIT)
    elif task.accepted is not None:
        conclude(market, task_id, replace(task, is_checked=True))
    else:
        market.put(task_id, replace(task, is_checked=True))


def end_of_acceptance(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """End the window of acceptance: the customer has accepted, or its silence counts as acceptance."""
    if task.accepted is None:
        task = replace(task, accepted=Acceptance.BY_SILENCE)
        market.emit(ResultAccepted(task_id, Acceptance.BY_SILENCE))
    # A customer and a liar of one owner must not settle before the beacon could order an audit.
    if task.is_checked:
        conclude(market, task_id, task)
    else:
        # The chance of an audit is still to be drawn.
        market.put(task_id, replace(task, deadline=0))


def draw_segments(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Draw the states to show, by the final beacon."""
    seed = market.beacon.value_at(task.beacon_at)
    if seed is None:
        _await_draw(market, task_id, task)
        return
    last_block = market.height + task.windows.show
    market.put(task_id, replace(task, drawn=seed, deadline=last_block))
    market.emit(SegmentsDrawn(task_id, _cause_of(task), last_block))


def end_of_showing(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """End the window of showing: providers that have not shown the drawn states count as liars. Judge the others."""
    for place, slot in enumerate(task.slots):
        if not slot.is_shown:
            purses.settle(market, task_id, task, place, TaskOutcome.LIED)
            task = with_slot(task, place, replace(slot, outcome=TaskOutcome.LIED))
    _open_cases(market, task_id, task)


def conclude(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Settle every slot by its outcome, and end the task."""
    outcomes = [slot.outcome or _unrefuted_outcome(task, slot) for slot in task.slots]
    for place, (slot, outcome) in enumerate(zip(task.slots, outcomes, strict=True)):
        # A lie was settled when it was found.
        if slot.outcome is not TaskOutcome.LIED:
            purses.settle(market, task_id, task, place, outcome)
    ending.free_slots(market, task_id, task)
    settled_slots = tuple(replace(slot, outcome=outcome) for slot, outcome in zip(task.slots, outcomes, strict=True))
    ending.end(market, task_id, replace(task, slots=settled_slots), outcomes[0])


# -------------------------------------------------------------------------------------- the interface to the courts


def charge_party(market: TrainingStorage, case_id: bytes, party: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of the collateral of the case's slot."""
    task_id, task, place = _slot_of_case(market, case_id)
    slot = task.slots[place]
    assert slot.provider == party, "a slot's case has one party, its provider"
    market.lock.pay_out(party, purses.slot_hold(task_id, task, slot), shares)


def charge_customer(market: TrainingStorage, case_id: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of the customer's dispute bond, and the rest out of the escrow."""
    task_id, task, _ = _slot_of_case(market, case_id)
    # The challenger pays the judges of its fraud proof.
    if task.challenge is not None:
        market.lock.pay_out(task.challenge.challenger, Hold(TASK_CHALLENGE, task_id), shares)
        return
    hold = Hold(TASK_DISPUTE, case_id)
    bond_left, from_bond, from_escrow = market.lock.locked(task.customer, hold), [], []
    for share in shares:
        part_from_bond = min(share.amount, bond_left)
        bond_left -= part_from_bond
        from_bond.append(replace(share, amount=part_from_bond))
        from_escrow.append(replace(share, amount=share.amount - part_from_bond))
    market.lock.pay_out(task.customer, hold, from_bond)
    market.lock.pay_out(task.customer, Hold(TASK_ESCROW, case_id), from_escrow)


def carry_out(market: TrainingStorage, case_id: bytes, ruling: CaseRuling) -> None:
    """Carry out a slot's ruling, after its payments. After the last case, the task ends in the next block."""
    task_id, task, place = _slot_of_case(market, case_id)
    slot = task.slots[place]
    outcome = _outcome_of_ruling(task, ruling)
    if outcome is TaskOutcome.LIED:
        purses.note_lie(market, task_id, task, place)
    if task.challenge is not None:
        _settle_challenge(market, task_id, task, task.challenge, ruling)
    for expelled_account in ruling.expelled:
        market.devices.expel(expelled_account, ruling.expelled_until)
    del market.task_of_case[case_id]
    task = replace(with_slot(task, place, replace(slot, outcome=outcome)), cases=task.cases - 1)
    market.put(task_id, task if task.cases else replace(task, deadline=market.height))


def end_of_case(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """End the cases of a task: settle it, or after a wrong fraud proof give the customer its full window again."""
    if task.challenge is None:
        conclude(market, task_id, task)
        return
    challenged = task.slots[task.challenge.place]
    if challenged.outcome is None:
        # The chance of an audit stays that of the first result: a friend's wrong proof must not draw another one.
        task = replace(task, beacon_at=_chance_from(task), finished_at=market.height)
        task = replace(task, state=TaskState.SUBMITTED, challenge=None, judged_for=None)
        if task.is_due:
            _have_judged(market, task_id, replace(task, is_due=False), JudgedFor.AUDIT)
            return
        market.put(task_id, replace(task, deadline=market.height + task.windows.accept))
        return
    # All slots of a gang have stated this one root, so a lie in it is a lie of each of them.
    for place, slot in enumerate(task.slots):
        if slot.outcome is None:
            if challenged.outcome is TaskOutcome.LIED:
                purses.settle(market, task_id, task, place, TaskOutcome.LIED)
            task = with_slot(task, place, replace(slot, outcome=challenged.outcome))
    conclude(market, task_id, task)


def _settle_challenge(
    market: TrainingStorage, task_id: bytes, task: Task, challenge: Challenge, ruling: CaseRuling
) -> None:
    """Pay the challenger, burn its bond, or return the bond if there was no decision."""
    slot = task.slots[challenge.place]
    if any(fault is PartyFault.LIED for _, fault in ruling.faults):
        hold = purses.slot_hold(task_id, task, slot)
        reward_grains = min(challenge.reward, market.lock.locked(slot.provider, hold))
        market.lock.pay_out(slot.provider, hold, (Share(challenge.challenger, reward_grains),))
        market.emit(FraudProven(task_id, challenge.place, challenge.challenger, reward_grains))
    elif isinstance(ruling.verdict, Answered):
        burn_bond(market, task_id, challenge)
    return_bond(market, task_id, challenge.challenger)


def _outcome_of_ruling(task: Task, ruling: CaseRuling) -> TaskOutcome | None:
    """Return the outcome of a slot after a ruling, or None if it is paid as without a case."""
    if any(fault is PartyFault.LIED for _, fault in ruling.faults):
        return TaskOutcome.LIED
    if isinstance(ruling.verdict, Unanswerable):
        return TaskOutcome.INPUT_MISSING
    if task.judged_for is JudgedFor.INPUT:
        # It does not work on. The courts have already charged a false report.
        return TaskOutcome.PARTNER_DIED
    if task.judged_for is not JudgedFor.DISPUTE:
        return None
    # A disputing customer must give the judges something to look at, or it could hide its input and not pay.
    is_right = isinstance(ruling.verdict, Answered) or ruling.outcome is CaseOutcome.UNHEARD
    return TaskOutcome.DISPUTED_FALSELY if is_right else TaskOutcome.UNDECIDED


def _unrefuted_outcome(task: Task, slot: Slot) -> TaskOutcome:
    """Return the outcome of a slot with an unrefuted result."""
    if task.accepted is Acceptance.BY_SILENCE:
        return TaskOutcome.ACCEPTED_BY_SILENCE
    is_late = slot.taken > slot.promised
    return TaskOutcome.LATE if is_late else TaskOutcome.ON_TIME


def _have_judged(market: TrainingStorage, task_id: bytes, task: Task, judged_for: JudgedFor) -> None:
    """Have the results of a task judged, after its states were shown if it has a trace."""
    market.final_agenda.drop(task_id)
    task = replace(task, state=TaskState.SHOWING, judged_for=judged_for, is_checked=True, close=None)
    if task.order.segments:
        _await_draw(market, task_id, task)
    else:
        _open_cases(market, task_id, task)


def _await_draw(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    market.await_beacon(task_id, task)


def _chance_from(task: Task) -> int:
    """Return the height from which the beacons that may order an audit are counted."""
    return task.beacon_at or task.finished_at


def _await_chance(market: TrainingStorage, task_id: bytes, first_height: int) -> None:
    market.final_agenda.put(first_height + AUDIT_DELAYS[-1], task_id)


def _open_cases(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Open a case for each slot without an outcome, or for the slot of a fraud proof."""
    judged_places = [place for place, slot in enumerate(task.slots) if slot.outcome is None]
    if task.challenge is not None:
        judged_places = [task.challenge.place]
    if not judged_places:
        conclude(market, task_id, task)
        return
    market.put(task_id, replace(task, state=TaskState.JUDGED, deadline=0, cases=len(judged_places)))
    for place in judged_places:
        case_id, slot = slot_case(task_id, place), task.slots[place]
        promised = PromisedNumbers(fee_of_case(task, slot), task.rules.audit_rate_ppm)
        assert slot.result is not None, "a judged slot has a result"
        # The courts know a case by its id alone.
        market.task_of_case[case_id] = task_id
        terms = _case_terms(market, task_id, task, place, promised.fee)
        market.courts.confirm(market.index, case_id, terms, promised, slot.result.root)
    market.emit(TaskJudged(task_id, _cause_of(task)))


def _case_terms(market: TrainingStorage, task_id: bytes, task: Task, place: int, judge_fee: int) -> CaseTerms:
    slot, case_id = task.slots[place], slot_case(task_id, place)
    assert slot.result is not None
    held = market.lock.locked(slot.provider, purses.slot_hold(task_id, task, slot))
    customer_price = min(FIRST_JUDGES * judge_fee, market.lock.locked(task.customer, Hold(TASK_ESCROW, case_id)))
    spare_grains = market.lock.locked(task.customer, Hold(TASK_DISPUTE, case_id))
    pot_grains = money.pot_max(task.rules, slot.price)
    # The challenger or the liar pays these judges. Otherwise a challenger could accuse itself to let the pot pay its
    # own judges.
    if task.challenge is not None:
        held, customer_price, spare_grains, pot_grains = (
            held - task.challenge.reward,
            0,
            task.challenge.bond,
            0,
        )
    other_providers = [other.provider for other in task.slots if other.provider != slot.provider]
    challenger = [task.challenge.challenger] if task.challenge is not None else []
    return CaseTerms(
        customer=task.customer,
        price=covered(task.terms.price_max, slot.collateral),
        customer_bond=0,  # A half of the bond is due to the provider if the input is missing.
        customer_price=customer_price,
        customer_spare=spare_grains,
        collateral=slot.collateral,
        pot_max=pot_grains,
        sealed_at=task.order.sealed_at,
        run_blocks=task.order.run_blocks,
        excluded=tuple(dict.fromkeys((*challenger, *other_providers)))[:EXCLUDED_MAX],
        claims=(PartyClaim(slot.provider, ClaimKind.ANSWERED, slot.result.root, held),),
    )


def _cause_of(task: Task) -> JudgedFor:
    assert task.judged_for is not None, "a case has a cause"
    return task.judged_for


def _slot_of_case(market: TrainingStorage, case_id: bytes) -> tuple[bytes, Task, int]:
    """Return the task and the place of a slot that is before the courts."""
    task_id = market.task_of_case[case_id]
    assert task_id is not None, "an open case has a task"
    task = market.tasks[task_id]
    assert task is not None, "a task's record outlives its cases"
    place = next(place for place in range(len(task.slots)) if slot_case(task_id, place) == case_id)
    return task_id, task, place
