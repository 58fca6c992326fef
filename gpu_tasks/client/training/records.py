"""A task and its auctions as rows and facts: what the chain says of anybody's task.

Always: what others have written on the chain is numbers, hashes and accounts here, never a text of theirs; a bid whose
auction is not decided has no place and no fate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cli.output import Account
from gpu_tasks.client.funds import grains_of
from gpu_tasks.client.training import stages
from gpu_tasks.market.courts_api import CaseStatus
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.bids import Award, TaskBid
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy, is_replicated, runs_program
from gpu_tasks.market.training.tasks import Slot, Task, TaskState, is_open, kept_step, panel
from gpu_tasks.tasks.bid_explanation import ExplainedBid
from gpu_tasks.tasks.container_request import CONTAINER_WORKLOAD
from gpu_tasks.tasks.replica_check import agreed_results
from gpu_tasks.tasks.task_check import explained_auction
from gpu_tasks.workloads import registry
from runtime.cryptography import ss58
from wallet.amounts import BareGrains, Grains

BYTES_SHOWN = 4
ACCOUNT_LETTERS = 8
SHORTENED = ("device", "result")
TAKEN_BACK = "the customer took the task back before the award"
TASK_COLUMNS = ("task", "state", "auction", "milestones", "price_max", "deadline", "why")
HISTORY_COLUMNS = (
    "task", "kind", "state", "exit_code", "provider", "submitted", "started", "blocks", "milestones", "price",
    "cost_before_fees", "outcome",
)  # fmt: skip
HISTORY_SHOWN = ("task", "kind", "state", "exit_code", "provider", "submitted", "started", "blocks", "cost_before_fees")
"""For people."""
HISTORY_STATES = ("pending", "running", "completed", "failed", "cancelled")
DONE = (
    TaskOutcome.ON_TIME, TaskOutcome.LATE, TaskOutcome.ACCEPTED_BY_SILENCE, TaskOutcome.DISPUTED_FALSELY,
    TaskOutcome.TIME_OVER,
)  # fmt: skip
"""The customer has a result."""
CANCELLED = (TaskOutcome.CANCELLED_BEFORE_AWARD, TaskOutcome.CANCELLED_BEFORE_START, TaskOutcome.CANCELLED_RUNNING)
SLOT_COLUMNS = (
    "place", "provider", "device", "price", "promised", "collateral", "started_in_block", "milestone", "exit_code",
    "metric", "metric_unit", "result", "outcome", "why_no_work",
)  # fmt: skip


def task_row(task_id: bytes, task: Task, case: CaseStatus | None = None) -> dict[str, Any]:
    """A task among others."""
    return {
        "task": task_id,
        "state": stages.progress(task),
        "auction": f"{task.auction}/{task.order.auctions}",
        "milestones": _milestones(task),
        "price_max": Grains(task.terms.price_max),
        "deadline": task.deadline or None if is_open(task) else None,
        "why": stages.why(task, case),
    }


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
    """For people: a line has no room for all letters of an address."""
    provider = row["provider"]
    return row | {"provider": None if provider is None else ss58.encode(provider)[:ACCOUNT_LETTERS]}


def exit_code_of(task: Task) -> int | None:
    """What the program of a task ended with, by its provider's word; None where that was not stated."""
    results = [slot.result for slot in task.slots if slot.result is not None]
    if not runs_program(task.order) or not results:
        return None
    agreed = agreed_results(task) if is_replicated(task.order) else []
    return agreed[0][1].metric if agreed else results[0].metric


def ended_well(task: Task) -> bool:
    """Whether its customer has a result, and, of a job, its exit code is 0.

    What runs in a lease is ended when its time is up, with whatever exit code that has: time is what was bought.
    """
    is_job = runs_program(task.order) and task.order.checked_by is not CheckedBy.LEASED
    return task.outcome in DONE and (not is_job or exit_code_of(task) == 0)


def _kind(task: Task) -> str:
    if not runs_program(task.order):
        return workload_name(task.order.workload)
    return "lease" if task.order.checked_by is CheckedBy.LEASED else "job"


def _history_state(task: Task, code: int | None) -> str:
    """As Slurm's accounting has them."""
    if is_open(task):
        return "running" if task.started_at else "pending"
    if task.outcome in (*CANCELLED, TaskOutcome.TIME_STOPPED):
        return "cancelled"
    return "completed" if ended_well(task) or (task.outcome in DONE and code is None) else "failed"


def devices_of_task(task: Task) -> list[bytes]:
    """Those in its slots, and the runner-up's."""
    return [slot.device for slot in task.slots] + ([] if task.standby is None else [task.standby.device])


