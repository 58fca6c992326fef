"""The rungs of a unit: a racer computes one request, and nodes, judges and courts verify it.

Judges compute the same here as in `gpu_tasks/provider/duties/verdicts.py`, without fetching and unsealing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, cast

from benchmarks.ladder.rungs import (
    AUDIT_CHANCE,
    AUDIT_JUDGES,
    PROBES_OF_A_COURT,
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
    """A request, as a line of a customer's file with its options, and the place of the most expensive probe."""

    label: str
    text: str
    cost_max: int
    options: Mapping[str, str] = field(default_factory=dict)
    place: int = 0
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
    output, place = workload.run(request), size.place.to_bytes(32, "little")
    if not workload.verify(request, output).valid:
        raise RuntimeError(f"{form.name}: its own output is refused")
    work: dict[str, Callable[[], object]] = {
        "provider": partial(workload.run, request),
        "check": partial(workload.verify, request, output),
        "probe": partial(workload.trace, request, output, place),
        "attestation": partial(checked, signed_reveal(form, output)),
    }
    bars = unit_bars(form.name)
    if form.name in SPOTS:
        spot_check = cast("SpotChecked", workload).spot_check
        work[SPOT_RUNG.name] = partial(spot_check, request, output, bytes(32), SPOTS[form.name])
        bars[SPOT_RUNG.name] = spots_bar(form.name, size.places)
    seconds = lowest(work, turns)
    judge = seconds["check"] + seconds["probe"]
    taken = seconds | {
        "judge": judge,
        "court": seconds["check"] + PROBES_OF_A_COURT * seconds["probe"],
        "audit": AUDIT_CHANCE * AUDIT_JUDGES * judge,
    }
    return [
        Found(form.name, "unit", size.label, rung, seconds["provider"], taken[rung], bar) for rung, bar in bars.items()
    ]
