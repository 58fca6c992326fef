"""The demo's steps beside its units: a training task, a batch of requests, a poll and an election.

A thread follows the training task, sold by sealed bids, while providers also compute units. Invariant: an error in the
thread is a failure of the demo. The payments are compared with the money table.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

from rich.table import Table

from devnet.demo.payments import ANSWERED
from devnet.launcher.folder import DevnetError
from devnet.stage.actors import task_sale
from devnet.stage.actors.purchase import MAX_TOKENS, SERVICE_NUMBER, buy_answers, name_of_account, write_prompts
from devnet.stage.actors.task_sale import TaskSale
from devnet.stage.measuring.latency import digest_of
from devnet.stage.measuring.ledger import EventTrace, block_hash
from devnet.stage.measuring.task_ledger import TaskLedger, following
from devnet.stage.network import CUSTOMER_KEY, Stage
from genesis import dev_accounts
from gpu_tasks.market.training.events import MilestoneCounted, SlotSettled, TaskAwarded
from runtime.blocks.digest import find_author
from runtime.cryptography.ss58 import encode as ss58
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.amounts import format_amount
from wallet.client import ChainClient
from wallet.rpc import RpcConnection

CUSTOMER_NAME = "Dave"
# Two of the providers, so that enough others can race for units.
BIDDERS = ("Alice", "Bob")
DONE_OUTCOMES = ("ON_TIME", "LATE")
PATIENCE_SECONDS = 120.0


# The same customer once more: many requests in one unit, decoded side by side and paid by their tokens.
#
# Always: every answer is shown by `ogpu`, which opens and checks it against the root that was paid for; the tokens are
# those that the winner's attestation states and its root commits to.
REQUEST_COUNT = 24


SEATED_SECONDS = 90.0
# oGPU as users type it: more than the difference between the candidate and the last validator with a seat.
LIFT_OGPU = "6000"


class DemoElection:
    """An election, from the delegation to the new validator's first block."""

    def __init__(self, stage: Stage) -> None:
        """Delegate stake to the member without a seat."""
        self._stage = stage
        self.candidate = stage.devnet.members[-1].name
        self._stash = dev_accounts.stash(self.candidate)
        stage.wallet("delegate", ss58(self._stash), LIFT_OGPU, "--key", CUSTOMER_KEY, "--yes")
        rows = json.loads(stage.wallet("candidates", is_shown=False))
        candidate = next(row for row in rows if row["stash"] == ss58(self._stash))
        total_ogpu = candidate["total"]["ogpu"]
        stage.narrator.line(
            f"{self.candidate}, which waits for a seat, now has {total_ogpu} oGPU behind it: "
            "more than any seated validator"
        )

    def wait_for_end(self) -> dict[str, Any]:
        """Wait until a block by the candidate is final, and show it."""
        return self._stage.ask(self._wait_for_block)

    async def _wait_for_block(self, chain: ChainClient) -> dict[str, Any]:
        deadline = time.monotonic() + SEATED_SECONDS
        async for header in await chain.finalized_heads():
            height = int(header["number"], 16)
            if find_author(digest_of(header)) == self._stash:
                return await self._seated_report(chain, height)
            if time.monotonic() > deadline:
                break
        return {"candidate": self.candidate, "failures": [f"{self.candidate} was not elected, or proposed no block"]}

    async def _seated_report(self, chain: ChainClient, height: int) -> dict[str, Any]:
        block_id = await block_hash(chain, height)
        seats = await chain.read(TrustStake.active_set, at=block_id)
        epoch = await chain.read(TrustStake.active_since, self._stash, at=block_id)
        names = {dev_accounts.stash(member.name): member.name for member in self._stage.devnet.members}
        seated = [names.get(seat.stash, "?") for seat in seats]
        self._stage.narrator.line(
            f"block {height} is of {self.candidate}, elected for epoch {epoch}. Seated: {', '.join(seated)}"
        )
        return {"candidate": self.candidate, "block": height, "epoch": epoch, "sitting": seated, "failures": []}


def show_poll(stage: Stage) -> dict[str, Any] | None:
    """Show and return the newest poll that every asked validator answered, or None."""
    asker, narrator = stage.devnet.members[0], stage.narrator
    polls = asyncio.run(_inspected_polls(asker.rpc_url))
    answered = [poll for poll in polls if poll["answered"] and poll["answered"] == poll["asked"]]
    answered.sort(key=lambda poll: not poll["confidence"])  # those that led to an acceptance first
    if not answered:
        narrator.line(f"{asker.name} has no answered poll to show: {json.dumps(polls)[:200]}")
        return None
    poll: dict[str, Any] = answered[0]
    narrator.line(
        f"{asker.name} draws {poll['votes']} units of stake, and asks their holders for the preferred "
        f"block at height {poll['height']}"
    )
    narrator.console.print(_poll_table(poll, asker.name))
    left_out = poll["validators"] - len(poll["drawn"])
    narrator.line(f"not drawn and not asked: {left_out} of {poll['validators']} validators; the next poll draws anew")
    for condition in poll["confidence"]:
        narrator.line(
            f"confidence: {condition['polls']} polls in a row with {condition['alpha']} of "
            f"{poll['votes']} votes; {condition['beta']} accept a block"
        )
    after_ms = poll["accepted_after_ms"]
    acceptance = f"accepted {after_ms} ms after the question" if after_ms is not None else "not accepted yet"
    narrator.line(
        f"{poll['agreed']} of {poll['answered']} agree with its preference {poll['block'][:12]}; {acceptance}"
    )
    return poll


