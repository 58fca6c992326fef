"""`ogpu-provider`: offer this machine's devices, and do the work that they are drawn for.

Exit codes: 0 done, 1 the chain or the node refused, 2 something to set right in what was given.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.provider import operations
from gpu_tasks.provider.blobs.server import DEFAULT_HOST, DEFAULT_PORT
from gpu_tasks.provider.chain.live import RECONNECT_SECONDS, LiveChain
from gpu_tasks.provider.chain.port import ChainError, Identity
from gpu_tasks.provider.daemon import Daemon, Settings
from gpu_tasks.provider.duties.standing import StandingError
from gpu_tasks.provider.execution.executor import ExecutionError, Executor, WorkerExecutor, worker_command
from gpu_tasks.provider.execution.gpu import Meter, find_hardware, meter_for
from gpu_tasks.provider.execution.limits import limits_for
from gpu_tasks.provider.journal.journal import JournalError
from gpu_tasks.provider.keys import provider_key
from gpu_tasks.provider.registering import Registration
from gpu_tasks.provider.telemetry import JsonLinesTelemetry, LogTelemetry, Telemetry, Telling
from runtime.cryptography import ss58
from wallet.commands.options import AMOUNT
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.keyring import Keyring
from wallet.output import Output
from wallet.rpc import DEFAULT_URL, NodeUnreachableError
from wallet.session import WalletSession, explained

DEFAULT_BASE = Path("~/.ogpu/provider")
WORKLOAD = "textgen-int8"
ONE_OGPU = 100_000_000


class ProviderError(WalletError):
    """The daemon cannot run as things are."""


@dataclass(frozen=True, slots=True)
class ProviderOptions:
    """The options given before the command."""

    url: str
    key_text: str
    password_file: Path | None
    base_path: Path
    output: Output
    make_executor: Callable[[str], Executor]
    make_daemon: Callable[[Identity, LiveChain, Executor, Meter, Telemetry, Settings], Daemon] = Daemon

    @property
    def key(self) -> Keypair:
        """The provider key."""
        return provider_key(self.key_text, self.password_file)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--url", default=DEFAULT_URL, show_default=True, envvar="OGPU_URL", help="The node's JSON-RPC address.")
@click.option(
    "--key", "key_text", default="provider-key.json", show_default=True, envvar="OGPU_PROVIDER_KEY",
    help="The provider key: an ed25519 key file, or a development path like //Alice//provider.",
)  # fmt: skip
@click.option("--password-file", type=click.Path(path_type=Path), help="Opens the key file.")
@click.option(
    "--base-path", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_BASE, show_default=True,
    envvar="OGPU_PROVIDER_BASE", help="Where journal and blobs lie; one for each daemon.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.version_option(package_name="ogpu")
@click.pass_context
def main(
    context: click.Context, url: str, key_text: str, password_file: Path | None, base_path: Path, as_json: bool
) -> None:
    """Mine GPU work on an ogpu chain: offer devices, execute what they are drawn for, be paid."""
    output = Output(as_json=as_json)
    context.obj = ProviderOptions(url, key_text, password_file, base_path.expanduser(), output, text_generation)


@main.command()
@click.option("--stash", help="The stash to work for; refuses to start if the key is another's.")
@click.option("--backend", default="numpy", show_default=True, help="numpy, torch-cpu, torch-cuda:0, ...")
@click.option("--device", type=int, default=0, show_default=True, help="Number of the device, as `devices` counts.")
@click.option("--blob-host", default=DEFAULT_HOST, show_default=True, help="Where the blob store listens.")
@click.option("--blob-port", type=int, help="Its port; by default that of the endpoint on the chain.")
@click.option("--keep-paused", is_flag=True, help="Do not resume paused devices.")
@click.pass_obj
def run(
    options: ProviderOptions, stash: str | None, backend: str, device: int, blob_host: str, blob_port: int | None,
    keep_paused: bool,
) -> None:  # fmt: skip
    """Work until stopped (SIGINT, SIGTERM): race, attest, judge."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
    hardware = find_hardware(options.base_path)
    if not 0 <= device < len(hardware):
        raise click.BadParameter(f"there are {len(hardware)} devices", param_hint="--device")
    executor = options.make_executor(backend)

    async def work() -> None:
        chain, identity = await connect_in_time(options, stash)
        port = blob_port if blob_port is not None else await endpoint_port(chain)
        settings = Settings(options.base_path, blob_host, port, keep_paused=keep_paused)
        options.base_path.mkdir(mode=0o700, parents=True, exist_ok=True)
        meter = meter_for(hardware[device])
        with contextlib.closing(JsonLinesTelemetry(options.base_path / "telemetry.jsonl")) as lines:
            telemetry = Telling(LogTelemetry(), lines)
            async with options.make_daemon(identity, chain, executor, meter, telemetry, settings) as daemon:
                where = f"http://{blob_host}:{daemon.server.port}"
                telemetry.tell("started", stash=ss58.encode(chain.stash), device=hardware[device].name, blobs=where)
                await until_stopped(daemon)
        await chain.close()

    explained(lambda: asyncio.run(_told(work)))


@main.command()
@click.pass_obj
def devices(options: ProviderOptions) -> None:
    """List this machine's devices."""
    operations.show_devices(options.output, options.base_path)


