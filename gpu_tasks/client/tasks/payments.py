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
from gpu_tasks.client.claim_ends import paid_checks
from gpu_tasks.client.offers.outlook import grains_of
from gpu_tasks.client.tasks.shifts import TaskEvents, WorkShift
from gpu_tasks.market.training import events, money
from gpu_tasks.market.training.items import auction_items, items_of
from gpu_tasks.market.training.life.submitting import looks
from gpu_tasks.market.training.money import TaskFlow, TaskMoney, TaskOutcome, TaskPayee, TaskPurse
from gpu_tasks.market.training.orders import is_by_time, is_replicated, runs_program
from gpu_tasks.market.training.tasks import Slot, Task, TaskState, kept_step, taken_by
from gpu_tasks.market.training.terms import TaskTerms, covered
from gpu_tasks.market.training.time_paid import end_flows, interval_flows
from gpu_tasks.tasks.task_check import AuctionRecords, selection_of
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.slashing import part
from wallet.amounts import SYMBOL, format_amount

PAYMENT_COLUMNS = ("party", "account", "paid", "lost", "returned", "for")
BY_RECORD = (
    TaskOutcome.ON_TIME, TaskOutcome.LATE, TaskOutcome.UNDECIDED, TaskOutcome.CANCELLED_BEFORE_START,
    TaskOutcome.CANCELLED_RUNNING, TaskOutcome.INPUT_MISSING,
)  # fmt: skip
"""Ends for which the record of an ended task has all inputs of the money table."""
CUSTOMERS = (TaskPurse.ESCROW, TaskPurse.CUSTOMER_BOND)
CLAIMED = (TaskOutcome.ON_TIME, TaskOutcome.LATE, TaskOutcome.UNDECIDED, TaskOutcome.LIED)
"""Ends of a claim, or of different results."""
VOTERS, FOUND_FALSE = "voters, or burned", "finder, voters, or burned"


Purses = Mapping[TaskPurse, int]
LEAVERS = (TaskOutcome.LEFT, TaskOutcome.DIED)


def time_flows(
    task: Task, shift: WorkShift, terms: TaskTerms, known_events: TaskEvents, purses: Purses
) -> tuple[TaskFlow, ...] | None:
    """Return all flows of a shift that sold time. `purses` is the money locked when its leg began."""
    outcome = shift.outcome
    assert outcome is not None, "an ended task has an outcome"
    if shift.slot in task.slots:
        return (*interval_flows(task, shift.slot), *end_flows(task, shift.slot, outcome, purses))
    if outcome not in LEAVERS:
        return _told_end(task, terms, shift)
    intervals, end = _told_intervals(task, shift, known_events), _told_end(task, terms, shift)
    if intervals is not None and end is not None:
        return (*intervals, *end)
    return _left_flows(task, shift, terms, purses)


def _left_flows(task: Task, shift: WorkShift, terms: TaskTerms, purses: Purses) -> tuple[TaskFlow, ...] | None:
    """Return the flows of a first provider with a successor, by the record: the intervals behind are its own."""
    is_followed = bool(task.slots) or task.state is TaskState.ASKING
    if shift.auction != 1 or task.auction != 1 or not is_followed:
        return None
    slot = replace(shift.slot, promised=terms.blocks_max)
    leg = replace(task, terms=terms, milestones=task.order.milestones, owed=task.behind, slots=(slot,))
    return (*interval_flows(leg, slot), *end_flows(leg, slot, TaskOutcome.LEFT, purses))


def _told_intervals(task: Task, shift: WorkShift, known_events: TaskEvents) -> tuple[TaskFlow, ...] | None:
    """Return the interval flows of an ended shift by events. None if the events do not reach its beginning."""
    settled = [event for _, event in known_events.of(events.SlotSettled)]
    if shift.event is None:
        return None
    flows: list[TaskFlow] = []
    for event in settled[next(position for position, each in enumerate(settled) if each is shift.event) + 1 :]:
        if event.outcome is not TaskOutcome.INTERVAL_PAID:
            return tuple(flows)
        flows += _earned_flows(task, event.earned)
    return tuple(flows) if known_events.is_whole else None


def _told_end(task: Task, terms: TaskTerms, shift: WorkShift) -> tuple[TaskFlow, ...] | None:
    """Return the flows in the event of an end."""
    return None if shift.event is None else _flows_of_sums(task, terms, shift.event)


