"""A task checked against the records of a chain: its name, terms, awards, takeovers, milestones and results.

Invariant: only records of the state are read, so a reader with proofs of these trusts nobody. Each check names the
compared values. The checks claim nothing that the records do not contain, such as the signer and the block of a
milestone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpu_tasks.market.training import money
from gpu_tasks.market.training.bids import Award, TaskBid
from gpu_tasks.market.training.items import auction_items
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import is_by_time, is_replicated
from gpu_tasks.market.training.selection import Placed, Selection, select
from gpu_tasks.market.training.tasks import Slot, Task, TaskState, has_bidding, task_id_of
from gpu_tasks.market.training.terms import TaskTerms, default_loss, default_time_value
from gpu_tasks.tasks.bid_explanation import ExplainedBid, SealedBid, explain
from wallet.amounts import SYMBOL, counted, format_amount

IN_TIME = (TaskOutcome.ON_TIME, TaskOutcome.LATE)


# An auction repeated from the records of a chain: its winners, and the reason for each bid's fate.
#
# Invariant: only the records of award and bids are read, so a reader with proofs of these trusts nobody.
NO_SEED = bytes(32)


def selection_of(award: Award, bids: Mapping[bytes, TaskBid]) -> Selection:
    """Return the selection from the opened bids, by device. Without a seed, equal scores are in arbitrary order."""
    opened = [bid.opened for bid in bids.values() if bid.opened is not None]
    return select(award.terms, opened, NO_SEED if award.seed is None else award.seed)


def explained_auction(award: Award, bids: Mapping[bytes, TaskBid]) -> list[ExplainedBid]:
    """Return every bid with its place, its score and the reason for its fate. Unopened bids come last."""
    unopened_bids = [
        SealedBid(bid.provider, device_id, bid.device_class, bid.bond)
        for device_id, bid in bids.items()
        if bid.opened is None
    ]
    return explain(award.terms, selection_of(award, bids), unopened_bids)


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """One computed comparison with the records."""

    what: str
    is_right: bool | None
    """None: the records have nothing yet, or nothing any longer, to compare with."""
    says: str
    codes: tuple[str, ...] = ()
    """The causes, for programs and tests. The text may change."""


class Difference(NamedTuple):
    """One difference from the records, by its code and in words."""

    code: str
    text: str


def compared(subject: str, differences: Sequence[Difference], right: str) -> TaskCheck:
    """Return the check of some comparisons; `right` is the text if nothing differs."""
    text = "; ".join(difference.text for difference in differences)
    codes = tuple(difference.code for difference in differences)
    return TaskCheck(subject, is_right=not differences, says=text or right, codes=codes)


@dataclass(frozen=True, slots=True)
class AuctionRecords:
    """A chain's records of an auction. `then` is an earlier record of the task if the present one lost the winners."""

    award: Award | None
    bids: Mapping[bytes, TaskBid]
    then: Task | None = None
    """The task's record in an earlier block's state, under this auction's award."""
    then_at: int = 0
    """That block."""
    why_not: str = "the chain has dropped the record of the slots"
    """The reason for a missing earlier record."""


def check_task(
    genesis_hash: bytes, task_id: bytes, task: Task, submitted: int, auctions: Sequence[AuctionRecords]
) -> list[TaskCheck]:
    """Return all checks of a task. `submitted` is the number of tasks that the customer ever submitted.

    `auctions` are the records of auction 1 up to the task's own.
    """
    checks = [_check_name(genesis_hash, task_id, task, submitted)]
    for auction_number, records in enumerate(auctions, 1):
        checks += _check_auction(task, auction_number, records)
    checks.append(_check_milestones(task))
    if not is_replicated(task.order):  # `replica_check` compares the results of these
        checks.append(_check_results(task))
    if task.state is TaskState.ENDED and task.slots:
        checks.append(_check_outcomes(task))
    return checks


