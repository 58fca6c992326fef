"""`python -m devnet.proofs.batch_kills`: a provider that is killed with -9 in the middle of a batch of 4,096 requests.

A devnet of six validators, one of which offers its device. Its daemon and all that it started are killed twice while it
computes, once after its commitment is in a block and before its result is, and once while it has leaves to show; each
time it is started again at once.

Bars: the unit is settled for it, once, and stays so when its leaves have been looked at; each request is answered once;
no request that was finished is computed again; nothing of its collateral is gone, and nobody else was drawn. Writes
`out/batch_kills.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from devnet.demo import stage
from devnet.demo.purchase import DEFAULT_PROMPTS, read_prompts
from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher import processes, programs
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.launcher.processes import source_path
from devnet.measuring import report
from genesis import dev_accounts
from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.client.results import winner_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, unit_id_of
from gpu_tasks.market.leaf_checks.checks import LeafStage
from gpu_tasks.provider.journal.finished import records_in
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

FOLDER = report.FOLDER / "batch_kills"
VALIDATORS, VICTIM, CUSTOMER = 6, "Alice", "//Ferdie"
MAX_TOKENS, PRICE = 8, "0.05"
KILLED_AFTER = (0.25, 0.6)
"""Of the requests."""
POLL_SECONDS = 0.1
WAIT_SECONDS = 900.0


@dataclass(slots=True)
class KilledBatch:
    """What came of the batch."""

    requests: int
    kills: dict[str, int] = field(default_factory=dict)
    """When, and how many requests were finished then."""
    finished: int = 0
    """Noted as finished, in all, up to the last look."""
    repeated: int = 0
    """Of them more than once."""
    settled_for: str | None = None
    is_refuted: bool = True
    is_checked: bool = False
    """Whether its leaves were looked at until nobody doubts them any more."""
    attempts: int = 0
    collateral_lost: int = 0
    answered: int = 0
    posted: int = 0
    seconds: float = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """A fresh devnet, the batch, the kills, the judgement; 0 if every bar held."""
    parser = argparse.ArgumentParser("devnet.proofs.batch_kills", description="Kill a provider amid a large batch.")
    parser.add_argument("--requests", type=int, default=REQUESTS_MAX)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the network; emptied first")
    options = parser.parse_args(arguments)
    tell, net = Narrator(2), None
    with network.ending_on_signals():
        try:
            tell.step(f"Network: {VALIDATORS} validators, of which {VICTIM} offers its device")
            net = stage.fresh_network(options.folder, VALIDATORS, any_ports=True, detach=False, tell=tell)
            for member in net.members:
                if member.name != VICTIM:
                    stage.set_device(net, member, "pause")
            tell.step(f"Batch: {options.requests:,} requests in one unit")
            found = BatchKilling(net, options.requests, tell).run()
        finally:
            if net is not None:
                network.down(net)
    failures = failures_of(found)
    path = report.write("batch_kills", {**asdict(found), "failures": failures})
    for failure in failures:
        tell.line(f"FAILED: {failure}")
    sys.stdout.write(
        f"batch_kills: {found.answered:,} of {found.requests:,} requests answered once, {len(found.kills)} kills, "
        f"{found.repeated} finished requests computed again, {found.posted} unit paid once, {found.seconds:.0f} s; "
        f"{len(failures)} failures; {path}\n"
    )
    return 1 if failures else 0


def failures_of(found: KilledBatch) -> list[str]:
    """Which bars did not hold, as sentences."""
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
    """How many requests have one answer, and one only, in what `ogpu result --json` prints."""
    places = Counter(row["index"] for row in json.loads(shown)["answers"] if row["output"] is not None)
    return sum(count == 1 for count in places.values())


class BatchKilling:
    """Posts one batch, and kills who computes it."""

    def __init__(self, net: Devnet, requests: int, tell: Narrator) -> None:
        """Nothing is posted yet."""
        self._net, self._tell, self._found = net, tell, KilledBatch(requests)
        self._batches = net.home(net.member(VICTIM)) / "provider" / "batches"
        self._file, self._log = net.folder / "requests.txt", net.folder / "ogpu.log"
        self._began = time.monotonic()

    def run(self) -> KilledBatch:
        """The batch from its post to the end of its check."""
        lines = read_prompts(DEFAULT_PROMPTS, self._found.requests)
        self._file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        words = ["--url", self._net.members[0].rpc_url, "post", str(self._file), "--key", CUSTOMER, "--yes", "--anyway"]
        words += ["--batch", str(self._found.requests), "--max-tokens", str(MAX_TOKENS), "--racers", "1"]
        programs.run("ogpu", *words, "--price", PRICE, keyring=self._net.keyring)
        for share in KILLED_AFTER:
            self._until(lambda goal=share: self._finished() >= goal * self._found.requests)  # type: ignore[misc]
            self._kill(f"computing, {100 * share:.0f} %")
        asyncio.run(self._to_the_end())
        self._found.seconds = time.monotonic() - self._began
        self._found.answered = self._answered()
        return self._found

    def _finished(self) -> int:
        """How many requests are noted as finished; what was noted twice is counted."""
        places = Counter(place for path in self._batches.glob("*") for place, _ in records_in(path))
        if places:
            self._found.finished, self._found.repeated = len(places), sum(count - 1 for count in places.values())
        return len(places)

    def _until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + WAIT_SECONDS
        while not holds():
            if time.monotonic() > end:
                raise DevnetError(f"nothing goes on after {WAIT_SECONDS:.0f} s; logs in {self._net.folder}")
            time.sleep(POLL_SECONDS)

    def _kill(self, when: str) -> None:
        victim = network.provider_process(self._net, self._net.member(VICTIM))
        pid = processes.kill(victim)
        self._found.kills[when] = self._finished()
        processes.start(victim)
        self._tell.line(f"killed process {pid} with -9 ({when}): {self._found.kills[when]:,} requests were finished")

    async def _to_the_end(self) -> None:
        """The kills that follow what the chain says, and what it says at last."""
        async with await ChainClient.connect(self._net.members[0].rpc_url) as chain:
            account = keypair_from_suri(CUSTOMER).account
            self._found.posted = await chain.read(InferenceMarket.posted, account)
            unit_id, began, held = unit_id_of(chain.genesis_hash, account, 0), time.monotonic(), 0
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

    def _strike(self, unit: Unit, stage: LeafStage | None) -> None:
        is_committed = unit.state is UnitState.RACING and any(racer.commitment for racer in unit.racers)
        for when, is_due in (("committed", is_committed), ("leaves to show", stage is LeafStage.SHOWING)):
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

    def _answered(self) -> int:
        """How many requests have an answer of their own, as their customer fetches them."""
        unit = "0x" + asyncio.run(self._unit()).hex()
        words = ["--url", self._net.members[0].rpc_url, "--json", "result", unit, "--key", CUSTOMER]
        command = [sys.executable, "-m", programs.MODULES["ogpu"], *words]
        env = {**source_path(), "OGPU_KEYRING": str(self._net.keyring)}
        shown = subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout
        return answered_once(shown)

    async def _unit(self) -> bytes:
        async with await ChainClient.connect(self._net.members[0].rpc_url) as chain:
            return unit_id_of(chain.genesis_hash, keypair_from_suri(CUSTOMER).account, 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"batch_kills: {failure}")
