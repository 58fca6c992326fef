"""The provider daemon: follows the chain and carries out the provider's duties.

    head -> duties -> race: fetch, open, execute, commit, attest      (duties.race)
         -> seats  -> case: check or execute, commit, open            (duties.judging)
         -> disputes of batches: show its own tree                    (duties.batch_disputes)
         -> checks of batches: show own leaves, audit others'         (duties.checks)
         -> auctions -> bid: prepare, measure, promise                (tasks.bids)
         -> own bids -> open, run step by step, state, stand by       (tasks.working)
         -> roll calls: compute, commit, show, inspect others' rows   (duties.roll_calls)
         -> final state: note the endings, appeal                     (duties.endings)
         -> offences seen by the node: report double proposals        (duties.offences)

Invariant: no single failure (a unit, a peer, the node) ends the daemon. A damaged or unwritable journal does.
"""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.provider.blobs.inputs import Inputs
from gpu_tasks.provider.blobs.reseal import Resealer
from gpu_tasks.provider.blobs.server import DEFAULT_HOST, DEFAULT_PORT, BlobServer
from gpu_tasks.provider.blobs.store import BlobStore, Quota
from gpu_tasks.provider.chain.port import ChainError, ChainPort, Identity, View
from gpu_tasks.provider.device_watch import DeviceReview, DeviceWatch, WatchedFrom
from gpu_tasks.provider.duties.batch_disputes import DifferingDuty
from gpu_tasks.provider.duties.checks import CheckDuty
from gpu_tasks.provider.duties.devices import DeviceDuty, StandingError
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS, Duty
from gpu_tasks.provider.duties.endings import EndingDuty, KeptInputDuty
from gpu_tasks.provider.duties.judging import JudgeDuty
from gpu_tasks.provider.duties.losses import LossNotes
from gpu_tasks.provider.duties.offences import Reporter
from gpu_tasks.provider.duties.other_daemons import OtherDaemons
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.race import RaceDuty
from gpu_tasks.provider.duties.resumer import Resumer
from gpu_tasks.provider.duties.roll_calls import RollCallDuty
from gpu_tasks.provider.duties.side_earnings import SideEarnings
from gpu_tasks.provider.earnings import EARNINGS_FILE, LOSSES_FILE, EarningsBook, LossBook
from gpu_tasks.provider.execution.chain_process import MakeChains, chains_with
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.worker_start import NUMPY
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.pause_book import PauseBook
from gpu_tasks.provider.programs.means import CONTAINER_KIND
from gpu_tasks.provider.programs.supervisor import ContainerSupervisor, ProgramEngine
from gpu_tasks.provider.tasks.bids import BidDuty
from gpu_tasks.provider.tasks.judging_tasks import TaskJudgeDuty
from gpu_tasks.provider.tasks.policy_file import HostMachine, PolicySource, is_draining
from gpu_tasks.provider.tasks.state_answers import StateAnswers
from gpu_tasks.provider.tasks.task_book import TaskBook
from gpu_tasks.provider.tasks.working import WorkDuty
from gpu_tasks.provider.telemetry import Telemetry
from gpu_tasks.provider.told_inventory import ToldInventory, claimed_policy
from gpu_tasks.provider.tunnel.program_access import RunningPrograms
from gpu_tasks.provider.tunnel.tunnel_server import TunnelServer
from gpu_tasks.provider.utilisation import UTILISATION_FOLDER
from gpu_tasks.provider.watching.broadcast import TaskWatch
from wallet.amounts import format_amount

LEFT = (
    "this stash is no longer a provider and has no work left, so the daemon ends. {stays}; move them with "
    "`ogpu-wallet send`"
)
EXPELLED = (
    "a court refuted a result of this stash for the third time, so its registration has ended. Run `ogpu-provider "
    "unregister`, or `ogpu-provider register` once the chain allows it"
)
JOURNAL_FILE = "journal"
TASKS_FOLDER = "tasks"
ROLL_CALLS_FOLDER = "roll-calls"
IMAGES_FOLDER = "images"
"""The folder for image archives during loading."""
TUNNEL_FOLDER = "tunnel"
"""The folder for copies in progress."""

