"""Commands about task files before a submission: content, schema, eligible devices and cost."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cli.output import Account
from cli.session import CallFailedError, WalletSession, note
from gpu_tasks.client.offers import outlook
from gpu_tasks.client.offers.outlook import grains_of, spendable
from gpu_tasks.client.tasks.estimates import UNSEALED, TaskEstimate, Willingness, estimate_of, willingness_of
from gpu_tasks.client.tasks.orders import LoadedTask, load_any
from gpu_tasks.market.training.items import auction_items
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.terms import default_loss
from gpu_tasks.tasks.canonical import PreparedTask
from gpu_tasks.tasks.container_order import PreparedContainer, intervals_of
from gpu_tasks.tasks.container_task import JOB, LEASE, ContainerTask
from gpu_tasks.tasks.plan import BiddingDevice, Hindrance, PlannedDevice, TaskPlan, plan_of
from gpu_tasks.tasks.quantities import UNITS_MS, TimeSpan
from gpu_tasks.tasks.task_kinds import AskedTask, AskedTraining, task_schema
from gpu_tasks.tasks.training_task import TaskFile
from gpu_tasks.workloads import registry
from runtime.cryptography import ss58
from wallet.amounts import SYMBOL, Grains, counted, format_amount
from wallet.client import ChainClient

_DEFAULT_VALUE = "a quarter of the maximum price over the deadline"
_DEFAULT_COLLATERAL = "the chain's minimum"
SEED_BYTES = 32
ANY_SLOT_MS = 1_000
"""The length of a slot where no chain is asked."""


def check(session: WalletSession, file: Path) -> None:
    """Carry out `ogpu task check`."""
    # A fixed seed, so that the same file shows the same facts each time.
    asked = load_any(file).asked(bytes(32), ANY_SLOT_MS)
    session.output.facts(facts_of(asked, ANY_SLOT_MS))


def schema(kind: str) -> None:
    """Carry out `ogpu task schema`."""
    click.echo(json.dumps(task_schema(kind), indent=2))


def facts_of(asked: AskedTask, slot_ms: int) -> dict[str, Any]:
    """Return the facts of a task file, defaults included."""
    match asked:
        case AskedTraining():
            return _of_training(asked.file, asked.prepared)
        case PreparedContainer():
            return _of_container(asked, slot_ms)
        case _:
            raise AssertionError("there are facts of every kind")


def _of_container(asked: PreparedContainer, slot_ms: int) -> dict[str, Any]:
    task, (blocks, intervals) = asked.file.task, intervals_of(asked.file, slot_ms)
    return {
        "task": task.name,
        "kind": LEASE if task.is_lease else JOB,
        "image": str(task.image),
        "command": shlex.join(task.command) or "the image's own",
        "inputs": ", ".join(task.inputs) or "none",
        "secrets": f"{', '.join(task.secrets)}: handed to the provider that runs it" if task.secrets else "none",
        "network": task.network.name.lower(),
        "ports": ", ".join(map(str, task.ports)) or "none",
        "request_bytes": len(asked.request),
        "gpus": task.gpus,
        "cpu": f"{task.cpu_thousandths / 1_000:g} cores",
        "memory": f"{task.memory_bytes >> 20} MiB",
        "disk": f"{task.disk_bytes >> 20} MiB",
        "classes": ", ".join(kind.name.lower() for kind in task.classes),
        **_how_paid(task, blocks, intervals),
        "ends": "when its time is up" if task.is_lease else "when its program ends",
        "price_max": Grains(task.price_max),
        "loss_on_failure": Grains(default_loss(task.price_max) if task.loss is None else task.loss),
        "collateral": Grains(task.collateral) if task.collateral else _DEFAULT_COLLATERAL,
    }


def _how_paid(task: ContainerTask, blocks: int, intervals: int) -> dict[str, Any]:
    """Return the time that is bought, with replicas or the time of keeping files."""
    time = f"{_time(task.time)}: {counted(blocks, 'block')}"
    if task.copies > 1:
        copies = f"{task.copies}, of several owners. Each that agrees with the majority is paid the price"
        return {"copies": copies, "time": f"{time} at most, paid in full"}
    kept = {} if task.keep is None else {"keep": f"{_time(task.keep)} after its end"}
    return {"time": f"{time} in {counted(intervals, 'interval')}"} | kept


def _of_training(file: TaskFile, prepared: PreparedTask) -> dict[str, Any]:
    task = file.task
    unit = registry.form_named(task.workload).cost_unit
    value = task.time_value
    return {
        "task": task.name,
        "workload": task.workload,
        "input": task.input,
        "request_bytes": len(prepared.request),
        "cost": f"{prepared.canonical.cost} {unit}s",
        "segments": prepared.segments,
        "milestones": prepared.canonical.milestones,
        "devices": task.devices,
        "classes": ", ".join(kind.name.lower() for kind in task.classes),
        "price_max": Grains(task.price_max),
        "value_of_time": _DEFAULT_VALUE
        if value is None
        else f"{format_amount(value.grains)} {SYMBOL} for {_time(value.span)}",
        "loss_on_failure": Grains(default_loss(task.price_max) if task.loss is None else task.loss),
        "collateral": Grains(task.collateral) if task.collateral else _DEFAULT_COLLATERAL,
        "deadline": _time(task.deadline),
        "seed": "of the file" if task.seed else "drawn at each submission",
        "task_hash": prepared.task_hash if task.seed else None,
    }


def _time(span: TimeSpan) -> str:
    """Return a time as a file writes it."""
    if span.blocks:
        return counted(span.blocks, "block")
    parts, left = [], span.milliseconds
    for unit, milliseconds in UNITS_MS.items():
        count, left = divmod(left, milliseconds)
        parts += [f"{count}{unit}"] if count else []
    return " ".join([*parts, f"{left} ms"] if left else parts)


@dataclass(frozen=True, slots=True)
class TaskOutlook:
    """The outlook of a task that is submitted now, by one final block."""

    asked: AskedTask
    rules: TaskRules
    slot_ms: int
    plan: TaskPlan
    estimate: TaskEstimate
    says: Willingness

    def market_facts(self) -> dict[str, Any]:
        """Return the facts about its auction."""
        rival = "the best loser" if self.plan.has_rival else "nobody: the maximum price is paid"
        return {"price_is_set_by": rival, "standby": outlook.standby_of(self.plan)}


async def outlook_of(client: ChainClient, loaded: LoadedTask, account: bytes | None, final: bytes) -> TaskOutlook:
    """Return the eligible devices for a task of this account, their owners' answers, and the expected cost."""
    slot_ms = outlook.slot_ms(client)
    asked = loaded.asked(os.urandom(SEED_BYTES), slot_ms)
    numbers = await outlook.auction_numbers(client, final, asked.checked_by)
    terms, intervals = asked.terms(numbers.rules, slot_ms), asked.intervals(slot_ms)
    outlook.require_interval(terms, intervals, numbers, slot_ms)
    own = frozenset[bytes]() if account is None else await outlook.own(client, account, final)
    devices = await outlook.bidding_devices(client, final)
    items = auction_items(asked.order(UNSEALED, numbers.rules, slot_ms), 0)
    found = plan_of(terms, asked.classes, numbers, devices, own, intervals, asked.checked_by, items)
    says = await willingness_of(client, asked, numbers.rules, found, slot_ms, final)
    estimate = await estimate_of(client, asked, numbers.rules, found, slot_ms, final)
    return TaskOutlook(asked, numbers.rules, slot_ms, found, estimate, says)


