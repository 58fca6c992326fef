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
    cheat_findings = [
        finding
        for findings_or_one in facts_by_scenario.values()
        for finding in (findings_or_one.findings if isinstance(findings_or_one, CheatFindings) else [findings_or_one])
    ]
    amount_checks = [check for cheat_finding in cheat_findings for check in cheat_finding.checks]
    right_amounts = sum(check.taken == check.expected for check in amount_checks)
    return (
        f"{sum(cheat_finding.mode != tasks.HONEST_TASKS for cheat_finding in cheat_findings)} cheats, "
        f"{sum(finding.units for finding in cheat_findings)} units, {sum(finding.tasks for finding in cheat_findings)} "
        f"tasks, {sum(finding.refused for finding in cheat_findings)} of "
        f"{sum(finding.tried for finding in cheat_findings)} attempts refused, "
        f"{sum(finding.slashed for finding in cheat_findings)} slashes, "
        f"{sum(finding.fined for finding in cheat_findings)} fines, {right_amounts} of {len(amount_checks)} amounts as "
        "the table says"
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
