"""The provider daemon: follows the chain and carries out the provider's duties.

    head -> duties -> race: fetch, open, execute, commit, attest      (duties.race)
         -> claims: check others', show samples of its own            (duties.checking)
         -> ballots: compute a disputed item or task, vote            (duties.voting)
         -> decisions against it: appeal                              (duties.dispute_appeals)
         -> auctions -> bid: prepare, measure, promise                (tasks.bids)
         -> own bids -> open, run step by step, state, stand by       (tasks.working)
         -> roll calls: compute, prove                                (duties.roll_calls)
         -> sessions: serve, keep vouchers, claim                     (sessions.session_duty)
         -> final state: note the endings                             (duties.endings)
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
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.blobs.deliveries import Deliverer
from gpu_tasks.provider.blobs.inputs import Inputs
from gpu_tasks.provider.blobs.server import DEFAULT_HOST, DEFAULT_PORT, BlobServer
from gpu_tasks.provider.blobs.store import BlobStore, Quota
from gpu_tasks.provider.chain.port import ChainError, ChainPort, Identity, View
from gpu_tasks.provider.device_watch import DeviceReview, DeviceWatch, WatchedFrom
from gpu_tasks.provider.duties.checking import CheckingDuty
from gpu_tasks.provider.duties.devices import DeviceDuty, StandingError
from gpu_tasks.provider.duties.dispute_appeals import DisputeAppealDuty
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS, Duty
from gpu_tasks.provider.duties.endings import EndingDuty, KeptInputDuty
from gpu_tasks.provider.duties.item_sources import ItemSources
from gpu_tasks.provider.duties.kept_rows import KeptRows
from gpu_tasks.provider.duties.losses import LossNotes
from gpu_tasks.provider.duties.offences import Reporter
from gpu_tasks.provider.duties.other_daemons import OtherDaemons
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.race import RaceDuty
from gpu_tasks.provider.duties.resumer import Resumer
from gpu_tasks.provider.duties.roll_calls import RollCallDuty, RollCallPolicy
from gpu_tasks.provider.duties.row_items import RowItemSource
from gpu_tasks.provider.duties.side_earnings import SideEarnings
from gpu_tasks.provider.duties.unit_items import UnitItemSource
from gpu_tasks.provider.duties.voting import VotingDuty
from gpu_tasks.provider.earnings import EarningsBook, LossBook
from gpu_tasks.provider.execution.chain_process import MakeChains, chains_with
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.worker_start import NUMPY, live_hosts_with
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.pause_book import PauseBook
from gpu_tasks.provider.journal.schema import JOURNAL_FILE
from gpu_tasks.provider.programs.means import CONTAINER_KIND, ProgramMeans
from gpu_tasks.provider.programs.supervisor import ContainerSupervisor, ProgramEngine
from gpu_tasks.provider.sessions.live_hosts import LiveHosts, MakeHost
from gpu_tasks.provider.sessions.session_duty import SessionDuty
from gpu_tasks.provider.sessions.session_items import SessionItemSource
from gpu_tasks.provider.sessions.session_store import SessionStore
from gpu_tasks.provider.tasks.bids import BidDuty
from gpu_tasks.provider.tasks.policy_file import HostMachine, PolicySource, is_draining
from gpu_tasks.provider.tasks.task_book import TaskBook
from gpu_tasks.provider.tasks.task_items import TaskItemSource
from gpu_tasks.provider.tasks.working import WorkDuty
from gpu_tasks.provider.telemetry import Telemetry
from gpu_tasks.provider.told_inventory import ToldInventory, claimed_policy
from gpu_tasks.provider.tunnel.program_access import RunningPrograms
from gpu_tasks.provider.tunnel.streams import CopySpool
from gpu_tasks.provider.tunnel.tunnel_server import TunnelServer
from gpu_tasks.provider.utilisation import UTILISATION_FOLDER
from gpu_tasks.provider.watching.broadcast import TaskWatch
from wallet.amounts import format_amount

LEFT = (
    "this stash is no longer a provider and has no work left, so the daemon ends. {stays}; move them with "
    "`ogpu-wallet send`"
)
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
    make_live_hosts: MakeHost = field(default_factory=lambda: live_hosts_with(NUMPY))
    """The factory of the processes that stream answers for sessions."""
    roll_calls: RollCallPolicy = field(default_factory=RollCallPolicy)


class Daemon:
    """The daemon with its parts. Use `async with Daemon(...) as daemon: await daemon.run()`.

    Each block steps through `duties` in order. Replace a duty before entering the daemon.
    """

    def __init__(
        self, identity: Identity, chain: ChainPort, worker_pool: WorkerPool, telemetry: Telemetry, settings: Settings
    ) -> None:
        """Open journal and store. Nothing runs yet. Raise JournalError if the journal is unusable."""
        base_path = settings.base_path
        provider_journal, blob_store = Journal(base_path / JOURNAL_FILE), BlobStore(base_path / "blobs", settings.quota)
        blob_client = BlobClient(private=chain.is_development)
        self.settings = settings
        self.parts = Parts(
            identity=identity,
            chain=chain,
            journal=provider_journal,
            workers=worker_pool,
            inputs=Inputs(identity, chain, blob_client, blob_store, telemetry),
            store=blob_store,
            blobs=blob_client,
            telemetry=telemetry,
            earnings=EarningsBook(provider_journal.database),
            losses=LossBook(provider_journal.database),
            pauses=PauseBook(provider_journal.database),
            watch=settings.watch,
        )
        policy_source = PolicySource(base_path, (*worker_pool.workloads.stepwise, CONTAINER_KIND))
        program_means = policy_source.policy().containers
        programs = _supervisor(settings, program_means, worker_pool)
        task_book = TaskBook(self.parts, base_path / TASKS_FOLDER)
        session_store = SessionStore(provider_journal.database)
        live_hosts = LiveHosts(settings.make_live_hosts, worker_pool.times)
        worker_pool.live_workers = live_hosts.at_work
        sessions = SessionDuty(self.parts, session_store, live_hosts)
        kept_rows = KeptRows(base_path / ROLL_CALLS_FOLDER, provider_journal.database)
        row_items = RowItemSource(self.parts, kept_rows, settings.make_chains)
        roll_calls = RollCallDuty(self.parts, kept_rows, settings.make_chains, row_items.computer, settings.roll_calls)
        self.items: ItemSources = {
            Capacity.index: row_items,
            InferenceMarket.index: UnitItemSource(self.parts),
            TrainingMarket.index: TaskItemSource(self.parts, task_book),
            Sessions.index: SessionItemSource(self.parts, session_store),
        }
        """The items of claims, by the index of their market's pallet."""
        self.duties = _duties(
            self.parts, settings, policy_source, task_book, programs, self.items, roll_calls, sessions
        )
        inside = None if settings.engine is None else settings.engine.inside
        containers = RunningPrograms(programs, inside, CopySpool.cleared(base_path / TUNNEL_FOLDER))
        self.tunnels = TunnelServer([containers, sessions], identity.seal_key, identity.genesis, identity.stash)
        hardware, claims = (
            list(worker_pool.hardware),
            lambda: claimed_policy(policy_source.policy(), program_means, programs.why_not),
        )
        self.server = BlobServer(
            blob_store,
            settings.broker,
            ToldInventory(identity, hardware, base_path, blob_client.rates, claims).told,
            self.tunnels,
            self.duty(OtherDaemons).prove,
            Deliverer(identity.genesis, chain, self.items),
        )
        self._exits = contextlib.AsyncExitStack()

    def duty(self, duty_class: type[D]) -> D:
        """Return the first duty of a kind. Raise StopIteration if there is none."""
        return next(provider_duty for provider_duty in self.duties if isinstance(provider_duty, duty_class))

    def replace(self, duty_class: type[Duty], new_duty: Duty) -> None:
        """Replace the first duty of a kind."""
        self.duties[self.duties.index(self.duty(duty_class))] = new_duty

    async def __aenter__(self) -> Self:
        """Load and check the workloads that the devices promise, then listen.

        Raise ExecutionError, ChainError, or OtherDaemonError if another daemon runs with this key.
        """
        async with contextlib.AsyncExitStack() as exit_stack:
            exit_stack.callback(self.parts.journal.close)
            await exit_stack.enter_async_context(self.parts.blobs)
            exit_stack.push_async_callback(self.parts.workers.close)
            await exit_stack.enter_async_context(self.duty(DeviceWatch))
            standing = await self.duty(DeviceDuty).look()
            await self.duty(OtherDaemons).check()  # before this daemon listens, so that any answer is another daemon's
            self.parts.workers.serve(standing.served)
            for device_id, promised in standing.promised.items():
                for workload_form in promised:
                    await self.parts.workers.start(device_id, workload_form)
            exit_stack.push_async_callback(self.server.close)
            await self._listen()
            for provider_duty in self.duties:
                exit_stack.push_async_callback(provider_duty.close)
            self._exits = exit_stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop everything. A result that is not in the journal yet is lost, which costs its work only."""
        await self._exits.aclose()

    async def _listen(self) -> None:
        """Open the blob store's port. Raise StandingError if that is impossible."""
        host_address, port_number = self.settings.blob_host, self.settings.blob_port
        try:
            await self.server.start(port_number, host_address)
        except OSError as error:
            raise StandingError(
                f"the blob store cannot listen at {host_address}:{port_number} ({error.strerror or error}). "
                "If another daemon has the port, stop it, or register an endpoint with another --blob-port",
                code="blob_port_unusable",
            ) from None

    async def run(self) -> None:
        """Settle the working devices, then follow the chain until the provider has left.

        Raise StandingError if the keys are another's.
        """
        is_settled = False
        async for chain_view in self.parts.chain.views():
            # Tried at each block until the node shows the registration.
            is_settled = is_settled or await self.duty(DeviceDuty).begin()
            if is_settled:
                await self.step(chain_view)
                if await self._has_left(chain_view):
                    return

    async def _has_left(self, chain_view: View) -> bool:
        """Return True if the provider has left and no work remains, after reporting the provider key's balance."""
        # Checked at intervals only, because it costs reads.
        if chain_view.is_owing or chain_view.height % ENDINGS_EVERY_BLOCKS:
            return False
        live_chain, identity = self.parts.chain, self.parts.identity
        try:
            if await live_chain.provider(identity.stash) is not None:
                return False
            key_grains = await live_chain.key_balance()
        except ChainError as error:
            LOG.info("cannot check whether the provider has left; trying again: %s", error)
            return False
        stays_facts = f"{format_amount(key_grains)} oGPU stay on the provider key {identity.key.address}"
        self.parts.telemetry.tell("left", height=chain_view.height, why=LEFT.format(stays=stays_facts))
        return True

    async def step(self, view: View) -> None:
        """Execute the duties of one block. Raise JournalError if one of them could not write the journal."""
        for provider_duty in self.duties:
            for tasks in provider_duty.running:
                tasks.check()
            try:
                await provider_duty.step(view)
            # One duty's failed read must not stop the others. The next block tries again.
            except ChainError as error:
                LOG.info("%s continues at the next block: %s", type(provider_duty).__name__, error)