def _check_name(genesis_hash: bytes, task_id: bytes, task: Task, submitted: int) -> TaskCheck:
    numbers = range(submitted)
    # Newest first: the chain drops ended tasks, so a known one is probably recent.
    submission_number = next(
        (
            submission
            for submission in reversed(numbers)
            if task_id_of(genesis_hash, task.customer, submission) == task_id
        ),
        None,
    )
    if submission_number is None:
        return TaskCheck(
            "id", is_right=False, says=f"not among the {submitted} tasks of its customer", codes=("unknown",)
        )
    return TaskCheck(
        "id", is_right=True, says=f"the hash of this chain, its customer and the number {submission_number}"
    )


def _check_auction(task: Task, auction_number: int, records: AuctionRecords) -> list[TaskCheck]:
    award, bids, name = records.award, records.bids, f"auction {auction_number}"
    is_newest = auction_number == task.auction
    if is_newest and bids and task.outcome is TaskOutcome.CANCELLED_BEFORE_AWARD:
        text = f"the customer cancelled before the award, after {counted(len(bids), 'bid')}"
        return [TaskCheck(name, is_right=True, says=text, codes=("cancelled",))]
    if award is None:
        if is_newest and has_bidding(task):
            return [TaskCheck(name, is_right=None, says="undecided: bids are still being opened")]
        code = "no_award" if bids else "no_bids"
        return [TaskCheck(name, is_right=None if not bids else False, says=_why_no_award(len(bids)), codes=(code,))]
    checks = [_check_terms(task, auction_number, award.terms, bids)]
    opened = sum(bid.opened is not None for bid in bids.values())
    # An award has no seed while its beacon is not final, or if too few bids were opened.
    if award.seed is None:
        if is_newest and task.state is TaskState.AWARDING:
            return [*checks, TaskCheck(name, is_right=None, says="undecided: its beacon is not final")]
        text = f"no winner: {opened} opened bids for {award.terms.slots} slots"
        is_right = opened < award.terms.slots or not is_newest
        return [*checks, TaskCheck(name, is_right=is_right, says=text, codes=("no_winner",))]
    selection = selection_of(award, bids)
    task_with_winners = task if is_told_now(task, auction_number) else records.then
    if task_with_winners is None:
        text = f"{_winners_text(selection)}; not compared with the slots: {records.why_not}"
        return [*checks, TaskCheck(name, is_right=None, says=text, codes=("not_compared",))]
    problems = slot_problems(task_with_winners, selection)
    record_source = "as in the record" if task_with_winners is task else f"as in the record of block {records.then_at}"
    return [*checks, compared(name, problems, f"{_winners_text(selection)}, {record_source}")]


def is_told_now(task: Task, auction_number: int) -> bool:
    """Return True if the record of a task still has the winners of one of its auctions."""
    return auction_number == task.auction and bool(task.slots)


def _why_no_award(bid_count: int) -> str:
    return "no bids" if not bid_count else f"{counted(bid_count, 'bid')} without an award"


def _check_terms(task: Task, auction_number: int, terms: TaskTerms, bids: Mapping[bytes, TaskBid]) -> TaskCheck:
    """Check the terms against the order, each bond against the terms, and each opening against its bid."""
    order, rules, problems = task.order, task.rules, list[Difference]()
    time_value = order.time_value
    compared_terms = (
        # Only one place of a replicated task is sold.
        ("slots", terms.slots, 1 if is_replicated(order) else order.slots),
        ("loss", terms.loss, default_loss(order.price_max) if order.loss is None else order.loss),
        (
            "value of a block",
            terms.time_value,
            default_time_value(order.price_max, order.blocks_max) if time_value is None else time_value,
        ),
    )
    problems += [
        Difference("terms", f"{term_name} is {stated}; the order requires {required}")
        for term_name, stated, required in compared_terms
        if stated != required
    ]
    allowed = _least_collaterals(task, auction_number, terms.price_max)
    if terms.collateral_min not in allowed:
        text = f"least collateral is {terms.collateral_min}; the order requires {min(allowed)}"
        problems.append(Difference("terms", text))
    # A later auction can have less time left than the order allows, never more.
    if terms.blocks_max > order.blocks_max:
        problems.append(Difference("time", f"it allows {terms.blocks_max} blocks; the order allows {order.blocks_max}"))
    bond = money.bid_bond(rules, terms.price_max)
    for device_id, sealed_bid in bids.items():
        bid = sealed_bid.opened
        if sealed_bid.bond != bond:
            problems.append(
                Difference(
                    "bond",
                    f"the bid of 0x{device_id.hex()} locked {sealed_bid.bond} grains; the terms require {bond}",
                )
            )
        if bid is not None and (bid.provider, bid.device, bid.device_class) != (
            sealed_bid.provider,
            device_id,
            sealed_bid.device_class,
        ):
            problems.append(
                Difference(
                    "opening", f"the opening of the bid of 0x{device_id.hex()} names another provider, device or class"
                )
            )
    right = f"the terms match the order, and so do the bonds of {counted(len(bids), 'bid')}"
    return compared(f"auction {auction_number}: terms", problems, right)


