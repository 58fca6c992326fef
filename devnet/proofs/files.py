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

from devnet.launcher import processes, programs
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
from wallet.outbox import OutboxFile

ACCOUNTS = {CUSTOMER: (dev_accounts.stash(CUSTOMER),)}
PRICE_TEXT, MAX_TOKENS, RACER_COUNT = "0.05", 2, 1
# The goal for the number of units, so that posting takes several transactions. Units have at most BATCH_MAX requests.
UNITS_GOAL, BATCH_MAX = 125, 128
POSTING_KILLS, FOLLOWING_KILLS = 4, 2
POLL_SECONDS = 0.02
WAIT_SECONDS = 1_500.0
PAID_SECONDS = 300.0


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


def failures_of(file_sale: FileSale) -> list[str]:
    """Return a sentence for each failed requirement."""
    fees_paid = file_sale.spent - file_sale.paid - file_sale.prepaid
    requirements = (
        (
            file_sale.posted == file_sale.units,
            f"{file_sale.posted:,} units were posted for a file of {file_sale.units:,}",
        ),
        (file_sale.known == file_sale.units, f"the run knows {file_sale.known:,} of {file_sale.units:,} units"),
        (file_sale.settled == file_sale.units, f"{file_sale.settled:,} of {file_sale.units:,} units were settled"),
        (
            file_sale.answered_once == file_sale.lines,
            f"{file_sale.answered_once:,} of {file_sale.lines:,} lines are answered once",
        ),
        (file_sale.errors == 0, f"{file_sale.errors:,} lines stand among the errors"),
        (
            0 < fees_paid <= file_sale.fees_most,
            f"fees of {fees_paid:,} grains, where posting once costs {file_sale.fees_most:,} at most",
        ),
        (
            sum(kill.while_ == "posting" for kill in file_sale.kills) > 0,
            "no process was killed while units were open: give more lines",
        ),
    )
    return [sentence for is_met, sentence in requirements if not is_met]


