"""`python -m devnet.proofs.batch_kills`: a provider killed with SIGKILL in the middle of a batch of 4,096 requests.

A devnet of six validators, one of which offers its device. Its daemon and child processes are killed four times: twice
while it computes, once after its commitment is in a block and before its result is, and once while it has leaves to
show. Each time it is restarted at once.

The requirements: the unit is settled for it once, and its leaf check confirms that. Each request is answered once, and
no finished request is computed again. Its collateral is intact, and no other provider was drawn. The proof writes
`out/batch_kills.json`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from devnet.launcher import processes
from devnet.launcher.folder import DevnetError
from devnet.stage.actors import purchase
from devnet.stage.network import CUSTOMER_KEY, FreshDevnet, Stage
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run
from genesis import dev_accounts
from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.client.units.results import winner_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, unit_id_of
from gpu_tasks.market.leaf_checks.checks import LeafStage
from gpu_tasks.provider.journal.finished import records_in
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

VALIDATORS, VICTIM = 6, "Alice"
MAX_TOKENS, PRICE = 8, "0.05"
KILLED_AFTER = (0.25, 0.6)
"""The shares of finished requests at which the provider is killed."""
POLL_SECONDS = 0.1
WAIT_SECONDS = 900.0


@dataclass(slots=True)
class KilledBatch:
    """The outcome of the batch."""

    requests: int
    kills: dict[str, int] = field(default_factory=dict)
    """The number of finished requests at each kill."""
    finished: int = 0
    """All requests recorded as finished, at the last look."""
    repeated: int = 0
    """Those recorded more than once."""
    settled_for: str | None = None
    is_refuted: bool = True
    is_checked: bool = False
    """True if its leaf check has ended."""
    attempts: int = 0
    collateral_lost: int = 0
    answered: int = 0
    posted: int = 0
    seconds: float = 0.0


def failures_of(found: KilledBatch) -> list[str]:
    """Return a sentence for each failed requirement."""
    wanted = len(KILLED_AFTER) + 2
    bars = (
        (found.settled_for == VICTIM, f"the unit was settled for {found.settled_for}"),
        (found.attempts == 1, f"the unit was drawn {found.attempts} times"),
        (not found.is_refuted, "its result was refuted"),
        (found.is_checked, "its leaves were not looked at to the end"),
        (found.repeated == 0, f"{found.repeated} finished requests were computed again"),
        (found.answered == found.requests, f"{found.answered:,} of {found.requests:,} requests are answered once"),
        (found.collateral_lost == 0, f"{found.collateral_lost:,} grains of its collateral are gone"),
        (found.posted == 1, f"{found.posted} units were posted"),
        (len(found.kills) == wanted, f"it was killed {len(found.kills)} times, not {wanted}: {', '.join(found.kills)}"),
    )
    return [sentence for holds, sentence in bars if not holds]


def answered_once(shown: str) -> int:
    """Return the number of requests with exactly one answer in the output of `ogpu unit result --json`."""
    places = Counter(row["index"] for row in json.loads(shown)["answers"] if row["output"] is not None)
    return sum(count == 1 for count in places.values())


class BatchKilling:
    """Posts one batch, and kills its provider."""

    def __init__(self, stage: Stage) -> None:
        """Begin without a unit."""
        self._stage, self._found = stage, KilledBatch(stage.options.requests)
        self._batches = stage.net.home(stage.member(VICTIM)) / "provider" / "batches"
        self._began = time.monotonic()

    def run(self) -> KilledBatch:
        """Follow the batch from its post to the end of its check."""
        prompts = purchase.read_prompts(purchase.DEFAULT_PROMPTS, self._found.requests)
        file = purchase.write_prompts(self._stage, "requests", prompts)
        words = purchase.post_words(file, 1, PRICE, batch=self._found.requests, max_tokens=MAX_TOKENS)
        self._stage.ogpu("unit post", *words, "--anyway", is_shown=False)
        for share in KILLED_AFTER:
            self._until(lambda goal=share: self._finished() >= goal * self._found.requests)  # type: ignore[misc]
            self._kill(f"computing, {100 * share:.0f} %")
        self._stage.ask(self._to_the_end)
        self._found.seconds = time.monotonic() - self._began
        unit = "0x" + self._stage.ask(_unit_of_customer).hex()
        shown = self._stage.ogpu("unit result", unit, "--key", CUSTOMER_KEY, is_shown=False)
        self._found.answered = answered_once(shown)
        return self._found

    def _finished(self) -> int:
        """Return the number of requests recorded as finished, and count repeated records."""
        places = Counter(place for path in self._batches.glob("*") for place, _ in records_in(path))
        if places:
            self._found.finished, self._found.repeated = len(places), sum(count - 1 for count in places.values())
        return len(places)

    def _until(self, holds: Callable[[], bool]) -> None:
        if not processes.until(holds, WAIT_SECONDS, POLL_SECONDS):
            raise DevnetError(f"nothing goes on after {WAIT_SECONDS:.0f} s; logs in {self._stage.net.folder}")

    def _kill(self, when: str) -> None:
        self._found.kills[when] = self._finished()
        finished = f"{self._found.kills[when]:,} requests were finished"
        self._stage.kill_and_restart(VICTIM, f"({when}, {finished})")

    async def _to_the_end(self, chain: ChainClient) -> None:
        """Kill at the chain's stages, and record the final state."""
        self._found.posted = await chain.read(InferenceMarket.post_counts, keypair_from_suri(CUSTOMER_KEY).account)
        unit_id, began, held = await _unit_of_customer(chain), time.monotonic(), 0
        while time.monotonic() < began + WAIT_SECONDS:
            self._finished()
            status = await market_reads.unit(chain, unit_id)
            if status is None:
                raise DevnetError("the chain does not know the unit")
            held = max(held, *(racer.collateral for racer in status.unit.racers), 0)
            if self._is_over(status.unit, held):
                return
            check = await market_reads.check(chain, unit_id)
            self._strike(status.unit, None if check is None else check.stage)
            await asyncio.sleep(POLL_SECONDS)
        raise DevnetError(f"the unit is not over after {WAIT_SECONDS:.0f} s")

    def _strike(self, unit: Unit, leaf_stage: LeafStage | None) -> None:
        is_committed = unit.state is UnitState.RACING and any(racer.commitment for racer in unit.racers)
        for when, is_due in (("committed", is_committed), ("leaves to show", leaf_stage is LeafStage.SHOWING)):
            if is_due and when not in self._found.kills:
                self._kill(when)

    def _is_over(self, unit: Unit, held: int) -> bool:
        if unit.state in (UnitState.QUEUED, UnitState.RACING, UnitState.JUDGING) or unit.is_watched:
            return False
        winner, found = winner_of(unit), self._found
        stash = dev_accounts.stash(VICTIM)
        found.settled_for = VICTIM if winner is not None and winner.owner == stash else unit.state.name.lower()
        found.is_refuted, found.is_checked, found.attempts = unit.is_refuted, bool(unit.leaf_audit_ppm), unit.attempt
        found.collateral_lost = held - (0 if winner is None else winner.collateral)
        return True


async def _unit_of_customer(chain: ChainClient) -> bytes:
    return unit_id_of(chain.genesis_hash, keypair_from_suri(CUSTOMER_KEY).account, 0)


def figures(facts: Mapping[str, KilledBatch]) -> str:
    """Return the line of figures."""
    found = facts["batch"]
    return (
        f"{found.answered:,} of {found.requests:,} requests answered once, {len(found.kills)} kills, "
        f"{found.repeated} finished requests computed again, {found.posted} unit paid once, {found.seconds:.0f} s"
    )


NETWORK = FreshDevnet(VALIDATORS, prepare=lambda stage: stage.leave_devices_to(VICTIM))
PROOF = LiveProof(
    "batch_kills",
    "Kill a provider amid a large batch.",
    [
        Scenario(
            "batch", "{requests:,} requests in one unit", NETWORK.open, lambda stage: BatchKilling(stage).run(),
            failures_of,
        ),
    ],
    figures,
    [ProofOption("--requests", REQUESTS_MAX, "in the unit")],
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
