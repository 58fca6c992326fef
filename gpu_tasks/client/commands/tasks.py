"""Commands about task files that need no node: what a file comes to, and the schema of all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from gpu_tasks.client.task_files import load, load_input
from gpu_tasks.market.training.terms import default_loss
from gpu_tasks.tasks.canonical import PreparedTask, prepare
from gpu_tasks.tasks.json_schema import task_schema
from gpu_tasks.tasks.quantities import UNITS_MS, TimeSpan
from gpu_tasks.tasks.training_task import TaskFile
from gpu_tasks.workloads import registry
from wallet.amounts import SYMBOL, format_amount
from wallet.output import Grains
from wallet.session import WalletSession, explained

_DEFAULT_VALUE = "a quarter of the greatest price over the deadline"
_DEFAULT_COLLATERAL = "the least that the chain asks for"
file_argument = click.argument("file", type=click.Path(path_type=Path))


@click.command()
@file_argument
@click.pass_obj
def check(session: WalletSession, file: Path) -> None:
    """Read the task of FILE and say what it asks for, or all that is wrong with it; no node is asked."""

    def body() -> None:
        found = load(file)
        # Any chance will do to find out whether there is such a request; it is named only where the file chooses it.
        prepared = prepare(found, load_input(file, found), bytes(32))
        session.output.facts(facts_of(found, prepared))

    explained(body)


@click.command()
def schema() -> None:
    """Print the JSON Schema of task files, for editors and programs."""
    click.echo(json.dumps(task_schema(), indent=2))


def facts_of(file: TaskFile, prepared: PreparedTask) -> dict[str, Any]:
    """What a file asks for, defaults included, for people and programs."""
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
