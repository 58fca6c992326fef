"""`run`: the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gpu_tasks.data import market_reads
from gpu_tasks.data.endpoint import EndpointError, parse_endpoint
from gpu_tasks.market.capacity.proofs import WorkShape
from gpu_tasks.provider.blobs.server import DEFAULT_PORT
from gpu_tasks.provider.blobs.store import Quota
from gpu_tasks.provider.chain.live import RECONNECT_SECONDS, LiveChain
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.commands.containers import (
    Containers,
    closing_containers,
    containers_for,
    offers_containers,
    policy_of,
)
from gpu_tasks.provider.commands.options import (
    ProviderError,
    ProviderOptions,
    StashOptions,
    hardware_of,
    idle_gpu_problem,
    numbered,
    told,
    why_open,
)
from gpu_tasks.provider.commands.walls import ALWAYS, NEVER, Walls, walls_for
from gpu_tasks.provider.daemon import Daemon, Settings
from gpu_tasks.provider.duties.roll_calls import RollCallPolicy
from gpu_tasks.provider.execution.chain_process import chains_with
from gpu_tasks.provider.execution.containers.spec import MIB
from gpu_tasks.provider.execution.gpu import Hardware, all_hardware, lost_gpus, on_this_machine, why_no_gpu
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.worker_start import chosen_backend, idle_gpus, is_possible, live_hosts_with
from gpu_tasks.provider.execution.workloads import Workloads
from gpu_tasks.provider.open_files import raise_limit
from gpu_tasks.provider.telemetry import TELEMETRY_FILE, HarmlessFormatter, JsonLinesTelemetry, LogTelemetry, Telling
from gpu_tasks.provider.watching.broadcast import TaskBroadcast
from gpu_tasks.provider.watching.outbox import NoteOutbox
from gpu_tasks.provider.watching.sender import BrokerSender, SayProblem
from gpu_tasks.telemetry.broker import parse_broker
from runtime.cryptography import ss58
from wallet.errors import WalletError
from wallet.password_file import read_passwords
from wallet.proved.refutation import NodeRefutedError
from wallet.rpc import NodeUnreachableError
from wallet.verified import Warn


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The broker of progress messages."""

    url: str | None
    public_url: str | None
    login_file: Path | None

    @property
    def advertised(self) -> str | None:
        """The address for customers."""
        return self.public_url or self.url

    def broadcast(
        self, identity: Identity, workers: WorkerPool, report_problem: SayProblem, *, is_private: bool
    ) -> TaskBroadcast | None:
        """Return the sender of progress messages; None without a broker.

        Raise ProviderError for an unusable address. `is_private`: customers reach private addresses.
        """
        if self.url is None:
            return None
        try:
            # The daemon may use a private address. Customers need a public one, except on development chains.
            broker_address = parse_broker(self.url, is_private_allowed=True)
            parse_broker(self.advertised or self.url, is_private_allowed=is_private)
        except EndpointError as error:
            raise ProviderError(
                f"--mqtt: {error}. Give its public address with --mqtt-public", code="broker_unusable"
            ) from None
        outbox = NoteOutbox()
        sender = BrokerSender(broker_address, identity, outbox, report_problem, is_private=True, login=self._login())
        return TaskBroadcast(sender, outbox, workers)

    def _login(self) -> tuple[str, str] | None:
        if self.login_file is None:
            return None
        try:
            user_name, _, password = read_passwords(self.login_file)[0].partition(":")
        except WalletError as error:
            raise ProviderError(f"--mqtt-login-file: {error}", code=error.code) from None
        return user_name, password


