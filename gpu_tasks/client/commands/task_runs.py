"""Follow tasks to their end, hand their secrets over, and fetch their results."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import click

from cli.output import Account
from cli.session import SENT_FOLDER, CallFailedError, WalletSession, note
from gpu_tasks.client.commands.calls import this_command, told_when_interrupted
from gpu_tasks.client.commands.id_prefixes import TaskError, known_task, named_task, require_customer
from gpu_tasks.client.output_files import OutputFile, output_file
from gpu_tasks.client.tasks import records
from gpu_tasks.client.tasks.exports import ExportError, exported, require_form
from gpu_tasks.client.tasks.progress import TaskFollower, show_changes
from gpu_tasks.client.tasks.records import DONE, ended_well, exit_code_of, metric_unit, workload_name
from gpu_tasks.client.tasks.results import (
    CheckpointKeeper,
    FetchedRun,
    fetch_input,
    fetch_outputs,
    fetch_result,
    last_stated,
    names_in,
    stated_outputs,
)
from gpu_tasks.client.tasks.tunnel import entered, hand_secrets
from gpu_tasks.client.units.watch import moments
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy, is_by_time, runs_program
from gpu_tasks.market.training.tasks import Milestone, Task, TaskResult, is_open
from gpu_tasks.tunnel.frames import SECRETS_BYTES_MAX
from gpu_tasks.tunnel.tunnel import TunnelError
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import ModelTensor, WorkloadForm
from runtime.cryptography import ss58
from runtime.encoding.codec import DecodeError
from runtime.frame.call import Call
from wallet.amounts import Grains
from wallet.client import ChainClient, Outcome
from wallet.errors import code_of
from wallet.keypair import Keypair
from wallet.outbox import SentNotes
from wallet.submission import send_once


def secrets_of(words: Iterable[str]) -> dict[str, bytes]:
    """Return the values of secrets by name. Raise UsageError for a missing or too long value."""
    values = {name: _secret_value(name, path) for name, _, path in (word.partition("=") for word in words)}
    if sum(map(len, values.values())) > SECRETS_BYTES_MAX:
        raise click.UsageError(f"secrets have at most {SECRETS_BYTES_MAX:,} bytes together. Send more data as inputs")
    return values


def named_secrets(names: Iterable[str], words: Iterable[str]) -> dict[str, bytes]:
    """Return the values of the secrets that a task file names.

    A value comes from its place in `words`, or from the environment.
    """
    wanted_names, words_by_name = set(names), {word.partition("=")[0]: word for word in words}
    foreign = sorted(words_by_name.keys() - wanted_names)
    if foreign:
        raise click.UsageError(f"--secret: the task file names no secret {foreign[0]!r} in spec.run.secrets")
    return secrets_of(words_by_name.get(name, name) for name in sorted(wanted_names))


def handing(
    client: ChainClient, keypair: Keypair, task_id: bytes, values: Mapping[str, bytes]
) -> Callable[[Task, bytes], Awaitable[None]]:
    """Return a function that hands secrets to the provider of a task at a final block.

    It raises TaskError if that fails.
    """

    async def hand(task: Task, final_hash: bytes) -> None:
        try:
            async with entered(client, keypair, task_id, task, final_hash) as tunnel:
                await hand_secrets(tunnel, values)
        except (TunnelError, OSError) as error:
            raise TaskError(str(error), code=code_of(error)) from None

    return hand


def _secret_value(name: str, path: str) -> bytes:
    if path:
        try:
            with Path(path).open("rb") as file:
                # A shell's <(...) names a pipe, whose size nobody knows.
                return file.read(SECRETS_BYTES_MAX + 1)
        except OSError as error:
            raise click.UsageError(f"the secret {name} cannot be read from {path}: {error.strerror}") from None
    value = os.environ.get(name)
    if value is None:
        raise click.UsageError(f"there is no environment variable {name}. Set it, or name a file with {name}=FILE")
    # Bytes of the environment that are no UTF-8 are surrogates in Python (PEP 383).
    return value.encode(errors="surrogateescape")


GOES_ON = "the task continues without this program, and you pay for it"
NO_SECRETS: Mapping[str, bytes] = MappingProxyType({})
OTHER_AWAITED = "waiting for the other task to end. Nothing is submitted before"
WaitForTask = Callable[[ChainClient], Awaitable[None]]


async def follow_task(
    session: WalletSession,
    client: ChainClient,
    keypair: Keypair,
    task_id: bytes,
    checkpoints: Path,
    *,
    secrets: Mapping[str, bytes] = NO_SECRETS,
    quiet: str | None = None,
) -> Task:
    """Follow a task to its end, and return it.

    With the customer's key, confirm its checkpoints and hand its secrets over. Raise CallFailedError if the task ends
    without a paid result. With `quiet`, print changes as notes behind that word.
    """
    notes = SentNotes(session.keyring.folder / SENT_FOLDER, client.genesis_hash)
    chain_task = await training_reads.task(client, task_id, await client.finalized())

    async def send(call: Call) -> Outcome:
        return await send_once(client, call, keypair, notes, note)

    async with BlobClient(private=market_reads.is_development(client)) as blob_client:
        keeper = None
        if chain_task is not None and chain_task.customer == keypair.account:
            keeper = CheckpointKeeper(client, blob_client, keypair, checkpoints)
        elif chain_task is not None:
            note(f"the task belongs to {ss58.encode(chain_task.customer)}. This key does not confirm its checkpoints")
        hand = handing(client, keypair, task_id, secrets) if secrets else None
        follower = TaskFollower(client, task_id, keeper, send, hand)
        with session.doing(None):
            last_state = await (
                show_changes(follower, session.output) if quiet is None else _note_changes(follower, quiet)
            )
    if last_state is None:
        raise TaskError(
            "the chain no longer knows the task. It ended long ago, or is of another chain", code="task_unknown"
        )
    if last_state.outcome not in DONE:
        last_statement = last_stated(last_state)
        helps = (
            f". `ogpu task result` has its checkpoint of milestone {last_statement.number}"
            if isinstance(last_statement, Milestone)
            else ""
        )
        raise CallFailedError(
            f"the task ended without a paid result: {records.how_ended(last_state)}{helps}", code="no_result"
        )
    return last_state


async def _note_changes(follower: TaskFollower, word: str) -> Task | None:
    """Print the changes of a task as notes."""
    last_state: Task | None = None
    async for height, task, row in follower.changes():
        last_state = task
        note(f"{word}block {height}: {'; '.join(await follower.said(height, row))}")
    return last_state


class DependencyError(CallFailedError):
    """The other task ended without success."""


async def wait_for_end(client: ChainClient, task_id: bytes, *, is_ok_needed: bool) -> None:
    """Wait until a task has ended, and print its states.

    This program waits, not the chain. Raise DependencyError if success is needed and the task failed.
    """
    before = ""
    async for _ in moments(client):
        task = await training_reads.task(client, task_id, await client.finalized())
        if task is None:
            raise TaskError(
                f"the chain does not know task 0x{task_id.hex()}, so how it ended is unknown", code="task_unknown"
            )
        if not is_open(task):
            if is_ok_needed and not ended_well(task):
                raise DependencyError(
                    f"0x{task_id.hex()} {records.how_ended(task)}. Nothing was submitted", code="dependency_failed"
                )
            return
        state = records.progress(task)
        if state != before:
            note(f"waiting for 0x{task_id.hex()[:8]}: {state}")
            before = state


def waiting_for(session: WalletSession, key_text: str, after_ok: str | None, after_any: str | None) -> WaitForTask:
    """Return a function that waits for the task of `after_options`, or does nothing without one.

    Raise UsageError if both options are given.
    """
    if after_ok is not None and after_any is not None:
        raise click.UsageError("give --after-ok or --after-any, not both")
    named = after_ok or after_any

    async def wait(client: ChainClient) -> None:
        if named is not None:
            await wait_for_end(
                client, await named_task(session, client, named, key_text), is_ok_needed=after_ok is not None
            )

    return wait


async def show_result(
    session: WalletSession,
    client: ChainClient,
    keypair: Keypair,
    task_id: bytes,
    task: Task,
    final_hash: bytes,
    out: OutputFile | None,
    place: int | None = None,
    model: OutputFile | None = None,
) -> None:
    """Fetch, open and check the result of a task. Write its last state and its model to the named files."""
    _require_places(out, model, file_name_of(task_id))
    if model is not None:
        require_training(task)
    require_customer(task, keypair.account, "opens its result")
    providers = await market_reads.providers(client, final_hash)
    async with BlobClient(private=market_reads.is_development(client)) as blob_client:
        if runs_program(task.order):
            outputs = await fetch_outputs(blob_client, keypair, task, providers, place)
            archive = None if out is None else out.write(file_name_of(task_id), outputs)
            session.output.facts(program_facts(task_id, task, place, outputs, archive))
            return
        fetched_run = await fetch_result(blob_client, keypair, task, providers)
        trained = None if model is None else await trained_model(blob_client, keypair, task, providers, fetched_run)
    exporting = None if model is None or trained is None else _export_model(*trained, task, model)
    written = None if out is None else out.write(file_name_of(task_id), fetched_run.run.state)
    stated = last_stated(task)
    assert stated is not None, "something was fetched"
    session.output.facts(
        _run_facts(task_id, task, fetched_run, stated, written) | ({"exported_to": exporting} if model else {})
    )
    if isinstance(stated, Milestone):
        note(
            f"the task ended without a result. This is its checkpoint of milestone {stated.number}, the newest "
            "confirmed one"
        )
    if out is None and model is None:
        note("--out FILE writes the checked last state of the run to a file")


def require_training(task: Task) -> None:
    """Raise ExportError for a job or a lease."""
    if runs_program(task.order):
        raise ExportError("the task runs a program, so it trains no model. Use --out", code="no_model")


def _require_places(out: OutputFile | None, model: OutputFile | None, name: str) -> None:
    """Refuse unusable files of `--out` and `--export` before anything is fetched."""
    state = None if out is None else out.place(name)
    if model is None:
        return
    if model.named.is_dir():
        raise ExportError(f"--export {model.named} is a folder. Name a file", code="not_a_file")
    if model.place(model.named.name) == state:
        raise ExportError("--out and --export name one file. Name two", code="same_file")


async def trained_model(
    blob_client: BlobClient, keypair: Keypair, task: Task, providers: dict[bytes, Provider], fetched_run: FetchedRun
) -> tuple[WorkloadForm, Sequence[ModelTensor]]:
    """Return the workload and the trained model of a run. Raise ExportError for a workload without a model."""
    workload_form = registry.form_of(task.order.workload)
    request = await fetch_input(blob_client, keypair, task, providers)
    try:
        tensors = () if workload_form is None else workload_form.model_tensors(request, fetched_run.run.state)
    except DecodeError as error:
        raise ExportError(f"the state is not of the task's request: {error}", code="no_model") from None
    if workload_form is None or not tensors:
        raise ExportError("the task trains no model that this program knows. Use --out", code="no_model")
    return workload_form, tensors


def _export_model(workload_form: WorkloadForm, tensors: Sequence[ModelTensor], task: Task, model: OutputFile) -> str:
    """Write a trained model, and return the file."""
    content = exported(
        model.named, tensors, {"workload": workload_form.name, "task_hash": "0x" + task.order.task_hash.hex()}
    )
    return str(model.write(model.named.name, content))


def watch_task(
    session: WalletSession, task: str, key_text: str, checkpoints: Path, secret_words: tuple[str, ...]
) -> None:
    """Carry out `ogpu task watch`."""
    secrets = secrets_of(secret_words)

    async def body(client: ChainClient) -> None:
        task_id, keypair = await named_task(session, client, task, key_text), session.key(key_text)
        await known_task(client, task_id, await client.finalized())
        await follow_task(session, client, keypair, task_id, checkpoints, secrets=secrets)

    with told_when_interrupted(lambda: f"{GOES_ON}. Go on with `{this_command()}`"):
        session.run(body)


def task_result(
    session: WalletSession, task: str, key_text: str, out: Path | None, force: bool, place: int | None,
    export: Path | None,
) -> None:  # fmt: skip
    """Carry out `ogpu task result`."""
    file = output_file(out, is_forced=force and (out is not None or export is None))
    model = output_file(export, is_forced=force and export is not None)
    if export is not None:
        require_form(export)

    async def body(client: ChainClient) -> None:
        task_id, keypair = await named_task(session, client, task, key_text), session.key(key_text)
        final_hash = await client.finalized()
        chain_task = await known_task(client, task_id, final_hash)
        await show_result(session, client, keypair, task_id, chain_task, final_hash, file, place, model)

    session.run(body)


def program_facts(task_id: bytes, task: Task, place: int | None, outputs: bytes, out: Path | None) -> dict[str, object]:
    """Return the facts about a program's outputs: of all slots, or of the slot at `place`."""
    stated, slots = stated_outputs(task, place)[0], task.slots if place is None else task.slots[place : place + 1]
    return {
        "task": task_id,
        "state": records.progress(task),
        "providers": ", ".join(ss58.encode(slot.provider) for slot in slots),
        "exit_code": stated.metric,
        "outputs": ", ".join(names_in(outputs)) or "none",
        "hash": stated.root,
        "customer": Account(task.customer),
        "written_to": None if out is None else f"{out}, a tar archive",
    }


