"""`python -m devnet.proofs.files --lines 2000`: a file of requests whose customer is killed with -9 while it posts.

A devnet of four validators with a provider each. `ogpu unit post FILE --out RESULTS` is started, killed at a random
moment, and started again: before the first post, several times while units are in progress, and while answers arrive.
The last run is not killed. The requirements:

* The customer has posted exactly one unit for each part of the file, and the run knows each of them.
* Each unit is settled.
* Every line is once in the results, and none is in the errors.
* The customer lost the payments of its units, the cost of their duty calls, and the fees of posting each unit once.

Writes `out/files.json`.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devnet.launcher import programs
from devnet.launcher.folder import DevnetError
from devnet.stage.actors import purchase
from devnet.stage.network import CUSTOMER, FreshDevnet, Stage
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run
from genesis import dev_accounts
from gpu_tasks.client.units.run_record import BatchRecord, runs_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, unit_id_of
from wallet.amounts import format_amount
from wallet.client import ChainClient

ACCOUNTS = {CUSTOMER: (dev_accounts.stash(CUSTOMER),)}
PRICE, MAX_TOKENS, RACERS = "0.05", 2, 1
UNITS, BATCH_MAX = 125, 128
"""The goal for the number of units, so that posting takes several transactions.

Units have at most BATCH_MAX requests.
"""
POSTING_KILLS, FOLLOWING_KILLS = 4, 2
POLL_SECONDS = 0.02
WAIT_SECONDS = 1_500.0


@dataclass(frozen=True, slots=True)
class FileKill:
    """A kill of the customer, with the state of its records."""

    while_: str
    units_sent: int
    """Units recorded as sent, or about to be sent."""
    units_noted: int
    answered: int


@dataclass(slots=True)
class FileSale:
    """The outcome of the file. Money is in grains."""

    lines: int
    units: int
    kills: list[FileKill] = field(default_factory=list)
    seconds: float = 0.0
    runs: int = 0
    posted: int = 0
    """The chain's count."""
    known: int = 0
    """Units of that count in the run's record."""
    settled: int = 0
    answered_once: int = 0
    errors: int = 0
    spent: int = 0
    paid: int = 0
    prepaid: int = 0
    fees_most: int = 0
    seed: int = 0
    """The seed of the kills' times."""


def failures_of(sale: FileSale) -> list[str]:
    """Return a sentence for each failed requirement."""
    fees = sale.spent - sale.paid - sale.prepaid
    bars = (
        (sale.posted == sale.units, f"{sale.posted:,} units were posted for a file of {sale.units:,}"),
        (sale.known == sale.units, f"the run knows {sale.known:,} of {sale.units:,} units"),
        (sale.settled == sale.units, f"{sale.settled:,} of {sale.units:,} units were settled"),
        (sale.answered_once == sale.lines, f"{sale.answered_once:,} of {sale.lines:,} lines are answered once"),
        (sale.errors == 0, f"{sale.errors:,} lines stand among the errors"),
        (0 < fees <= sale.fees_most, f"fees of {fees:,} grains, where posting once costs {sale.fees_most:,} at most"),
        (
            sum(kill.while_ == "posting" for kill in sale.kills) > 0,
            "nobody was killed while units were on their way: give more lines",
        ),
    )
    return [sentence for holds, sentence in bars if not holds]


