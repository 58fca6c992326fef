"""The provider daemon: follows the chain, and does what it was drawn for.

    head -> duties -> race: fetch, open, execute, commit, attest      (race)
                   -> case: check or execute, commit, reveal          (duty)
         -> what is final: note the endings                           (endings)
         -> what the node saw: report double proposals                (offences)

Always: one failure (a unit, a peer, the node) never ends the daemon; a damaged or unwritable journal does.
"""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.units import Duty
from gpu_tasks.provider.blobs.inputs import Inputs
from gpu_tasks.provider.blobs.reseal import Resealer
from gpu_tasks.provider.blobs.server import DEFAULT_HOST, DEFAULT_PORT, BlobServer
from gpu_tasks.provider.blobs.store import BlobStore, Quota
from gpu_tasks.provider.chain.port import ChainError, ChainPort, Identity, View
from gpu_tasks.provider.duties.endings import note_endings
from gpu_tasks.provider.duties.judging import Judging
from gpu_tasks.provider.duties.offences import Reporter
from gpu_tasks.provider.duties.racing import Racing
from gpu_tasks.provider.duties.standing import check_standing
from gpu_tasks.provider.execution.executor import Executor
from gpu_tasks.provider.execution.gpu import Meter
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.telemetry import Telemetry

ENDINGS_EVERY_BLOCKS = 4

LOG = logging.getLogger("ogpu.provider")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator chooses."""

    base_path: Path
    blob_host: str = DEFAULT_HOST
    blob_port: int = DEFAULT_PORT
    quota: Quota = field(default_factory=Quota)
    keep_paused: bool = False


class Daemon:
    """Use `async with Daemon(...) as daemon: await daemon.run()`."""

    racing_kind: type[Racing] = Racing

    def __init__(
        self,
        identity: Identity,
        chain: ChainPort,
        executor: Executor,
        meter: Meter,
        telemetry: Telemetry,
        settings: Settings,
    ) -> None:
        """Opens journal and store; nothing runs yet. `JournalError` if the journal cannot be used."""
        self.identity = identity
        self.chain = chain
        self.executor = executor
        self.telemetry = telemetry
        self.settings = settings
        self.journal = Journal(settings.base_path / "journal")
        self.store = BlobStore(settings.base_path / "blobs", settings.quota)
        self.blobs = BlobClient()
        self.server = BlobServer(self.store, Resealer(identity.genesis, self.journal, chain))
        inputs = Inputs(identity, chain, self.blobs, self.store)
        self.racing = self.racing_kind(identity, chain, self.journal, executor, inputs, self.store, meter, telemetry)
        self.judging = Judging(identity, chain, self.journal, executor, inputs, self.blobs, telemetry)
        self.reporter = Reporter(identity.stash, chain, telemetry)
        self._exits = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Load the workload and check it, then listen."""
        async with contextlib.AsyncExitStack() as exits:
            exits.callback(self.journal.close)
            await exits.enter_async_context(self.blobs)
            exits.push_async_callback(self.executor.close)
            await self.executor.start()
            await self.server.start(self.settings.blob_port, self.settings.blob_host)
            exits.push_async_callback(self.server.close)
            exits.push_async_callback(self.racing.tasks.close)
            exits.push_async_callback(self.judging.tasks.close)
            self._exits = exits.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop everything; a result that is not in the journal yet is lost, which costs the work and no more."""
        await self._exits.aclose()

    async def run(self) -> None:
        """Resume what is paused, then follow the chain for ever. `StandingError` if another daemon is registered."""
        await check_standing(self.chain, self.identity, self.executor)
        if not self.settings.keep_paused:
            await self.resume_devices()
        async for view in self.chain.views():
            await self.step(view)

    async def step(self, view: View) -> None:
        """Do what one block asks for."""
        for duty in view.duties:
            part = self.racing if duty.duty is Duty.RACE else self.judging
            try:
                await part.step(duty, view)
            except ChainError as error:
                self.telemetry.tell("refused", unit=duty.id, problem=str(error))
        if view.height % ENDINGS_EVERY_BLOCKS == 0:
            await self._note_endings()
            await self._report_offences()
            self.store.sweep(time.time())

    async def resume_devices(self) -> None:
        """Offer paused devices again: a race missed while the daemon was away paused them."""
        try:
            for one in await self.chain.own_devices():
                if one.device.is_paused:
                    await self.chain.submit(Devices.resume(device=one.id))
                    self.telemetry.tell("resumed", device=one.id)
        except ChainError as error:
            self.telemetry.tell("not_resumed", problem=str(error))

    async def _report_offences(self) -> None:
        try:
            await self.reporter.step()
        except ChainError as error:
            LOG.info("offences are reported later: %s", error)

    async def _note_endings(self) -> None:
        try:
            ended = await note_endings(self.identity.stash, self.chain, self.journal, self.telemetry)
        except ChainError as error:
            LOG.info("endings are read later: %s", error)
            return
        for key in ended:
            self.racing.forget(key)
