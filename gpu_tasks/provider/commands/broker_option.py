"""Which broker a provider tells of its tasks, as the operator names it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gpu_tasks.data.endpoint import EndpointError
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.commands.options import ProviderError
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.watching.broadcast import TaskBroadcast
from gpu_tasks.provider.watching.outbox import NoteOutbox
from gpu_tasks.provider.watching.sender import BrokerSender, SayProblem
from gpu_tasks.telemetry.broker import parse_broker
from wallet.errors import WalletError
from wallet.password_file import read_passwords


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """How the operator names the broker."""

    url: str | None
    public_url: str | None
    login_file: Path | None

    @property
    def advertised(self) -> str | None:
        """What customers are told."""
        return self.public_url or self.url

    def broadcast(
        self, identity: Identity, workers: WorkerPool, say: SayProblem, *, private: bool
    ) -> TaskBroadcast | None:
        """What fills the broker, None without one; ProviderError for what is none. `private`: customers reach it so."""
        if self.url is None:
            return None
        try:
            # Ours may stand in our own network; what customers are told may not, but on development chains.
            address = parse_broker(self.url, private=True)
            parse_broker(self.advertised or self.url, private=private)
        except EndpointError as error:
            raise ProviderError(f"--mqtt: {error}; give customers its public address with --mqtt-public") from None
        outbox = NoteOutbox()
        sender = BrokerSender(address, identity, outbox, say, is_private=True, login=self._login())
        return TaskBroadcast(sender, outbox, workers)

    def _login(self) -> tuple[str, str] | None:
        if self.login_file is None:
            return None
        try:
            name, _, password = read_passwords(self.login_file)[0].partition(":")
        except WalletError as error:
            raise ProviderError(f"--mqtt-login-file: {error}") from None
        return name, password


def broker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that make up `BrokerOptions`, as the argument `broker`."""

    @functools.wraps(command)
    def with_broker(*arguments: Any, **given: Any) -> Any:
        broker = BrokerOptions(given.pop("mqtt"), given.pop("mqtt_public"), given.pop("mqtt_login_file"))
        return command(*arguments, broker=broker, **given)

    for option in (
        click.option("--mqtt-login-file", type=click.Path(path_type=Path),
                     help="NAME:PASSWORD for the broker, in a file that nobody else may read."),
        click.option("--mqtt-public", metavar="URL", help="The broker as customers reach it.  [default: --mqtt]"),
        click.option("--mqtt", metavar="URL", envvar="OGPU_PROVIDER_MQTT",
                     help="The broker, mqtt(s)://HOST:PORT, at which customers hear of their tasks."),
    ):  # fmt: skip
        option(with_broker)
    return with_broker
