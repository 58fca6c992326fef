"""The payments, losses and returns of each party of a task, to the grain.

Some ends follow from the record by the money table, while the chain keeps the record. The others come from the events
of their blocks.

Invariants:

* An unknown amount is None, with the reason. It is never guessed.
* All money that leaves a purse reaches a payee, or burns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cli.output import Account
from gpu_tasks.client.offers.outlook import grains_of
from gpu_tasks.client.tasks.shifts import TaskEvents, WorkShift
from gpu_tasks.market.courts.cases import AUDIT_POT
from gpu_tasks.market.courts.money import Purse
from gpu_tasks.market.training import events, money
from gpu_tasks.market.training.life.submitting import looks
from gpu_tasks.market.training.money import TaskFlow, TaskMoney, TaskOutcome, TaskPayee, TaskPurse
from gpu_tasks.market.training.orders import JURORS, is_by_time, is_replicated
from gpu_tasks.market.training.tasks import JudgedFor, Task, TaskState, kept_step, slot_case, taken_by
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.market.training.time_paid import end_flows, interval_flows
from gpu_tasks.tasks.task_check import AuctionRecords, selection_of
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.slashing import part

PAYMENT_COLUMNS = ("party", "account", "paid", "lost", "returned", "for")
BY_RECORD = (
    TaskOutcome.ON_TIME, TaskOutcome.LATE, TaskOutcome.ACCEPTED_BY_SILENCE, TaskOutcome.CANCELLED_BEFORE_START,
    TaskOutcome.CANCELLED_RUNNING, TaskOutcome.INPUT_MISSING,
)  # fmt: skip
"""Ends for which the record of an ended task has all inputs of the money table."""
CUSTOMERS = (TaskPurse.ESCROW, TaskPurse.CUSTOMER_BOND, TaskPurse.DISPUTE_BOND)
JUDGES = "the payments of its judges"
OF_CASES = (Purse.CUSTOMER_BOND, Purse.CUSTOMER_PRICE, Purse.CUSTOMER_SPARE)


Purses = Mapping[TaskPurse, int]
LEAVERS = (TaskOutcome.LEFT, TaskOutcome.DIED)
AGREED = (TaskOutcome.CLOSED,)
"""Ends with sums that the record lacks."""


def time_flows(
    task: Task, shift: WorkShift, terms: TaskTerms, told: TaskEvents, held: Purses
) -> tuple[TaskFlow, ...] | None:
    """Return all flows of a shift that sold time. `held` is the money locked when its leg began."""
    outcome = shift.outcome
    assert outcome is not None, "an ended task has an outcome"
    if shift.slot in task.slots:
        end = _told_end(task, terms, shift) if outcome in AGREED else end_flows(task, shift.slot, outcome, held)
        return None if end is None else (*interval_flows(task, shift.slot), *end)
    if outcome not in LEAVERS:
        return _told_end(task, terms, shift)
    intervals, end = _told_intervals(task, shift, told), _told_end(task, terms, shift)
    if intervals is not None and end is not None:
        return (*intervals, *end)
    return _left(task, shift, terms, held)


def _left(task: Task, shift: WorkShift, terms: TaskTerms, held: Purses) -> tuple[TaskFlow, ...] | None:
    """Return the flows of a first provider with a successor, by the record: the intervals behind are its own."""
    is_followed = bool(task.slots) or task.state is TaskState.ASKING
    if shift.auction != 1 or task.auction != 1 or not is_followed:
        return None
    slot = replace(shift.slot, promised=terms.blocks_max)
    leg = replace(task, terms=terms, milestones=task.order.milestones, owed=task.behind, slots=(slot,))
    return (*interval_flows(leg, slot), *end_flows(leg, slot, TaskOutcome.LEFT, held))


def _told_intervals(task: Task, shift: WorkShift, told: TaskEvents) -> tuple[TaskFlow, ...] | None:
    """Return the interval flows of an ended shift by events. None if the events do not reach its beginning."""
    settled = [event for _, event in told.of(events.SlotSettled)]
    if shift.event is None:
        return None
    flows: list[TaskFlow] = []
    for event in settled[next(at for at, each in enumerate(settled) if each is shift.event) + 1 :]:
        if event.outcome is not TaskOutcome.INTERVAL_PAID:
            return tuple(flows)
        flows += _earned(task, event.earned)
    return tuple(flows) if told.is_whole else None


def _told_end(task: Task, terms: TaskTerms, shift: WorkShift) -> tuple[TaskFlow, ...] | None:
    """Return the flows in the event of an end."""
    return None if shift.event is None else _sums_of(task, terms, shift.event)


def _sums_of(task: Task, terms: TaskTerms, event: events.SlotSettled) -> tuple[TaskFlow, ...]:
    """Return the two sums of an event as flows, by the rules of its outcome."""
    to_customer = event.lost
    if event.outcome in LEAVERS:
        to_customer = min(event.lost, terms.loss)
    elif event.outcome in (TaskOutcome.NOT_STARTED, TaskOutcome.STANDBY_NOT_STARTED):
        to_customer = event.lost // 2
    flows = (
        *_earned(task, event.earned),
        TaskFlow(TaskPurse.COLLATERAL, TaskPayee.CUSTOMER, to_customer),
        TaskFlow(TaskPurse.COLLATERAL, TaskPayee.BURNED, event.lost - to_customer),
    )
    return tuple(flow for flow in flows if flow.amount)


def _earned(task: Task, amount: int) -> tuple[TaskFlow, ...]:
    fee = part(amount, task.rules.settlement_fee)
    flows = (
        TaskFlow(TaskPurse.ESCROW, TaskPayee.PROVIDER, amount - fee), TaskFlow(TaskPurse.ESCROW, TaskPayee.FEE, fee),
    )  # fmt: skip
    return tuple(flow for flow in flows if flow.amount)


@dataclass(slots=True)
class PartySum:
    """The sums of one party of a task. None stands for an amount that is unknown, or not yet decided."""

    party: str
    account: bytes | None
    paid: int | None = 0
    lost: int | None = 0
    returned: int | None = None
    why: str = ""


@dataclass(slots=True)
class TaskAccount:
    """The parties of a task, and the payments that are unknown."""

    task_id: bytes
    task: Task
    told: TaskEvents
    price_most: int = 0
    """The greatest price of all legs."""
    parties: list[PartySum] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    to_customer: int = 0
    from_customer: int = 0
    fees: int = 0
    pot: int = 0
    burned: int = 0

    def take(self, flows: Iterable[TaskFlow]) -> tuple[int, int]:
        """Note flows, and return the payment and the loss of the provider among them."""
        paid = lost = 0
        for flow in flows:
            if flow.purse in CUSTOMERS:
                self.from_customer += flow.amount
            else:
                lost += flow.amount
            match flow.payee:
                case TaskPayee.PROVIDER | TaskPayee.STANDBY:
                    paid += flow.amount
                case TaskPayee.CUSTOMER:
                    self.to_customer += flow.amount
                case TaskPayee.FEE:
                    treasury, burned = money.fee_parts(flow.amount)
                    self.fees, self.burned = self.fees + treasury, self.burned + burned
                case TaskPayee.POT:
                    self.pot += flow.amount
                case TaskPayee.BURNED:
                    self.burned += flow.amount
        return paid, lost

    def cost(self, step_fee: int) -> int | None:
        """Return the customer's cost so far, prepaid amounts included, fees apart; None if some payment is unknown."""
        if self.unknown:
            return None
        order = self.task.order
        jurors = JURORS if is_replicated(order) else 0
        prepaid = step_fee * looks(order.auctions, order.slots + jurors, order.milestones if is_by_time(order) else 0)
        return prepaid + self.from_customer - self.to_customer

    def miss(self, what: str) -> None:
        """Note that something cannot be told any more."""
        self.unknown.append(what)


