"""`python -m devnet.proofs.work --units 200`: honest work alone, with one provider killed midway; exit 1 on a failure.

The requirements: every unit is settled and paid exactly once. Its completion decrypts and matches its hash. The killed
provider returns and is paid again, and no provider is slashed or fined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from devnet.stage.actors import purchase
from devnet.stage.actors.purchase import UnitView, name_of
from devnet.stage.network import FreshDevnet, Stage
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed
from wallet.amounts import format_amount

VICTIM = "Bob"


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


def worked(stage: Stage) -> HonestWork:
    """Buy units. When half of them have ended, kill the victim's provider and restart it."""
    wanted, killed = stage.options.units, list[int]()

    def on_ended(count: int, row: UnitView) -> None:
        if count >= wanted // 2 and not killed:
            killed.append(int(row["ended_in_block"]))
            stage.kill_and_restart(VICTIM, f"after block {killed[0]}")

    prompts = purchase.read_prompts(purchase.DEFAULT_PROMPTS, wanted)
    units, book, wrong = purchase.trace(stage, purchase.buy(stage, prompts, on_ended))
    slashed = [name_of(each.provider) for _, each in book.all(ProviderSlashed)]
    fined = [name_of(each.provider) for _, each in book.all(RaceMissed)]
    return HonestWork(wanted, units, killed[0] if killed else None, wrong, slashed, fined)


def failures_of(work: HonestWork) -> Iterator[str]:
    """Yield every failed requirement."""
    yield from work.wrong_sums
    for unit in work.units:
        if unit["times_paid"] != 1 or unit["state"] != "settled" or unit["completion"] is None:
            yield f"unit {unit['unit']} is {unit['state']} and was paid {unit['times_paid']} times"
    if len(work.units) != work.wanted:
        yield f"{len(work.units)} units instead of {work.wanted}"
    yield from (f"{name} was slashed" for name in work.slashed)
    yield from (f"{name} was fined for a miss" for name in work.fined)
    killed_at = work.killed_after_block
    if killed_at is None:
        yield "nothing was killed"
    elif not any(
        unit.get("block", 0) > killed_at and VICTIM in (unit["payee"], unit["witness"]) for unit in work.units
    ):
        yield f"{VICTIM} was not paid again after it was killed"


def figures(facts: Mapping[str, HonestWork]) -> str:
    """Return the line of figures."""
    units = facts["units"].units
    paid = format_amount(sum(int(unit.get("cost_grains", 0)) for unit in units))
    once = sum(unit["times_paid"] == 1 for unit in units)
    return f"{once} of {len(units)} units paid once, {paid} oGPU in all, one provider killed midway"


PROOF = LiveProof(
    "work",
    "Honest work, with a provider killed midway.",
    [
        Scenario(
            "units", f"{{units}} units; {VICTIM}'s provider is killed midway", FreshDevnet().open, worked, failures_of
        )
    ],
    figures,
    [ProofOption("--units", 200, "to be posted")],
)

if __name__ == "__main__":
    run(PROOF)
