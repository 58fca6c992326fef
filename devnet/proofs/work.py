"""`python -m devnet.proofs.work --units 200`: honest work alone, with one provider killed midway; exit 1 on a failure.

The requirements: every unit is settled and paid exactly once. Its completion decrypts and matches its hash. The killed
provider returns and is paid again, and no provider is slashed or fined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from devnet.stage.actors import purchase
from devnet.stage.actors.purchase import UnitView, name_of_account
from devnet.stage.network import FreshDevnet, Stage
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed
from wallet.amounts import format_amount

VICTIM_NAME = "Bob"


@dataclass(frozen=True, slots=True)
class HonestWork:
    """The outcome of the units."""

    wanted: int
    units: list[UnitView]
    killed_after_block: int | None
    wrong_sums: list[str]
    slashed: list[str]
    fined: list[str]
    """Providers fined for a miss."""


def buy_and_kill(stage: Stage) -> HonestWork:
    """Buy units. When half of them have ended, kill the victim's provider and restart it."""
    unit_count, kill_blocks = stage.options.units, list[int]()

    def on_ended(ended_count: int, row: UnitView) -> None:
        # Midway, so that units before and after the kill show that the provider is paid again.
        if ended_count >= unit_count // 2 and not kill_blocks:
            kill_blocks.append(int(row["ended_in_block"]))
            stage.kill_and_restart(VICTIM_NAME, f"after block {kill_blocks[0]}")

    prompts = purchase.read_prompts(purchase.DEFAULT_PROMPTS, unit_count)
    views, ledger, wrong_sums = purchase.trace_purchase(stage, purchase.buy_units(stage, prompts, on_ended))
    slashed = [name_of_account(penalty.provider) for _, penalty in ledger.all(ProviderSlashed)]
    fined_providers = [name_of_account(penalty.provider) for _, penalty in ledger.all(RaceMissed)]
    return HonestWork(unit_count, views, kill_blocks[0] if kill_blocks else None, wrong_sums, slashed, fined_providers)


def failures_of(honest_work: HonestWork) -> Iterator[str]:
    """Yield every failed requirement."""
    yield from honest_work.wrong_sums
    for view in honest_work.units:
        if view["times_paid"] != 1 or view["state"] != "settled" or view["completion"] is None:
            yield f"unit {view['unit']} is {view['state']} and was paid {view['times_paid']} times"
    if len(honest_work.units) != honest_work.wanted:
        yield f"{len(honest_work.units)} units instead of {honest_work.wanted}"
    yield from (f"{name} was slashed" for name in honest_work.slashed)
    yield from (f"{name} was fined for a miss" for name in honest_work.fined)
    killed_at = honest_work.killed_after_block
    if killed_at is None:
        yield "nothing was killed"
    elif not any(
        view.get("block", 0) > killed_at and VICTIM_NAME in (view["payee"], view["witness"])
        for view in honest_work.units
    ):
        yield f"{VICTIM_NAME} was not paid again after it was killed"


def figures(facts_by_scenario: Mapping[str, HonestWork]) -> str:
    """Return the line of figures."""
    views = facts_by_scenario["units"].units
    paid_amount = format_amount(sum(int(view.get("cost_grains", 0)) for view in views))
    paid_once = sum(view["times_paid"] == 1 for view in views)
    return f"{paid_once} of {len(views)} units paid once, {paid_amount} oGPU in all, one provider killed midway"


PROOF = LiveProof(
    "work",
    "Honest work, with a provider killed midway.",
    [
        Scenario(
            "units",
            f"{{units}} units; {VICTIM_NAME}'s provider is killed midway",
            FreshDevnet().open,
            buy_and_kill,
            failures_of,
        )
    ],
    figures,
    [ProofOption("--units", 200, "to be posted")],
)

if __name__ == "__main__":
    run(PROOF)
