"""`ogpu run`: submit a command line as a job, follow it, print its output, and end with its exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from cli import calls
from cli.session import CallFailedError, WalletSession, note
from gpu_tasks.client.commands.calls import told_nothing_was_sent
from gpu_tasks.client.commands.id_prefixes import require_market
from gpu_tasks.client.commands.task_runs import (
    OTHER_AWAITED,
    file_name_of,
    follow_task,
    named_secrets,
    waiting_for,
)
from gpu_tasks.client.commands.task_submission import TaskSubmission, asked_when_interrupted
from gpu_tasks.client.input_files import read_input
from gpu_tasks.client.output_files import OutputFile
from gpu_tasks.client.tasks.drafts import DraftOrigin, ProgramDraft, in_own_words, option_origins, variable_key
from gpu_tasks.client.tasks.orders import ArchiveFile, LoadedTask, look_at_image
from gpu_tasks.client.tasks.records import exit_code_of
from gpu_tasks.client.tasks.results import DEFAULT_FOLDER as CHECKPOINTS
from gpu_tasks.client.tasks.results import RunBlobError, fetch_lines, fetch_outputs, places_with_lines
from gpu_tasks.client.units.posting_once import ENDED, SUBMITTED
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.tasks.canonical import INPUT_BYTES_MAX
from gpu_tasks.tasks.container_task import SavedImage
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.task_kinds import read_any_task
from runtime.cryptography.hashing import HASH_BYTES
from wallet.client import ChainClient
from wallet.errors import WalletError, harmless
from wallet.keypair import Keypair

EXIT_UNKNOWN = 125
"""The exit code where no provider states one, as in programs that run containers."""
ORIGINS = option_origins({name: f"--{name}" for name in (
    "name", "image", "archive", "env", "network", "cpu", "memory", "disk", "time", "copies",
)} | {"max_price": "--max-price", "inputs": "--in", "secrets": "--secret", "gpus": "--gpu", "classes": "--gpu",
      "command": "COMMAND"})  # fmt: skip
"""The options by the task file's keys that they set."""
ANY_GPU = "any"


def run(session: WalletSession, /, command: tuple[str, ...], **given: Any) -> None:
    """Carry out `ogpu task run`."""
    loaded = _loaded_job(command, given)
    secrets = named_secrets([word.partition("=")[0] for word in given["secret_words"]], given["secret_words"])
    out = None if given["out"] is None else OutputFile(given["out"], given["force"])
    wait = waiting_for(session, given["key_text"], given["after_ok"], given["after_any"])
    is_asked, is_dry = not given["yes"], given["dry_run"]
    submission = TaskSubmission(
        session, given["key_text"], loaded, given["postings"], given["tip"], is_again=given["again"], is_quiet=True
    )
    codes: list[int] = []

    async def look(client: ChainClient) -> None:
        require_market(client)
        calls.require_somebody_to_ask(is_asked=is_asked and not is_dry)
        until = SUBMITTED if given["detach"] else ENDED
        with _in_options(given["variables"]):
            await submission.look(client, is_anyway=given["anyway"], is_dry=is_dry, until=until)
        if out is not None:
            out.place(file_name_of(bytes(HASH_BYTES)))  # Refuse an unusable file before the task is paid.

    async def send(client: ChainClient) -> None:
        with session.doing(OTHER_AWAITED):
            await wait(client)
        keypair = session.key(given["key_text"])
        posted = await submission.send(client, keypair, is_followed=True)
        if given["detach"]:
            session.output.facts({"task": posted.unit})
            if secrets:
                told = f"`ogpu task secrets 0x{posted.unit.hex()} NAME...`"
                note(f"when the program runs, it waits for its secrets: {told}")
            submission.note_told(client, keypair, SUBMITTED)
            return
        note(f"task 0x{posted.unit.hex()}. `ogpu logs -f` shows its output while it runs")
        try:
            ended = await follow_task(session, client, keypair, posted.unit, CHECKPOINTS, secrets=secrets, quiet="")
        except CallFailedError:
            submission.note_told(client, keypair, ENDED)
            raise
        if await _fetch_ended(client, keypair, posted.unit, ended, out):
            submission.note_told(client, keypair, ENDED)
        code = exit_code_of(ended)
        # An exit status has eight bits, and 256 would be 0, a success.
        codes.append(EXIT_UNKNOWN if code is None else min(code, 255))

    with told_nothing_was_sent():
        session.run(look)
    if is_dry:
        session.output.facts({**submission.facts, "sent": False})
        submission.require_funds()
        return
    if is_asked:
        submission.ask(is_asked=True)
    with asked_when_interrupted(session, given["key_text"], submission.newest):
        session.run(send)
    sys.exit(codes[0] if codes else 0)


