"""The command that submits a task: what it asks, what it costs and who could bid is known before anything is sent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from gpu_tasks.client import planning
from gpu_tasks.client.commands.handing import named_secrets, secret_option
from gpu_tasks.client.commands.interrupting import asked_when_interrupted
from gpu_tasks.client.commands.naming import TaskError, require_market
from gpu_tasks.client.commands.posting.once import postings_option
from gpu_tasks.client.commands.sending import (
    key_option,
    other_command,
    this_command,
    told_nothing_was_sent,
    told_when_interrupted,
)
from gpu_tasks.client.commands.task_runs import (
    OTHER_AWAITED,
    WaitForTask,
    accept_option,
    after_options,
    checkpoints_option,
    follow_task,
    waiting_for,
)
from gpu_tasks.client.commands.tasks import facts_of, file_argument
from gpu_tasks.client.costs.clearing import TaskEstimate, estimate_of
from gpu_tasks.client.funds import require, spendable
from gpu_tasks.client.habits.arrays import ArrayRecord, IndexSet, index_set, member_of
from gpu_tasks.client.posting import PostingCost, Prompt
from gpu_tasks.client.posting_kind import TaskPosting
from gpu_tasks.client.posting_once import Posted, PostingRun, Progress
from gpu_tasks.client.posting_record import ENDED, SUBMITTED, PostedPart, PostingRecord, RecordBusyError
from gpu_tasks.client.task_files import LoadedTask, load_any
from gpu_tasks.client.training import stages
from gpu_tasks.client.training.holding import DEFAULT_FOLDER as CHECKPOINTS
from gpu_tasks.client.training.records import ended_well, exit_code_of
from gpu_tasks.client.training.requeueing import CUT_OFF, REQUEUES_MAX, run_again, was_cut_off
from gpu_tasks.client.training.sealing import ImageUpload, TaskDraft, TaskSealer
from gpu_tasks.client.willingness import willingness_of
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.tasks.plan import TaskPlan, plan_of
from gpu_tasks.tasks.task_kinds import ContainerSource
from wallet.amounts import format_amount
from wallet.client import ChainClient, NotIncludedError, Payer
from wallet.commands import making
from wallet.commands.options import dry_run_option, tip_option, yes_option
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.output import Grains
from wallet.rpc import RpcError
from wallet.session import CallFailedError, WalletSession, explained, note

SEED_BYTES = 32
NOTHING = PostingCost(0, 0, 0, 0, 0)
NO_DEVICE = "nobody had a device free for it"
SUBMITTED_MAX = 4
"""Times that a member of an array is submitted for which nobody bids."""
ARRAY_COLUMNS = ("index", "task", "state", "exit_code", "problem")


again_option = click.option("--again", is_flag=True, help="Buy once more, even if the same command bought it already.")


@click.command()
@file_argument
@key_option
@click.option("--watch", "is_watched", is_flag=True, help="Follow the task to its end, and hold its checkpoints.")
@accept_option
@secret_option
@checkpoints_option
@click.option("--anyway", is_flag=True, help="Even if nobody could bid for it now.")
@postings_option
@again_option
@click.option(
    "--array",
    "array_text",
    metavar="0-9[%4]",
    help="A task for each index, which it finds as OGPU_ARRAY_INDEX; with --watch as many at once as stand behind %.",
)
@click.option(
    "--requeue", type=click.IntRange(0, REQUEUES_MAX), default=0, show_default=True, metavar="N",
    help="With --watch: submit a job or lease again, N times at most, whose time was over before its program.",
)  # fmt: skip
@after_options
@tip_option
@yes_option
@dry_run_option
@click.pass_obj
def submit(
    session: WalletSession, file: Path, key_text: str, is_watched: bool, accepts: bool, secret_words: tuple[str, ...],
    checkpoints: Path, anyway: bool, postings: Path, again: bool, array_text: str | None, requeue: int,
    after_ok: str | None, after_any: str | None, tip: int, yes: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Put the task of FILE to auction: its input is sealed and stored, its cost shown and asked.

    The same command never buys a task, or a member of an array, twice. It continues the task that is on the chain, and
    once that task's end was shown, it says so. --again buys another.
    """
    read: list[LoadedTask] = []
    explained(lambda: read.append(load_any(file)))  # before any node is asked
    secrets = named_secrets(read[0].secrets, secret_words) if is_watched else {}
    _check_requeue(requeue, read[0], is_watched=is_watched)
    submission = TaskSubmission(session, key_text, read[0], postings, tip, is_again=again, times=1 + requeue)
    wait = waiting_for(session, key_text, after_ok, after_any)
    if array_text is not None:
        indices = _indices(array_text, accepts=accepts, can_wait=is_watched or dry_run)
        array = ArraySubmission(submission, indices, secrets, is_watched=is_watched)
        array.run(wait, is_anyway=anyway, is_asked=not yes, is_dry=dry_run)
        return

    async def look(client: ChainClient) -> None:
        require_market(client)
        making.require_somebody_to_ask(is_asked=not (yes or dry_run))
        await submission.look(client, is_anyway=anyway, is_dry=dry_run, until=ENDED if is_watched else SUBMITTED)

    async def send(client: ChainClient) -> None:
        key = session.key(key_text)
        with session.doing(OTHER_AWAITED):
            await wait(client)

        async def run() -> Task:
            if submission.is_sent:  # its auction is another one, and so is what it costs
                await submission.look(client, is_anyway=True, is_dry=False, until=ENDED)
            task = (await submission.send(client, key, is_followed=True)).unit
            return await follow_task(session, client, key, task, checkpoints, accepts=accepts, secrets=secrets)

        if is_watched:
            with submission.told_to_its_end(client, key):
                await run_again(run, submission.requeues_left, note)
            return
        posted = await submission.send(client, key, is_followed=False)
        submission.note_told(client, key, SUBMITTED)
        if read[0].secrets:
            note(f"once it runs, its program waits for its secrets: `ogpu secrets 0x{posted.unit.hex()} NAME...`")

    with told_nothing_was_sent():
        session.run(look)
    if dry_run:
        session.output.facts({**submission.facts, "sent": False})
        explained(submission.require_funds)
        return
    submission.ask(is_asked=not yes)
    # A second connection: the first would be closed as dead while a person takes time to answer.
    with asked_when_interrupted(session, key_text, submission.newest):
        session.run(send)


