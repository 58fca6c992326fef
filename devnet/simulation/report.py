"""Figures of many runs: for people one line, for machines one JSON object."""

from collections import Counter
from collections.abc import Sequence

from devnet.simulation.scenario import ScenarioOutcome


def summarise(outcomes: Sequence[ScenarioOutcome], failures: Sequence[str], wall_s: float) -> dict[str, object]:
    """All figures of a set of runs."""
    names = list(dict.fromkeys(one.scenario for one in outcomes))
    return {
        "runs": len(outcomes),
        "simulated_hours": round(sum(one.simulated_s for one in outcomes) / 3600, 2),
        "wall_s": round(wall_s, 1),
        "failures": list(failures),
        "finals_after_healing_min": min(one.finals_after_healing for one in outcomes),
        "soft_conflicts": sum(one.soft_conflicts for one in outcomes),
        "soft_reverts": sum(one.soft_reverts for one in outcomes),
        "accused_keys": sum(one.accused for one in outcomes),
        "scenarios": {name: _of_scenario([one for one in outcomes if one.scenario == name]) for name in names},
        "traces": {f"{one.scenario}/{one.seed}": one.trace for one in outcomes},
    }


def _of_scenario(outcomes: Sequence[ScenarioOutcome]) -> dict[str, object]:
    messages: Counter[str] = Counter()
    for one in outcomes:
        messages.update(one.messages)
    blocks = max(1, sum(one.finals for one in outcomes))
    accept = sorted(value for one in outcomes for value in one.accept_ms)
    final = sorted(value for one in outcomes for value in one.final_ms)
    return {
        "runs": len(outcomes),
        "failed": sum(bool(one.failures) for one in outcomes),
        "finals_after_healing": sorted(one.finals_after_healing for one in outcomes)[:: max(1, len(outcomes) - 1)],
        "soft_conflicts": sum(one.soft_conflicts for one in outcomes),
        "soft_reverts": sum(one.soft_reverts for one in outcomes),
        "accused_keys": sum(one.accused for one in outcomes),
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
    assert isinstance(failures, list)  # made above
    return (
        f"simulate: {report['runs']} runs, {report['simulated_hours']} simulated hours, "
        f"{len(failures)} failures, {report['soft_reverts']} soft reverts, "
        f"{report['accused_keys']} keys accused (none honest unless failed), "
        f"at least {report['finals_after_healing_min']} finals after healing, {report['wall_s']} s"
    )
