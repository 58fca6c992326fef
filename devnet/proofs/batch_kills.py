"""`python -m devnet.proofs.batch_kills`: a provider killed with SIGKILL in the middle of a batch of 4,096 requests.

A devnet of six validators, one of which offers its device. Its daemon and child processes are killed four times: twice
while it computes, once after its commitment is in a block and before its result is, and once while it has samples to
show. Each time it is restarted at once.

The requirements: a validator checks its claim, and the unit is settled for it once. Each request is answered once, and
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
from gpu_tasks.market.claims.claims import CheckEnd, ClaimStage, ResultClaim
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Refund, Unit, UnitState, is_open, unit_id_of
from gpu_tasks.provider.journal.finished import all_finished
from gpu_tasks.provider.journal.schema import read_journal
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

VALIDATOR_COUNT, VICTIM_NAME = 6, "Alice"
MAX_TOKENS, PRICE_TEXT = 8, "0.05"
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
    """True if a check of its claim passed."""
    attempts: int = 0
    collateral_lost: int = 0
    answered: int = 0
    posted: int = 0
    seconds: float = 0.0


def failures_of(batch: KilledBatch) -> list[str]:
    """Return a sentence for each failed requirement."""
    expected_kills = len(KILLED_AFTER) + 2
    requirements = (
        (batch.settled_for == VICTIM_NAME, f"the unit was settled for {batch.settled_for}"),
        (batch.attempts == 1, f"the unit was drawn {batch.attempts} times"),
        (not batch.is_refuted, "its result was refuted"),
        (batch.is_checked, "no check of its claim passed"),
        (batch.repeated == 0, f"{batch.repeated} finished requests were computed again"),
        (batch.answered == batch.requests, f"{batch.answered:,} of {batch.requests:,} requests are answered once"),
        (batch.collateral_lost == 0, f"{batch.collateral_lost:,} grains of its collateral are gone"),
        (batch.posted == 1, f"{batch.posted} units were posted"),
        (
            len(batch.kills) == expected_kills,
            f"it was killed {len(batch.kills)} times, not {expected_kills}: {', '.join(batch.kills)}",
        ),
    )
    return [sentence for is_met, sentence in requirements if not is_met]


def answered_once(result_json: str) -> int:
    """Return the number of requests with exactly one answer in the output of `ogpu unit result --json`."""
    answers = Counter(row["index"] for row in json.loads(result_json)["answers"] if row["output"] is not None)
    return sum(count == 1 for count in answers.values())


class BatchKilling:
    """Posts one batch, and kills its provider."""

    def __init__(self, stage: Stage) -> None:
        """Begin without a unit."""
        self._stage, self._batch = stage, KilledBatch(stage.options.requests)
        self._base_path = stage.devnet.home(stage.member(VICTIM_NAME)) / "provider"
        self._start_time = time.monotonic()

    def kill_midway(self) -> KilledBatch:
        """Follow the batch from its post to the end of its check."""
        prompts = purchase.read_prompts(purchase.DEFAULT_PROMPTS, self._batch.requests)
        file = purchase.write_prompts(self._stage, "requests", prompts)
        arguments = purchase.post_arguments(file, 1, PRICE_TEXT, batch=self._batch.requests, max_tokens=MAX_TOKENS)
        self._stage.ogpu("unit post", *arguments, "--anyway", is_shown=False)
        # The daemon's record of finished requests must survive SIGKILL, so the kill comes between two of its writes.
        for share in KILLED_AFTER:
            goal = share * self._batch.requests
            self._wait_until(lambda goal=goal: self._finished() >= goal)  # type: ignore[misc]
            self._kill_victim(f"computing, {100 * share:.0f} %")
        self._stage.ask(self._to_the_end)
        self._batch.seconds = time.monotonic() - self._start_time
        unit_id = "0x" + self._stage.ask(_customer_unit_id).hex()
        result_json = self._stage.ogpu("unit result", unit_id, "--key", CUSTOMER_KEY, is_shown=False)
        self._batch.answered = answered_once(result_json)
        return self._batch

    def _finished(self) -> int:
        """Return the number of requests recorded as finished, and count repeated records."""
        records = Counter(read_journal(self._base_path, all_finished))
        if records:
            self._batch.finished, self._batch.repeated = (len(records), sum(count - 1 for count in records.values()))
        return len(records)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        if not processes.until(condition, WAIT_SECONDS, POLL_SECONDS):
            raise DevnetError(f"nothing goes on after {WAIT_SECONDS:.0f} s; logs in {self._stage.devnet.folder}")

    def _kill_victim(self, kill_moment: str) -> None:
        self._batch.kills[kill_moment] = self._finished()
        finished = f"{self._batch.kills[kill_moment]:,} requests were finished"
        self._stage.kill_and_restart(VICTIM_NAME, f"({kill_moment}, {finished})")

    async def _to_the_end(self, chain: ChainClient) -> None:
        """Kill at the chain's stages, and record the final state."""
        self._batch.posted = await chain.read(InferenceMarket.post_counts, keypair_from_suri(CUSTOMER_KEY).account)
        unit_id, started, collateral = await _customer_unit_id(chain), time.monotonic(), 0
        while time.monotonic() < started + WAIT_SECONDS:
            self._finished()
            status = await market_reads.unit(chain, unit_id)
            if status is None:
                raise DevnetError("the chain does not know the unit")
            collateral = max(collateral, *(racer.collateral for racer in status.unit.racers), 0)
            if status.claim is not None:
                self._batch.is_checked |= any(check.end is CheckEnd.PASSED for check in status.claim.checks)
            if self._is_over(status.unit, collateral):
                return
            self._strike_if_due(status.unit, status.claim)
            await asyncio.sleep(POLL_SECONDS)
        raise DevnetError(f"the unit is not over after {WAIT_SECONDS:.0f} s")

    def _strike_if_due(self, record: Unit, claim: ResultClaim | None) -> None:
        is_committed = record.state is UnitState.RACING and any(racer.commitment for racer in record.racers)
        is_showing = claim is not None and claim.stage is ClaimStage.SHOWING
        for kill_moment, is_due in (("committed", is_committed), ("samples to show", is_showing)):
            if is_due and kill_moment not in self._batch.kills:
                self._kill_victim(kill_moment)

    def _is_over(self, record: Unit, collateral: int) -> bool:
        if is_open(record):
            return False
        winner, batch = winner_of(record), self._batch
        victim_stash = dev_accounts.stash(VICTIM_NAME)
        batch.settled_for = (
            VICTIM_NAME if winner is not None and winner.owner == victim_stash else record.state.name.lower()
        )
        batch.is_refuted = record.refund is Refund.REFUTED
        batch.attempts = record.attempt
        batch.collateral_lost = collateral - (0 if winner is None else winner.collateral)
        return True


async def _customer_unit_id(chain: ChainClient) -> bytes:
    return unit_id_of(chain.genesis_hash, keypair_from_suri(CUSTOMER_KEY).account, 0)


def figures(facts_by_scenario: Mapping[str, KilledBatch]) -> str:
    """Return the line of figures."""
    batch = facts_by_scenario["batch"]
    return (
        f"{batch.answered:,} of {batch.requests:,} requests answered once, {len(batch.kills)} kills, "
        f"{batch.repeated} finished requests computed again, {batch.posted} unit paid once, {batch.seconds:.0f} s"
    )


BATCH_NETWORK = FreshDevnet(VALIDATOR_COUNT, prepare=lambda stage: stage.leave_devices_to(VICTIM_NAME))
PROOF = LiveProof(
    "batch_kills",
    "Kill a provider amid a large batch.",
    [
        Scenario(
            "batch", "{requests:,} requests in one unit", BATCH_NETWORK.open,
            lambda stage: BatchKilling(stage).kill_midway(), failures_of,
        ),
    ],
    figures,
    [ProofOption("--requests", REQUESTS_MAX, "in the unit")],
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