def _indices(text: str, *, accepts: bool, can_wait: bool) -> IndexSet:
    """Which members an array has; UsageError for what goes with none."""
    asked: list[IndexSet] = []
    explained(lambda: asked.append(index_set(text)))
    if accepts:
        raise click.UsageError("--array: --accept is for one task")
    if asked[0].at_once is not None and not can_wait:
        raise click.UsageError("--array: % needs --watch, which waits for the others")
    return asked[0]


def _check_requeue(requeue: int, loaded: LoadedTask, *, is_watched: bool) -> None:
    if requeue and not (is_watched and isinstance(loaded.source, ContainerSource)):
        raise click.UsageError("--requeue is for jobs and leases, and needs --watch: it is this command that waits")


@dataclass(slots=True)
class TaskSubmission:
    """A task on its way: looked at over one connection, agreed to, and sent over another."""

    session: WalletSession
    key_text: str
    loaded: LoadedTask
    postings: Path
    tip: int
    is_again: bool
    is_quiet: bool = False
    """Whether somebody else says what became of it."""
    times: int = 1
    """How often it may be submitted."""
    is_kept: bool = True
    """Whether the record of the submission stays; an array's own record covers its members."""
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
        """What the file asks, and every byte of its input."""
        return self.loaded.identity()

    def _identity(self, client: ChainClient, payer: Payer) -> tuple[bytes, ...]:
        """What makes two submissions the same: chain, account, what the file asks, and every byte of its input."""
        return client.genesis_hash, payer.account, b"task", *self.file_identity

    async def look(self, client: ChainClient, *, is_anyway: bool, is_dry: bool, until: str = "") -> None:
        """The request, the eligible bidders and the cost; CallFailedError and FundsError if it cannot be sent.

        TaskError where it was bought before, and told `until` there.
        """
        payer, slot_ms = self.session.payer(self.key_text), planning.slot_ms(client)
        if self.loaded.image is not None:
            await asyncio.to_thread(self.loaded.image.parts)  # too large a one is refused before anything is sent
        asked = self.loaded.asked(os.urandom(SEED_BYTES), slot_ms)
        final = await client.finalized()
        numbers = await planning.auction_numbers(client, final, asked.checked_by)
        self.draft = TaskDraft(asked, numbers.rules, slot_ms)
        self._parts = [] if self.is_again else PostingRecord.look(self.postings, *self._identity(client, payer))
        is_begun = bool(self._parts) and not self.is_sent
        if is_begun:
            await self._require_untold(client, self._parts[-1], until, final)
        own = await planning.own(client, payer.account, final)
        devices = await planning.bidding_devices(client, final)
        terms, intervals = asked.terms(numbers.rules, slot_ms), asked.intervals(slot_ms)
        planning.require_interval(terms, intervals, numbers, slot_ms)
        plan = plan_of(terms, asked.classes, numbers, devices, own, intervals, asked.checked_by)
        if not (plan.is_served or is_anyway or is_begun):
            raise CallFailedError(
                f"nobody could serve the task now: {plan.why_not}. `ogpu plan` says why of each; --anyway submits it "
                "all the same, and it costs a part of the bond to take it back"
            )
        says = await willingness_of(client, asked, numbers.rules, plan, slot_ms, final)
        if (why := says.why_too_few(terms.slots)) and not (is_anyway or is_begun):
            raise CallFailedError(f"{why}. Their answers are not binding: --anyway submits the task all the same")
        # What an earlier try sent is locked already, or the chain will judge it: it is asked for once.
        self.cost = await _cost(client, payer, self.draft, plan, self.tip) if self.times_left else NOTHING
        self.available = available = await spendable(client, payer.account)
        if not (is_dry or is_begun):
            self.require_funds()
        estimate = await estimate_of(client, asked, numbers.rules, plan, slot_ms, final)
        self.facts = {**facts_of(asked, slot_ms), **_facts(plan, self.cost, available, estimate)}
        self.facts |= says.facts() if self.session.output.as_json else {"could_bid": says.sentence}
        if self.times > 1:
            self.facts |= {"times_at_most": self.times_left, "most_of_all": Grains(self.cost.most * self.times_left)}

    def require_funds(self) -> None:
        """Raise FundsError if the account has less than the cost."""
        if self.cost.units and (self.is_sent or not self._parts):
            require(self.available, self.cost.needed, "submitting the task")

    async def _require_untold(self, client: ChainClient, last: PostedPart, until: str, final: bytes) -> None:
        """TaskError where there is nothing to go on with: the same command bought the task, and its end was told."""
        name = f"0x{last.units[0]}"
        if last.block is None:  # it is looked for when it is sent
            return
        task = await training_reads.task(client, bytes.fromhex(last.units[0]), final)
        if task is None or task.order.input_root.hex() not in last.input_roots:  # or another has its id: a new chain
            raise TaskError(
                f"the same command submitted this as task {name} in block {last.block}, and the chain has forgotten "
                "it: the task ended long ago, or a development chain was reset. --again buys another"
            )
        if last.told and until in {last.told, SUBMITTED}:
            raise TaskError(
                f"the same command bought this already, as task {name}, which is {stages.progress(task)}: "
                f"`ogpu describe {name}` and `ogpu result {name}` show it. Nothing was sent. --again buys another"
            )

    def ask(self, *, is_asked: bool) -> None:
        """What is submitted and its cost, for somebody at a terminal to agree to."""
        if not self.session.output.as_json:
            self.session.output.facts({name: value for name, value in self.facts.items() if value is not None})
        if is_asked and self.cost.units:
            locks = (
                f"Submit {self.draft.asked.name if self.draft else ''}, locking {format_amount(self.cost.locked)} oGPU"
            )
            often = f", {self.times_left} times at most" if self.times > 1 else ""
            most = format_amount(self.cost.most * self.times_left)
            click.confirm(f"{locks}{often}, for at most {most} oGPU?", abort=True, err=True)

    async def send(
        self, client: ChainClient, key: Keypair, *, is_followed: bool, noted: Callable[[bytes], None] = lambda _: None
    ) -> Posted:
        """Seal, store and submit it, or find what an earlier try submitted; it is shown when it is final.

        Once more where this was done already. `noted` is told its id before anything forgets that it was sent.
        """
        assert self.draft is not None, "it was looked at"
        with PostingRecord.open(self.postings, *self._identity(client, key)) as record:
            if self.is_again:
                record.forget()
            self._parts = record.parts
            before = len(record.parts)
            place = before if self.is_sent else max(0, before - 1)
            is_known = not self.is_sent and bool(before) and record.parts[-1].block is not None
            progress = Progress(lambda: None, lambda: None, note)
            async with BlobClient(private=market_reads.is_development(client)) as blobs:
                image = self.loaded.image
                upload = None if image is None else ImageUpload(image, self.postings, progress.say)
                sealer = TaskSealer(client, blobs, key, self.draft, upload)
                prompts = [Prompt(number, self.draft.asked.name) for number in range(1, place + 2)]
                requests = [self.draft.asked.request] * len(prompts)
                run = PostingRun(sealer, record, prompts, requests, progress, self.tip)
                posted = (await run.run(places=[place]))[-1]
            if is_known:
                note(f"the same command submitted it before, as 0x{posted.unit.hex()}: this goes on with that task")
            if not (self.is_quiet or (is_followed and self.session.output.as_json)):  # there its first line names it
                facts = {"task": posted.unit, "name": posted.prompt, "block": posted.block}
                amounts = {"locked": Grains(self.cost.locked), "most": Grains(self.cost.most)}
                self.session.output.facts({**facts, **({} if is_known else amounts), "sent": not is_known})
            noted(posted.unit)
            if not self.is_kept:
                record.forget()
        self.is_sent, self.is_again = True, False
        return posted

    @contextmanager
    def told_to_its_end(self, client: ChainClient, key: Keypair) -> Iterator[None]:
        """Note, after the body has shown the task's end or failure, that the customer knows how the task ended."""
        try:
            yield
        except CallFailedError:
            self.note_told(client, key, ENDED)
            raise
        self.note_told(client, key, ENDED)

    def note_told(self, client: ChainClient, key: Keypair, told: str) -> None:
        """Write down how much of the task its customer has been told."""
        last = self.newest()
        if last is None or last.block is None:
            return
        try:
            with PostingRecord.open(self.postings, *self._identity(client, key)) as record:
                if record.parts and record.parts[-1].units == last.units:
                    record.parts[-1].told, record.parts[-1].extrinsic = told, ""  # which is looked for no more
                    record.save()
        except RecordBusyError:
            return  # another process submits it once more, and writes down that