def payments_of_task(
    task_id: bytes,
    task: Task,
    auctions: Sequence[AuctionRecords],
    shifts: Sequence[WorkShift],
    told: TaskEvents,
    held: Mapping[int, int],
) -> TaskAccount:
    """Return the payments, losses and returns of all parties.

    `held` is the number of confirmed milestones by auction.
    """
    prices = (task.order.price_max, *(each.award.terms.price_max for each in auctions if each.award is not None))
    found = TaskAccount(task_id, task, told, max(prices))
    for shift in shifts:
        found.parties.append(_of_shift(found, shift, auctions[shift.auction - 1], held))
    for number, records in enumerate(auctions, 1):
        _standby(found, number, records, [each for each in shifts if each.auction == number])
        _unseen(found, number, records, shifts)
        _unopened(found, records)
    _challengers(found)
    _judges(found)
    _rest(found, auctions)
    return found


def payment_rows(found: TaskAccount) -> list[dict[str, Any]]:
    """Return the parties as rows."""
    return [
        {
            "party": each.party,
            "account": None if each.account is None else Account(each.account),
            **{name: grains_of(getattr(each, name)) for name in ("paid", "lost", "returned")},
            "for": each.why,
        }
        for each in found.parties
    ]


# ------------------------------------------------------------------------------------------------------- who worked


