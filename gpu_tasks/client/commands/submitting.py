"""The command that submits a task: what it asks, what it costs and who could bid is known before anything is sent."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from gpu_tasks.client import planning
from gpu_tasks.client.commands.handing import named_secrets, secret_option
from gpu_tasks.client.commands.naming import require_market
from gpu_tasks.client.commands.sending import key_option
from gpu_tasks.client.commands.task_runs import accept_option, checkpoints_option, follow_task
from gpu_tasks.client.commands.tasks import facts_of, file_argument
from gpu_tasks.client.funds import require, spendable
from gpu_tasks.client.posting import PostingCost, Prompt
from gpu_tasks.client.posting_kind import TaskPosting
from gpu_tasks.client.posting_once import Posted, PostingRun, Progress
from gpu_tasks.client.posting_record import DEFAULT_FOLDER, PostingRecord
from gpu_tasks.client.task_files import LoadedTask, load_any
from gpu_tasks.client.training.sealing import TaskDraft, TaskSealer
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.tasks.plan import TaskPlan, plan_of
from wallet.amounts import format_amount
from wallet.client import ChainClient, Payer
from wallet.commands import making
from wallet.commands.options import dry_run_option, tip_option, yes_option
from wallet.keypair import Keypair
from wallet.output import Grains, harmless
from wallet.session import CallFailedError, WalletSession, explained, note

SEED_BYTES = 32
NOTHING = PostingCost(0, 0, 0, 0, 0)


@click.command()
@file_argument
@key_option
@click.option("--watch", "is_watched", is_flag=True, help="Follow the task to its end, and hold its checkpoints.")
@accept_option
@secret_option
@checkpoints_option
@click.option("--anyway", is_flag=True, help="Even if nobody could bid for it now.")
@click.option(
    "--postings",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_FOLDER,
    show_default=True,
    envvar="OGPU_POSTINGS",
    help="Where a submission is written down until it is final.",
)
@click.option("--again", is_flag=True, help="Forget what an earlier try that broke off may have submitted.")
@tip_option
@yes_option
@dry_run_option
@click.pass_obj
def submit(
    session: WalletSession, file: Path, key_text: str, is_watched: bool, accepts: bool, secret_words: tuple[str, ...],
    checkpoints: Path, anyway: bool, postings: Path, again: bool, tip: int, yes: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Put the task of FILE to auction: its input is sealed and stored, its cost shown and asked.

    A submission that broke off is taken up by the same command: what is on the chain already is not submitted again.
    """
    read: list[LoadedTask] = []
    explained(lambda: read.append(load_any(file)))  # before any node is asked
    secrets = named_secrets(read[0].secrets, secret_words) if is_watched else {}
    submission = TaskSubmission(session, key_text, read[0], postings, tip, is_again=again)

    async def look(client: ChainClient) -> None:
        require_market(client)
        making.require_somebody_to_ask(is_asked=not (yes or dry_run))
        await submission.look(client, is_anyway=anyway, is_dry=dry_run)

    async def send(client: ChainClient) -> None:
        key = session.key(key_text)
        posted = await submission.send(client, key, is_followed=is_watched)
        if is_watched:
            await follow_task(session, client, key, posted.unit, checkpoints, accepts=accepts, secrets=secrets)
        elif read[0].secrets:
            note(f"once it runs, its program waits for its secrets: `ogpu secrets 0x{posted.unit.hex()} NAME...`")

    session.run(look)
    if dry_run:
        session.output.facts({**submission.facts, "sent": False})
        return
    submission.ask(is_asked=not yes)
    # A second connection: the first would be closed as dead while a person takes time to answer.
    session.run(send)