def run(
    options: ProviderOptions, stash: StashOptions, backend: str | None, numbers: tuple[int, ...],
    workloads: tuple[str, ...], blob_host: str, blob_port: int | None, input_mib: int, wish: str, engine_address: str,
    keep_paused: bool, roll_call_work: WorkShape | None, no_roll_calls: bool, broker: BrokerOptions,
) -> None:  # fmt: skip
    """Run the daemon until it is stopped."""
    logging.basicConfig(level=logging.INFO)
    # Nodes, peers and customers write parts of log lines.
    for handler in logging.getLogger().handlers:
        handler.setFormatter(HarmlessFormatter("%(asctime)s %(levelname)-7s %(message)s"))

    async def work() -> None:
        expected_stash, walls = stash.account(options), walls_for(wish)
        offered_hardware = hardware_for(options, numbers)
        backend_name = chosen_backend(backend, offered_hardware)
        idle = idle_gpus(backend_name, offered_hardware)
        working_hardware = offered_hardware
        if backend is None:
            working_hardware = [hardware for hardware in offered_hardware if hardware not in idle]
        # A GPU without PyTorch would idle while the processor earns a fraction of its pay.
        _refuse_idle([] if working_hardware else idle)
        workers = workshop_of(options, backend_name, walls.sandbox, working_hardware, workloads)
        open_base = why_open(options.base_path)
        chain, identity = await _connect_in_time(options, expected_stash)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(chain.close)
            # Only registered GPUs count. The operator may keep another one for other work.
            idle = list(on_this_machine(await chain.own_devices(), idle).values())
            if backend is None:
                _refuse_idle(idle)
            # Customers use the port of the endpoint that the chain shows.
            port = blob_port if blob_port is not None else await _endpoint_port(chain)
            with contextlib.closing(JsonLinesTelemetry(options.base_path / TELEMETRY_FILE)) as json_lines:
                log = Telling(LogTelemetry(), json_lines)
                for event_name, problem in _start_problems(open_base, walls, idle):
                    log.tell(event_name, problem=problem)
                containers = await _open_containers(options, workers, engine_address, log)
                disk_quota = Quota(input_bytes_max=input_mib * MIB)
                settings = Settings(
                    options.base_path, blob_host, port, disk_quota, keep_paused=keep_paused,
                    engine=containers.engine, why_no_engine=containers.why_not, make_chains=chains_with(backend_name),
                    make_live_hosts=live_hosts_with(backend_name, walls.sandbox),
                    roll_calls=RollCallPolicy(not no_roll_calls, roll_call_work),
                )  # fmt: skip
                broadcast = broker.broadcast(
                    identity, workers, partial(_tell_broker, log), is_private=chain.is_development
                )
                daemon_log = log
                if broadcast is not None:
                    settings = replace(settings, watch=broadcast, broker=broker.advertised)
                    daemon_log = Telling(log, broadcast)
                make_daemon = options.make_daemon
                daemon = make_daemon(identity, chain, workers, daemon_log, settings)
                # The daemon ends first, since its duties use the engine and the broker.
                async with closing_containers(containers), broadcast or contextlib.nullcontext(), daemon:
                    address = f"http://{blob_host}:{daemon.server.port}"
                    _tell_start(log, chain, workers, walls, broker, address)
                    await _until_stopped(daemon)

    asyncio.run(told(work))


def _tell_start(
    log: Telling, chain: LiveChain, workers: WorkerPool, walls: Walls, broker: BrokerOptions,
    blob_address: str,
) -> None:  # fmt: skip
    for device_id, hardware in workers.devices.items():
        log.tell("serving", device=device_id, hardware=hardware.name)
    sandbox_state = NEVER if walls.sandbox is None else ALWAYS
    stash_text, device_count = ss58.encode(chain.stash), len(workers.devices)
    log.tell(
        "started", stash=stash_text, devices=device_count, blobs=blob_address, sandbox=sandbox_state, broker=broker.url
    )


async def _open_containers(
    options: ProviderOptions, workers: WorkerPool, engine_address: str, log: Telling
) -> Containers:
    """Return the runner of customers' programs; report why there is none."""
    policy = policy_of(options)
    containers = await containers_for(policy, options.base_path, workers, engine_address)
    if containers.why_not:
        field_name = "problem" if offers_containers(policy) else "why"
        log.tell("no_containers", **{field_name: containers.why_not})
    return containers