def _of_shift(found: TaskAccount, shift: WorkShift, records: AuctionRecords, held: Mapping[int, int]) -> PartySum:
    role = "provider (took over)" if shift.took_over else "provider"
    party = PartySum(role, shift.provider)
    if not shift.is_over:
        party.why = "nothing yet: it still works"
        if is_by_time(found.task.order) and (paid := interval_flows(found.task, shift.slot)):
            party.paid, _ = found.take(paid)
            party.why = "intervals so far: it still works"
        return party
    flows = None if shift.outcome is None else _flows(found, shift, records, held)
    if shift.outcome is TaskOutcome.LIED and not is_replicated(found.task.order):
        party.paid, party.lost = _liar(found, shift)
    elif flows is None:
        party.paid = party.lost = None
    else:
        party.paid, party.lost = found.take(flows)
    name = "" if shift.outcome is None else shift.outcome.name.lower().replace("_", " ")
    party.why = name or "dropped out"
    if party.lost is None:
        found.miss(f"the settlement of place {shift.place} in auction {shift.auction}")
    else:
        party.returned = shift.slot.collateral - party.lost
    return party


def _flows(
    found: TaskAccount, shift: WorkShift, records: AuctionRecords, held: Mapping[int, int]
) -> tuple[TaskFlow, ...] | None:
    """Return the flows of a shift's end by the money table, or None if an input is unknown."""
    outcome, task = shift.outcome, found.task
    assert outcome is not None, "an ended task has an outcome"
    terms = task.terms if records.award is None else records.award.terms
    if is_by_time(task.order):
        return time_flows(task, shift, terms, found.told, _purses(found, terms, shift))
    # The places of replicas keep all inputs of the money table.
    if shift.slot in task.slots and (outcome in BY_RECORD or is_replicated(task.order)):
        return money.settle(outcome, _at_end(found, shift, terms))
    if shift.event is not None:
        return _told_flows(found, terms, shift, shift.event)
    if outcome is TaskOutcome.DIED and shift.auction in held:
        state = TaskMoney(
            task.rules,
            terms,
            _purses(found, terms, shift),
            price=shift.slot.price,
            collateral=shift.slot.collateral,
            promised=shift.slot.promised,
            milestones=task.order.milestones,
            done=held[shift.auction],
        )
        return money.settle(outcome, state)
    return None


def _at_end(found: TaskAccount, shift: WorkShift, terms: TaskTerms) -> TaskMoney:
    """Return a slot of an ended task as the money table reads it."""
    task, slot = found.task, shift.slot
    height = task.deadline - task.windows.keep
    until = slot.finished_at or height
    return TaskMoney(
        rules=task.rules,
        terms=task.terms,
        held=_purses(found, terms, shift),
        price=slot.price,
        collateral=slot.collateral,
        promised=slot.promised,
        added=slot.added,
        elapsed=until - task.started_at if task.started_at else 0,
        stated=kept_step(task),
        taken=taken_by(task, slot, height),
        milestones=task.milestones,
        done=task.owed,
    )


def _purses(found: TaskAccount, terms: TaskTerms, shift: WorkShift) -> dict[TaskPurse, int]:
    """Return the money locked for a leg.

    The bond follows from the greatest price of all legs, because it never shrinks.
    """
    rules = found.task.rules
    return {
        TaskPurse.ESCROW: money.escrow(rules, terms.price_max),
        TaskPurse.CUSTOMER_BOND: money.customer_bond(rules, max(found.price_most, terms.price_max)),
        TaskPurse.COLLATERAL: shift.slot.collateral,
    }