D = TypeVar("D", bound=Duty)
LOG = logging.getLogger("ogpu.provider")


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's settings."""

    base_path: Path
    blob_host: str = DEFAULT_HOST
    blob_port: int = DEFAULT_PORT
    quota: Quota = field(default_factory=Quota)
    keep_paused: bool = False
    machine: HostMachine = field(default_factory=HostMachine)
    watch: TaskWatch = field(default_factory=TaskWatch)
    broker: str | None = None
    """The address of the customers' telemetry."""
    engine: ProgramEngine | None = None
    """The engine for programs in containers."""
    why_no_engine: str = ""
    make_chains: MakeChains = field(default_factory=lambda: chains_with(NUMPY))
    """The factory of the processes that compute for roll calls."""


class Daemon:
    """The daemon with its parts. Use `async with Daemon(...) as daemon: await daemon.run()`.

    Each block steps through `duties` in order. Replace a duty before entering the daemon.
    """

    def __init__(
        self, identity: Identity, chain: ChainPort, worker_pool: WorkerPool, telemetry: Telemetry, settings: Settings
    ) -> None:
        """Open journal and store. Nothing runs yet. Raise JournalError if the journal is unusable."""
        base = settings.base_path
        journal, store = Journal(base / JOURNAL_FILE), BlobStore(base / "blobs", settings.quota)
        blobs = BlobClient(private=chain.is_development)
        self.settings = settings
        self.parts = Parts(
            identity=identity,
            chain=chain,
            journal=journal,
            workers=worker_pool,
            inputs=Inputs(identity, chain, blobs, store, telemetry),
            store=store,
            blobs=blobs,
            telemetry=telemetry,
            earnings=EarningsBook(base / EARNINGS_FILE),
            losses=LossBook(base / LOSSES_FILE),
            pauses=PauseBook(base),
            watch=settings.watch,
        )
        policy = PolicySource(base, (*worker_pool.workloads.stepwise, CONTAINER_KIND))
        means = policy.policy().containers
        programs = ContainerSupervisor(
            settings.engine,
            means.container_policy(_gpus(worker_pool)),
            lambda: worker_pool.devices,
            settings.why_no_engine,
            keep_seconds=means.keep_seconds,
            spool=base / IMAGES_FOLDER,
        )
        book = TaskBook(self.parts, base / TASKS_FOLDER)
        self.duties = _duties(self.parts, settings, policy, book, programs)
        containers = RunningPrograms(programs, None if settings.engine is None else settings.engine.inside)
        self.tunnels = TunnelServer(
            containers, identity.seal_key, identity.genesis, identity.stash, base / TUNNEL_FOLDER
        )
        hardware, claims = list(worker_pool.hardware), lambda: claimed_policy(policy.policy(), means, programs.why_not)
        self.server = BlobServer(
            store,
            Resealer(identity.genesis, journal, chain),
            StateAnswers(self.parts, book),
            settings.broker,
            ToldInventory(identity, hardware, base, blobs.rates, claims).told,
            self.tunnels,
            self.duty(OtherDaemons).prove,
        )
        self._exits = contextlib.AsyncExitStack()

    def duty(self, kind: type[D]) -> D:
        """Return the first duty of a kind. Raise StopIteration if there is none."""
        return next(duty for duty in self.duties if isinstance(duty, kind))

    def replace(self, kind: type[Duty], duty: Duty) -> None:
        """Replace the first duty of a kind."""
        self.duties[self.duties.index(self.duty(kind))] = duty

    async def __aenter__(self) -> Self:
        """Load and check the workloads that the devices promise, then listen.

        Raise ExecutionError, ChainError, or OtherDaemonError if another daemon runs with this key.
        """
        async with contextlib.AsyncExitStack() as exits:
            exits.callback(self.parts.journal.close)
            await exits.enter_async_context(self.parts.blobs)
            exits.push_async_callback(self.parts.workers.close)
            await exits.enter_async_context(self.duty(DeviceWatch))
            standing = await self.duty(DeviceDuty).look()
            await self.duty(OtherDaemons).check()  # before this daemon listens, so that any answer is another daemon's
            self.parts.workers.serve(standing.served)
            for device, promised in standing.promised.items():
                for form in promised:
                    await self.parts.workers.start(device, form)
            exits.push_async_callback(self.server.close)
            await self._listen()
            for duty in self.duties:
                exits.push_async_callback(duty.close)
            self._exits = exits.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop everything. A result that is not in the journal yet is lost, which costs its work only."""
        await self._exits.aclose()

    async def _listen(self) -> None:
        """Open the blob store's port. Raise StandingError if that is impossible."""
        host, port = self.settings.blob_host, self.settings.blob_port
        try:
            await self.server.start(port, host)
        except OSError as error:
            raise StandingError(
                f"the blob store cannot listen at {host}:{port} ({error.strerror or error}). If another daemon has "
                "the port, stop it, or register an endpoint with another --blob-port",
                code="blob_port_unusable",
            ) from None

    async def run(self) -> None:
        """Settle the working devices, then follow the chain until the provider has left.

        Raise StandingError if the keys are another's, or if a court ended the registration.
        """
        is_settled = False
        async for view in self.parts.chain.views():
            # Tried at each block until the node shows the registration.
            is_settled = is_settled or await self.duty(DeviceDuty).begin()
            if is_settled:
                await self.step(view)
                if await self._has_left(view):
                    return

    async def _has_left(self, view: View) -> bool:
        """Return True if the provider has left and no work remains, after reporting the provider key's balance."""
        is_busy = view.duties or view.seats or view.checks or view.disputes
        # Checked at intervals only, because it costs reads.
        if is_busy or view.height % ENDINGS_EVERY_BLOCKS:
            return False
        chain, identity = self.parts.chain, self.parts.identity
        try:
            if await chain.provider(identity.stash) is not None:
                return False
            devices, grains = await chain.own_devices(), await chain.key_balance()
        except ChainError as error:
            LOG.info("cannot check whether the provider has left; trying again: %s", error)
            return False
        # A provider that leaves unregisters its devices first, so remaining devices mean that a court ended the
        # registration.
        if devices:
            raise StandingError(EXPELLED, code="expelled")
        stays = f"{format_amount(grains)} oGPU stay on the provider key {identity.key.address}"
        self.parts.telemetry.tell("left", height=view.height, why=LEFT.format(stays=stays))
        return True

    async def step(self, view: View) -> None:
        """Execute the duties of one block."""
        for duty in self.duties:
            try:
                await duty.step(view)
            # One duty's failed read must not stop the others. The next block tries again.
            except ChainError as error:
                LOG.info("%s continues at the next block: %s", type(duty).__name__, error)


