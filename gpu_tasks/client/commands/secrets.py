"""Secrets as people name them: read from the environment or from files, and handed over as soon as somebody waits."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import click

from gpu_tasks.client.commands.id_prefixes import TaskError
from gpu_tasks.client.tunnel.connection import entered, hand_secrets
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.tunnel.frames import SECRETS_BYTES_MAX
from gpu_tasks.tunnel.multiplexer import TunnelError
from wallet.client import ChainClient
from wallet.keypair import Keypair

secret_option = click.option(
    "--secret",
    "secret_words",
    multiple=True,
    metavar="NAME[=FILE]",
    help="A secret that is handed to the program: of the environment variable NAME, or of FILE; repeatable.",
)


def secrets_of(words: Iterable[str]) -> dict[str, bytes]:
    """The values by name; UsageError for what is not there, or too long."""
    values = {name: _value(name, path) for name, _, path in (word.partition("=") for word in words)}
    if sum(map(len, values.values())) > SECRETS_BYTES_MAX:
        raise click.UsageError(f"secrets have at most {SECRETS_BYTES_MAX:,} bytes together: name data as inputs")
    return values


def named_secrets(names: Iterable[str], words: Iterable[str]) -> dict[str, bytes]:
    """The values of the secrets that a task file names, each from where `words` say, or from the environment."""
    wanted, said = set(names), {word.partition("=")[0]: word for word in words}
    foreign = sorted(said.keys() - wanted)
    if foreign:
        raise click.UsageError(f"--secret: the task file names no secret {foreign[0]!r} (`spec.run.secrets`)")
    return secrets_of(said.get(name, name) for name in sorted(wanted))


def handing(
    client: ChainClient, key: Keypair, task_id: bytes, values: Mapping[str, bytes]
) -> Callable[[Task, bytes], Awaitable[None]]:
    """What hands them to who runs the task at a final block; TaskError where that fails."""

    async def hand(task: Task, final: bytes) -> None:
        try:
            async with entered(client, key, task_id, task, final) as tunnel:
                await hand_secrets(tunnel, values)
        except (TunnelError, OSError) as error:
            raise TaskError(str(error)) from None

    return hand


def _value(name: str, path: str) -> bytes:
    if path:
        try:
            with Path(path).open("rb") as file:
                return file.read(SECRETS_BYTES_MAX + 1)
        except OSError as error:
            raise click.UsageError(f"the secret {name} cannot be read from {path}: {error.strerror}") from None
    value = os.environ.get(name)
    if value is None:
        raise click.UsageError(f"there is no environment variable {name}: set it, or name a file with {name}=FILE")
    return value.encode(errors="surrogateescape")