def _run_facts(
    task_id: bytes, task: Task, fetched_run: FetchedRun, stated: TaskResult | Milestone, written: Path | None
) -> dict[str, object]:
    milestones = task.order.milestones
    return {
        "task": task_id,
        "state": records.progress(task),
        "milestone": f"{stated.number if isinstance(stated, Milestone) else milestones}/{milestones}",
        "workload": workload_name(task.order.workload),
        "providers": ", ".join(ss58.encode(slot.provider) for slot in task.slots),
        "root": stated.root,
        "metric": stated.metric,
        "metric_unit": metric_unit(task.order.workload),
        "states_checked": len(fetched_run.run.digests),
        "state_bytes": len(fetched_run.run.state),
        "price": Grains(sum(slot.price for slot in task.slots)),
        "customer": Account(task.customer),
        "written_to": None if written is None else str(written),
    }


def file_name_of(thing_id: bytes) -> str:
    """Return the name of a unit's or task's file in a folder: nothing but its id."""
    return f"0x{thing_id.hex()}.bin"


# A requeued task is the same file as a new task, which starts from the beginning.
REQUEUES_MAX = 32
CUT_OFF = "its time ended before its program"


def was_cut_off(task: Task) -> bool:
    """Return True if the bought time is over and a job's program has not ended well by itself.

    A program that exits with 0 when it is told to end is done. A lease ends only with its time.
    """
    if not is_by_time(task.order) or task.outcome is not TaskOutcome.TIME_OVER:
        return False
    slot = task.slots[0]
    is_all_taken = slot.finished_at - task.started_at >= slot.promised
    return is_all_taken and (task.order.checked_by is CheckedBy.LEASED or exit_code_of(task) != 0)


async def run_again(run: Callable[[], Awaitable[Task]], requeues: int, say: Callable[[str], None]) -> Task:
    """Run a task to its end, and again after each cut-off, at most `requeues` times. Return the last end."""
    for left in reversed(range(requeues)):
        ended = await run()
        if not was_cut_off(ended):
            return ended
        say(f"{CUT_OFF}. Submitting it again, at most {left} more times")
    return await run()