@dataclass(slots=True)
class TaskSubmission:
    """A task on its way: looked at over one connection, agreed to, and sent over another."""

    session: WalletSession
    key_text: str
    loaded: LoadedTask
    postings: Path
    tip: int
    is_again: bool
    draft: TaskDraft | None = None
    cost: PostingCost = NOTHING
    facts: dict[str, Any] = field(default_factory=dict)

    def _identity(self, client: ChainClient, payer: Payer) -> tuple[bytes, ...]:
        """What makes two submissions the same: chain, account, what the file asks, and every byte of its input."""
        return client.genesis_hash, payer.account, b"task", *self.loaded.identity()

    async def look(self, client: ChainClient, *, is_anyway: bool, is_dry: bool) -> None:
        """What it asks, who could bid and what it costs; CallFailedError and FundsError where it makes no sense."""
        payer, slot_ms = self.session.payer(self.key_text), planning.slot_ms(client)
        asked = self.loaded.asked(os.urandom(SEED_BYTES), slot_ms)
        final = await client.finalized()
        numbers = await planning.auction_numbers(client, final, asked.checked_by)
        self.draft = TaskDraft(asked, numbers.rules, slot_ms)
        is_begun = not self.is_again and bool(PostingRecord.peek(self.postings, *self._identity(client, payer)))
        own = await planning.own(client, payer.account, final)
        devices = await planning.bidding_devices(client, final)
        terms, intervals = asked.terms(numbers.rules, slot_ms), asked.intervals(slot_ms)
        plan = plan_of(terms, asked.classes, numbers, devices, own, intervals, asked.checked_by)
        if not (plan.is_served or is_anyway or is_begun):
            raise CallFailedError(
                f"nobody could serve the task now: {plan.why_not}. `ogpu plan` says why of each; --anyway submits it "
                "all the same, and it costs a part of the bond to take it back"
            )
        # What an earlier try sent is locked already, or the chain will judge it: it is asked for once.
        self.cost = NOTHING if is_begun else await _cost(client, payer, self.draft, plan, self.tip)
        available = await spendable(client, payer.account)
        if not is_dry:
            require(available, self.cost.needed, "submitting the task")
        self.facts = {**facts_of(asked, slot_ms), **_facts(plan, self.cost, available)}

    def ask(self, *, is_asked: bool) -> None:
        """What is submitted and its cost, for somebody at a terminal to agree to."""
        if not self.session.output.as_json:
            self.session.output.facts({name: value for name, value in self.facts.items() if value is not None})
        if is_asked and self.cost.units:
            locks = (
                f"Submit {self.draft.asked.name if self.draft else ''}, locking {format_amount(self.cost.locked)} oGPU"
            )
            click.confirm(f"{locks}, for at most {format_amount(self.cost.most)} oGPU?", abort=True, err=True)

    async def send(self, client: ChainClient, key: Keypair, *, is_followed: bool) -> Posted:
        """Seal, store and submit it, or find what an earlier try submitted; it is shown when it is final."""
        assert self.draft is not None, "it was looked at"
        with PostingRecord.open(self.postings, *self._identity(client, key)) as record:
            if self.is_again:
                record.forget()
            progress = Progress(lambda: None, lambda: None, lambda text: click.echo(harmless(text), err=True))
            async with BlobClient(private=market_reads.is_development(client)) as blobs:
                sealer = TaskSealer(client, blobs, key, self.draft)
                prompts, requests = [Prompt(1, self.draft.asked.name)], [self.draft.asked.request]
                (posted,) = await PostingRun(sealer, record, prompts, requests, progress, self.tip).run()
            if not (is_followed and self.session.output.as_json):  # there its first line names it
                facts = {"task": posted.unit, "name": posted.prompt, "block": posted.block}
                amounts = {"locked": Grains(self.cost.locked), "most": Grains(self.cost.most)}
                self.session.output.facts({**facts, **amounts, "sent": True})
            record.forget()
        return posted


async def _cost(client: ChainClient, payer: Payer, draft: TaskDraft, plan: TaskPlan, tip: int) -> PostingCost:
    fees = await client.fee(TaskPosting().call([draft.order()]), payer, tip) + tip
    return PostingCost(1, plan.locked, plan.prepaid, fees, plan.most + fees)


def _facts(plan: TaskPlan, cost: PostingCost, available: int) -> dict[str, Any]:
    amounts = {name: Grains(value) for name, value in asdict(cost).items() if name != "units"}
    return {
        "could_bid": plan.able,
        "price_is_set_by": "the best loser" if plan.has_rival else "nobody: the greatest price is paid",
        "standby": "yes" if plan.has_standby else "perhaps none",
        **amounts,
        "spendable": Grains(available),
    }
