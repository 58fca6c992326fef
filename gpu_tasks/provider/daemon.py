"""The provider daemon: follows the chain, and does what it was drawn for.

    head -> duties -> race: fetch, open, execute, commit, attest      (duties.racing)
         -> seats  -> case: check or execute, commit, open            (duties.judging)
         -> disputes of batches: show the own tree                    (duties.differing)
         -> checks of batches: show own leaves, audit others'         (duties.checking)
         -> auctions -> bid: prepare, measure, promise                (tasks.bidding)
         -> own bids -> open, run step by step, state, stand by       (tasks.working)
         -> roll calls: compute, commit, show, look at others' rows    (duties.roll_calls)
         -> what is final: note the endings, appeal                   (duties.endings)
         -> what the node saw: report double proposals                (duties.offences)

Always: one failure (a unit, a peer, the node) never ends the daemon; a damaged or unwritable journal does. Only devices
that stand on this machine, and whose promises this daemon can keep, take work; the others are paused on the chain.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.inventory import ClaimedPolicy
from gpu_tasks.market.api import DeviceStatus
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.units import racer_of
from gpu_tasks.provider.blobs.inputs import Inputs
from gpu_tasks.provider.blobs.reseal import Resealer
from gpu_tasks.provider.blobs.server import DEFAULT_HOST, DEFAULT_PORT, BlobServer
from gpu_tasks.provider.blobs.store import BlobStore, Quota
from gpu_tasks.provider.chain.port import ChainError, ChainPort, Identity, View
from gpu_tasks.provider.device_watch import DeviceWatch, WatchedFrom
from gpu_tasks.provider.duties.checking import CheckDuty
from gpu_tasks.provider.duties.differing import DifferingDuty
from gpu_tasks.provider.duties.endings import let_inputs_go, note_endings
from gpu_tasks.provider.duties.judging import JudgeDuty
from gpu_tasks.provider.duties.leaf_judging import LeafJudgeDuty
from gpu_tasks.provider.duties.losing import LossNotes
from gpu_tasks.provider.duties.offences import Reporter
from gpu_tasks.provider.duties.other_daemons import OtherDaemons
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.racing import RaceDuty
from gpu_tasks.provider.duties.resuming import Resumer
from gpu_tasks.provider.duties.roll_calls import RollCallDuty
from gpu_tasks.provider.duties.side_earnings import SideEarnings
from gpu_tasks.provider.duties.standing import DeviceStanding, StandingError, check_standing, standing_of
from gpu_tasks.provider.earnings import EARNINGS_FILE, LOSSES_FILE, EarningsBook, LossBook
from gpu_tasks.provider.execution.chain_process import MakeChains, chains_with
from gpu_tasks.provider.execution.starting import NUMPY
from gpu_tasks.provider.execution.workshop import Workshop
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.pause_book import OWN_CAUSES, PauseBook, PauseCause
from gpu_tasks.provider.keys import FUND_KEY, PROVIDER_KEY_LEAST, poor_key
from gpu_tasks.provider.programs.house import ProgramEngine, ProgramHouse
from gpu_tasks.provider.programs.means import CONTAINER_KIND
from gpu_tasks.provider.tasks.bidding import BidDuty
from gpu_tasks.provider.tasks.judging_tasks import TaskJudgeDuty
from gpu_tasks.provider.tasks.machine import HostMachine
from gpu_tasks.provider.tasks.policy_file import PolicySource, is_draining
from gpu_tasks.provider.tasks.state_answers import StateAnswers
from gpu_tasks.provider.tasks.task_book import TaskBook
from gpu_tasks.provider.tasks.told_policy import claimed_policy
from gpu_tasks.provider.tasks.working import WorkDuty
from gpu_tasks.provider.telemetry import Telemetry
from gpu_tasks.provider.told_inventory import ToldInventory
from gpu_tasks.provider.tunnel.program_access import ProgramDoors
from gpu_tasks.provider.tunnel.tunnel_door import TunnelDoor
from gpu_tasks.provider.utilisation import UTILISATION_FOLDER
from gpu_tasks.provider.watching.watch import NobodyWatches, TaskWatch
from wallet.amounts import format_amount

ENDINGS_EVERY_BLOCKS = 4
LEFT = (
    "this stash is not a provider any more, and no work is left, so the daemon ends. {stays}: move them with "
    "`ogpu-wallet send`"
)
EXPELLED = (
    "a court found a result of this stash wrong for the third time, so its registration has ended. Its devices get "
    "no work: run `ogpu-provider unregister`, or `ogpu-provider register` once the chain allows that"
)
DRAINING = "the daemon takes no new work: `ogpu-provider drain`"
JOURNAL_FILE = "journal"
TASKS_FOLDER = "tasks"
ROLL_CALLS_FOLDER = "roll-calls"

LOG = logging.getLogger("ogpu.provider")
IMAGES_FOLDER = "images"
"""Of archives that are being loaded."""
TUNNEL_FOLDER = "tunnel"
"""Of copies under way."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator chooses."""

    base_path: Path
    blob_host: str = DEFAULT_HOST
    blob_port: int = DEFAULT_PORT
    quota: Quota = field(default_factory=Quota)
    keep_paused: bool = False
    machine: HostMachine = field(default_factory=HostMachine)
    watch: TaskWatch = field(default_factory=NobodyWatches)
    broker: str | None = None
    """Where customers hear of their tasks."""
    engine: ProgramEngine | None = None
    """What runs programs in containers."""
    why_no_engine: str = ""
    make_chains: MakeChains = field(default_factory=lambda: chains_with(NUMPY))
    """What computes the chains of roll calls."""


