"""The submission of one task: priced, confirmed and sent once, and continued after an interruption."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from cli import calls
from cli.messages import report_error
from cli.program import EXIT_ABORTED
from cli.session import CallFailedError, WalletSession, note
from gpu_tasks.client.commands.calls import other_command, this_command
from gpu_tasks.client.commands.id_prefixes import TaskError, known_task
from gpu_tasks.client.commands.task_decisions import ended_early
from gpu_tasks.client.commands.tasks import TaskOutlook, facts_of, outlook_of
from gpu_tasks.client.offers.outlook import require, spendable
from gpu_tasks.client.tasks import records
from gpu_tasks.client.tasks.orders import ImageUpload, LoadedTask, TaskDraft, TaskSealer
from gpu_tasks.client.units.posting import TASK_POSTING, PostingCost, Prompt
from gpu_tasks.client.units.posting_once import (
    ENDED,
    SUBMITTED,
    Posted,
    PostedPart,
    PostingRecord,
    PostingRun,
    Progress,
)
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.tasks.plan import TaskPlan
from wallet.amounts import Grains, format_amount
from wallet.client import ChainClient, Payer
from wallet.keypair import Keypair
from wallet.outbox import RecordBusyError

SEED_BYTES = 32
NOTHING = PostingCost(0, 0, 0, 0, 0)


@dataclass(slots=True)
class TaskSubmission:
    """A task on its way: priced over one connection, sent over another after the confirmation."""

    session: WalletSession
    key_text: str
    loaded: LoadedTask
    postings: Path
    tip: int
    is_again: bool
    is_quiet: bool = False
    """True if the caller prints the outcome."""
    times: int = 1
    """The most submissions."""
    is_kept: bool = True
    """True if the record stays. An array's own record covers its members."""
    is_sent: bool = False
    draft: TaskDraft | None = None
    cost: PostingCost = NOTHING
    available: int = 0
    """The account's spendable balance."""
    facts: dict[str, Any] = field(default_factory=dict)
    _parts: list[PostedPart] = field(default_factory=list)
    """The submissions of this command and of earlier ones, one part for each."""

    @property
    def times_left(self) -> int:
        """The number of submissions that are left."""
        return max(0, self.times - len(self._parts))

    @property
    def requeues_left(self) -> int:
        """The number of submissions left after the current one is cut off."""
        return self.times - max(1, len(self._parts))

    def newest(self) -> PostedPart | None:
        """The last submission, sent or possibly sent."""
        return self._parts[-1] if self._parts else None

    @property
    def file_identity(self) -> tuple[bytes, ...]:
        """The content of the file, and every byte of its inputs."""
        return self.loaded.identity()

    def _identity(self, client: ChainClient, payer: Payer) -> tuple[bytes, ...]:
        """Return the identity of a submission: chain, account, file and inputs."""
        return client.genesis_hash, payer.account, b"task", *self.file_identity

    async def look(self, client: ChainClient, *, is_anyway: bool, is_dry: bool, until: str = "") -> None:
        """Compute the request, the eligible devices and the cost.

        Raise CallFailedError or FundsError if it cannot be sent. Raise TaskError if the same command bought it and its
        end was shown.
        """
        payer, final_hash = self.session.payer(self.key_text), await client.finalized()
        if self.loaded.image is not None:
            await asyncio.to_thread(self.loaded.image.parts)  # Refuse a too large image before anything is sent.
        self._parts = [] if self.is_again else PostingRecord.look(self.postings, *self._identity(client, payer))
        is_begun = bool(self._parts) and not self.is_sent
        if is_begun:
            await self._require_untold(client, self._parts[-1], until, final_hash)
        task_outlook = await outlook_of(client, self.loaded, payer.account, final_hash)
        self.draft, plan, willingness = (
            TaskDraft(task_outlook.asked, task_outlook.rules, task_outlook.slot_ms),
            task_outlook.plan,
            task_outlook.says,
        )
        if not (plan.is_served or is_anyway or is_begun):
            raise CallFailedError(
                f"no device can run the task now: {plan.why_not}. `ogpu task plan` gives the reason for each "
                "device. --anyway submits it nevertheless, and cancelling it costs a part of the bond",
                code="not_served",
            )
        if (why := willingness.why_too_few(plan.terms.slots)) and not (is_anyway or is_begun):
            raise CallFailedError(
                f"{why}. Their answers are not binding. --anyway submits the task nevertheless", code="too_few_willing"
            )
        # Money of an earlier submission is locked already, or the chain will decide: it is asked for once.
        self.cost = await _submission_cost(client, payer, self.draft, plan, self.tip) if self.times_left else NOTHING
        self.available = available = await spendable(client, payer.account)
        if not (is_dry or is_begun):
            self.require_funds()
        as_json = self.session.output.as_json
        costs = _market_and_costs(task_outlook, self.cost, available, is_for_programs=as_json)
        self.facts = {**facts_of(task_outlook.asked, task_outlook.slot_ms), **costs}
        self.facts |= willingness.facts() if as_json else {"could_bid": willingness.sentence}
        if self.times > 1:
            self.facts |= {"times_at_most": self.times_left, "most_of_all": Grains(self.cost.most * self.times_left)}

    def require_funds(self) -> None:
        """Raise FundsError if the account has less than the cost."""
        if self.cost.units and (self.is_sent or not self._parts):
            require(self.available, self.cost.needed, "submitting the task")

    async def _require_untold(self, client: ChainClient, last_part: PostedPart, until: str, final_hash: bytes) -> None:
        """Raise TaskError if the same command bought the task and its end was shown."""
        name = f"0x{last_part.units[0]}"
        if last_part.block is None:  # It is looked for when it is sent.
            return
        task = await training_reads.task(client, bytes.fromhex(last_part.units[0]), final_hash)
        if task is None or task.order.input_root.hex() not in last_part.input_roots:  # a new chain may reuse the id
            raise TaskError(
                f"the same command submitted this as task {name} in block {last_part.block}, and the chain has "
                "forgotten it. The task ended long ago, or a development chain was reset. --again buys another",
                code="task_forgotten",
            )
        if last_part.told and until in {last_part.told, SUBMITTED}:
            raise TaskError(
                f"the same command bought this as task {name}, which is {records.progress(task)}. Nothing was "
                f"sent. See `ogpu task show {name}` and `ogpu task result {name}`. --again buys another",
                code="bought_before",
            )

    def ask(self, *, is_asked: bool) -> None:
        """Show the request and its cost, and ask a person to confirm."""
        if not self.session.output.as_json:
            self.session.output.facts({name: value for name, value in self.facts.items() if value is not None})
        if is_asked and self.cost.units:
            question = (
                f"Submit {self.draft.asked.name if self.draft else ''}, locking {format_amount(self.cost.locked)} oGPU"
            )
            times_text = f", {self.times_left} times at most" if self.times > 1 else ""
            most = format_amount(self.cost.most * self.times_left)
            click.confirm(f"{question}{times_text}, for at most {most} oGPU?", abort=True, err=True)

    async def send(
        self,
        client: ChainClient,
        keypair: Keypair,
        *,
        is_followed: bool,
        noted: Callable[[bytes], None] = lambda _: None,
    ) -> Posted:
        """Seal, store and submit the task, or find an earlier submission. Return it once it is final.

        With `is_again`, or after a cut-off, submit another. `noted` gets the id before the record forgets the sending.
        """
        assert self.draft is not None, "it was looked at"
        with PostingRecord.open(self.postings, *self._identity(client, keypair)) as record:
            if self.is_again:
                record.forget()
            self._parts = record.parts
            earlier_count = len(record.parts)
            place = earlier_count if self.is_sent else max(0, earlier_count - 1)
            is_known = not self.is_sent and bool(earlier_count) and record.parts[-1].block is not None
            progress = Progress(lambda: None, lambda: None, note)
            async with BlobClient(private=market_reads.is_development(client)) as blob_client:
                image = self.loaded.image
                upload = None if image is None else ImageUpload(image, self.postings, progress.say)
                sealer = TaskSealer(client, blob_client, keypair, self.draft, upload)
                prompts = [Prompt(number, self.draft.asked.name) for number in range(1, place + 2)]
                requests = [self.draft.asked.request] * len(prompts)
                run = PostingRun(sealer, record, prompts, requests, progress, self.tip)
                posted = (await run.run(places=[place]))[-1]
            if is_known:
                note(
                    f"the same command submitted it earlier, as 0x{posted.unit.hex()}. This command continues that task"
                )
            if not (self.is_quiet or (is_followed and self.session.output.as_json)):  # its first line names it
                facts = {"task": posted.unit, "name": posted.prompt, "block": posted.block}
                amounts = {"locked": Grains(self.cost.locked), "most": Grains(self.cost.most)}
                self.session.output.facts({**facts, **({} if is_known else amounts), "sent": not is_known})
            noted(posted.unit)
            if not self.is_kept:
                record.forget()
        self.is_sent, self.is_again = True, False
        return posted

    @contextmanager
    def told_to_its_end(self, client: ChainClient, keypair: Keypair) -> Iterator[None]:
        """Note, after the body has shown the task's end or failure, that the customer knows how the task ended."""
        try:
            yield
        except CallFailedError:
            self.note_told(client, keypair, ENDED)
            raise
        self.note_told(client, keypair, ENDED)

    def note_told(self, client: ChainClient, keypair: Keypair, told: str) -> None:
        """Note how much of the task's fate the customer has seen."""
        last = self.newest()
        if last is None or last.block is None:
            return
        try:
            with PostingRecord.open(self.postings, *self._identity(client, keypair)) as record:
                # Another process may have bought the task anew, and nobody has seen that one's end.
                if record.parts and record.parts[-1].units == last.units:
                    record.note_told(told, record.parts[-1:])
        except RecordBusyError:
            return  # Another process submits it again, and notes that.