DEVICE_COLUMNS = ("device", "provider", "class", "could_bid", "why_not", "policy")


def plan(session: WalletSession, file: Path, key_text: str | None) -> None:
    """Carry out `ogpu task plan`."""
    loaded = load_any(file)  # Read the file before any node is asked.

    async def body(client: ChainClient) -> None:
        account = None if key_text is None else session.account(key_text)
        seen = await outlook_of(client, loaded, account, await client.finalized())
        answer, says = seen.plan, seen.says
        funds = None if account is None else await spendable(client, account)
        facts = _facts(seen, funds, is_for_programs=session.output.as_json)
        _show(session, {**facts_of(seen.asked, seen.slot_ms), **facts}, answer, says)
        if not outlook.sells_tasks(client):
            note("this chain sells no tasks yet. Cost and start assume the auction's initial parameters")
        elif answer.is_served:
            note("these devices are eligible. Their owners decide whether they bid; their answers are not binding")
        if not answer.is_served:
            raise CallFailedError(
                f"no device can run the task now: {answer.why_not}. See `why not` of each device", code="not_served"
            )
        if why := says.why_too_few(answer.terms.slots):
            raise CallFailedError(why, code="too_few_willing")
        if funds is not None and funds < answer.locked + answer.prepaid:
            needed = format_amount(answer.locked + answer.prepaid)
            raise CallFailedError(
                f"{ss58.encode(account or b'')} can spend {format_amount(funds)} oGPU, and the task needs {needed}",
                code="funds",
            )

    session.run(body)