def task_facts(
    task_id: bytes, task: Task, case: CaseStatus | None = None, unproven: Mapping[bytes, str] | None = None
) -> dict[str, Any]:
    """Everything about a task but its slots."""
    order, terms, held = task.order, task.terms, task.checkpoint
    classes = [kind.name.lower() for kind in DeviceClass if order.classes >> kind & 1]
    return {
        "task": task_id,
        "state": stages.progress(task),
        "why": stages.why(task, case),
        "customer": Account(task.customer),
        "workload": workload_name(order.workload),
        "task_hash": order.task_hash,
        "devices": order.slots,
        "classes": ", ".join(classes) + (", all the same" * order.is_homogeneous),
        "price_max": Grains(terms.price_max),
        "value_of_a_block": Grains(terms.time_value),
        "loss_on_failure": Grains(terms.loss),
        "collateral_of_a_bid": Grains(terms.collateral_min),
        "blocks_max": terms.blocks_max,
        "submitted_in_block": task.submitted_at,
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
        "close_offered_pay": None if task.close is None else Grains(task.close.pay),
        "close_offered_back": None if task.close is None else Grains(task.close.back),
        "deadline_of_this_state": task.deadline or None if is_open(task) else None,
        "record_kept_up_to_block": None if is_open(task) else task.deadline,
        "judged_for": None if task.judged_for is None else task.judged_for.name.lower().replace("_", " "),
        "disputed_segment": task.named,
        "outcome": None if task.outcome is None else task.outcome.name.lower(),
    }


def slot_rows(task: Task, unproven: Mapping[bytes, str]) -> list[dict[str, Any]]:
    """Who works, or has worked, on the newest leg, and why its device gets no other work where it has proven less."""
    return [
        _slot_row(task, place, slot) | {"why_no_work": unproven.get(slot.device)}
        for place, slot in enumerate(task.slots)
    ]


def auction_rows(task: Task, auction: int, award: Award | None, bids: Mapping[bytes, TaskBid]) -> list[dict[str, Any]]:
    """The bids of an auction, each with why it has its place; or how far it is, where nothing is decided."""
    if award is not None and award.seed is not None:
        return bid_rows(explained_auction(award, bids))
    is_open = task.state is TaskState.AWARDING or task.outcome is TaskOutcome.CANCELLED_BEFORE_AWARD
    if award is not None and not (auction == task.auction and is_open):
        return bid_rows(explained_auction(award, bids))  # too few were opened for anybody to win
    return [_undecided(task, device, bid) for device, bid in sorted(bids.items())]


def workload_name(workload: bytes) -> str:
    """How people call it, or its id."""
    if workload == CONTAINER_WORKLOAD:
        return "container"
    form = registry.form_of(workload)
    return "0x" + workload.hex() if form is None else form.name


def metric_unit(workload: bytes) -> str | None:
    """Return the unit of a run's metric; None if this program does not know it."""
    return registry.METRIC_UNITS.get(workload_name(workload))


def _milestones(task: Task) -> str:
    """Those that all have stated, who work or worked last: of time the intervals that are paid."""
    last = [task.slots[place] for place in panel(task)]
    is_over = all(slot.outcome is not None for slot in last)
    stated = max((slot.reported for slot in last), default=0) if is_over else kept_step(task)
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
        follows = "the award follows once all are opened, and the beacon is final"
        return row | {"fate": "opened", "why": TAKEN_BACK if is_taken_back else follows}
    if task.state in (TaskState.COMMITTING, TaskState.REVEALING):
        when = " until the opening begins" if task.state is TaskState.COMMITTING else f" up to block {task.deadline}"
        return row | {"fate": "sealed", "why": f"price, time and collateral are sealed{when}"}
    why = f"it was never opened: {TAKEN_BACK}" if is_taken_back else "it was not opened in time: its bond burns"
    return row | {"fate": "not opened", "why": why}


def with_bare_amounts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows for people, under a title that names the unit of all amounts."""
    return [
        {name: BareGrains(value) if isinstance(value, Grains) else value for name, value in row.items()} for row in rows
    ]


def shortened(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows for people: of a device's id, and of a result's root, the beginning, which tells it from others."""
    return [
        {name: value[:BYTES_SHOWN] if name in SHORTENED and value is not None else value for name, value in row.items()}
        for row in rows
    ]


def columns_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> tuple[str, ...]:
    """Of these columns those in which some row says something."""
    return tuple(name for name in columns if any(row[name] is not None for row in rows))


BID_COLUMNS = (
    "place", "fate", "score", "price", "time", "risk", "promised", "collateral", "pay", "class", "device", "provider",
)  # fmt: skip
EXPLAINED_COLUMNS = (*BID_COLUMNS, "why")
WHY_COLUMNS = ("place", "device", "fate", "why")


def bid_rows(bids: Sequence[ExplainedBid]) -> list[dict[str, Any]]:
    """A row for each bid, with every column."""
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