def _least_collaterals(task: Task, auction_number: int, price_max: int) -> set[int]:
    """Return the possible least collaterals of an auction, which depend on the segments of its leg."""
    order = task.order
    # The record does not name the milestones behind a later auction, so each possible number is tried.
    possible_milestones = range(1 if auction_number == 1 else task.behind + 1)
    return {
        money.collateral_min(
            task.rules, price_max, items=auction_items(order, milestones), customer_minimum=order.collateral_min
        )
        for milestones in possible_milestones
    }


def slot_problems(task: Task, selection: Selection) -> list[Difference]:
    """Return the slots' differences from the selection and from allowed takeovers by its standby."""
    # The other places come from a draw, which `replica_check` repeats.
    sold = [slot for slot in task.slots if not slot.draw]
    if len(sold) != len(selection.winners):
        text = f"{counted(len(sold), 'slot')} awarded; the selection has {counted(len(selection.winners), 'winner')}"
        return [Difference("slot_count", text)]
    problems = list[Difference]()
    for place, (slot, winner) in enumerate(zip(sold, selection.winners, strict=True)):
        standby = selection.standby
        is_winner = _is_slot_of(slot, winner) and _is_at_rest_price(slot, winner, 0, task.order.milestones)
        if not is_winner and (standby is None or not _took_over(task, slot, standby)):
            problems.append(
                Difference("slot", f"slot {place} differs in provider, price or time from its winner and its standby")
            )
    if task.standby is not None and (
        selection.standby is None or task.standby.provider != selection.standby.bid.provider
    ):
        problems.append(Difference("standby", "the standby differs from the selection's"))
    return problems


def _took_over(task: Task, slot: Slot, standby: Placed) -> bool:
    """Return True if the standby has the slot at the rest of its price after an award behind some milestone."""
    if not _is_slot_of(slot, standby):
        return False
    whole = task.order.milestones
    # The record does not name the milestone of the takeover, so each possible one is tried.
    return any(
        _is_at_rest_price(slot, standby, task.behind - milestones_before, whole - milestones_before)
        for milestones_before in range(task.behind + 1)
    )


def _is_slot_of(slot: Slot, placed: Placed) -> bool:
    bid = placed.bid
    return (slot.provider, slot.device, slot.collateral) == (
        bid.provider,
        bid.device,
        bid.collateral,
    )


def _is_at_rest_price(slot: Slot, placed: Placed, milestones_done: int, milestones: int) -> bool:
    """Return True if price and promise are those of the rest. A customer may have allowed more blocks since."""
    remaining = money.remaining(placed.pay, milestones_done, milestones)
    # A customer may have added blocks since, so a longer promise is no difference.
    return slot.price == remaining and slot.promised >= money.remaining_blocks(
        placed.bid.blocks, milestones_done, milestones
    )


