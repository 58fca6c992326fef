"""`python -m devnet.proofs.cheats`: every known way to cheat the market, on real devnets; exit 1 on a failure.

The order is: units, batches, batches with two different answers, tasks. Each group has its own requirements and its own
devnet. The cheat is a provider beside the validators' providers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from devnet.proofs.cheats import batches, differing, tasks
from devnet.proofs.cheats.units import CheatFinding, CheatFindings, run_cheat
from devnet.stage.cheating.__main__ import UNIT_CHEATS
from devnet.stage.network import VALIDATORS, FreshDevnet
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run

UNIT_COUNT, TASK_COUNT = 120, 5
UNITS_NETWORK = FreshDevnet(
    name="units", is_resizable=True, prepare=lambda stage: stage.add_cheat(next(iter(UNIT_CHEATS)))
)


def figures(facts_by_scenario: Mapping[str, CheatFinding | CheatFindings]) -> str:
    """Return the line of figures."""
    findings: list[CheatFinding] = []
    for facts in facts_by_scenario.values():
        findings += facts.findings if isinstance(facts, CheatFindings) else [facts]
    checks = [check for finding in findings for check in finding.checks]
    right_amounts = sum(check.taken == check.expected for check in checks)
    return (
        f"{sum(finding.mode != tasks.HONEST_TASKS for finding in findings)} cheats, "
        f"{sum(finding.units for finding in findings)} units, {sum(finding.tasks for finding in findings)} "
        f"tasks, {sum(finding.refused for finding in findings)} of {sum(finding.tried for finding in findings)} "
        f"attempts refused, {sum(finding.slashed for finding in findings)} slashes, "
        f"{sum(finding.fined for finding in findings)} fines, {right_amounts} of {len(checks)} amounts as the table "
        "says"
    )


PROOF = LiveProof(
    "cheats",
    "Cheat the market in every known way.",
    (
        *(
            Scenario(mode, f"Mode {mode}: a share of {{units}} units", UNITS_NETWORK.open, partial(run_cheat, mode))
            for mode in UNIT_CHEATS
        ),
        batches.SCENARIO,
        differing.SCENARIO,
        *tasks.SCENARIOS,
    ),
    figures,
    (
        ProofOption("--units", UNIT_COUNT, "units posted in all modes together"),
        ProofOption("--tasks", TASK_COUNT, "tasks without a cheat"),
        ProofOption("--validators", VALIDATORS, "of the units' network, each a provider"),
    ),
)

if __name__ == "__main__":
    run(PROOF)