def _flows_of_sums(task: Task, terms: TaskTerms, event: events.SlotSettled) -> tuple[TaskFlow, ...]:
    """Return the two sums of an event as flows, by the rules of its outcome."""
    to_customer = event.lost
    if event.outcome in LEAVERS:
        to_customer = min(event.lost, terms.loss)
    elif event.outcome in (TaskOutcome.NOT_STARTED, TaskOutcome.STANDBY_NOT_STARTED):
        to_customer = event.lost // 2
    elif event.outcome is TaskOutcome.PARTNER_DIED:
        # It has reported an input that can be opened. Voters are paid out of the loss.
        to_customer = 0
    flows = (
        *_earned_flows(task, event.earned),
        TaskFlow(TaskPurse.COLLATERAL, TaskPayee.CUSTOMER, to_customer),
        TaskFlow(TaskPurse.COLLATERAL, TaskPayee.BURNED, event.lost - to_customer),
    )
    return tuple(flow for flow in flows if flow.amount)


def _earned_flows(task: Task, amount: int) -> tuple[TaskFlow, ...]:
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
    burned: int = 0
    of_collateral: list[PartySum] = field(default_factory=list)
    """The parties that finders and voters of a false result share, or voters of another question."""

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
                case TaskPayee.BURNED:
                    self.burned += flow.amount
        return paid, lost

    def cost(self, step_fee: int) -> int | None:
        """Return the customer's cost so far, prepaid amounts included, fees apart; None if some payment is unknown."""
        if self.unknown:
            return None
        order = self.task.order
        prepaid = step_fee * looks(order.auctions, order.slots, order.milestones if is_by_time(order) else 0)
        return prepaid + self.from_customer - self.to_customer

    def miss(self, subject: str) -> None:
        """Note that something cannot be told any more."""
        self.unknown.append(subject)


def payments_of_task(
    task_id: bytes,
    task: Task,
    auctions: Sequence[AuctionRecords],
    shifts: Sequence[WorkShift],
    known_events: TaskEvents,
    held_milestones: Mapping[int, int],
) -> TaskAccount:
    """Return the payments, losses and returns of all parties.

    `held_milestones` is the number of confirmed milestones by auction.
    """
    prices = (task.order.price_max, *(each.award.terms.price_max for each in auctions if each.award is not None))
    accounting = TaskAccount(task_id, task, known_events, max(prices))
    for shift in shifts:
        accounting.parties.append(_shift_party(accounting, shift, auctions[shift.auction - 1], held_milestones))
    for auction_number, records in enumerate(auctions, 1):
        _note_standby(accounting, auction_number, records, [each for each in shifts if each.auction == auction_number])
        _note_unseen(accounting, auction_number, records, shifts)
        _note_unopened(accounting, records)
    accounting.parties += accounting.of_collateral
    _note_checks(accounting)
    _note_rest(accounting, auctions)
    return accounting


def payment_rows(accounting: TaskAccount) -> list[dict[str, Any]]:
    """Return the parties as rows."""
    return [
        {
            "party": party.party,
            "account": None if party.account is None else Account(party.account),
            **{name: grains_of(getattr(party, name)) for name in ("paid", "lost", "returned")},
            "for": party.why,
        }
        for party in accounting.parties
    ]


# ------------------------------------------------------------------------------------------------------- who worked


def _shift_party(
    accounting: TaskAccount, shift: WorkShift, records: AuctionRecords, held_milestones: Mapping[int, int]
) -> PartySum:
    role = "provider (took over)" if shift.took_over else "provider"
    party = PartySum(role, shift.provider)
    if not shift.is_over:
        party.why = "nothing yet: it still works"
        if is_by_time(accounting.task.order) and (paid := interval_flows(accounting.task, shift.slot)):
            party.paid, _ = accounting.take(paid)
            party.why = "intervals so far: it still works"
        return party
    flows = None if shift.outcome is None else _shift_flows(accounting, shift, records, held_milestones)
    if _has_claim(accounting.task) and shift.slot in accounting.task.slots and shift.outcome in CLAIMED:
        party.paid, party.lost = _claimed_sums(accounting, shift, flows or ())
    elif flows is None:
        party.paid = party.lost = None
        accounting.miss(f"the settlement of place {shift.place} in auction {shift.auction}")
    else:
        party.paid, party.lost = accounting.take(flows)
    name = "" if shift.outcome is None else shift.outcome.name.lower().replace("_", " ")
    party.why = name or "dropped out"
    if party.lost is not None:
        party.returned = shift.slot.collateral - party.lost
    return party