def _show(session: WalletSession, facts: dict[str, Any], answer: TaskPlan, says: Willingness) -> None:
    rows = [_device(planned, answer, says) for planned in answer.devices]
    if session.output.as_json:
        session.output.facts({**facts, **says.facts(), "devices_known": rows})
        return
    del facts["served"]
    facts["could_bid"] = says.sentence
    session.output.facts(facts)
    session.output.rows("Devices", DEVICE_COLUMNS, rows)


def _facts(seen: TaskOutlook, funds: int | None, *, is_for_programs: bool) -> dict[str, Any]:
    answer = seen.plan
    return {
        "served": answer.is_served,
        "could_bid": answer.able,
        **seen.market_facts(),
        "collateral_of_a_bid": Grains(answer.terms.collateral_min),
        "locked": Grains(answer.locked),
        **outlook.lock_facts(answer.locks, is_for_programs=is_for_programs),
        "prepaid": Grains(answer.prepaid),
        "most": Grains(answer.most),
        **seen.estimate.facts(),
        "spendable": grains_of(funds),
        "starts_after": _blocks(answer.starts_from, seen.slot_ms),
        "starts_by": _blocks(answer.starts_by, seen.slot_ms),
        "ends_by": _blocks(answer.ends_by, seen.slot_ms),
    }


def _blocks(count: int, slot_ms: int) -> str:
    return f"{counted(count, 'block')}, {-(-count * slot_ms // 1_000)} s or more"


def _device(planned: PlannedDevice, answer: TaskPlan, says: Willingness) -> dict[str, Any]:
    device = planned.device
    return {
        "device": device.device,
        "provider": Account(device.owner),
        "class": device.kind.name.lower(),
        "could_bid": planned.hindrance is None,
        "why_not": None if planned.hindrance is None else _why(planned.hindrance, device, answer),
        "policy": None if planned.hindrance is not None else says.answers[device.owner],
    }


def _why(hindrance: Hindrance, device: BiddingDevice, answer: TaskPlan) -> str:
    """Return the reason why a device is not eligible, with the deciding numbers."""
    says: str = hindrance.value
    match hindrance:
        case Hindrance.BOND:
            return f"{says}: {format_amount(device.bond)} oGPU of {format_amount(device.bond_min)}"
        case Hindrance.FUNDS:
            needed = format_amount(answer.terms.collateral_min)
            return f"{says}: {needed} oGPU for each bid, and it has {format_amount(device.spendable)}"
        case _:
            return says