def _start_problems(open_base: str | None, walls: Walls, idle: list[Hardware]) -> list[tuple[str, str]]:
    """Return problems for the operator, by event name; the daemon works in spite of them."""
    problems = [("few_files", raise_limit()), ("no_sandbox", walls.problem), ("open_base_path", open_base)]
    problems += [("idle_gpu", idle_gpu_problem(hardware)) for hardware in idle]
    problems += [("lost_gpu", loss_reason) for loss_reason in lost_gpus()]
    return [(event_name, problem) for event_name, problem in problems if problem is not None]


def _tell_broker(log: Telling, problem: str) -> None:
    log.tell("broker", problem=problem)


def workshop_of(
    options: ProviderOptions,
    backend_name: str,
    worker_sandbox: Sandbox | None,
    hardware: list[Hardware],
    workload_names: tuple[str, ...] = (),
) -> WorkerPool:
    """Return the chosen hardware and workloads. Raise ProviderError for unknown ones."""
    if not is_possible(backend_name, hardware):
        raise ProviderError(f"the backend {backend_name} needs a GPU, and there is none: {why_no_gpu()}", code="no_gpu")
    try:
        workloads = Workloads.named(workload_names)
    except LookupError as error:
        raise ProviderError(str(error), code="unknown_workload") from None
    return WorkerPool(hardware, workloads, options.make_workers(backend_name, worker_sandbox))


def hardware_for(options: ProviderOptions, numbers: tuple[int, ...] = ()) -> list[Hardware]:
    """Return the chosen hardware. Raise ProviderError for an unknown number."""
    offered_hardware = hardware_of(options)
    return [numbered(offered_hardware, device_number) for device_number in numbers] or all_hardware(options.base_path)


def _refuse_idle(idle: list[Hardware]) -> None:
    """Raise ProviderError for a GPU that would compute in NumPy without the operator's choice."""
    if idle:
        raise ProviderError(
            f"{idle_gpu_problem(idle[0])}. Run `pip install torch`, or accept this with --backend numpy",
            code="idle_gpu",
        )


async def connect(
    options: ProviderOptions, stash: bytes | None = None, tell: Warn | None = None
) -> tuple[LiveChain, Identity]:
    """Return the chain, and our identity on it. Raise ProviderError if the key is not the stash's.

    `tell` takes warnings.
    """
    chain = await LiveChain.connect(options.url, options.key, options.trust, tell)
    if stash is not None and stash != chain.stash:
        await chain.close()
        raise ProviderError(
            f"the provider key works for {ss58.encode(chain.stash)}, not for {ss58.encode(stash)}", code="other_stash"
        )
    return chain, Identity.of(chain.stash, options.key, chain.genesis_hash)


async def _connect_in_time(options: ProviderOptions, stash: bytes | None) -> tuple[LiveChain, Identity]:
    """Connect, and wait for a node that is starting or lies at present. A daemon often starts with its node."""
    for waiting_seconds in RECONNECT_SECONDS:
        try:
            return await connect(options, stash)
        except (NodeUnreachableError, NodeRefutedError) as error:
            logging.getLogger("ogpu.provider").warning("%s; trying again", error)
            await asyncio.sleep(waiting_seconds)
    return await connect(options, stash)


async def _endpoint_port(chain: LiveChain) -> int:
    """Return the port of the registered endpoint."""
    provider = await chain.provider(chain.stash)
    endpoint = market_reads.endpoint_of(provider) if provider else None
    return DEFAULT_PORT if endpoint is None else parse_endpoint(endpoint).port


async def _until_stopped(daemon: Daemon) -> None:
    """Run until SIGINT, SIGTERM or an error of the daemon."""
    event_loop, stop_event = asyncio.get_running_loop(), asyncio.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        event_loop.add_signal_handler(signal_number, stop_event.set)
    daemon_task, stop_task = asyncio.create_task(daemon.run()), asyncio.create_task(stop_event.wait())
    await asyncio.wait((daemon_task, stop_task), return_when=asyncio.FIRST_COMPLETED)
    stop_task.cancel()
    if daemon_task.done():
        daemon_task.result()
    daemon_task.cancel()
    await asyncio.gather(daemon_task, return_exceptions=True)