def _poll_table(poll: dict[str, Any], asker_name: str) -> Table:
    """Return a table of the drawn validators by stake, with their answers."""
    table = Table("drawn", "of the stake", "votes", "prefers", "at that height", "after")
    answers = {answer["validator"]: answer for answer in poll["answers"]}
    for drawn in poll["drawn"]:
        name = name_of_account(bytes.fromhex(drawn["validator"][2:]))
        share = f"{drawn['stake'] * 100 / poll['stake']:.0f} %"
        table.add_row(
            name, share, str(drawn["votes"]), *_answer_cells(answers.get(drawn["validator"]), is_own=name == asker_name)
        )
    return table


def _answer_cells(answer: dict[str, Any] | None, *, is_own: bool) -> tuple[str, str, str]:
    if answer is None or "after_ms" not in answer:
        return ("-", "-", "its own vote" if is_own else "no answer")
    return (answer["prefers"][:12], answer["at_height"][:12], f"{answer['after_ms']} ms")


async def _inspected_polls(url: str) -> list[dict[str, Any]]:
    async with await RpcConnection.open(url) as connection:
        polls: list[dict[str, Any]] = await connection.call("ogpu_inspect", "polls")
        return polls


def buy_batch(stage: Stage, prompts: list[str]) -> dict[str, Any]:
    """Post the prompts as one unit, wait for the answers, and return the report, with the unit that is not paid yet."""
    file, answers = write_prompts(stage, "batch", prompts), stage.devnet.purchases / "batch.jsonl"
    options = {"batch": len(prompts), "max_tokens": MAX_TOKENS, "service": SERVICE_NUMBER}
    try:
        bought = buy_answers(stage, file, answers, **options)
    except DevnetError as error:
        return {"requests": len(prompts), "failures": [f"the batch has no answers: {error}"]}
    answered_count = sum(map(bool, bought.texts))
    stage.narrator.line(f"{answered_count} of {len(prompts)} requests are answered")
    is_whole = answered_count == len(prompts)
    failures = [] if is_whole else [f"the batch has {answered_count} answers to {len(prompts)} requests"]
    return {"requests": len(prompts), ANSWERED: bought, "failures": failures}


class DemoTask:
    """A task that is sold beside other steps."""

    def __init__(self, stage: Stage) -> None:
        """Make providers bid, submit the task, and follow it in a thread."""
        self._stage = stage
        self._sale: TaskSale | None = None
        self._ledger = TaskLedger(0)
        self._problem = ""
        task_sale.let_bid(stage, {name: task_sale.LEAST_PRICES[name] for name in BIDDERS})
        self._thread = threading.Thread(target=self._sell_task, daemon=True)
        self._thread.start()

    def _sell_task(self) -> None:
        try:
            with following(self._stage.url) as self._ledger:
                self._sale = task_sale.sell_task(self._stage, task_sale.RELAY_FILE, f"//{CUSTOMER_NAME}")
        except Exception as error:  # noqa: BLE001  # it is told as a failure of the demo, in the thread that shows it
            self._problem = str(error) or repr(error)

    def wait_for_end(self) -> dict[str, Any]:
        """Wait for the task's end, show the payments, and return the report."""
        self._thread.join(PATIENCE_SECONDS)
        sale = self._sale
        if self._thread.is_alive() or sale is None:
            return {"failures": [f"the training task has not ended as it should: {self._problem or 'it goes on'}"]}
        trace = self._ledger.tasks[sale.task_id]
        sums = self._ledger.sums[sale.task_id]
        failures = [*([self._problem] if self._problem else []), *sums.wrong, *_unverified_checks(self._stage, sale)]
        failures += [f"a slot ended as {name}" for name in _slot_outcomes(trace) if name not in DONE_OUTCOMES]
        earned = {name: sums.of(stash) for name, stash in _stash_by_winner(trace).items()}
        for name, earned_grains in earned.items():
            self._stage.narrator.line(f"{name} has earned {format_amount(earned_grains)} oGPU with it, after the fee")
        return {
            "task": sale.name,
            "milestones": len(trace.all(MilestoneCounted)),
            "earned_grains": {name: str(earned_grains) for name, earned_grains in earned.items()},
            "outcomes": _slot_outcomes(trace),
            "failures": failures,
        }


def _stash_by_winner(trace: EventTrace) -> dict[str, bytes]:
    return {name_of_account(event.provider): event.provider for _, event in trace.all(TaskAwarded)}


def _slot_outcomes(trace: EventTrace) -> list[str]:
    return [event.outcome.name for _, event in trace.all(SlotSettled)]


def _unverified_checks(stage: Stage, sale: TaskSale) -> list[str]:
    """Return a sentence for each check that `ogpu task verify` does not confirm."""
    rows = task_sale.verification_rows(stage, sale)
    stage.narrator.line(
        f"{sum(row['is_right'] is True for row in rows)} of {len(rows)} checks of `ogpu task verify` hold"
    )
    return [f"`ogpu task verify` does not confirm {row['what']}" for row in rows if row["is_right"] is not True]
