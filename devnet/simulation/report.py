"""Figures of many runs: for people one line, for machines one JSON object."""

import re
from collections import Counter
from collections.abc import Sequence

from devnet.simulation.scenario import ScenarioOutcome

SAMPLE = re.compile(r"-k\d+$")
"""At the end of the name of a scenario that polls a sample."""
FAILURES = {
    "conflicting_finals": "conflicting finals",
    "honest_accused": "honest node framed",
    "false_evidence": "do not verify",
    "stalled": "new final blocks after healing",
    "late_and_stuck": "blocks behind",
    "refused_handoffs": "a handoff was refused",
}
"""What may be wrong with a run, and the words by which its failures say so."""


def summarise(outcomes: Sequence[ScenarioOutcome], failures: Sequence[str], wall_s: float) -> dict[str, object]:
    """All figures of a set of runs."""
    names = list(dict.fromkeys(outcome.scenario for outcome in outcomes))
    return {
        "runs": len(outcomes),
        "simulated_hours": round(sum(outcome.simulated_s for outcome in outcomes) / 3600, 2),
        "wall_s": round(wall_s, 1),
        "failures": list(failures),
        "failed_runs": {what: sum(_has(outcome, said) for outcome in outcomes) for what, said in FAILURES.items()},
        "finals_after_healing_min": min(outcome.finals_after_healing for outcome in outcomes),
        "soft_conflicts": sum(outcome.soft_conflicts for outcome in outcomes),
        "soft_reverts": sum(outcome.soft_reverts for outcome in outcomes),
        "accused_keys": sum(outcome.accused for outcome in outcomes),
        "runs_with_samples": sum(SAMPLE.search(outcome.scenario) is not None for outcome in outcomes),
        "runs_with_set_changes": sum(outcome.set_changes > 0 for outcome in outcomes),
        "set_changes": sum(outcome.set_changes for outcome in outcomes),
        "runs_of_kind": dict(sorted(Counter(kind_of(outcome.scenario) for outcome in outcomes).items())),
        "scenarios": {
            name: _of_scenario([outcome for outcome in outcomes if outcome.scenario == name]) for name in names
        },
        "traces": {f"{outcome.scenario}/{outcome.seed}": outcome.trace for outcome in outcomes},
    }


def _has(outcome: ScenarioOutcome, said: str) -> bool:
    return any(said in failure for failure in outcome.failures)


def kind_of(scenario: str) -> str:
    """A scenario's name without the size of its network and of its polls."""
    return SAMPLE.sub("", scenario.partition("-")[2] or scenario)


def _of_scenario(outcomes: Sequence[ScenarioOutcome]) -> dict[str, object]:
    """Figures of the runs of one scenario."""
    messages: Counter[str] = Counter()
    for outcome in outcomes:
        messages.update(outcome.messages)
    healed = sorted(outcome.finals_after_healing for outcome in outcomes)
    blocks = max(1, sum(outcome.finals for outcome in outcomes))
    accept = sorted(value for outcome in outcomes for value in outcome.accept_ms)
    final = sorted(value for outcome in outcomes for value in outcome.final_ms)
    return {
        "runs": len(outcomes),
        "failed": sum(bool(outcome.failures) for outcome in outcomes),
        "finals_after_healing": sorted({healed[0], healed[-1]}),
        "soft_conflicts": sum(outcome.soft_conflicts for outcome in outcomes),
        "soft_reverts": sum(outcome.soft_reverts for outcome in outcomes),
        "accused_keys": sum(outcome.accused for outcome in outcomes),
        "accepted_ms_p50_p99": _percentiles(accept),
        "final_ms_p50_p99": _percentiles(final),
        "messages_per_final_block": {kind: round(number / blocks, 1) for kind, number in sorted(messages.items())},
    }


def _percentiles(ordered: Sequence[int]) -> tuple[int, int] | None:
    if not ordered:
        return None
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]


def summary_line(report: dict[str, object]) -> str:
    """The figures that decide, on one line."""
    failures = report["failures"]
    kinds = report["runs_of_kind"]
    assert isinstance(failures, list)  # made above
    failed = report["failed_runs"]
    assert isinstance(kinds, dict)
    assert isinstance(failed, dict)
    return (
        f"simulate: {report['runs']} runs ({len(kinds)} kinds, "
        f"{min(kinds.values())} to {max(kinds.values())} times each; {report['runs_with_samples']} poll a sample), "
        f"{report['simulated_hours']} simulated hours, "
        f"{len(failures)} failures: {failed['conflicting_finals']} runs with conflicting finals, "
        f"{failed['stalled'] + failed['late_and_stuck']} with stalls, "
        f"{failed['honest_accused'] + failed['false_evidence']} with honest keys accused; "
        f"{report['set_changes']} changes of set in {report['runs_with_set_changes']} runs, "
        f"{report['accused_keys']} guilty keys accused, {report['soft_reverts']} soft reverts, "
        f"at least {report['finals_after_healing_min']} finals after healing, {report['wall_s']} s"
    )