def _told_flows(
    found: TaskAccount, terms: TaskTerms, shift: WorkShift, event: events.SlotSettled
) -> tuple[TaskFlow, ...]:
    """Return an event's two sums as flows, by the rules of its outcome."""
    task = found.task
    if event.outcome is TaskOutcome.DISPUTED_FALSELY:
        flows = money.settle(TaskOutcome.LATE, _at_end(found, shift, terms))
        half = event.earned - sum(flow.amount for flow in flows if flow.payee in (TaskPayee.PROVIDER, TaskPayee.FEE))
        case = found.told.cases.get(slot_case(found.task_id, shift.place), ())
        spent = sum(flow.amount for flow in case if flow.purse in OF_CASES)
        left = max(0, money.dispute_bond(task.rules, task.terms.price_max, shift.slot.price) - spent)
        rest = ((TaskPayee.PROVIDER, half), (TaskPayee.BURNED, left - half if case else half))
        return (*flows, *(TaskFlow(TaskPurse.DISPUTE_BOND, payee, amount) for payee, amount in rest))
    return _sums_of(task, terms, event)


def _liar(found: TaskAccount, shift: WorkShift) -> tuple[int | None, int | None]:
    """Return the pay and the loss of a proven liar.

    The courts took the loss. A provider that did not show its drawn states loses all of its collateral.
    """
    if shift.event is None:
        return 0, None
    lost = shift.event.lost
    if slot_case(found.task_id, shift.place) not in found.told.cases:
        purse = {TaskPurse.COLLATERAL: lost}
        state = TaskMoney(found.task.rules, found.task.terms, purse, collateral=shift.slot.collateral)
        found.take(money.settle(TaskOutcome.LIED, state))
    rewards = (each.reward for _, each in found.told.of(events.FraudProven) if each.place == shift.place)
    return 0, lost + sum(rewards)


# ---------------------------------------------------------------------------------------------------- everybody else


def _standby(found: TaskAccount, number: int, records: AuctionRecords, shifts: Sequence[WorkShift]) -> None:
    """Note the pay of a standby: once, from the price of the slot that it stood by for or took over while bound."""
    if records.award is None or records.award.seed is None or is_replicated(found.task.order):
        return
    placed = selection_of(records.award, records.bids).standby
    if placed is None:
        return
    party = PartySum("standby", placed.bid.provider, why="standing by")
    price = _stood_by_price(found, number, placed.bid.provider, shifts)
    if price is None:
        party.paid = None
        if _is_over(found.task, number):
            found.miss(f"the pay of the standby in auction {number}")
        else:
            party.why = "nothing yet: it is still committed"
    else:
        state = TaskMoney(found.task.rules, found.task.terms, {TaskPurse.ESCROW: price}, price)
        party.paid, _ = found.take(money.settle(TaskOutcome.STOOD_BY, state))
    found.parties.append(party)


def _unseen(found: TaskAccount, number: int, records: AuctionRecords, shifts: Sequence[WorkShift]) -> None:
    """Note an unknown payment if a standby may have taken over and failed.

    Only events show that, not the record.
    """
    task = found.task
    is_known = number == task.auction and (task.slots or task.standby is not None)
    if is_known or is_replicated(task.order) or records.award is None or records.award.seed is None:
        return
    placed = selection_of(records.award, records.bids).standby
    if placed is None:
        return
    who = placed.bid.provider
    ends = sum(len(found.told.settled(who, place)) for place in range(task.order.slots))
    if not found.told.is_whole or ends > sum(each.provider == who and each.is_over for each in shifts):
        found.miss(f"the payments of the standby in auction {number}, if it took over")


def _is_over(task: Task, number: int) -> bool:
    return number < task.auction or task.state is TaskState.ENDED or task.standby is None or not task.standby.is_bound