def _loaded_job(command: tuple[str, ...], given: dict[str, Any]) -> LoadedTask:
    """Return the job with its inputs. Raise WalletError or TaskFileError."""
    files = {path.name: read_input(path, INPUT_BYTES_MAX, "--in: ") for path in given["inputs"]}
    if len(files) != len(given["inputs"]):
        raise WalletError("--in: two files have the same name, and both go to /in. Rename one", code="duplicate_input")
    draft = ProgramDraft(
        name=given["name"],
        image=given["image"],
        archive="" if given["archive"] is None else given["archive"].name,
        max_price=given["max_price"],
        command=command,
        env=dict(_typed_variable(word) for word in given["variables"]),
        inputs=tuple(files),
        secrets=tuple(word.partition("=")[0] for word in given["secret_words"]),
        network=given["network"],
        gpus="1" if given["gpu"] else "",
        classes=(given["gpu"],) if given["gpu"] not in (None, ANY_GPU) else (),
        cpu=given["cpu"],
        memory=given["memory"],
        disk=given["disk"],
        time=given["time"],
        copies=given["copies"],
    )
    text = draft.text()
    with _in_options(given["variables"]):
        source = read_any_task(text.encode(), "the command line")
    loaded = LoadedTask(
        source, files, None if source.image is None else _archived_image(given["archive"], source.image)
    )
    if given["save"] is not None:
        written = OutputFile(given["save"]).write("task.yaml", text.encode())
        note(f"the task file is {written}" + (". Its inputs must lie beside it" if files or loaded.image else ""))
    return loaded


@contextmanager
def _in_options(variables: Sequence[str]) -> Iterator[None]:
    """Name the options, not the keys of a task file, in errors about the task."""
    names = [word.partition("=")[0] for word in variables]
    origins = ORIGINS | {variable_key(name): DraftOrigin(f"--env {name}") for name in names}
    try:
        yield
    except TaskFileError as error:
        raise WalletError(in_own_words(error, origins)) from None
    except CallFailedError as error:
        key, colon, text = str(error).partition(": ")
        raise CallFailedError(f"{origins[key].words}: {text}" if colon and key in origins else str(error)) from None


def _typed_variable(word: str) -> tuple[str, str]:
    name, is_set, value = word.partition("=")
    if not is_set:
        raise WalletError(f"--env {word!r} is not NAME=VALUE", code="invalid_variable")
    return name, value


def _archived_image(path: Path, saved: SavedImage) -> ArchiveFile:
    try:
        return look_at_image(path, saved.sha256)
    except OSError as error:
        raise WalletError(f"--archive: {path} cannot be read: {error.strerror}", code="archive_unreadable") from None


async def _fetch_ended(
    client: ChainClient, keypair: Keypair, task_id: bytes, task: Task, out: OutputFile | None
) -> bool:
    """Fetch the last lines, each to its own stream, and the outputs; note missing parts.

    Return whether all parts were there.
    """
    is_whole = True
    providers = await market_reads.providers(client, await client.finalized())
    async with BlobClient(private=market_reads.is_development(client)) as blob_client:
        for place in places_with_lines(task)[:1]:
            try:
                program_left = await fetch_lines(blob_client, keypair, task, providers, place)
            except RunBlobError as error:
                note(str(error))
                is_whole = False
                break
            if program_left.left_out:
                note(f"{program_left.left_out:,} earlier lines were not kept")
            for line in program_left.lines:
                # The provider stored these lines, so no control sequence in them may reach the terminal.
                click.echo(harmless(line.text), err=line.is_error)
        if out is not None:
            try:
                outputs = await fetch_outputs(blob_client, keypair, task, providers)
            except RunBlobError as error:
                note(str(error))
                is_whole = False
            else:
                note(f"/out is in {out.write(file_name_of(task_id), outputs)}, a tar archive")
    return is_whole