class Customer:
    """Posts one file, again and again, until it is answered."""

    def __init__(self, stage: Stage) -> None:
        """Begin without a post."""
        self._stage, devnet = stage, stage.devnet
        self._line_count: int = stage.options.lines
        self._random_source = random.Random(stage.options.seed)
        self._results, self._postings, self._log_path = (
            devnet.folder / name for name in ("results.jsonl", "postings", "ogpu.log")
        )
        prompts_file = purchase.write_prompts(
            stage, "requests", [f"n{line_number} =" for line_number in range(self._line_count)]
        )
        batch_size = min(BATCH_MAX, max(1, self._line_count // UNITS_GOAL))
        arguments = purchase.post_arguments(
            prompts_file,
            RACER_COUNT,
            PRICE_TEXT,
            out=self._results,
            max_tokens=MAX_TOKENS,
            batch=batch_size,
            postings=self._postings,
        )
        self._arguments = [*arguments, "--anyway"]

    def buy_answers(self) -> FileSale:
        """Buy the answers, through all kills, and record the outcome."""
        cost_estimate = json.loads(self._stage.ogpu("unit post", *self._arguments, "--dry-run", is_shown=False))
        wealth_before = self._stage.wealth(ACCOUNTS)[CUSTOMER]
        file_sale = FileSale(
            self._line_count, int(cost_estimate["units"]), fees_most=int(cost_estimate["fees"]["grains"])
        )
        file_sale.seed = self._stage.options.seed
        started = time.monotonic()
        for kill_goal in self._kill_goals(file_sale.units):
            file_sale.runs += 1
            if not self._run_until(file_sale, kill_goal):
                break
        else:
            file_sale.runs += 1
            self._run_until(file_sale, None)
        file_sale.seconds = time.monotonic() - started
        self._record_outcome(file_sale, wealth_before)
        return file_sale

    def _kill_goals(self, unit_count: int) -> list[tuple[int, float]]:
        """Return the goals of the kills: the units sent, and the share of answered lines."""
        posting_goals = sorted(self._random_source.randrange(1, unit_count + 1) for _ in range(POSTING_KILLS))
        following_goals = sorted(self._random_source.random() * 0.9 for _ in range(FOLLOWING_KILLS))
        return [
            (0, 0.0),
            *((units_sent, 0.0) for units_sent in posting_goals),
            *((unit_count, answered_share) for answered_share in following_goals),
        ]

    def _run_until(self, file_sale: FileSale, kill_goal: tuple[int, float] | None) -> bool:
        """Run the command until the goal is reached, and kill it. Return False if it ended first."""
        with self._log_path.open("ab") as log_file:
            arguments = ("--url", self._stage.url, "unit", "post", *self._arguments)
            process = programs.started(
                "ogpu", *arguments, keyring=self._stage.devnet.keyring, output=log_file, errors=log_file
            )
            try:
                return self._is_killed_at_goal(process, file_sale, kill_goal)
            finally:
                process.kill()
                process.wait()

    def _is_killed_at_goal(
        self, process: subprocess.Popen[str], file_sale: FileSale, kill_goal: tuple[int, float] | None
    ) -> bool:
        deadline = time.monotonic() + WAIT_SECONDS
        while process.poll() is None and not (kill_goal is not None and self._is_reached(kill_goal)):
            if time.monotonic() > deadline:
                raise DevnetError(
                    f"`ogpu unit post` is not done after {WAIT_SECONDS:.0f} s; {self._log_path} says how far it is"
                )
            time.sleep(POLL_SECONDS)
        if kill_goal is not None and process.poll() is None:
            time.sleep(
                self._random_source.random() * (4.0 if kill_goal == (0, 0.0) else 1.0)
            )  # anywhere in what comes next
            process.send_signal(signal.SIGKILL)
            # The command may have ended just before the signal.
            if process.wait() == -signal.SIGKILL:
                file_sale.kills.append(self._kill_record())
                self._stage.narrator.line(f"killed: {file_sale.kills[-1]}")
                return True
        if process.returncode:
            raise DevnetError(
                f"`ogpu unit post` ended with status {process.returncode}; its last words are in {self._log_path}"
            )
        return False

    def _is_reached(self, kill_goal: tuple[int, float]) -> bool:
        units_sent, answered_share = kill_goal
        record = self._batch_record()
        if answered_share:
            answered_lines = 0 if record is None else sum(map(sum, record.written.values()))
            return answered_lines >= answered_share * self._line_count
        units_on_way, noted = self._units_sent(), 0 if record is None else len(record.posted)
        return not units_sent or (units_on_way > 0 and units_on_way + noted >= units_sent)

    def _kill_record(self) -> FileKill:
        record, units_sent = self._batch_record(), self._units_sent()
        noted = 0 if record is None else len(record.posted)
        answered_lines = 0 if record is None else sum(map(sum, record.written.values()))
        activity = "posting" if units_sent else "following" if noted else "preparing"
        return FileKill(activity, units_sent, noted, answered_lines)

    def _batch_record(self) -> BatchRecord | None:
        batch_records = runs_of(self._postings)
        return batch_records[0] if batch_records else None

    def _units_sent(self) -> int:
        """Return the number of units recorded as sent."""
        with OutboxFile.looked(self._postings) as outbox:
            return 0 if outbox is None else outbox.rows("SELECT count(*) FROM posted_units")[0][0]

    def _record_outcome(self, file_sale: FileSale, wealth_before: int) -> None:
        """Record the facts of chain, record and files."""
        # The answers are there before their providers are paid.
        processes.until(lambda: self._stage.ask(_open_units) == 0, PAID_SECONDS, pause_seconds=1.0)
        records = self._stage.ask(lambda chain: self._unit_records(chain, file_sale))
        file_sale.settled = sum(record.state is UnitState.SETTLED for record in records)
        file_sale.paid = sum(record.paid for record in records)
        file_sale.spent = wealth_before - self._stage.wealth(ACCOUNTS)[CUSTOMER]
        answered_indices = [row["index"] for row in _json_rows(self._results)]
        # A line answered twice was paid twice, so duplicates make the whole count 0.
        indices_once = set(answered_indices) if len(set(answered_indices)) == len(answered_indices) else set[int]()
        file_sale.answered_once = len(indices_once & set(range(1, self._line_count + 1)))
        file_sale.errors = len(_json_rows(self._results.with_name(f"{self._results.name}.errors")))

    async def _unit_records(self, chain: ChainClient, file_sale: FileSale) -> list[Unit]:
        customer_account, batch_record = dev_accounts.stash(CUSTOMER), self._batch_record()
        file_sale.posted = await chain.read(InferenceMarket.post_counts, customer_account)
        unit_ids = [
            unit_id_of(chain.genesis_hash, customer_account, unit_number) for unit_number in range(file_sale.posted)
        ]
        noted_ids = (
            set() if batch_record is None else {bytes.fromhex(record) for record in batch_record.posted.values()}
        )
        file_sale.known = len(noted_ids & set(unit_ids))
        records = [record for record in await market_reads.units(chain, unit_ids) if record is not None]
        for record in records:
            quote = await market_reads.quote(chain, record.service, record.terms.price_max, RACER_COUNT)
            file_sale.prepaid += 0 if quote is None else quote.prepaid
        return records


async def _open_units(chain: ChainClient) -> int:
    count: int = await chain.read(InferenceMarket.open_unit_count)
    return count


def _json_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def figures(facts_by_scenario: Mapping[str, FileSale]) -> str:
    """Return the line of figures."""
    file_sale = facts_by_scenario["file"]
    return (
        f"{file_sale.answered_once:,} of {file_sale.lines:,} lines answered once, {file_sale.posted:,} units posted of "
        f"{file_sale.units:,}, {len(file_sale.kills)} kills, {file_sale.seconds:.0f} s, "
        f"{format_amount(file_sale.spent)} oGPU"
    )


PROOF = LiveProof(
    "files",
    "Kill the customer of a file while it posts.",
    [
        Scenario(
            "file", "A file of {lines:,} lines; its customer is killed at moments of seed {seed}", FreshDevnet().open,
            lambda stage: Customer(stage).buy_answers(), failures_of,
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