def _shift_flows(
    accounting: TaskAccount, shift: WorkShift, records: AuctionRecords, held_milestones: Mapping[int, int]
) -> tuple[TaskFlow, ...] | None:
    """Return the flows of a shift's end by the money table, or None if an input is unknown."""
    outcome, task = shift.outcome, accounting.task
    assert outcome is not None, "an ended task has an outcome"
    terms = task.terms if records.award is None else records.award.terms
    if is_by_time(task.order):
        return time_flows(task, shift, terms, accounting.told, _locked_purses(accounting, terms, shift))
    # The places of replicas keep all inputs of the money table.
    if shift.slot in task.slots and (outcome in BY_RECORD or is_replicated(task.order)):
        return money.settle(outcome, _money_at_end(accounting, shift, terms))
    if shift.event is not None:
        return _flows_of_sums(task, terms, shift.event)
    if outcome is TaskOutcome.DIED and shift.auction in held_milestones:
        state = TaskMoney(
            task.rules,
            terms,
            _locked_purses(accounting, terms, shift),
            price=shift.slot.price,
            collateral=shift.slot.collateral,
            promised=shift.slot.promised,
            milestones=task.order.milestones,
            done=held_milestones[shift.auction],
        )
        return money.settle(outcome, state)
    return None


def _money_at_end(accounting: TaskAccount, shift: WorkShift, terms: TaskTerms) -> TaskMoney:
    """Return a slot of an ended task as the money table reads it."""
    task, slot = accounting.task, shift.slot
    height = task.deadline - task.windows.keep
    until = slot.finished_at or height
    return TaskMoney(
        rules=task.rules,
        terms=task.terms,
        held=_locked_purses(accounting, terms, shift),
        price=slot.price,
        collateral=slot.collateral,
        promised=slot.promised,
        elapsed=until - task.started_at if task.started_at else 0,
        stated=kept_step(task),
        taken=taken_by(task, slot, height),
        milestones=task.milestones,
        done=task.owed,
    )


def _locked_purses(accounting: TaskAccount, terms: TaskTerms, shift: WorkShift) -> dict[TaskPurse, int]:
    """Return the money locked for a leg.

    The bond follows from the greatest price of all legs, because it never shrinks.
    """
    rules = accounting.task.rules
    bond = money.customer_bond(rules, max(accounting.price_most, terms.price_max))
    return {
        TaskPurse.ESCROW: money.escrow(rules, terms.price_max, auction_items(accounting.task.order, 0)),
        TaskPurse.CUSTOMER_BOND: bond - _input_charge(accounting.task, shift.slot),
        TaskPurse.COLLATERAL: shift.slot.collateral,
    }


def _has_claim(task: Task) -> bool:
    """Return True if the results of a task are claims: neither a program's nor bought time."""
    return not runs_program(task.order)


def _claimed_sums(accounting: TaskAccount, shift: WorkShift, flows: Sequence[TaskFlow]) -> tuple[int, int | None]:
    """Return the pay and the loss of a provider whose result was a claim, or one of different results.

    `flows` are by the money table. Claims and votes take their part of the collateral before.
    """
    if shift.outcome is not TaskOutcome.LIED:
        paid, late = accounting.take(flows)
        if shift.event is None and accounting.task.rules.check_rate_ppm:
            # A provider that served a checker badly pays voters. `_note_check_fees` names what is unknown.
            return paid, None
        lost = late if shift.event is None else max(late, shift.event.lost)
        _note_of_collateral(accounting, VOTERS, lost - late)
        return paid, lost
    lost = shift.slot.collateral
    to_customer = _cover(accounting, shift)
    if to_customer is None:
        accounting.miss(f"the settlement of place {shift.place} in auction {shift.auction}")
        return 0, None
    accounting.to_customer += to_customer
    _note_of_collateral(accounting, FOUND_FALSE, lost - to_customer)
    return 0, lost


