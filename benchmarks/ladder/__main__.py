"""`make ladder`: the verifier's computation over the provider's, for each workload and rung of verification.

Both are CPU times of one process and one run, each the lowest of several turns. Fetching, unsealing and the worker's
pipe are not included. Writes out/ladder.json and, as tables for docs/verification.md, out/ladder.md. The exit status is
1 if a bar is missed. `rungs.py` has the bars with their reasons. It takes about 90 seconds on two cores.

A last table has the costs of a claim: fees, collateral, and the time to its end (`claim_costs.py`).
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.built_in import PROMPT, WORKLOAD
from benchmarks.figures import machine
from benchmarks.ladder import claim_costs, page
from benchmarks.ladder.rungs import Found, failures
from benchmarks.ladder.tasks import TaskSize, measured_task
from benchmarks.ladder.units import UnitSize, measured_unit
from benchmarks.training import text
from gpu_tasks.workloads.model_forms import PACKAGE_FORMS
from gpu_tasks.workloads.render_tile.request import COST_MAX
from gpu_tasks.workloads.stepwise import stepwise
from simulation.runs import ended

OUT = Path("out/ladder.json")
TURNS = 3
ROOM = """
picture {0} {1}; samples 16; bounces 4; camera 0 0 -7.5 0 0 0 1.2
box -8 -8 -8 8 8 8 matte #c8c8c0; sphere -1.5 -1 0.4 2 mirror #f4f4f4; sphere 2.1 1.7 -0.6 1.5 matte #d8473a
box 1.6 -6 1.2 3 -1 4 matte #3f9c8f; sphere 0 6 0 1 light #fff0d8 20
"""
"""A closed room. No path leaves it, so all rows take equal work."""
GREEDY = {"temperature": "0"}
"""At temperature 0 no text ends early by chance."""


def unit_sizes() -> dict[str, tuple[UnitSize, ...]]:
    """Return the sizes of each workload's units, small to large."""
    learnt = text()
    return {
        "matmul-hash": (
            UnitSize("64 products of 64 rows", "1 64 64", 64),
            UnitSize("256 of 64", "1 64 256", 256),
            UnitSize("256 of 128", "1 128 256", 256),
        ),
        WORKLOAD: tuple(UnitSize(f"{tokens} tokens", PROMPT.decode(), tokens, GREEDY) for tokens in (32, 96, 200)),
        "render-tile": tuple(
            UnitSize(f"{columns} x {rows} pixels", ROOM.format(columns, rows), COST_MAX, places=columns * rows)
            for columns, rows in ((64, 64), (128, 96), (256, 192))
        ),
        "train-int8": tuple(UnitSize(f"{steps:,} steps", learnt, steps) for steps in (100, 400)),
    }


def task_sizes() -> dict[str, tuple[TaskSize, ...]]:
    """Return the sizes of the tasks of each stepwise workload, small to large.

    A segment has 20 steps or 4 rows of a tile.
    """
    learnt = text()
    return {
        "render-tile": tuple(
            TaskSize(f"{rows // 4} segments, {rows} rows", ROOM.format(160, rows), COST_MAX, {"segment": "4"})
            for rows in (40, 120, 240)
        ),
        "train-int8": tuple(
            TaskSize(f"{steps // 20} segments, {steps:,} steps", learnt, steps) for steps in (200, 1_000, 4_000)
        ),
    }


def main() -> int:
    """Measure, write the reports and print a summary."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ladder", description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS, help="of each measurement; the lowest counts")
    turns = parser.parse_args().turns
    started = time.monotonic()
    rows = list(measured(turns))
    failed, seconds = failures(rows), round(time.monotonic() - started)
    figures = [asdict(row) | {"share": row.share, "holds": row.holds} for row in rows]
    claims = list(claim_costs.costs_of(rows, {form.name: form.check_ppm for form in PACKAGE_FORMS}))
    content = {
        "machine": machine(), "seconds": seconds, "turns": turns, "failures": failed, "rungs": figures,
        "claims": [asdict(row) for row in claims],
    }  # fmt: skip
    status = ended(OUT, content, failed, page.line(rows, len(failed), seconds))
    shown = f"{page.page(rows)}\n\n{claim_costs.table(claims)}\n"
    OUT.with_suffix(".md").write_text(shown, encoding="utf-8")
    print(claim_costs.table(claims))
    return status


def measured(turns: int) -> Iterator[Found]:
    """Yield every rung of every registered workload. Raise KeyError if a workload has no sizes here."""
    of_units, of_tasks = unit_sizes(), task_sizes()
    for form in PACKAGE_FORMS:
        workload = form.open("numpy")
        for unit in of_units[form.name]:
            print(f"== {form.name}, a unit of {unit.label}", flush=True)
            yield from measured_unit(form, workload, unit, turns)
        if not form.is_stepwise:
            continue
        for task in of_tasks[form.name]:
            print(f"== {form.name}, a task of {task.label}", flush=True)
            yield from measured_task(form, stepwise(workload), task, turns)


if __name__ == "__main__":
    sys.exit(main())