@dataclass(slots=True)
class ArraySubmission:
    """A task for each index: looked at and agreed to once, submitted one after the other, followed side by side."""

    file: TaskSubmission
    """Of the file as it is; its members are made of it."""
    asked: IndexSet
    secrets: Mapping[str, bytes]
    is_watched: bool
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    members: dict[int, str] = field(default_factory=dict)
    """Tasks that were submitted, in hexadecimal, by index."""

    def run(self, wait: WaitForTask, *, is_anyway: bool, is_asked: bool, is_dry: bool) -> None:
        """All of it; errors end the program with a sentence, and some that failed with exit code 1."""
        session, missing = self.file.session, list[int]()
        # Looked at alone: what an earlier try sent of this member is no part of what the others cost.
        member = self._member(self.asked.indices[0], is_again=True)

        def require_funds() -> None:
            require(member.available, member.cost.needed * len(missing), f"submitting {len(missing)} tasks")

        async def look(client: ChainClient) -> None:
            require_market(client)
            making.require_somebody_to_ask(is_asked=is_asked and not is_dry)
            with self._record(client) as record:
                if self.file.is_again and not is_dry:
                    record.forget()
                missing.extend(index for index in self.asked.indices if index not in record.members)
            await member.look(client, is_anyway=is_anyway or not missing, is_dry=True)
            if not is_dry:
                require_funds()

        async def send(client: ChainClient) -> None:
            with self.file.session.doing(OTHER_AWAITED):
                await wait(client)
            await self._send(client, session.key(self.file.key_text))

        with told_nothing_was_sent():
            session.run(look)
        most = member.cost.most * len(missing) * self.file.times
        facts = {**member.facts, "tasks": len(missing), "most_of_all": Grains(most)}
        if is_dry:
            session.output.facts({**facts, "sent": False})
            explained(require_funds)
            return
        if not session.output.as_json:
            session.output.facts({name: value for name, value in facts.items() if value is not None})
        if is_asked and missing:
            click.confirm(f"Submit {len(missing)} tasks, for at most {format_amount(most)} oGPU?", abort=True, err=True)
        with told_when_interrupted(self._so_far):
            session.run(send)

    def _so_far(self) -> str:
        """Describe the progress of an interrupted array, and how to continue or end it."""
        tasks = [f"0x{task}" for _, task in sorted(self.members.items())]
        cancelling = other_command("cancel", *tasks, "--key", self.file.key_text)
        said = (
            f"of {len(self.asked.indices)} tasks {len(tasks)} are submitted, and one more may be. They go on without "
            f"this program, and you pay for them. Repeat the same command, which buys none twice: `{this_command()}`"
        )
        return f"{said}. Or take back the tasks that do not run yet, with `{cancelling}`" if tasks else said

    def _member(self, index: int, *, is_again: bool = False) -> TaskSubmission:
        file = self.file
        member = member_of(file.loaded, self.asked, index)
        return TaskSubmission(
            file.session, file.key_text, member, file.postings, file.tip, is_again=is_again, is_quiet=True,
            is_kept=False,
        )  # fmt: skip

    def _record(self, client: ChainClient) -> ArrayRecord:
        payer = self.file.session.payer(self.file.key_text)
        indices = ",".join(map(str, self.asked.indices)).encode()
        return ArrayRecord.open(
            self.file.postings, client.genesis_hash, payer.account, indices, *self.file.file_identity
        )

    async def _send(self, client: ChainClient, key: Keypair) -> None:
        """Submit and follow; the table is shown whatever became of them."""
        places, one_by_one = asyncio.Semaphore(self.asked.at_once or len(self.asked.indices)), asyncio.Lock()
        with self._record(client) as record:
            self.members = record.members

            async def member(index: int) -> None:
                async with places:
                    left = {NO_DEVICE: SUBMITTED_MAX - 1, CUT_OFF: self.file.times - 1}
                    while True:
                        async with one_by_one:
                            task_id = await self._submitted(client, key, record, index)
                        why = await self._why_again(client, key, index, task_id) if self.is_watched else None
                        if why is None or not left[why]:
                            return
                        left[why] -= 1
                        note(f"[{index}] {why}: it is submitted again")
                        record.remove(index)

            try:
                async with asyncio.TaskGroup() as group:
                    for index in self.asked.indices:
                        group.create_task(member(index))
            except* (WalletError, RpcError, NotIncludedError) as errors:
                raise errors.exceptions[0] from None  # the record has those that were submitted
            finally:
                rows = [self.rows[index] for index in sorted(self.rows)]
                self.file.session.output.rows("Array", ARRAY_COLUMNS, rows)
        failed = [index for index, row in self.rows.items() if row["problem"]]
        if failed:
            raise CallFailedError(f"{len(failed)} of {len(self.rows)} did not end well: {sorted(failed)}")

    async def _submitted(self, client: ChainClient, key: Keypair, record: ArrayRecord, index: int) -> bytes:
        if index in record.members:
            note(f"[{index}] was submitted before: 0x{record.members[index]}")
        else:
            member = self._member(index, is_again=self.file.is_again)
            await member.look(client, is_anyway=True, is_dry=True)
            await member.send(client, key, is_followed=True, noted=lambda task: record.note(index, task))
            note(f"[{index}] is submitted: 0x{record.members[index]}")
        task_id = bytes.fromhex(record.members[index])
        self.rows[index] = {"index": index, "task": task_id, "state": "submitted", "exit_code": None, "problem": None}
        return task_id

    async def _why_again(self, client: ChainClient, key: Keypair, index: int, task_id: bytes) -> str | None:
        """Follow a member; why it may be submitted again: it was cut off, or no bid won it.

        Devices that bid for the others are free again by then.
        """
        row = self.rows[index]
        try:
            ended = await follow_task(
                self.file.session, client, key, task_id, CHECKPOINTS, accepts=False, secrets=self.secrets,
                quiet=f"[{index}] ",
            )  # fmt: skip
        except CallFailedError as error:
            row |= {"state": "ended", "problem": str(error)}
            found = await training_reads.task(client, task_id, await client.finalized())
            return NO_DEVICE if found is not None and found.outcome is TaskOutcome.NO_AWARD else None
        code = exit_code_of(ended)
        row |= {"state": "ended", "exit_code": code, "problem": None if ended_well(ended) else f"exit code {code}"}
        return CUT_OFF if was_cut_off(ended) else None


async def _cost(client: ChainClient, payer: Payer, draft: TaskDraft, plan: TaskPlan, tip: int) -> PostingCost:
    fees = await client.fee(TaskPosting().call([draft.order()]), payer, tip) + tip
    return PostingCost(1, plan.locked, plan.prepaid, fees, plan.most + fees)


def _facts(plan: TaskPlan, cost: PostingCost, available: int, estimate: TaskEstimate) -> dict[str, Any]:
    amounts = {name: Grains(value) for name, value in asdict(cost).items() if name != "units"}
    return {
        "could_bid": plan.able,
        "price_is_set_by": "the best loser" if plan.has_rival else "nobody: the greatest price is paid",
        "standby": planning.standby_of(plan),
        **amounts,
        **estimate.facts(cost.fees),
        "spendable": Grains(available),
    }
