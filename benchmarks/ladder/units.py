"""The rungs of a unit: a racer computes one request, and nodes, checkers and voters verify it.

Checkers compute the same here as in `gpu_tasks/provider/duties/checking.py`, without fetching and unsealing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, cast

from benchmarks.ladder.rungs import (
    CHECKS_EXPECTED,
    SPOT_RUNG,
    SPOTS,
    Found,
    spots_bar,
    unit_bars,
)
from benchmarks.ladder.statements import checked, signed_reveal
from benchmarks.ladder.timer import lowest
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.workload import OutputCheck, Workload


@dataclass(frozen=True, slots=True)
class UnitSize:
    """A request, as a line of a customer's file with its options."""

    label: str
    text: str
    cost_max: int
    options: Mapping[str, str] = field(default_factory=dict)
    places: int = 0
    """The number of places of an output that can be checked at drawn places, else 0."""


class SpotChecked(Protocol):
    """A workload whose output can be checked at drawn places."""

    def spot_check(self, request: bytes, output: bytes, seed: bytes, count: int) -> OutputCheck:
        """Return whether `count` drawn places are right."""
        ...


def measured_unit(form: WorkloadForm, workload: Workload, size: UnitSize, turns: int) -> list[Found]:
    """Return all rungs at one size. Raise RuntimeError if the check refuses the workload's own output."""
    request = form.encode(size.text, size.cost_max, size.options, bytes(32))
    output, seed = workload.run(request), bytes(32)
    if not workload.verify(request, output).valid:
        raise RuntimeError(f"{form.name}: its own output is refused")
    work: dict[str, Callable[[], object]] = {
        "provider": partial(workload.run, request),
        "check": partial(workload.check, request, output, seed),
        "sample": partial(workload.fingerprint, request, output, seed),
        "attestation": partial(checked, signed_reveal(form, output)),
    }
    bars = unit_bars(form.name)
    if form.name in SPOTS:
        spot_check = cast("SpotChecked", workload).spot_check
        work[SPOT_RUNG.name] = partial(spot_check, request, output, seed, SPOTS[form.name])
        bars[SPOT_RUNG.name] = spots_bar(form.name, size.places)
    seconds = lowest(work, turns)
    taken = seconds | {"claim": CHECKS_EXPECTED * (seconds["check"] + seconds["sample"])}
    return [
        Found(form.name, "unit", size.label, rung, seconds["provider"], taken[rung], bar) for rung, bar in bars.items()
    ]