def _stood_by_price(found: TaskAccount, number: int, provider: bytes, shifts: Sequence[WorkShift]) -> int | None:
    """Return the price that decides a standby's pay, or None if it is not due yet or unknown."""
    task = found.task
    if not _is_over(task, number):
        return None
    released = sum(each.provider == provider for _, each in found.told.of(events.StandbyReleased))
    successor = next((shift for shift in shifts if shift.took_over and shift.provider == provider), None)
    first = min((shift for shift in shifts if not shift.took_over), key=lambda shift: shift.place, default=None)
    if successor is None:
        is_sold_on = number < task.auction or task.outcome is TaskOutcome.NO_AWARD
        is_told = not is_sold_on or (released == 1 and (task.auction == 1 or found.told.is_whole))
        return first.slot.price if first is not None and is_told else None
    # It was released when a milestone counted, before it took over.
    if number == 1 and task.behind:
        return None if first is None else first.slot.price
    gone = next((shift for shift in shifts if shift.place == successor.place and not shift.took_over), None)
    if gone is not None and gone.outcome is not None and successor.slot.started_at:
        return gone.slot.price if released else successor.slot.price
    return None


def _unopened(found: TaskAccount, records: AuctionRecords) -> None:
    """Note the bids that were not revealed in time. Their bonds burn."""
    if records.award is None:
        return
    for bid in records.bids.values():
        if bid.opened is None:
            found.parties.append(PartySum("bidder", bid.provider, 0, bid.bond, 0, "its bid was not revealed"))
            found.burned += bid.bond


def _challengers(found: TaskAccount) -> None:
    for _, event in found.told.of(events.FraudProven):
        found.parties.append(PartySum("fraud prover", event.challenger, event.reward, 0, None, "a fraud proof"))
    for _, shown in found.told.of(events.FraudNotShown):
        found.parties.append(PartySum("claimant", shown.challenger, 0, shown.burned, 0, "its proof was not shown"))
        found.burned += shown.burned


def _judges(found: TaskAccount) -> None:
    """Note the payments of the courts: to judges, to the customer of a liar, and from the bonds of losing parties."""
    task = found.task
    for flows in found.told.cases.values():
        for flow in flows:
            if flow.purse in OF_CASES and task.judged_for is not JudgedFor.FRAUD_PROOF:
                found.from_customer += flow.amount
            if flow.payee is None:
                found.burned += flow.amount
            elif flow.payee == task.customer:
                found.to_customer += flow.amount
            else:
                found.parties.append(PartySum("judge", flow.payee, flow.amount, 0, None, f"out of {flow.purse.value}"))
    if task.state is TaskState.ENDED and task.judged_for is not None and not found.told.cases:
        found.miss(JUDGES)


def jury_pay(task: Task) -> int:
    """Return the money that a customer locked for the jury of its dispute of replicas, or 0 without one."""
    return JURORS * task.slots[0].price if task.jury_from else 0


def _rest(found: TaskAccount, auctions: Sequence[AuctionRecords]) -> None:
    """Note the sums of the customer, and the payees of the fee."""
    task, rules = found.task, found.task.rules
    award = auctions[0].award if auctions else None
    price_max = task.terms.price_max if award is None else award.terms.price_max
    locked = task.order.slots * (money.escrow(rules, price_max) + money.customer_bond(rules, price_max))
    locked += jury_pay(task)
    if task.outcome is TaskOutcome.CANCELLED_BEFORE_AWARD:
        bond = {TaskPurse.CUSTOMER_BOND: money.customer_bond(rules, price_max)}
        for _ in range(task.order.slots):
            found.take(money.settle(TaskOutcome.CANCELLED_BEFORE_AWARD, TaskMoney(rules, task.terms, bond)))
    customer = PartySum("customer", task.customer, found.to_customer, found.from_customer, None, "its whole deposit")
    # If an audit confirms the stated result, the pot or the judges themselves pay the judges.
    is_audited = task.judged_for is JudgedFor.AUDIT and all(slot.outcome in BY_RECORD[:3] for slot in task.slots)
    if task.state is TaskState.ENDED and found.unknown in ([], [JUDGES] if is_audited else []):
        customer.returned = locked - found.from_customer
    elif found.unknown:
        customer.why = "at least: the node does not show all of it"
    found.parties.append(customer)
    for party, account, grains in (
        ("the treasury", TREASURY, found.fees),
        ("the audit pot", AUDIT_POT, found.pot),
        ("burned", None, found.burned),
    ):
        if grains:
            found.parties.append(PartySum(party, account, grains, 0, None, ""))
