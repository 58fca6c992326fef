"""A task and its auctions as sentences, rows and facts: its progress, its reason to wait, and its data on the chain.

Invariants:

* Texts name blocks, not remaining times, so that they change only with the facts. A command adds the times.
* Every state of a task has a sentence. The sentence of an ended task tells how it ended.
* Data that others wrote on the chain appears as numbers, hashes and accounts, never as their text.
* A bid of an undecided auction has no place and no fate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from cli.chain_time import ChainTime, date_text
from cli.output import Account
from gpu_tasks.client.offers.outlook import grains_of
from gpu_tasks.client.tasks.task_checks import TaskChecks, why_claimed, why_disputed
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.bids import Award, TaskBid
from gpu_tasks.market.training.money import TABLE, TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy, is_by_time, is_replicated, runs_program
from gpu_tasks.market.training.tasks import (
    Slot,
    Task,
    TaskState,
    agreed_milestone,
    interval_end,
    is_open,
    kept_step,
)
from gpu_tasks.tasks.bid_explanation import ExplainedBid
from gpu_tasks.tasks.container_request import CONTAINER_WORKLOAD
from gpu_tasks.tasks.replica_check import agreed_results
from gpu_tasks.tasks.task_check import explained_auction
from gpu_tasks.workloads import registry
from runtime.cryptography import ss58
from wallet.amounts import BareGrains, Grains, counted, format_duration

# 128 and the number of SIGTERM, as shells report it.
EXIT_STOPPED = 143
"""The exit code of a program that its provider stopped, as at the end of the bought time."""
ENDS = {
    TaskOutcome.UNDECIDED: "Validators did not decide. The price comes back, and nobody loses collateral",
    TaskOutcome.LIED: "The result was found false. The price comes back, and the provider loses its collateral",
    TaskOutcome.INPUT_MISSING: "Validators could not open the input. The price comes back, without a part of the bond",
}
"""Ends in the words of their customer. `money.TABLE` has the others."""
NO_MAJORITY = "No majority of the replicas agrees. Nobody is paid, and no opened result costs collateral"


def progress(task: Task) -> str:
    """Return the state with its progress."""
    name = task.state.name.lower()
    match task.state:
        case TaskState.COMMITTING:
            return f"{name}, {counted(task.bids, 'bid')}"
        case TaskState.REVEALING:
            return f"{name}, {task.revealed} of {counted(task.bids, 'bid')} opened"
        case TaskState.STARTING:
            started = sum(bool(slot.started_at) for slot in task.slots)
            return f"{name}, {started} of {counted(len(task.slots), 'slot')} started"
        case TaskState.RUNNING:
            is_time = is_by_time(task.order)
            if is_replicated(task.order):
                bound = sum(slot.commitment is not None for slot in task.slots)
                return f"{name}, {_of_replicas(task, bound)} bound"
            far = f"{task.behind + kept_step(task)} of {task.order.milestones}"
            return f"{name}, interval {far} paid" if is_time else f"{name}, milestone {far}"
        case TaskState.VOLUNTEERING:
            return f"{name}, {counted(task.volunteers, 'device')} offered"
        case TaskState.OPENING:
            opened = sum(slot.result is not None for slot in task.slots)
            return f"{name}, {_of_replicas(task, opened)} opened"
        case TaskState.ENDED:
            return f"{name}, {_outcome(task)}"
        case _:
            return name


def why(task: Task, checks: TaskChecks | None = None) -> str:
    """Return a sentence: the event that the task waits for, and its last block. `checks` are the open ones."""
    match task.state:
        case TaskState.COMMITTING | TaskState.REVEALING | TaskState.AWARDING:
            return _why_bidding(task)
        case TaskState.STARTING:
            return _why_starting(task)
        case TaskState.RUNNING:
            return _why_running(task)
        case TaskState.VOLUNTEERING | TaskState.OPENING:
            return _why_replicating(task)
        case TaskState.ASKING:
            asked = "the runner-up" if task.standby is None else ss58.encode(task.standby.provider)
            then = "After that the rest is auctioned"
            return f"the provider dropped out: {asked} may take over by block {task.deadline}. {then}"
        case TaskState.CLAIMED:
            return why_claimed(checks)
        case TaskState.DISPUTED:
            return why_disputed(task, checks)
        case TaskState.ENDED:
            return how_ended(task)


def how_ended(task: Task) -> str:
    """Return a sentence about an ended task."""
    match task.outcome:
        case None:
            says = "It has ended"
        case TaskOutcome.NO_AWARD:
            says = _why_not_sold(task)
        case TaskOutcome.TIME_OVER:
            says = _how_time_ended(task)
        case outcome:
            says = said_of(task, outcome)
    return f"{says}{_outvoted(task)}{_false_slots(task)}. The chain keeps its record until block {task.deadline}"


def said_of(task: Task, outcome: TaskOutcome) -> str:
    """Return a sentence about the outcome of a task or of a slot."""
    if outcome is TaskOutcome.UNDECIDED and is_replicated(task.order):
        return NO_MAJORITY
    return ENDS.get(outcome, TABLE[outcome].says)


def _outcome(task: Task) -> str:
    """Describe the outcome in a word or two. For bought time it is the program's own end, if that came first."""
    if task.outcome is None:
        return ""
    result = task.slots[0].result if task.slots else None
    if task.outcome is not TaskOutcome.TIME_OVER or result is None or result.metric == EXIT_STOPPED:
        return task.outcome.name.lower().replace("_", " ")
    return "program done" if result.metric == 0 else f"program failed with exit code {result.metric}"


