"""The rungs of a unit: one request, computed by a racer, looked at by nodes, judges and courts.

Judges do here what `gpu_tasks/provider/duties/verdicts.py` has them do, without fetching and unsealing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from benchmarks.ladder.rungs import AUDIT_CHANCE, AUDIT_JUDGES, PROBES_OF_A_COURT, Found, unit_bars
from benchmarks.ladder.statements import checked, signed_reveal
from benchmarks.ladder.timing import lowest
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class UnitSize:
    """A request, as a line of a customer's file with its options, and the place whose probe costs most."""

    label: str
    text: str
    cost_max: int
    options: Mapping[str, str] = field(default_factory=dict)
    place: int = 0


def measured_unit(form: WorkloadForm, workload: Workload, size: UnitSize, turns: int) -> list[Found]:
    """All rungs at one size; RuntimeError where the check refuses what was computed."""
    request = form.encode(size.text, size.cost_max, size.options, bytes(32))
    output, place = workload.run(request), size.place.to_bytes(32, "little")
    if not workload.verify(request, output).valid:
        raise RuntimeError(f"{form.name}: its own output is refused")
    seconds = lowest(
        {
            "provider": partial(workload.run, request),
            "check": partial(workload.verify, request, output),
            "probe": partial(workload.trace, request, output, place),
            "attestation": partial(checked, signed_reveal(form, output)),
        },
        turns,
    )
    judge = seconds["check"] + seconds["probe"]
    taken = {
        "attestation": seconds["attestation"],
        "check": seconds["check"],
        "judge": judge,
        "court": seconds["check"] + PROBES_OF_A_COURT * seconds["probe"],
        "audit": AUDIT_CHANCE * AUDIT_JUDGES * judge,
    }
    bars = unit_bars(form.name)
    return [
        Found(form.name, "unit", size.label, rung, seconds["provider"], spent, bars[rung])
        for rung, spent in taken.items()
    ]
