"""Submit a task: show the request, its cost and the eligible devices before anything is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from cli import calls
from cli.session import CallFailedError, WalletSession, note
from gpu_tasks.client.commands.calls import (
    other_command,
    this_command,
    told_nothing_was_sent,
    told_when_interrupted,
)
from gpu_tasks.client.commands.id_prefixes import require_market
from gpu_tasks.client.commands.task_runs import (
    CUT_OFF,
    OTHER_AWAITED,
    WaitForTask,
    follow_task,
    named_secrets,
    run_again,
    waiting_for,
    was_cut_off,
)
from gpu_tasks.client.commands.task_submission import TaskSubmission, asked_when_interrupted
from gpu_tasks.client.offers.outlook import require
from gpu_tasks.client.tasks.arrays import ArrayRecord, IndexSet, index_set, member_of
from gpu_tasks.client.tasks.orders import LoadedTask, load_any
from gpu_tasks.client.tasks.records import ended_well, exit_code_of
from gpu_tasks.client.tasks.results import DEFAULT_FOLDER as CHECKPOINTS
from gpu_tasks.client.units.posting_once import ENDED, SUBMITTED
from gpu_tasks.data import training_reads
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.tasks.task_kinds import ContainerSource
from wallet.amounts import Grains, counted, format_amount
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.rpc import NodeUnreachableError, RpcError


def submit(
    session: WalletSession, file: Path, key_text: str, is_watched: bool, secret_words: tuple[str, ...],
    checkpoints: Path, anyway: bool, postings: Path, again: bool, array_text: str | None, requeue: int,
    after_ok: str | None, after_any: str | None, tip: int, yes: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Carry out `ogpu task submit`."""
    submit_loaded(
        session, load_any(file), key_text, is_watched=is_watched, secret_words=secret_words,
        checkpoints=checkpoints, anyway=anyway, postings=postings, again=again, array_text=array_text,
        requeue=requeue, after_ok=after_ok, after_any=after_any, tip=tip, yes=yes, dry_run=dry_run,
    )  # fmt: skip


def submit_loaded(
    session: WalletSession, loaded: LoadedTask, key_text: str, *, is_watched: bool,
    secret_words: tuple[str, ...], checkpoints: Path, anyway: bool, postings: Path, again: bool,
    array_text: str | None, requeue: int, after_ok: str | None, after_any: str | None, tip: int, yes: bool,
    dry_run: bool,
) -> None:  # fmt: skip
    """Submit a task that was read, with the options of `ogpu task submit`."""
    secrets = named_secrets(loaded.secrets, secret_words) if is_watched else {}
    _check_requeue(requeue, loaded, is_watched=is_watched)
    submission = TaskSubmission(session, key_text, loaded, postings, tip, is_again=again, times=1 + requeue)
    wait = waiting_for(session, key_text, after_ok, after_any)
    if array_text is not None:
        indices = _indices(array_text, can_wait=is_watched or dry_run)
        array = ArraySubmission(submission, indices, secrets, is_watched=is_watched)
        array.run(wait, is_anyway=anyway, is_asked=not yes, is_dry=dry_run)
        return

    async def look(client: ChainClient) -> None:
        require_market(client)
        calls.require_somebody_to_ask(is_asked=not (yes or dry_run))
        await submission.look(client, is_anyway=anyway, is_dry=dry_run, until=ENDED if is_watched else SUBMITTED)

    async def send(client: ChainClient) -> None:
        key = session.key(key_text)
        with session.doing(OTHER_AWAITED):
            await wait(client)

        async def run() -> Task:
            if submission.is_sent:  # A requeued task has an auction of its own, and so another cost.
                await submission.look(client, is_anyway=True, is_dry=False, until=ENDED)
            task = (await submission.send(client, key, is_followed=True)).unit
            return await follow_task(session, client, key, task, checkpoints, secrets=secrets)

        if is_watched:
            with submission.told_to_its_end(client, key):
                await run_again(run, submission.requeues_left, note)
            return
        posted = await submission.send(client, key, is_followed=False)
        submission.note_told(client, key, SUBMITTED)
        if loaded.secrets:
            note(f"when the program runs, it waits for its secrets: `ogpu task secrets 0x{posted.unit.hex()} NAME...`")

    with told_nothing_was_sent():
        session.run(look)
    if dry_run:
        session.output.facts({**submission.facts, "sent": False})
        submission.require_funds()
        return
    submission.ask(is_asked=not yes)
    # Reconnect: while a person answers, the node would close the first connection as dead.
    with asked_when_interrupted(session, key_text, submission.newest):
        session.run(send)


def _indices(text: str, *, can_wait: bool) -> IndexSet:
    """Return the indices of an array. Raise UsageError for options that do not fit."""
    asked = index_set(text)
    if asked.at_once is not None and not can_wait:
        raise click.UsageError("--array: a limit with % needs --watch")
    return asked