async def _submission_cost(
    client: ChainClient, payer: Payer, draft: TaskDraft, plan: TaskPlan, tip: int
) -> PostingCost:
    fees = await client.fee(TASK_POSTING.call([draft.order()]), payer, tip) + tip
    return PostingCost(1, plan.locked, plan.prepaid, fees, plan.most + fees, plan.locks)


def _market_and_costs(
    task_outlook: TaskOutlook, cost: PostingCost, available: int, *, is_for_programs: bool
) -> dict[str, Any]:
    return {
        "could_bid": task_outlook.plan.able,
        **task_outlook.market_facts(),
        **cost.facts(is_for_programs=is_for_programs),
        **task_outlook.estimate.facts(cost.fees),
        "spendable": Grains(available),
    }


# After an interrupt the task continues, unless a person confirms its end after seeing the cost.
GOES_ON = "it continues without this program, and you pay for it"


@contextmanager
def asked_when_interrupted(
    session: WalletSession, key_text: str, submitted: Callable[[], PostedPart | None]
) -> Iterator[None]:
    """On an interrupt, name the submitted task, offer to end it, and end the program."""
    try:
        yield
    except KeyboardInterrupt:
        part = submitted()
        report_error(f"interrupted: {_how_it_stands(part, key_text)}", EXIT_ABORTED, "interrupted")
        if part is not None and part.block is not None and calls.is_attended():
            _offer_to_end(session, key_text, bytes.fromhex(part.units[0]))
        raise click.exceptions.Exit(EXIT_ABORTED) from None


