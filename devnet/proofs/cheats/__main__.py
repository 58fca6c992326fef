"""`python -m devnet.proofs.cheats`: every known way to cheat the market, on real devnets; exit 1 on a failure.

The order is: units, sessions, tasks. Each group has its own requirements and its own devnet.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from devnet.proofs.cheats import sessions, tasks
from devnet.proofs.cheats.findings import CheatFinding, CheatFindings
from devnet.proofs.cheats.unit_scenes import (
    CHECKER_SCENES,
    COLLUDING_SCENES,
    LAYER_SCENES,
    RESULT_SCENES,
    STRANGER_SCENES,
)
from devnet.proofs.cheats.units import UNITS_NETWORK, play_scenes
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run

TASK_COUNT = 5
UNIT_SCENARIOS = {
    "results": ("False and withheld results, and cheats in races", RESULT_SCENES),
    "checkers": ("Checkers that cheat", CHECKER_SCENES),
    "collusion": ("A provider and checkers that collude", COLLUDING_SCENES),
    "strangers": ("Providers that were not drawn", STRANGER_SCENES),
    "layers": ("A model without its last layers", LAYER_SCENES),
}


def figures(facts_by_scenario: Mapping[str, CheatFinding | CheatFindings]) -> str:
    """Return the line of figures."""
    findings: list[CheatFinding] = []
    for facts in facts_by_scenario.values():
        findings += facts.findings if isinstance(facts, CheatFindings) else [facts]
    checks = [check for finding in findings for check in finding.checks]
    right_amounts = sum(check.taken == check.expected for check in checks)
    return (
        f"{sum(finding.mode != tasks.HONEST_TASKS for finding in findings)} cheats, caught in "
        f"{sum(finding.caught for finding in findings)} of {sum(finding.units for finding in findings)} units, "
        f"{sum(finding.sessions for finding in findings)} sessions, "
        f"{sum(finding.tasks for finding in findings)} tasks, {sum(finding.refused for finding in findings)} of "
        f"{sum(finding.tried for finding in findings)} attempts refused, {right_amounts} of {len(checks)} amounts as "
        "the table says"
    )


PROOF = LiveProof(
    "cheats",
    "Cheat the market in every known way.",
    (
        *(
            Scenario(name, title, UNITS_NETWORK.open, partial(play_scenes, scenes=scenes))
            for name, (title, scenes) in UNIT_SCENARIOS.items()
        ),
        *sessions.SCENARIOS,
        *tasks.SCENARIOS,
    ),
    figures,
    (ProofOption("--tasks", TASK_COUNT, "tasks without a cheat"),),
)

if __name__ == "__main__":
    run(PROOF)