def _cover(accounting: TaskAccount, shift: WorkShift) -> int | None:
    """Return the part of a liar's collateral for the customer, or None if it is unknown.

    A refuted claim takes the part that secures it. Of different results, the false ones take all.
    """
    ended = accounting.told.claims.get(shift.place)
    if ended is None:
        return 0 if _is_false_side(accounting.task, shift.slot) else None
    whole = shift.slot.collateral
    return min(covered(accounting.task.terms.price_max, whole), whole - ended.claim.terms.collateral)


def _is_false_side(task: Task, slot: Slot) -> bool:
    """Return True if voters found another provider's different result right."""
    right = {each.result.root for each in task.slots if each.result and each.outcome is not TaskOutcome.LIED}
    return slot.result is not None and bool(right) and slot.result.root not in right


def _note_of_collateral(accounting: TaskAccount, party: str, grains: int) -> None:
    if grains:
        accounting.of_collateral.append(PartySum(party, None, grains, 0, None, "out of a provider's collateral"))


def _input_charge(task: Task, slot: Slot) -> int:
    """Return the part of the customer's bond for a slot that paid voters, because they could not open the input."""
    charged = next((each for each in task.slots if each.outcome is TaskOutcome.INPUT_MISSING), None)
    return money.input_charge(task.rules, task.terms.price_max) if slot is charged else 0


# ---------------------------------------------------------------------------------------------------- everybody else


def _note_standby(
    accounting: TaskAccount, auction_number: int, records: AuctionRecords, shifts: Sequence[WorkShift]
) -> None:
    """Note the pay of a standby: once, from the price of the slot that it stood by for or took over while bound."""
    if records.award is None or records.award.seed is None or is_replicated(accounting.task.order):
        return
    placed = selection_of(records.award, records.bids).standby
    if placed is None:
        return
    party = PartySum("standby", placed.bid.provider, why="standing by")
    price = _stood_by_price(accounting, auction_number, placed.bid.provider, shifts)
    if price is None:
        party.paid = None
        if _is_over(accounting.task, auction_number):
            accounting.miss(f"the pay of the standby in auction {auction_number}")
        else:
            party.why = "nothing yet: it is still committed"
    else:
        state = TaskMoney(accounting.task.rules, accounting.task.terms, {TaskPurse.ESCROW: price}, price)
        party.paid, _ = accounting.take(money.settle(TaskOutcome.STOOD_BY, state))
    accounting.parties.append(party)


def _note_unseen(
    accounting: TaskAccount, auction_number: int, records: AuctionRecords, shifts: Sequence[WorkShift]
) -> None:
    """Note an unknown payment if a standby may have taken over and failed.

    Only events show that, not the record.
    """
    task = accounting.task
    is_known = auction_number == task.auction and (task.slots or task.standby is not None)
    if is_known or is_replicated(task.order) or records.award is None or records.award.seed is None:
        return
    placed = selection_of(records.award, records.bids).standby
    if placed is None:
        return
    who = placed.bid.provider
    ends = sum(len(accounting.told.settled(who, place)) for place in range(task.order.slots))
    if not accounting.told.is_whole or ends > sum(each.provider == who and each.is_over for each in shifts):
        accounting.miss(f"the payments of the standby in auction {auction_number}, if it took over")


def _is_over(task: Task, auction_number: int) -> bool:
    return (
        auction_number < task.auction
        or task.state is TaskState.ENDED
        or task.standby is None
        or not task.standby.is_bound
    )


def _stood_by_price(
    accounting: TaskAccount, auction_number: int, provider: bytes, shifts: Sequence[WorkShift]
) -> int | None:
    """Return the price that decides a standby's pay, or None if it is not due yet or unknown."""
    task = accounting.task
    if not _is_over(task, auction_number):
        return None
    released = sum(each.provider == provider for _, each in accounting.told.of(events.StandbyReleased))
    successor = next((shift for shift in shifts if shift.took_over and shift.provider == provider), None)
    first = min((shift for shift in shifts if not shift.took_over), key=lambda shift: shift.place, default=None)
    if successor is None:
        is_sold_on = auction_number < task.auction or task.outcome is TaskOutcome.NO_AWARD
        is_told = not is_sold_on or (released == 1 and (task.auction == 1 or accounting.told.is_whole))
        return first.slot.price if first is not None and is_told else None
    # It was released when a milestone counted, before it took over.
    if auction_number == 1 and task.behind:
        return None if first is None else first.slot.price
    gone = next((shift for shift in shifts if shift.place == successor.place and not shift.took_over), None)
    if gone is not None and gone.outcome is not None and successor.slot.started_at:
        return gone.slot.price if released else successor.slot.price
    return None