def _how_it_stands(part: PostedPart | None, key_text: str) -> str:
    if part is None:
        return f"nothing was submitted. Go on with `{this_command()}`"
    name = f"0x{part.units[0]}"
    if part.block is None:
        return (
            f"task {name} may be submitted. Nothing is lost. Repeat the same command, which buys nothing twice: "
            f"`{this_command()}`"
        )
    keyed = ("--key", key_text)
    watch, logs = other_command("task", "watch", name, *keyed), other_command("logs", "-f", name, *keyed)
    stop = other_command("task", "stop", name, *keyed)
    return f"task {name}: {GOES_ON}. Follow it with `{watch}` or `{logs}`. Once it runs, `{stop}` stops it"


def _offer_to_end(session: WalletSession, key_text: str, task_id: bytes) -> None:
    """Show the cost of ending the task, and end it if the user agrees."""

    async def plan(client: ChainClient, payer: Payer) -> calls.PlannedCall | calls.NothingToSend:
        chain_task = await known_task(client, task_id, await client.finalized())
        return await ended_early(session, client, payer, task_id, chain_task)

    unasked = calls.SendingOptions(dry_run=False, is_agreed=False, is_anyway=False, tip=0)
    try:
        calls.make(session, key_text, unasked, plan)
    except (click.Abort, KeyboardInterrupt):
        note(GOES_ON)
