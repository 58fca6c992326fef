"""Commands about task files that need no node: what a file comes to, and the schema of all of them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click

from gpu_tasks.client.task_files import load_any
from gpu_tasks.client.training.stages import counted
from gpu_tasks.market.training.terms import default_loss
from gpu_tasks.tasks.canonical import PreparedTask
from gpu_tasks.tasks.container_order import PreparedContainer, intervals_of
from gpu_tasks.tasks.container_task import JOB, LEASE, ContainerTask
from gpu_tasks.tasks.quantities import UNITS_MS, TimeSpan
from gpu_tasks.tasks.task_kinds import FORMS, AskedTask, AskedTraining, task_schema
from gpu_tasks.tasks.training_task import KIND, TaskFile
from gpu_tasks.workloads import registry
from wallet.amounts import SYMBOL, format_amount, parse_amount
from wallet.errors import AmountError
from wallet.output import Grains
from wallet.session import WalletSession, explained

_DEFAULT_VALUE = "a quarter of the greatest price over the deadline"
_DEFAULT_COLLATERAL = "the least that the chain asks for"
ANY_SLOT_MS = 1_000
"""Where no chain is asked, of which slots would be known."""


class TaskPrice(click.ParamType[str]):
    """An amount for a task file, which needs the unit; a command line may omit it."""

    name = "oGPU"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the amount as a file has it; the file's reader refuses other texts."""
        try:
            parse_amount(value)
        except AmountError:
            return value
        return f"{value} {SYMBOL}"


TASK_PRICE = TaskPrice()
file_argument = click.argument("file", type=click.Path(path_type=Path))


@click.command()
@file_argument
@click.pass_obj
def check(session: WalletSession, file: Path) -> None:
    """Read the task of FILE and say what it asks for, or all that is wrong with it; no node is asked."""

    def body() -> None:
        # Any chance, and any slots, will do to find out whether there is such a request.
        asked = load_any(file).asked(bytes(32), ANY_SLOT_MS)
        session.output.facts(facts_of(asked, ANY_SLOT_MS))

    explained(body)


@click.command()
@click.option("--kind", type=click.Choice(list(FORMS)), default=KIND, show_default=True, help="Of task files.")
def schema(kind: str) -> None:
    """Print the JSON Schema of task files, for editors and programs."""
    click.echo(json.dumps(task_schema(kind), indent=2))


def facts_of(asked: AskedTask, slot_ms: int) -> dict[str, Any]:
    """What a file asks for, defaults included, for people and programs."""
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
        "secrets": f"{', '.join(task.secrets)}: handed to who runs it" if task.secrets else "none",
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
    """What is bought, and what comes beside it where the file asks for that."""
    time = f"{_time(task.time)}: {counted(blocks, 'block')}"
    if task.copies > 1:
        copies = f"{task.copies}, of several owners: who finds what most of them do is paid the price"
        return {"copies": copies, "time": f"{time} at most, paid whole"}
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
        "classes": ", ".join(kind.name.lower() for kind in task.classes) + (", all the same" * task.is_homogeneous),
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
    """As a file would say it."""
    if span.blocks:
        return "1 block" if span.blocks == 1 else f"{span.blocks} blocks"
    parts, left = [], span.milliseconds
    for unit, milliseconds in UNITS_MS.items():
        count, left = divmod(left, milliseconds)
        parts += [f"{count}{unit}"] if count else []
    return " ".join([*parts, f"{left} ms"] if left else parts)