class Housekeeping(Duty):
    """The cleanup of disk and memory."""

    def __init__(self, daemon_parts: Parts[ChainPort], programs: ContainerSupervisor) -> None:
        """Nothing was freed yet."""
        self._parts = daemon_parts
        self._programs = programs

    async def step(self, view: View) -> None:
        """Remove old blobs and images, and end idle workers, in a due block."""
        if view.height % ENDINGS_EVERY_BLOCKS == 0:
            self._parts.store.sweep(time.time())
            await self._programs.tidy()
            await self._parts.workers.end_idle()


def _duties(
    daemon_parts: Parts[ChainPort],
    settings: Settings,
    policy_source: PolicySource,
    task_book: TaskBook,
    programs: ContainerSupervisor,
    items: ItemSources,
    roll_calls: RollCallDuty,
    sessions: SessionDuty,
) -> list[Duty]:
    """Return a daemon's duties in order.

    Races come before claims. Roll calls, whose blocks count, come before tasks, and work before new bids.
    """
    base_path = settings.base_path
    loss_notes, resumer = LossNotes(daemon_parts), Resumer(daemon_parts, keep_paused=settings.keep_paused)
    device_duty = DeviceDuty(daemon_parts, resumer, lambda: is_draining(base_path), keep_paused=settings.keep_paused)
    race_duty = RaceDuty(daemon_parts)
    watched_from = WatchedFrom(
        race_duty.hindered, task_book.devices_in_use, roll_calls.why_not, lambda: device_duty.drains
    )
    work_duty = WorkDuty(daemon_parts, task_book, programs, lambda: is_draining(base_path))
    device_watch = DeviceWatch(daemon_parts, watched_from, base_path / UTILISATION_FOLDER)
    duties: list[Duty] = [
        OtherDaemons(daemon_parts),
        device_duty,
        race_duty,
        CheckingDuty(daemon_parts, items),
        VotingDuty(daemon_parts, items),
        DisputeAppealDuty(daemon_parts, items, lambda: work_duty.disputes),
        roll_calls,
        sessions,
        work_duty,
        BidDuty(
            daemon_parts,
            task_book,
            programs,
            policy_source,
            settings.machine,
            roll_calls.why_not,
            sessions.devices_in_use,
        ),
        SideEarnings(daemon_parts, lambda: task_book.standing),
        device_watch,
    ]
    duties += [
        EndingDuty(daemon_parts, duties),
        KeptInputDuty(daemon_parts),
        Reporter(daemon_parts.identity.stash, daemon_parts.chain, daemon_parts.telemetry),
        DeviceReview(daemon_parts, device_duty, loss_notes, resumer, device_watch),
        Housekeeping(daemon_parts, programs),
    ]
    return duties


def _supervisor(settings: Settings, means: ProgramMeans, worker_pool: WorkerPool) -> ContainerSupervisor:
    return ContainerSupervisor(
        settings.engine,
        means.container_policy(_gpus(worker_pool)),
        lambda: worker_pool.devices,
        settings.why_no_engine,
        keep_seconds=means.keep_seconds,
        spool_folder=settings.base_path / IMAGES_FOLDER,
    )


def _gpus(worker_pool: WorkerPool) -> tuple[str, ...]:
    return tuple(hardware.uuid for hardware in worker_pool.hardware if hardware.index is not None)