def _why_not_sold(task: Task) -> str:
    if not task.bids:
        suits = "runs its image within its limits" if runs_program(task.order) else "has the time for it"
        return f"No bids: no free provider {suits} at this price. No money moves"
    if is_replicated(task.order):
        return "No bid could win, or too few owners offered a device for the other replicas. No money moves"
    return TABLE[TaskOutcome.NO_AWARD].says


def _how_time_ended(task: Task) -> str:
    result = task.slots[0].result if task.slots else None
    if result is None:
        return TABLE[TaskOutcome.TIME_OVER].says
    is_stopped = result.metric == EXIT_STOPPED
    how = "Its time is up, and its program was stopped" if is_stopped else "Its program has ended"
    return f"{how}, with exit code {result.metric}"


def _outvoted(task: Task) -> str:
    """Return a sentence about replicas that the majority found wrong, or nothing."""
    others = sum(slot.outcome is TaskOutcome.OUTVOTED for slot in task.slots)
    lose = counted(others, "replica loses its", "replicas lose their")
    return (
        f". {lose} collateral: another result than the majority, or none (see `ogpu task result --place N`)"
        if others
        else ""
    )


def _false_slots(task: Task) -> str:
    """Return a sentence about the false results beside the first one, or nothing."""
    false = sum(slot.outcome is TaskOutcome.LIED for slot in task.slots)
    if not false or task.outcome is TaskOutcome.LIED:
        return ""
    return f". {counted(false, 'provider has', 'providers have')} stated a false result"


def unheld(task: Task) -> int | None:
    """Return the number of the milestone that all providers stated and the customer has not confirmed, or None.

    The customer should hold its checkpoint. The milestone then counts, and is paid if its provider dies.
    """
    agreed = agreed_milestone(task) if task.state is TaskState.RUNNING else None
    return agreed.number if agreed is not None and agreed.number > task.behind + task.owed else None


def _why_bidding(task: Task) -> str:
    if task.state is TaskState.COMMITTING:
        return f"{_auction(task)}: sealed bids are accepted until block {task.deadline}"
    if task.state is TaskState.REVEALING:
        return f"{_auction(task)}: bidders reveal their bids by block {task.deadline} or lose their bonds"
    return f"it is awarded once block {task.beacon_at} is final, whose beacon breaks ties"