class Customer:
    """Posts one file, again and again, until it is answered."""

    def __init__(self, stage: Stage) -> None:
        """Begin without a post."""
        self._stage, net = stage, stage.net
        self._lines: int = stage.options.lines
        self._rng = random.Random(stage.options.seed)
        self._results, self._postings, self._log = (
            net.folder / name for name in ("results.jsonl", "postings", "ogpu.log")
        )
        file = purchase.write_prompts(stage, "requests", [f"n{number} =" for number in range(self._lines)])
        batch = min(BATCH_MAX, max(1, self._lines // UNITS))
        words = purchase.post_words(
            file, RACERS, PRICE, out=self._results, max_tokens=MAX_TOKENS, batch=batch, postings=self._postings
        )
        self._words = [*words, "--anyway"]

    def buy(self) -> FileSale:
        """Buy the answers, through all kills, and record the outcome."""
        cost = json.loads(self._stage.ogpu("unit post", *self._words, "--dry-run", is_shown=False))
        before = self._stage.wealth(ACCOUNTS)[CUSTOMER]
        sale = FileSale(self._lines, int(cost["units"]), fees_most=int(cost["fees"]["grains"]))
        sale.seed = self._stage.options.seed
        began = time.monotonic()
        for goal in self._goals(sale.units):
            sale.runs += 1
            if not self._killed_at(sale, goal):
                break
        else:
            sale.runs += 1
            self._killed_at(sale, None)
        sale.seconds = time.monotonic() - began
        self._judge(sale, before)
        return sale

    def _goals(self, units: int) -> list[tuple[int, float]]:
        """Return the goals of the kills: the units sent, and the share of answered lines."""
        posting = sorted(self._rng.randrange(1, units + 1) for _ in range(POSTING_KILLS))
        following = sorted(self._rng.random() * 0.9 for _ in range(FOLLOWING_KILLS))
        return [(0, 0.0), *((sent, 0.0) for sent in posting), *((units, share) for share in following)]

    def _killed_at(self, sale: FileSale, goal: tuple[int, float] | None) -> bool:
        """Run the command until the goal is reached, and kill it. Return False if it ended first."""
        with self._log.open("ab") as log:
            words = ("--url", self._stage.url, "unit", "post", *self._words)
            run = programs.started("ogpu", *words, keyring=self._stage.net.keyring, output=log, errors=log)
            try:
                return self._watched(run, sale, goal)
            finally:
                run.kill()
                run.wait()

    def _watched(self, run: subprocess.Popen[str], sale: FileSale, goal: tuple[int, float] | None) -> bool:
        end = time.monotonic() + WAIT_SECONDS
        while run.poll() is None and not (goal is not None and self._is_reached(goal)):
            if time.monotonic() > end:
                raise DevnetError(
                    f"`ogpu unit post` is not done after {WAIT_SECONDS:.0f} s; {self._log} says how far it is"
                )
            time.sleep(POLL_SECONDS)
        if goal is not None and run.poll() is None:
            time.sleep(self._rng.random() * (4.0 if goal == (0, 0.0) else 1.0))  # anywhere in what comes next
            run.send_signal(signal.SIGKILL)
            # The command may have ended just before the signal.
            if run.wait() == -signal.SIGKILL:
                sale.kills.append(self._moment())
                self._stage.tell.line(f"killed: {sale.kills[-1]}")
                return True
        if run.returncode:
            raise DevnetError(f"`ogpu unit post` ended with status {run.returncode}; its last words are in {self._log}")
        return False

    def _is_reached(self, goal: tuple[int, float]) -> bool:
        sent, share = goal
        record = self._record()
        if share:
            answered = 0 if record is None else sum(map(sum, record.written.values()))
            return answered >= share * self._lines
        on_way, noted = self._sent(), 0 if record is None else len(record.posted)
        return not sent or (on_way > 0 and on_way + noted >= sent)

    def _moment(self) -> FileKill:
        record, sent = self._record(), self._sent()
        noted = 0 if record is None else len(record.posted)
        answered = 0 if record is None else sum(map(sum, record.written.values()))
        while_ = "posting" if sent else "following" if noted else "preparing"
        return FileKill(while_, sent, noted, answered)

    def _record(self) -> BatchRecord | None:
        found = runs_of(self._postings)
        return found[0] if found else None

    def _sent(self) -> int:
        """Return the number of units recorded as sent. A file under replacement counts at the next look."""
        try:
            parts = [json.loads(path.read_bytes()) for path in self._postings.glob("*.json")]
        except (OSError, ValueError):
            return 0
        return sum(len(part["places"]) for found in parts for part in found)

    def _judge(self, sale: FileSale, before: int) -> None:
        """Record the facts of chain, record and files."""
        units = self._stage.ask(lambda chain: self._units(chain, sale))
        sale.settled = sum(unit.state is UnitState.SETTLED for unit in units)
        sale.paid = sum(unit.paid for unit in units)
        sale.spent = before - self._stage.wealth(ACCOUNTS)[CUSTOMER]
        indices = [row["index"] for row in _rows(self._results)]
        once = set(indices) if len(set(indices)) == len(indices) else set[int]()
        sale.answered_once = len(once & set(range(1, self._lines + 1)))
        sale.errors = len(_rows(self._results.with_name(f"{self._results.name}.errors")))

    async def _units(self, chain: ChainClient, sale: FileSale) -> list[Unit]:
        account, record = dev_accounts.stash(CUSTOMER), self._record()
        sale.posted = await chain.read(InferenceMarket.post_counts, account)
        ids = [unit_id_of(chain.genesis_hash, account, number) for number in range(sale.posted)]
        noted = set() if record is None else {bytes.fromhex(unit) for unit in record.posted.values()}
        sale.known = len(noted & set(ids))
        units = [unit for unit in await market_reads.units(chain, ids) if unit is not None]
        for unit in units:
            quote = await market_reads.quote(chain, unit.service, unit.terms.price_max, RACERS)
            sale.prepaid += 0 if quote is None else quote.prepaid
        return units


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def figures(facts: Mapping[str, FileSale]) -> str:
    """Return the line of figures."""
    sale = facts["file"]
    return (
        f"{sale.answered_once:,} of {sale.lines:,} lines answered once, {sale.posted:,} units posted of "
        f"{sale.units:,}, {len(sale.kills)} kills, {sale.seconds:.0f} s, {format_amount(sale.spent)} oGPU"
    )


PROOF = LiveProof(
    "files",
    "Kill the customer of a file while it posts.",
    [
        Scenario(
            "file", "A file of {lines:,} lines; its customer is killed at moments of seed {seed}", FreshDevnet().open,
            lambda stage: Customer(stage).buy(), failures_of,
        ),
    ],
    figures,
    [
        ProofOption("--lines", 2_000, "of the file"),
        ProofOption("--seed", random.SystemRandom().randrange(2**32), "of the moments"),
    ],
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