class Daemon:
    """Use `async with Daemon(...) as daemon: await daemon.run()`."""

    racing_kind: type[RaceDuty] = RaceDuty
    house_kind: type[ProgramHouse] = ProgramHouse

    def __init__(
        self, identity: Identity, chain: ChainPort, workshop: Workshop, telemetry: Telemetry, settings: Settings
    ) -> None:
        """Opens journal and store; nothing runs yet. `JournalError` if the journal cannot be used."""
        journal = Journal(settings.base_path / JOURNAL_FILE)
        store = BlobStore(settings.base_path / "blobs", settings.quota)
        blobs = BlobClient(private=chain.is_development)
        self.parts = Parts(
            identity=identity,
            chain=chain,
            journal=journal,
            workshop=workshop,
            inputs=Inputs(identity, chain, blobs, store, telemetry),
            store=store,
            blobs=blobs,
            telemetry=telemetry,
            earnings=EarningsBook(settings.base_path / EARNINGS_FILE),
            losses=LossBook(settings.base_path / LOSSES_FILE),
            pauses=PauseBook(settings.base_path),
            watch=settings.watch,
        )
        self.settings = settings
        self.racing = self.racing_kind(self.parts)
        self.judging = JudgeDuty(self.parts)
        book = TaskBook(self.parts, settings.base_path / TASKS_FOLDER)
        resealer, states = Resealer(identity.genesis, journal, chain), StateAnswers(self.parts, book)
        kinds = (*workshop.workloads.stepwise, CONTAINER_KIND)
        policy = PolicySource(settings.base_path, kinds)
        means = policy.policy().containers
        programs = self.house_kind(
            settings.engine,
            means.container_policy(_gpus(workshop)),
            lambda: workshop.devices,
            settings.why_no_engine,
            keep_seconds=means.keep_seconds,
            spool=settings.base_path / IMAGES_FOLDER,
        )
        containers = ProgramDoors(programs, None if settings.engine is None else settings.engine.inside)
        spool = settings.base_path / TUNNEL_FOLDER
        self.tunnels = TunnelDoor(containers, identity.seal_key, identity.genesis, identity.stash, spool)
        self.others = OtherDaemons(self.parts)
        told = self._inventory(lambda: claimed_policy(policy.policy(), means, programs.why_not)).told
        self.server = BlobServer(store, resealer, states, settings.broker, told, self.tunnels, self.others.prove)
        self.roll_calls = RollCallDuty(self.parts, settings.base_path / ROLL_CALLS_FOLDER, settings.make_chains)
        self.bidding = BidDuty(self.parts, book, programs, policy, settings.machine, self.roll_calls.why_not)
        self.working = WorkDuty(self.parts, book, programs, lambda: is_draining(settings.base_path))
        self.judging_tasks = TaskJudgeDuty(self.parts)
        self.judging_leaves = LeafJudgeDuty(self.parts)
        self.checking = CheckDuty(self.parts)
        self.differing = DifferingDuty(self.parts)
        self.side_earnings = SideEarnings(self.parts)
        self.losses = LossNotes(self.parts)
        self.reporter = Reporter(identity.stash, chain, telemetry)
        self.resumer = Resumer(self.parts, keep_paused=settings.keep_paused)
        known = WatchedFrom(self.racing.hindered, book.devices_in_use, self.roll_calls.why_not, lambda: self._drains)
        self.device_watch = DeviceWatch(self.parts, known, settings.base_path / UTILISATION_FOLDER)
        self._standing = DeviceStanding()
        self._known_devices: set[bytes] = set()
        self._drains = self._is_drained = self._is_key_poor = False
        self._exits = contextlib.AsyncExitStack()

    def _inventory(self, policy: Callable[[], ClaimedPolicy]) -> ToldInventory:
        """Return the inventory for the endpoint."""
        hardware, rates = list(self.parts.workshop.hardware), self.parts.blobs.rates
        return ToldInventory(self.parts.identity, hardware, self.settings.base_path, rates, policy)

    async def __aenter__(self) -> Self:
        """Load the workloads that the devices promise and check them, then listen.

        ExecutionError, ChainError; OtherDaemonError if another daemon runs with this key.
        """
        async with contextlib.AsyncExitStack() as exits:
            exits.callback(self.parts.journal.close)
            await exits.enter_async_context(self.parts.blobs)
            exits.push_async_callback(self.parts.workshop.close)
            await exits.enter_async_context(self.device_watch)
            standing = await self._look()
            await self.others.check()  # before this daemon listens: an answer is another's
            self.parts.workshop.serve(standing.served)
            for device, promised in standing.promised.items():
                for form in promised:
                    await self.parts.workshop.start(device, form)
            exits.push_async_callback(self.server.close)
            await self._listen()
            exits.push_async_callback(self.racing.book.tasks.close)
            exits.push_async_callback(self.judging.book.tasks.close)
            exits.push_async_callback(self.judging_tasks.book.tasks.close)
            exits.push_async_callback(self.judging_leaves.book.tasks.close)
            for book in self.checking.books:
                exits.push_async_callback(book.tasks.close)
            exits.push_async_callback(self.differing.book.tasks.close)
            exits.push_async_callback(self.roll_calls.close)
            exits.push_async_callback(self.bidding.tasks.close)
            exits.push_async_callback(self.working.steps.tasks.close)
            exits.push_async_callback(self.working.selling.telling.close)
            exits.push_async_callback(self.resumer.tasks.close)
            exits.push_async_callback(self.others.tasks.close)
            self._exits = exits.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop everything; a result that is not in the journal yet is lost, which costs the work and no more."""
        await self._exits.aclose()

    async def _listen(self) -> None:
        """Open the blob store's port; StandingError if that is impossible."""
        host, port = self.settings.blob_host, self.settings.blob_port
        try:
            await self.server.start(port, host)
        except OSError as error:
            raise StandingError(
                f"the blob store cannot listen at {host}:{port} ({error.strerror or error}). Another daemon of this "
                "machine may have the port: stop it, or give another --blob-port and register that endpoint"
            ) from None

    async def run(self) -> None:
        """Settle which devices work, then follow the chain until the provider has left.

        StandingError for another's keys, and where a court ended the registration.
        """
        is_settled = False
        async for view in self.parts.chain.views():
            is_settled = is_settled or await self._settle()
            if is_settled:
                await self.step(view)
                if await self._has_left(view):
                    return

    async def _has_left(self, view: View) -> bool:
        """Tell whether the provider has left and no work is left; report the balance of the provider key."""
        is_busy = view.duties or view.seats or view.checks or view.disputes
        if is_busy or view.height % ENDINGS_EVERY_BLOCKS:
            return False
        chain, identity = self.parts.chain, self.parts.identity
        try:
            if await chain.provider(identity.stash) is not None:
                return False
            devices, grains = await chain.own_devices(), await chain.key_balance()
        except ChainError as error:
            LOG.info("cannot check whether the provider has left, so this is tried again: %s", error)
            return False
        if devices:
            raise StandingError(EXPELLED)
        stays = f"{format_amount(grains)} oGPU stay on the provider key {identity.key.address}"
        self.parts.telemetry.tell("left", height=view.height, why=LEFT.format(stays=stays))
        return True

    async def _settle(self) -> bool:
        """Check who this is and which devices work; False if the node does not show it now: at the next block then."""
        try:
            await check_standing(self.parts.chain, self.parts.identity)
        except ChainError as error:
            self.parts.telemetry.tell("not_settled", problem=str(error))
            return False
        self._drains = is_draining(self.settings.base_path)
        return await self.settle_devices(resume=not self.settings.keep_paused)

    async def step(self, view: View) -> None:
        """Do what one block asks for."""
        self.others.look(view.height)
        await self._look_whether_it_drains(view)
        if self._names_new_device(view):
            await self.settle_devices(resume=False)
        await self.differing.step(view)
        for duty in view.duties:
            with self._telling(duty.id):
                await self.racing.step(duty, view)
        self.racing.stop_others(view)
        for seat in view.seats:
            with self._telling(seat.id):
                await self.judging.step(seat, view)
                await self.judging_tasks.step(seat, view)
                await self.judging_leaves.step(seat, view)
        await self.checking.step(view)
        await self._tasks(view)
        await self.side_earnings.step(view, self.working.standing)
        self.device_watch.see(view)
        is_time = view.height % ENDINGS_EVERY_BLOCKS == 0
        if is_time:
            await self._note_endings(view)
            await self._let_inputs_go(view)
            await self._report_offences()
        if is_time or not self.device_watch.has_looked:  # who was refuted is known by now, and is not resumed
            await self._look_at_devices(view.height)
        if is_time:
            self.parts.store.sweep(time.time())
            await self.working.selling.programs.tidy()
            await self.parts.workshop.end_idle()

    async def _look_whether_it_drains(self, view: View) -> None:
        """Take nothing new while the operator wants that, and say when nothing is left."""
        drains = is_draining(self.settings.base_path)
        if drains is not self._drains:
            self._drains, self._is_drained = drains, False
            self.parts.telemetry.tell("draining" if drains else "drains_no_more", height=view.height)
            await self.settle_devices(resume=not self.settings.keep_paused)
        journal = self.parts.journal
        own = len(list(journal.open_races())) + len(list(journal.open_tasks()))
        left = own + len(view.duties) + len(view.seats) + len(view.checks) + len(view.disputes)
        if drains and not left and not self._is_drained:
            self._is_drained = True
            self.parts.telemetry.tell("drained", height=view.height)

    async def _tasks(self, view: View) -> None:
        """What is due first: roll calls, whose blocks count; bids and work that are there; then new ones."""
        for step in (self.roll_calls.step, self.working.step, self.bidding.step):
            try:
                await step(view)
            except ChainError as error:
                LOG.info("tasks and roll calls are looked at later: %s", error)

    @contextlib.contextmanager
    def _telling(self, unit: bytes) -> Iterator[None]:
        """What the node refuses of one unit is told, and the others go on."""
        try:
            yield
        except ChainError as error:
            self.parts.telemetry.tell("refused", unit=unit, problem=str(error))

    async def settle_devices(self, *, resume: bool) -> bool:
        """Serve what stands here, pause what does not; and with `resume` resume what a daemon paused itself.

        Devices that the chain paused are `resuming`'s. True once it is known which devices stand here: a call that the
        node does not take keeps nobody from working.
        """
        is_known = False
        try:
            standing = await self._look()
            is_known = True
            self.parts.workshop.serve(standing.served)
            for status in await self.parts.chain.own_devices():
                await self._settle_device(status, standing, resume=resume)
        except ChainError as error:
            self.parts.telemetry.tell("not_settled", problem=str(error))
        return is_known

    async def _settle_device(self, status: DeviceStatus, standing: DeviceStanding, *, resume: bool) -> None:
        """Pause or resume one device, as far as this daemon may."""
        device, is_paused, tell = status.id, status.device.is_paused, self.parts.telemetry.tell
        why_unserved = standing.unserved.get(device)
        if why_unserved is not None:
            tell("not_served", device=device, problem=why_unserved)
        if not is_paused and (self._drains or why_unserved is not None):
            why = DRAINING if why_unserved is None else why_unserved
            cause = PauseCause.DRAINED if why_unserved is None else PauseCause.UNSERVED
            self.parts.pauses.note(device, cause=cause, why=why)
            await self.parts.chain.submit(Devices.pause(device=device))
            tell("paused", device=device, why=why)
            return
        note = self.parts.pauses.read().get(device)
        if why_unserved is not None or self._drains or note is None or note.cause not in OWN_CAUSES:
            return
        if not is_paused:
            self.parts.pauses.note(device, cause=None, why="")
        elif resume:
            await self.parts.chain.submit(Devices.resume(device=device))
            tell("resumed", device=device)

    def _names_new_device(self, view: View) -> bool:
        """Whether a race is on a device that was registered after the last look."""
        stash = self.parts.identity.stash
        racers = (racer_of(duty.status.unit, stash) for duty in view.duties)
        return any(racer is not None and racer.device not in self._known_devices for racer in racers)

    async def _look(self) -> DeviceStanding:
        """Which of the registered devices stand on this machine and can keep their promises; ChainError."""
        chain, workshop = self.parts.chain, self.parts.workshop
        devices = await chain.own_devices()
        self._known_devices.update(status.id for status in devices)
        self.resumer.remember(devices)
        terms = {number: service.terms for number, service in (await chain.services()).items()}
        self._standing = standing_of(devices, workshop.hardware, terms, workshop.workloads)
        return self._standing

    async def _look_at_devices(self, height: int) -> None:
        """See how the own devices stand, and why some stand still.

        What a missed race paused is noted, and offered again, unless the operator wants paused devices to stay so.
        """
        try:
            await self._look_at_key()
            own = await self.parts.chain.own_devices()
            await self.losses.step(height, own)
            await self.resumer.step(height, own, {} if self._drains else self._standing.promised)
            await self.device_watch.look_at_market(own)
        except ChainError as error:
            LOG.info("the own devices are looked at later: %s", error)

    async def _look_at_key(self) -> None:
        """Report a provider key that cannot cover the fees of its calls, once until it can."""
        grains = await self.parts.chain.key_balance()
        is_poor = grains < PROVIDER_KEY_LEAST
        if is_poor and not self._is_key_poor:
            self.parts.telemetry.tell("key_poor", grains=grains, problem=f"{poor_key(grains)}; {FUND_KEY}")
        self._is_key_poor = is_poor

    async def _report_offences(self) -> None:
        try:
            await self.reporter.step()
        except ChainError as error:
            LOG.info("offences are reported later: %s", error)

    async def _let_inputs_go(self, view: View) -> None:
        looked_at = {each.unit for each in view.checks} | {each.unit for each in view.disputes}
        try:
            await let_inputs_go(self.parts, looked_at | {duty.id for duty in view.duties})
        except ChainError as error:
            LOG.info("which inputs are needed is looked at later: %s", error)

    async def _note_endings(self, view: View) -> None:
        try:
            ended = await note_endings(self.parts, {seat.id for seat in view.seats})
        except ChainError as error:
            LOG.info("endings are read later: %s", error)
            return
        for race in ended.races:
            self.racing.end(race)
        for device in ended.paid:
            self.resumer.did_well(device)
        for case in ended.cases:
            self.judging.end(case)
            self.judging_tasks.end(case)
            self.judging_leaves.end(case)
        for unit in ended.wronged:
            await self._appeal(unit, view.height)

    async def _appeal(self, unit: bytes, height: int) -> None:
        """Two of three judges found this provider's result wrong, which it computed: a court shall say."""
        with self._telling(unit):
            await self.losses.warn(unit, height)
            await self.parts.chain.submit(Courts.appeal(case_id=unit))
            self.parts.telemetry.tell("appealed", unit=unit)


def _gpus(workshop: Workshop) -> tuple[str, ...]:
    return tuple(hardware.uuid for hardware in workshop.hardware if hardware.index is not None)