def _check_requeue(requeue: int, loaded: LoadedTask, *, is_watched: bool) -> None:
    if requeue and not (is_watched and isinstance(loaded.source, ContainerSource)):
        raise click.UsageError("--requeue is for jobs and leases, and needs --watch")


NO_DEVICE = "no free device bid for it"
SUBMITTED_MAX = 4
"""The most submissions of a member for which there is no bid."""
ARRAY_COLUMNS = ("index", "task", "state", "exit_code", "problem")


@dataclass(slots=True)
class ArraySubmission:
    """A task for each index: priced and confirmed once, submitted one after the other, followed side by side."""

    file: TaskSubmission
    """The file itself. Its members are made of it."""
    asked: IndexSet
    secrets: Mapping[str, bytes]
    is_watched: bool
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    members: dict[int, str] = field(default_factory=dict)
    """The submitted tasks in hexadecimal, by index."""

    def run(self, wait: WaitForTask, *, is_anyway: bool, is_asked: bool, is_dry: bool) -> None:
        """Submit and follow the array. Exit with 1 if some members failed."""
        session, missing = self.file.session, list[int]()
        # The member is priced as a new one: earlier submissions do not change the price of the others.
        member = self._member(self.asked.indices[0], is_again=True)

        def require_funds() -> None:
            require(member.available, member.cost.needed * len(missing), f"submitting {counted(len(missing), 'task')}")

        async def look(client: ChainClient) -> None:
            require_market(client)
            calls.require_somebody_to_ask(is_asked=is_asked and not is_dry)
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
            require_funds()
            return
        if not session.output.as_json:
            session.output.facts({name: value for name, value in facts.items() if value is not None})
        if is_asked and missing:
            tasks = counted(len(missing), "task")
            click.confirm(f"Submit {tasks}, for at most {format_amount(most)} oGPU?", abort=True, err=True)
        with told_when_interrupted(self._so_far):
            session.run(send)

    def _so_far(self) -> str:
        """Describe the progress of an interrupted array, and how to continue or end it."""
        tasks = [f"0x{task}" for _, task in sorted(self.members.items())]
        cancelling = other_command("task", "cancel", *tasks, "--key", self.file.key_text)
        said = (
            f"submitted: {len(tasks)} of {counted(len(self.asked.indices), 'task')}, and perhaps one more. They "
            f"continue, and you pay for them. Repeat the same command, which buys none twice: `{this_command()}`"
        )
        return f"{said}. Or cancel the tasks that do not run yet, with `{cancelling}`" if tasks else said

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
        """Submit and follow. Print the table in any case."""
        # Nonces follow each other, so members are submitted one at a time, and followed side by side.
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
                        note(f"[{index}] {why}. Submitting it again")
                        record.remove(index)

            try:
                async with asyncio.TaskGroup() as group:
                    for index in self.asked.indices:
                        group.create_task(member(index))
            except* (WalletError, NodeUnreachableError, RpcError) as errors:
                raise errors.exceptions[0] from None  # The record has the submitted ones.
            finally:
                rows = [self.rows[index] for index in sorted(self.rows)]
                self.file.session.output.rows("Array", ARRAY_COLUMNS, rows)
        failed = [index for index, row in self.rows.items() if row["problem"]]
        if failed:
            raise CallFailedError(
                f"failed: {len(failed)} of {counted(len(self.rows), 'task')}, {sorted(failed)}", code="members_failed"
            )

    async def _submitted(self, client: ChainClient, key: Keypair, record: ArrayRecord, index: int) -> bytes:
        if index in record.members:
            note(f"[{index}] was submitted earlier: 0x{record.members[index]}")
        else:
            member = self._member(index, is_again=self.file.is_again)
            await member.look(client, is_anyway=True, is_dry=True)
            await member.send(client, key, is_followed=True, noted=lambda task: record.note(index, task))
            note(f"[{index}] is submitted: 0x{record.members[index]}")
        task_id = bytes.fromhex(record.members[index])
        self.rows[index] = {"index": index, "task": task_id, "state": "submitted", "exit_code": None, "problem": None}
        return task_id

    async def _why_again(self, client: ChainClient, key: Keypair, index: int, task_id: bytes) -> str | None:
        """Follow a member, and return the reason to submit it again: a cut-off, or no bid.

        By then devices that bid for other members are free again.
        """
        row = self.rows[index]
        try:
            ended = await follow_task(
                self.file.session, client, key, task_id, CHECKPOINTS, secrets=self.secrets,
                quiet=f"[{index}] ",
            )  # fmt: skip
        except CallFailedError as error:
            row |= {"state": "ended", "problem": str(error)}
            found = await training_reads.task(client, task_id, await client.finalized())
            return NO_DEVICE if found is not None and found.outcome is TaskOutcome.NO_AWARD else None
        code = exit_code_of(ended)
        row |= {"state": "ended", "exit_code": code, "problem": None if ended_well(ended) else f"exit code {code}"}
        return CUT_OFF if was_cut_off(ended) else None
