"""The parts that the commands share: options, stash, this machine's hardware, errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from cli.ids import first_digits, only_match
from cli.options import keyring_folder
from cli.output import Output
from cli.session import WalletSession, refusals_explained
from durable.folders import FOLDER_OWNER_ONLY
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.daemon import Daemon, Settings
from gpu_tasks.provider.execution.bench import MakeExecutor
from gpu_tasks.provider.execution.gpu import Hardware, find_hardware
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.worker_start import backends_here, has_torch, workers_with
from gpu_tasks.provider.journal.schema import JOURNAL_FILE
from gpu_tasks.provider.keys import provider_key
from gpu_tasks.provider.telemetry import Telemetry
from wallet import private_file
from wallet.client import ChainClient
from wallet.errors import WalletError, code_of
from wallet.keypair import Keypair
from wallet.keyring import Keyring
from wallet.rpc import NodeUnreachableError
from wallet.trust import Trust

Body = Callable[[], Awaitable[None]]


async def devices_of(client: ChainClient, stash: bytes) -> list[DeviceStatus]:
    """Return the devices of a stash."""
    return list(await market_reads.devices_of(client, stash))


async def own_devices(client: ChainClient, signing_key: Keypair) -> list[DeviceStatus]:
    """Return the devices of a provider key. Raise ProviderError if no stash has the key."""
    stash = await market_reads.stash_of(client, signing_key.public_key)
    if stash is None:
        raise ProviderError(
            f"{signing_key.address} is no provider key on {client.chain}. Run `ogpu-provider register`",
            code="not_registered",
        )
    return await devices_of(client, stash)


def device_named(device_text: str, statuses: Sequence[DeviceStatus]) -> DeviceStatus:
    """Return the device whose id begins with `device_text`. Raise WalletError if none, or several, do."""
    by_id = {status.id: status for status in statuses}
    typed_digits = first_digits(device_text, 1)
    matching_id = None if typed_digits is None else only_match(device_text, typed_digits, by_id)
    if matching_id is not None:
        return by_id[matching_id]
    listed_ids = ", ".join(f"0x{device_id.hex()}" for device_id in by_id) or "none"
    raise ProviderError(f"{device_text!r} is not one of your devices. They are: {listed_ids}", code="unknown_device")


class ProviderError(WalletError):
    """The command is not possible at present."""


@dataclass(frozen=True, slots=True)
class ProviderOptions:
    """The options given before the command."""

    url: str
    key_text: str
    password_file: Path | None
    base_path: Path
    output: Output
    trust: Trust
    make_workers: Callable[[str, Sandbox | None], MakeExecutor] = workers_with
    make_daemon: Callable[[Identity, LiveChain, WorkerPool, Telemetry, Settings], Daemon] = Daemon

    @property
    def key(self) -> Keypair:
        """The provider key."""
        return provider_key(self.key_text, self.password_file)

    @property
    def session(self) -> WalletSession:
        """A wallet for calls of the provider key. It records them in the keyring's folder."""
        return WalletSession(self.url, Keyring(keyring_folder()), self.output, self.password_file, self.trust)


@dataclass(frozen=True, slots=True)
class StashOptions:
    """The operator's name of the stash, and the place of its key."""

    text: str | None
    keyring: Path
    password_file: Path | None = None

    def session(self, options: ProviderOptions) -> WalletSession:
        """Return the wallet with the stash."""
        used_file = self.password_file or options.password_file
        return WalletSession(options.url, Keyring(self.keyring), options.output, used_file, options.trust)

    def account(self, options: ProviderOptions) -> bytes | None:
        """Return the stash's account; None without a name. Raise WalletError for a text that is no account."""
        return None if self.text is None else self.session(options).account(self.text)

    def key(self, options: ProviderOptions) -> Keypair:
        """Return the stash's key, from any name of the account. Raise WalletError if the keyring lacks it."""
        session, stash_text = self.session(options), self.text
        if stash_text is None:
            raise ProviderError(
                "give the stash's key with --key: a stored name, its address, or //Eve", code="key_missing"
            )
        account = session.account(stash_text)
        if stash_text.startswith("//") or stash_text in session.keyring.names():
            return session.key(stash_text)
        # An address, or 0x and digits, names a stored key too.
        key_names = [
            key_name for key_name in session.keyring.names() if session.keyring.get(key_name).account == account
        ]
        if not key_names:
            raise ProviderError(
                f"the command signs with the key of {stash_text}, which is not in {session.keyring.folder}",
                code="unknown_key",
            )
        return session.key(key_names[0])


def known_backend(backend_wish: str) -> str:
    """Return the operator's backend. Raise click.BadParameter if it is not installed."""
    if backend_wish.partition(":")[0] not in backends_here():
        hint = "" if has_torch() else ". For the torch backends install PyTorch (`pip install torch`)"
        raise click.BadParameter(
            f"there is no backend {backend_wish!r} here. There are: {', '.join(backends_here())}{hint}"
        )
    return backend_wish


def idle_gpu_problem(hardware: Hardware) -> str:
    """Say why a GPU that computes in NumPy is a problem."""
    idle_reason = "--backend asks for NumPy" if has_torch() else "PyTorch is not installed"
    return f"{hardware.name} would stay idle, and the processor would compute and earn in its place: {idle_reason}"


async def told(body: Body) -> None:
    """Run `body`. Refusals of the node and errors of files become errors that end the program with a message."""
    try:
        with refusals_explained():
            await body()
    # It is an OSError too, and must keep its code: no file is at fault.
    except NodeUnreachableError:
        raise
    except OSError as error:
        raise ProviderError(str(error), code=code_of(error)) from error


def made_base_path(base_path: Path) -> Path:
    """Return the base path, made if it is missing. Raise ProviderError if that is impossible."""
    try:
        base_path.mkdir(mode=FOLDER_OWNER_ONLY, parents=True, exist_ok=True)
    except OSError as error:
        raise ProviderError(
            f"the base path {base_path} cannot be made: {error.strerror}", code="file_unusable"
        ) from None
    return base_path


def why_open(base_path: Path) -> str | None:
    """Close a daemon's used base path to other users. Return why it stays open; None if it is closed.

    A new base path may hold other files, so it stays as it is; the daemon's own files are private anyway.
    """
    try:
        if not (base_path / JOURNAL_FILE).exists() or private_file.close_folder(base_path):
            return None
    except OSError as error:
        return f"cannot check whether others can read {base_path}: {error.strerror}"
    return f"others can read {base_path}. Give a private folder with --base-path"


def hardware_of(options: ProviderOptions) -> list[Hardware]:
    """Return the hardware that this machine can offer. Raise ProviderError if the base path is unusable."""
    try:
        return find_hardware(made_base_path(options.base_path))
    except OSError as error:
        raise ProviderError(
            f"the base path {options.base_path} cannot be used: {error.strerror}", code="file_unusable"
        ) from None


def numbered(hardware: list[Hardware], device_number: int) -> Hardware:
    """Return a device by its number in `devices`. Raise ProviderError for an unknown number."""
    if not 0 <= device_number < len(hardware):
        raise ProviderError(f"there is no device {device_number}. See `ogpu-provider devices`", code="unknown_device")
    return hardware[device_number]