def _why_replicating(task: Task) -> str:
    if task.state is TaskState.OPENING:
        return f"all have committed to a result: they reveal it by block {task.deadline}, and the chain compares"
    if not task.deadline:
        return f"the beacon of block {task.beacon_at} draws the other replicas once that block is final"
    return f"providers may offer devices for replicas until block {task.deadline}"


def _of_replicas(task: Task, count: int) -> str:
    return f"{count} of {counted(len(task.slots), 'replica')}"


def _auction(task: Task) -> str:
    if task.auction == 1:
        return "at auction"
    rest = f"from milestone {task.behind}" if task.behind else "from its beginning"
    return f"at auction {task.auction} of {task.order.auctions}, {rest}"


def _why_starting(task: Task) -> str:
    late = [ss58.encode(slot.provider) for slot in task.slots if not slot.started_at and slot.outcome is None]
    if is_replicated(task.order):
        return f"drawn: {', '.join(late[:3])} must start by block {task.deadline}, or pays a penalty and is out"
    then = "the runner-up takes its place" if task.standby is not None else "it is auctioned again"
    return f"awarded: {', '.join(late[:3])} must start by block {task.deadline}, or pays a penalty and {then}"


def _why_running(task: Task) -> str:
    number = task.behind + kept_step(task) + 1
    if is_replicated(task.order):
        return f"replicas compute it: one without a commitment by block {task.deadline} is out"
    if is_by_time(task.order):
        return (
            f"the program runs: interval {number} of {task.order.milestones} ends with block {interval_end(task)}; "
            f"a provider that is silent after block {task.deadline} is out "
            "(`ogpu task stop` ends it: you pay this interval, and lose a part of your bond)"
        )
    what = "the result" if number == task.order.milestones else f"milestone {number}"
    held = unheld(task)
    asked = (
        ""
        if held is None
        else f"; milestone {held} counts once you hold its checkpoint: run `ogpu task watch`, or `ogpu task confirm`"
    )
    return f"{_work(task)}: {what} is due by block {task.deadline}, and a silent provider is out then{asked}"


def _work(task: Task) -> str:
    """Return the providers if they differ from the first ones, or if the rest of the task was sold again."""
    if not task.behind:
        return "at work"
    who = ", ".join(ss58.encode(slot.provider) for slot in task.slots[:3])
    return f"{who} continues from the checkpoint of milestone {task.behind}"


