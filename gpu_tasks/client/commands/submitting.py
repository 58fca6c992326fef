"""The command that submits a task: what it asks, what it costs and who could bid is known before anything is sent."""

from __future__ import annotations

from pathlib import Path

import click

from gpu_tasks.client.commands.array_submission import ArraySubmission
from gpu_tasks.client.commands.handing import named_secrets, secret_option
from gpu_tasks.client.commands.interrupting import asked_when_interrupted
from gpu_tasks.client.commands.naming import require_market
from gpu_tasks.client.commands.posting.once import postings_option
from gpu_tasks.client.commands.sending import (
    key_option,
    told_nothing_was_sent,
)
from gpu_tasks.client.commands.task_runs import (
    OTHER_AWAITED,
    accept_option,
    after_options,
    checkpoints_option,
    follow_task,
    waiting_for,
)
from gpu_tasks.client.commands.task_submission import TaskSubmission, again_option
from gpu_tasks.client.commands.tasks import file_argument
from gpu_tasks.client.habits.arrays import IndexSet, index_set
from gpu_tasks.client.posting_record import ENDED, SUBMITTED
from gpu_tasks.client.task_files import LoadedTask, load_any
from gpu_tasks.client.training.requeueing import REQUEUES_MAX, run_again
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.tasks.task_kinds import ContainerSource
from wallet.client import ChainClient
from wallet.commands import making
from wallet.commands.options import dry_run_option, tip_option, yes_option
from wallet.session import WalletSession, explained, note


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