def _note_unopened(accounting: TaskAccount, records: AuctionRecords) -> None:
    """Note the bids that were not revealed in time. Their bonds burn."""
    if records.award is None:
        return
    for bid in records.bids.values():
        if bid.opened is None:
            accounting.parties.append(PartySum("bidder", bid.provider, 0, bid.bond, 0, "its bid was not revealed"))
            accounting.burned += bid.bond


def _note_checks(accounting: TaskAccount) -> None:
    """Note the payments of the customer for checks of claims, and for votes about its input."""
    task = accounting.task
    for place, slot in enumerate(task.slots):
        charge = _input_charge(task, slot)
        if charge:
            accounting.from_customer += charge
            accounting.parties.append(PartySum(VOTERS, None, charge, 0, None, "looked at the input"))
        if _is_checked(task, slot):
            _note_check_fees(accounting, place, slot)


def _is_checked(task: Task, slot: Slot) -> bool:
    """Return True if the claim of a slot is over, and its checks may have cost something."""
    if not _has_claim(task) or slot.outcome not in CLAIMED or not task.rules.check_rate_ppm:
        return False
    roots = {each.result.root for each in task.slots if each.result is not None}
    is_never_claimed = slot.outcome is TaskOutcome.UNDECIDED and len(roots) > 1
    return not is_never_claimed and not _is_false_side(task, slot)


def _note_check_fees(accounting: TaskAccount, place: int, slot: Slot) -> None:
    ended = accounting.told.claims.get(place)
    if ended is None:
        task = accounting.task
        fees_max = format_amount(money.check_fees_max(task.rules, slot.price, items_of(task.order, task.behind)))
        accounting.miss(f"the checks of place {place}, which cost at most {fees_max} {SYMBOL}")
        return
    accounting.from_customer += ended.fees_paid
    paid = paid_checks(ended.claim) if slot.outcome in (TaskOutcome.ON_TIME, TaskOutcome.LATE) else []
    for each in paid:
        if each.payee is None:
            accounting.burned += each.grains
        else:
            accounting.parties.append(
                PartySum("checker", each.payee, each.grains, 0, None, f"a check of place {place}")
            )
        if not each.is_of_customer:
            accounting.parties.append(PartySum("checker", each.payer, 0, each.grains, None, f"failed at place {place}"))
    rest = ended.fees_paid - sum(each.grains for each in paid if each.is_of_customer)
    if rest:
        accounting.parties.append(PartySum("voters", None, rest, 0, None, f"checked place {place}"))


def _note_rest(accounting: TaskAccount, auctions: Sequence[AuctionRecords]) -> None:
    """Note the sums of the customer, and the payees of the fee."""
    task, rules = accounting.task, accounting.task.rules
    award = auctions[0].award if auctions else None
    price_max = task.terms.price_max if award is None else award.terms.price_max
    escrow = money.escrow(rules, price_max, auction_items(task.order, 0))
    locked = task.order.slots * (escrow + money.customer_bond(rules, price_max))
    if task.outcome is TaskOutcome.CANCELLED_BEFORE_AWARD:
        bond = {TaskPurse.CUSTOMER_BOND: money.customer_bond(rules, price_max)}
        for _ in range(task.order.slots):
            accounting.take(money.settle(TaskOutcome.CANCELLED_BEFORE_AWARD, TaskMoney(rules, task.terms, bond)))
    customer = PartySum(
        "customer", task.customer, accounting.to_customer, accounting.from_customer, None, "its whole deposit"
    )
    if task.state is TaskState.ENDED and not accounting.unknown:
        customer.returned = locked - accounting.from_customer
    elif accounting.unknown:
        customer.why = "at least: the node does not show all of it"
    accounting.parties.append(customer)
    for party, account, grains in (
        ("the treasury", TREASURY, accounting.fees),
        ("burned", None, accounting.burned),
    ):
        if grains:
            accounting.parties.append(PartySum(party, account, grains, 0, None, ""))