class Housekeeping(Duty):
    """The cleanup of disk and memory."""

    def __init__(self, parts: Parts[ChainPort], programs: ContainerSupervisor) -> None:
        """Nothing was freed yet."""
        self._parts = parts
        self._programs = programs

    async def step(self, view: View) -> None:
        """Remove old blobs and images, and end idle workers, in a due block."""
        if view.height % ENDINGS_EVERY_BLOCKS == 0:
            self._parts.store.sweep(time.time())
            await self._programs.tidy()
            await self._parts.workers.end_idle()


def _duties(
    parts: Parts[ChainPort], settings: Settings, policy: PolicySource, book: TaskBook, programs: ContainerSupervisor
) -> list[Duty]:
    """Return a daemon's duties in order.

    Races come before cases. Roll calls, whose blocks count, come before tasks, and work before new bids.
    """
    base = settings.base_path
    losses, resumer = LossNotes(parts), Resumer(parts, keep_paused=settings.keep_paused)
    devices = DeviceDuty(parts, resumer, lambda: is_draining(base), keep_paused=settings.keep_paused)
    racing, roll_calls = RaceDuty(parts), RollCallDuty(parts, base / ROLL_CALLS_FOLDER, settings.make_chains)
    known = WatchedFrom(racing.hindered, book.devices_in_use, roll_calls.why_not, lambda: devices.drains)
    watch = DeviceWatch(parts, known, base / UTILISATION_FOLDER)
    duties: list[Duty] = [
        OtherDaemons(parts),
        devices,
        DifferingDuty(parts),
        racing,
        JudgeDuty(parts),
        TaskJudgeDuty(parts),
        CheckDuty(parts),
        roll_calls,
        WorkDuty(parts, book, programs, lambda: is_draining(base)),
        BidDuty(parts, book, programs, policy, settings.machine, roll_calls.why_not),
        SideEarnings(parts, lambda: book.standing),
        watch,
    ]
    duties += [
        EndingDuty(parts, losses, duties),
        KeptInputDuty(parts),
        Reporter(parts.identity.stash, parts.chain, parts.telemetry),
        DeviceReview(parts, devices, losses, resumer, watch),
        Housekeeping(parts, programs),
    ]
    return duties


def _gpus(worker_pool: WorkerPool) -> tuple[str, ...]:
    return tuple(hardware.uuid for hardware in worker_pool.hardware if hardware.index is not None)