def _check_milestones(task: Task) -> TaskCheck:
    problems, held = list[Difference](), task.checkpoint
    for place, slot in enumerate(task.slots):
        newest = slot.milestone
        if newest is not None and slot.result is None and newest.number != task.behind + slot.reported:
            problems.append(
                Difference(
                    "milestone_count",
                    f"slot {place} reported milestone {newest.number}, but {slot.reported} are counted",
                )
            )
    roots = {(slot.milestone.number, slot.milestone.root) for slot in task.slots if slot.milestone is not None}
    if len({number for number, _ in roots}) < len(roots):
        problems.append(Difference("two_roots", "two roots for one milestone"))
    if held is not None and held.milestone.number != task.behind + task.done:
        problems.append(
            Difference(
                "held_count",
                f"milestone {held.milestone.number} is held, but {task.behind + task.done} count",
            )
        )
    # The customer signs only for milestones that count, so no more can be due.
    if task.owed > task.done:
        problems.append(Difference("owed_count", f"{task.owed} milestones are due for payment, but {task.done} count"))
    if held is not None and task.owed and held.holder != task.customer and task.owed == task.done:
        problems.append(Difference("unsigned", "the newest milestone is due, but the customer has not signed for it"))
    if problems:
        return compared("milestones", problems, "")
    if held is None:
        return TaskCheck("milestones", is_right=None, says=_no_checkpoint(task))
    holder = "its customer" if held.holder == task.customer else "its standby"
    number, root = held.milestone.number, held.milestone.root.hex()
    text = f"{number} of {task.order.milestones} count, root 0x{root}, held by {holder}"
    return TaskCheck("milestones", is_right=True, says=text)


def _no_checkpoint(task: Task) -> str:
    """Return the reason for a missing checkpoint. Some tasks have none."""
    if is_by_time(task.order):
        return "none: this task is paid by time"
    return "none: replicas are compared at the end" if is_replicated(task.order) else "none yet"


def _check_results(task: Task) -> TaskCheck:
    results = [slot.result for slot in task.slots if slot.result is not None]
    if not results:
        return TaskCheck("result", is_right=None, says="none yet")
    roots = {result.root for result in results}
    # Partners of a gang compute the same run, so one of two roots is wrong.
    if len(roots) > 1:
        text = f"{len(roots)} different roots of {len(task.slots)} providers"
        return TaskCheck("result", is_right=False, says=text, codes=("two_roots",))
    reporters = (
        "all providers report"
        if len(results) == len(task.slots)
        else counted(len(results), "provider reports", "providers report")
    )
    return TaskCheck("result", is_right=True, says=f"{reporters} the root 0x{results[0].root.hex()}")


def _check_outcomes(task: Task) -> TaskCheck:
    """Check each slot's outcome, on time or late, against its blocks and its promise."""
    problems = list[Difference]()
    if not any(slot.outcome in IN_TIME for slot in task.slots):
        ending = "" if task.outcome is None else f" ({task.outcome.name.lower().replace('_', ' ')})"
        return TaskCheck("outcome", is_right=True, says=f"no slot was paid for its result{ending}", codes=("unpaid",))
    for place, slot in enumerate(task.slots):
        if slot.outcome in IN_TIME and slot.finished_at:
            is_late = slot.taken > slot.promised
            if is_late != (slot.outcome is TaskOutcome.LATE):
                problems.append(
                    Difference(
                        "lateness",
                        f"slot {place} took {slot.taken} of {slot.promised} promised blocks, contrary to its outcome",
                    )
                )
    paid_grains = sum(slot.price for slot in task.slots if slot.outcome in IN_TIME)
    earned = f"{format_amount(paid_grains)} {SYMBOL} earned, on time or late as the blocks show"
    return compared("outcome", problems, earned)


def _winners_text(selection: Selection) -> str:
    if not selection.winners:
        return "the selection has no winner"
    pays = ", ".join(f"{format_amount(winner.pay)} {SYMBOL}" for winner in selection.winners[:3])
    return f"{len(selection.winners)} of {counted(len(selection.places), 'bid')} won, for {pays}"