@main.command()
@click.option("--stash", "stash_key", required=True, help="Key of the stash that signs: in the keyring, or //Eve.")
@click.option("--keyring", type=click.Path(path_type=Path), help="Folder of the stash's key file.")
@click.option("--endpoint", default=f"http://{DEFAULT_HOST}:{DEFAULT_PORT}", show_default=True, help="Blob store.")
@click.option("--device", type=int, default=0, show_default=True, help="Number of the device, as `devices` counts.")
@click.option("--device-bond", type=AMOUNT, default=ONE_OGPU, help="oGPU that the device is bonded with.  [default: 1]")
@click.option("--service", type=int, default=0, show_default=True, help="The service to offer.")
@click.option("--ask", type=AMOUNT, default=ONE_OGPU // 100, help="Lowest price of a unit in oGPU.  [default: 0.01]")
@click.option("--bond", type=AMOUNT, help="oGPU that the stash bonds, if it is no candidate yet.")
@click.option("--session-key", help="The node's session key, 0x.., if the stash is no candidate yet.")
@click.option("--vrf-key", help="The node's VRF key, 0x.., if the stash is no candidate yet.")
@click.option("--dry-run", is_flag=True, help="Show the calls and the exact cost, and send nothing.")
@click.pass_obj
def register(
    options: ProviderOptions, stash_key: str, keyring: Path | None, endpoint: str, device: int, device_bond: int,
    service: int, ask: int, bond: int | None, session_key: str | None, vrf_key: str | None, dry_run: bool,
) -> None:  # fmt: skip
    """Register provider, device and offer; bonds and offers to validate first, where that is missing."""
    session = WalletSession(
        options.url, Keyring(keyring) if keyring else Keyring(), options.output, options.password_file
    )

    def wanted(stash: Keypair) -> Registration:
        hardware = find_hardware(options.base_path)
        if not 0 <= device < len(hardware):
            raise ProviderError(f"there are {len(hardware)} devices: see `ogpu-provider devices`")
        return Registration(
            stash.account, options.key.public_key, SealKey.of(options.key).public, endpoint, hardware[device],
            device_bond, service, ask, bond, _public_key(session_key), _public_key(vrf_key),
        )  # fmt: skip

    operations.register(session, stash_key, wanted, dry_run=dry_run)


@main.command()
@click.pass_obj
def status(options: ProviderOptions) -> None:
    """Show devices, offers and duties on the chain, and what the journal says of races."""
    explained(lambda: asyncio.run(_told(lambda: _show_status(options))))


@main.command()
@click.argument("device", required=False)
@click.pass_obj
def resume(options: ProviderOptions, device: str | None) -> None:
    """Take work again with a paused device (0x..), or with all."""
    explained(lambda: asyncio.run(_told(lambda: _switch(options, device, is_paused=False))))


@main.command()
@click.argument("device", required=False)
@click.pass_obj
def pause(options: ProviderOptions, device: str | None) -> None:
    """Take no new work with a device (0x..), or with all; what is assigned goes on."""
    explained(lambda: asyncio.run(_told(lambda: _switch(options, device, is_paused=True))))


def text_generation(backend: str) -> WorkerExecutor:
    """The executor of the one workload that there is so far."""
    limits = limits_for(backend)
    return WorkerExecutor(worker_command(WORKLOAD, backend, limits), limits)


async def connect(options: ProviderOptions, stash: str | None = None) -> tuple[LiveChain, Identity]:
    """The chain and who we are on it; ProviderError if the key is not the stash's."""
    chain = await LiveChain.connect(options.url, options.key)
    if stash is not None and ss58.account_from_text(stash) != chain.stash:
        raise ProviderError(f"the key works for {ss58.encode(chain.stash)}, not for {stash}")
    return chain, Identity.of(chain.stash, options.key, chain.genesis_hash)


async def connect_in_time(options: ProviderOptions, stash: str | None) -> tuple[LiveChain, Identity]:
    """As `connect`, but wait for a node that is still starting: a daemon often starts with it."""
    for seconds in RECONNECT_SECONDS:
        try:
            return await connect(options, stash)
        except NodeUnreachableError as error:
            logging.getLogger("ogpu.provider").warning("%s; trying again", error)
            await asyncio.sleep(seconds)
    return await connect(options, stash)


async def endpoint_port(chain: LiveChain) -> int:
    """The port of the endpoint that the chain has for us."""
    provider = (await chain.providers()).get(chain.stash)
    port = urlsplit(provider.endpoint.decode("ascii")).port if provider else None
    return DEFAULT_PORT if port is None else port


async def until_stopped(daemon: Daemon) -> None:
    """Run until SIGINT or SIGTERM; an error of the daemon's own ends it too."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    work, stopped = asyncio.create_task(daemon.run()), asyncio.create_task(stop.wait())
    await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if work.done():
        work.result()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def _show_status(options: ProviderOptions) -> None:
    chain, _ = await connect(options)
    try:
        await operations.show_status(options.output, options.base_path, chain)
    finally:
        await chain.close()


async def _switch(options: ProviderOptions, device: str | None, *, is_paused: bool) -> None:
    chain, _ = await connect(options)
    try:
        for one in await chain.own_devices():
            if device in (None, "0x" + one.id.hex()) and one.device.is_paused != is_paused:
                await chain.submit((Devices.pause if is_paused else Devices.resume)(device=one.id))
                click.echo(f"{'paused' if is_paused else 'resumed'} 0x{one.id.hex()}")
    finally:
        await chain.close()


async def _told(body: operations.Body) -> None:
    """Do something; what the operator can set right becomes a WalletError."""
    try:
        await body()
    except (JournalError, ExecutionError, StandingError, ChainError, OSError) as error:
        raise ProviderError(str(error)) from error


def _public_key(text: str | None) -> bytes | None:
    try:
        return None if text is None else ss58.account_from_text(text)
    except ValueError as error:
        raise ProviderError(f"{text!r} is no public key: {error}") from None


if __name__ == "__main__":
    main()