BYTES_SHOWN = 4
ACCOUNT_LETTERS = 8
SHORTENED = ("device", "result")
TAKEN_BACK = "the customer cancelled the task before the award"
HISTORY_COLUMNS = (
    "task", "kind", "state", "exit_code", "provider", "submitted", "started", "blocks", "milestones", "price",
    "cost_before_fees", "outcome",
)  # fmt: skip
HISTORY_SHOWN = ("task", "kind", "state", "exit_code", "provider", "submitted", "started", "blocks", "cost_before_fees")
"""The columns for people."""
HISTORY_STATES = ("pending", "running", "completed", "failed", "cancelled")
DONE = (TaskOutcome.ON_TIME, TaskOutcome.LATE, TaskOutcome.TIME_OVER)
"""Outcomes with a paid result."""
CANCELLED = (TaskOutcome.CANCELLED_BEFORE_AWARD, TaskOutcome.CANCELLED_BEFORE_START, TaskOutcome.CANCELLED_RUNNING)
SLOT_COLUMNS = (
    "place", "provider", "device", "price", "promised", "collateral", "started_in_block", "milestone", "exit_code",
    "metric", "metric_unit", "result", "outcome", "why_no_work",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task in a list, at a final block."""

    task: bytes
    state: str
    auction: str
    """The newest auction, and the most that there may be."""
    milestones: str
    price_max: Grains
    deadline: int | None
    """The last block of its state. None for a task that has ended."""
    why: str | None
    """The reason for its wait, or its end."""
    claims: list[dict[str, Any]] | None = None
    """The open claims of its results."""
    dispute: dict[str, Any] | None = None
    """The open dispute about it."""


TASK_COLUMNS = tuple(each.name for each in fields(TaskView))
TASK_SHOWN = tuple(name for name in TASK_COLUMNS if name not in {"claims", "dispute"})
"""The columns for people."""


def task_view(task_id: bytes, task: Task, checks: TaskChecks | None = None) -> TaskView:
    """Return a task as a row of a list."""
    return TaskView(
        task=task_id,
        state=progress(task),
        auction=f"{task.auction}/{task.order.auctions}",
        milestones=_milestones(task),
        price_max=Grains(task.terms.price_max),
        deadline=task.deadline or None if is_open(task) else None,
        why=why(task, checks),
        claims=None if checks is None else checks.claim_facts(),
        dispute=None if checks is None else checks.dispute_facts(),
    )


def history_row(task_id: bytes, task: Task, cost: int | None = None) -> dict[str, Any]:
    """Return a row of the task history: outcome, and cost in grains. Of several slots it shows the first."""
    slot = task.slots[0] if task.slots else None
    code = exit_code_of(task)
    ended = None if slot is None else slot.finished_at or None
    return {
        "task": task_id,
        "kind": _kind(task),
        "state": _history_state(task, code),
        "exit_code": code,
        "provider": None if slot is None else Account(slot.provider),
        "submitted": task.submitted_at,
        "started": task.started_at or None,
        "blocks": None if not ended or not task.started_at else ended - task.started_at,
        "milestones": _milestones(task),
        "price": None if not task.slots else Grains(sum(each.price for each in task.slots)),
        "cost_before_fees": grains_of(cost),
        "outcome": None if task.outcome is None else task.outcome.name.lower(),
    }


def history_shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for people. The provider's address is shortened, because a line has no room for it."""
    provider = row["provider"]
    return row | {"provider": None if provider is None else ss58.encode(provider)[:ACCOUNT_LETTERS]}


def exit_code_of(task: Task) -> int | None:
    """Return the exit code of a task's program, as its provider stated it, or None without a statement."""
    results = [slot.result for slot in task.slots if slot.result is not None]
    if not runs_program(task.order) or not results:
        return None
    agreed = agreed_results(task) if is_replicated(task.order) else []
    return agreed[0][1].metric if agreed else results[0].metric


def ended_well(task: Task) -> bool:
    """Return True if the customer has a result and, for a job, the exit code is 0.

    The provider stops a lease's program when its time is over, with any exit code. The customer bought the time.
    """
    is_job = runs_program(task.order) and task.order.checked_by is not CheckedBy.LEASED
    return task.outcome in DONE and (not is_job or exit_code_of(task) == 0)


def _kind(task: Task) -> str:
    if not runs_program(task.order):
        return workload_name(task.order.workload)
    return "lease" if task.order.checked_by is CheckedBy.LEASED else "job"


def _history_state(task: Task, code: int | None) -> str:
    """Return the state by the names of Slurm's accounting."""
    if is_open(task):
        return "running" if task.started_at else "pending"
    if task.outcome in (*CANCELLED, TaskOutcome.TIME_STOPPED):
        return "cancelled"
    return "completed" if ended_well(task) or (task.outcome in DONE and code is None) else "failed"


def devices_of_task(task: Task) -> list[bytes]:
    """Return the devices in a task's slots, and the runner-up's."""
    return [slot.device for slot in task.slots] + ([] if task.standby is None else [task.standby.device])


def task_facts(
    task_id: bytes,
    task: Task,
    chain_time: ChainTime,
    checks: TaskChecks | None = None,
    unproven: Mapping[bytes, str] | None = None,
) -> dict[str, Any]:
    """Return all facts about a task without its slots. `chain_time` gives the times of its blocks."""
    order, terms, held = task.order, task.terms, task.checkpoint
    deadline = task.deadline or None if is_open(task) else None
    classes = [kind.name.lower() for kind in DeviceClass if order.classes >> kind & 1]
    return {
        "task": task_id,
        "state": progress(task),
        "why": why(task, checks),
        "customer": Account(task.customer),
        "workload": workload_name(order.workload),
        "task_hash": order.task_hash,
        "devices": order.slots,
        "classes": ", ".join(classes),
        "price_max": Grains(terms.price_max),
        "value_of_a_block": Grains(terms.time_value),
        "loss_on_failure": Grains(terms.loss),
        "collateral_of_a_bid": Grains(terms.collateral_min),
        "blocks_max": terms.blocks_max,
        "time_max": f"about {format_duration(chain_time.seconds_to(chain_time.height + terms.blocks_max))}",
        "submitted_in_block": task.submitted_at,
        "submitted_about": date_text(chain_time.block_ms(task.submitted_at)),
        "auction": f"{task.auction} of {order.auctions}",
        "bids": task.bids,
        "bids_opened": task.revealed,
        "milestones": _milestones(task),
        "milestones_that_count": task.behind + task.done,
        "checkpoint": None if held is None else held.milestone.number,
        "checkpoint_root": None if held is None else held.milestone.root,
        "checkpoint_holder": None if held is None else Account(held.holder),
        "standby": None if task.standby is None else Account(task.standby.provider),
        "standby_price": None if task.standby is None else Grains(task.standby.price),
        "standby_why_no_work": None if task.standby is None else (unproven or {}).get(task.standby.device),
        "standby_is_bound": None if task.standby is None else task.standby.is_bound,
        "deadline_of_this_state": deadline,
        "time_to_the_deadline": None if deadline is None else chain_time.distance_text(deadline),
        "record_kept_up_to_block": None if is_open(task) else task.deadline,
        "record_kept_until_about": None if is_open(task) else date_text(chain_time.block_ms(task.deadline)),
        "outcome": None if task.outcome is None else task.outcome.name.lower(),
    }


def slot_rows(task: Task, unproven: Mapping[bytes, str]) -> list[dict[str, Any]]:
    """Return a row for each slot of the newest leg, with the reason why its device gets no other work, if any."""
    return [
        _slot_row(task, place, slot) | {"why_no_work": unproven.get(slot.device)}
        for place, slot in enumerate(task.slots)
    ]


def auction_rows(task: Task, auction: int, award: Award | None, bids: Mapping[bytes, TaskBid]) -> list[dict[str, Any]]:
    """Return the bids of an auction, each with the reason for its place, or its progress if undecided."""
    if award is not None and award.seed is not None:
        return bid_rows(explained_auction(award, bids))
    is_open = task.state is TaskState.AWARDING or task.outcome is TaskOutcome.CANCELLED_BEFORE_AWARD
    if award is not None and not (auction == task.auction and is_open):
        # Too few bids were revealed for a winner.
        return bid_rows(explained_auction(award, bids))
    return [_undecided(task, device, bid) for device, bid in sorted(bids.items())]


def workload_name(workload: bytes) -> str:
    """Return the name of a workload, or its id if this program does not know it."""
    if workload == CONTAINER_WORKLOAD:
        return "container"
    return registry.workload_name(workload) or "0x" + workload.hex()


def metric_unit(workload: bytes) -> str | None:
    """Return the unit of a run's metric; None if this program does not know it."""
    return registry.METRIC_UNITS.get(workload_name(workload))


def _milestones(task: Task) -> str:
    """Return the milestones that all current or last providers have stated.

    For bought time these are paid intervals.
    """
    is_over = all(slot.outcome is not None for slot in task.slots)
    stated = max((slot.reported for slot in task.slots), default=0) if is_over else kept_step(task)
    return f"{task.behind + stated}/{task.order.milestones}"


def _slot_row(task: Task, place: int, slot: Slot) -> dict[str, Any]:
    newest, result = slot.milestone, slot.result
    said = result if result is not None else newest
    number = None if said is None else said.metric
    is_program = runs_program(task.order)
    return {
        "place": place,
        "provider": Account(slot.provider),
        "device": slot.device,
        "price": Grains(slot.price),
        "promised": slot.promised,
        "collateral": Grains(slot.collateral),
        "started_in_block": slot.started_at or None,
        "milestone": None if newest is None else newest.number,
        "exit_code": number if is_program else None,
        "metric": None if is_program else number,
        "metric_unit": None if is_program or number is None else metric_unit(task.order.workload),
        "result": None if result is None else result.root,
        "outcome": None if slot.outcome is None else slot.outcome.name.lower(),
    }


def _undecided(task: Task, device: bytes, bid: TaskBid) -> dict[str, Any]:
    opened = bid.opened
    row: dict[str, Any] = dict.fromkeys((*BID_COLUMNS, "why"))
    row |= {"class": bid.device_class.name.lower(), "device": device, "provider": Account(bid.provider)}
    is_taken_back = task.outcome is TaskOutcome.CANCELLED_BEFORE_AWARD
    if opened is not None:
        row |= {"promised": opened.blocks, "collateral": Grains(opened.collateral), "price": Grains(opened.price)}
        follows = "the award follows once all bids are revealed and the beacon is final"
        return row | {"fate": "opened", "why": TAKEN_BACK if is_taken_back else follows}
    if task.state in (TaskState.COMMITTING, TaskState.REVEALING):
        when = " until the reveal phase" if task.state is TaskState.COMMITTING else f" up to block {task.deadline}"
        return row | {"fate": "sealed", "why": f"price, time and collateral are sealed{when}"}
    why = f"it was never revealed: {TAKEN_BACK}" if is_taken_back else "it was not revealed in time: its bond burns"
    return row | {"fate": "not opened", "why": why}


def with_bare_amounts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows for people, for a table whose title names the unit of all amounts."""
    return [
        {name: BareGrains(value) if isinstance(value, Grains) else value for name, value in row.items()} for row in rows
    ]


def shortened(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows for people, with the ids of devices and the roots of results shortened to their first bytes."""
    return [
        {name: value[:BYTES_SHOWN] if name in SHORTENED and value is not None else value for name, value in row.items()}
        for row in rows
    ]


def columns_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that have a value in some row."""
    return tuple(name for name in columns if any(row[name] is not None for row in rows))


BID_COLUMNS = (
    "place", "fate", "score", "price", "time", "risk", "promised", "collateral", "pay", "class", "device", "provider",
)  # fmt: skip
EXPLAINED_COLUMNS = (*BID_COLUMNS, "why")
WHY_COLUMNS = ("place", "device", "fate", "why")


def bid_rows(bids: Sequence[ExplainedBid]) -> list[dict[str, Any]]:
    """Return a row with every column for each bid."""
    return [_row(bid) for bid in bids]


def _row(bid: ExplainedBid) -> dict[str, Any]:
    score = bid.score
    return {
        "place": bid.place,
        "fate": "not opened" if bid.fate is None else bid.fate.name.lower().replace("_", " "),
        "score": None if score is None else Grains(score.total),
        "price": None if score is None else Grains(score.price),
        "time": None if score is None else Grains(score.time),
        "risk": None if score is None else Grains(score.risk),
        "promised": bid.promised,
        "collateral": grains_of(bid.collateral),
        "pay": Grains(bid.pay) if bid.pay else None,
        "class": bid.kind.name.lower(),
        "device": bid.device,
        "provider": Account(bid.provider),
        "why": bid.why,
    }
