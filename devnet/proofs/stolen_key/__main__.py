"""`python -m devnet.proofs.stolen_key`: budgets, and a thief with a delegate's key; exit 1 on a failure.

The requirements: a delegate posts and chats with its own key. A revoked session pays its provider within 30 blocks, and
the owner gets the rest back to the grain. A thief moves no grain to itself, and spends none above a cap, after the
expiry or after the revocation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devnet.proofs.stolen_key import course, theft
from devnet.proofs.stolen_key.scenes import CHAIN_NUMBERS, sell_places
from devnet.stage.network import FreshDevnet
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run
from wallet.amounts import format_amount

NETWORK = FreshDevnet(numbers=CHAIN_NUMBERS, prepare=sell_places)


def figures(facts_by_scenario: Mapping[str, Any]) -> str:
    """Return the line of figures."""
    said = []
    if "course" in facts_by_scenario:
        found = facts_by_scenario["course"]
        said.append(
            f"{format_amount(found.spent)} oGPU spent in {found.sessions} sessions and a unit, the last claim "
            f"{found.claimed_after_blocks} blocks after the revocation"
        )
    if "theft" in facts_by_scenario:
        robbed = facts_by_scenario["theft"]
        said.append(
            f"a thief tried {len(robbed.tried)} calls, spent {format_amount(robbed.taken)} of caps of "
            f"{format_amount(robbed.total_cap)} oGPU, took {format_amount(robbed.to_thief)}, and cost the owner "
            f"{format_amount(robbed.lost)}"
        )
    return "; ".join(said)


PROOF = LiveProof(
    "stolen_key",
    "Budgets, and a thief with a delegate's key.",
    [
        Scenario(
            "course", "A delegate posts and chats; the owner revokes and closes", NETWORK.open, course.use,
            course.failures_of,
        ),
        Scenario(
            "theft", "A thief with the key of a delegate", NETWORK.open, theft.rob, theft.failures_of,
        ),
    ],
    figures,
    [ProofOption("--model", "ogpu-bytes", "whose chat the delegate pays for")],
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
