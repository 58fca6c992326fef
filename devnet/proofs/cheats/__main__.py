"""`python -m devnet.proofs.cheats`: every known way to cheat the market, on real devnets; exit 1 on a failure.

The order is: units, batches, batches with two different answers, tasks. Each group has its own requirements and its own
devnet. The cheat is a provider beside the validators' providers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from devnet.proofs.cheats import batches, differing, tasks
from devnet.proofs.cheats.units import CheatFindings, Finding, cheated
from devnet.stage.cheating.__main__ import CHEATS
from devnet.stage.network import VALIDATORS, FreshDevnet
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run

UNITS, TASKS = 120, 5
UNITS_NETWORK = FreshDevnet(name="units", is_resizable=True, prepare=lambda stage: stage.add_cheat(next(iter(CHEATS))))


def figures(facts_by_scenario: Mapping[str, Finding | CheatFindings]) -> str:
    """Return the line of figures."""
    found = [
        each
        for several in facts_by_scenario.values()
        for each in (several.found if isinstance(several, CheatFindings) else [several])
    ]
    checks = [check for finding in found for check in finding.checks]
    right = sum(check.taken == check.expected for check in checks)
    return (
        f"{sum(finding.mode != tasks.HONEST for finding in found)} cheats, {sum(each.units for each in found)} units, "
        f"{sum(each.tasks for each in found)} tasks, {sum(each.refused for each in found)} of "
        f"{sum(each.tried for each in found)} attempts refused, {sum(each.slashed for each in found)} slashes, "
        f"{sum(each.fined for each in found)} fines, {right} of {len(checks)} amounts as the table says"
    )


PROOF = LiveProof(
    "cheats",
    "Cheat the market in every known way.",
    (
        *(
            Scenario(mode, f"Mode {mode}: a share of {{units}} units", UNITS_NETWORK.open, partial(cheated, mode))
            for mode in CHEATS
        ),
        batches.SCENARIO,
        differing.SCENARIO,
        *tasks.SCENARIOS,
    ),
    figures,
    (
        ProofOption("--units", UNITS, "units posted in all modes together"),
        ProofOption("--tasks", TASKS, "tasks about which nobody cheats"),
        ProofOption("--validators", VALIDATORS, "of the units' network, each a provider"),
    ),
)

if __name__ == "__main__":
    run(PROOF)
