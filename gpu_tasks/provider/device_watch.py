"""A record of what each device does with its time, and why it is idle.

Invariants:

* Watching never takes time from the work.
* It asks the chain for possible earnings only while an unpaused device is idle, and not in every block.
* Measurements reach the disk every few seconds and at the daemon's end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.provider.chain.demand import Demand
from gpu_tasks.provider.chain.port import DevicePort, View
from gpu_tasks.provider.duties.devices import DeviceDuty
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS, Duty, Endings
from gpu_tasks.provider.duties.losses import LossNotes
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.race_steps import Race, race_of
from gpu_tasks.provider.duties.resumer import Resumer, why_paused
from gpu_tasks.provider.execution.device_times import IdleNote
from gpu_tasks.provider.idle_reasons import IdleScene, race_wait, why_idle
from gpu_tasks.provider.journal.journal import RaceKey
from gpu_tasks.provider.keys import FUND_KEY, PROVIDER_KEY_LEAST, poor_key
from gpu_tasks.provider.utilisation import UtilisationBook

LOOK_SECONDS = 3.0
"""The interval of writes and of checks for idle reasons. Each change is checked too."""
STILL_SLOTS = 10
"""After this many slots without a block, the chain has halted or the node is unreachable."""
STILL_MS_MIN = 10_000


@dataclass(frozen=True, slots=True)
class WatchedFrom:
    """Reasons for idle devices that other duties know."""

    hindered: Collection[RaceKey]
    """Races that failed on this machine."""
    devices_in_use: Callable[[], Collection[bytes]]
    """Devices of open bids and of tasks."""
    why_unproven: Callable[[bytes, DeviceClass], str]
    drains: Callable[[], bool]


class DeviceWatch(Duty):
    """The observer of the devices. Use `async with` to check and write in the background."""

    def __init__(
        self,
        daemon_parts: Parts[DevicePort],
        watched_from: WatchedFrom,
        utilisation_folder: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """No block is known yet. Measurements go to `utilisation_folder`."""
        self._parts = daemon_parts
        self._watched_from = watched_from
        self._device_times = daemon_parts.workers.times
        self._device_times.why = self._why_idle
        self._book = UtilisationBook(utilisation_folder)
        self._clock = clock
        self._seen_at = 0.0
        self._still_ms = STILL_MS_MIN
        self._height = 0
        self._own_races: list[Race] = []
        self.has_looked = False
        """True once the status of this provider's devices is known."""
        self._own_statuses: dict[bytes, DeviceStatus] = {}
        self._why_paused: dict[bytes, str] = {}
        self._demand = Demand()
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        """Begin."""
        self._running = asyncio.create_task(self._run())

    async def __aexit__(self, *_: object) -> None:
        """Write the measurements and end."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        self.write()

    async def step(self, view: View) -> None:
        """Note a block whose duties have been started."""
        self._seen_at, self._height = self._clock(), view.height
        own_races = (race_of(provider_duty, self._parts.identity.stash) for provider_duty in view.duties)
        self._own_races = [own_race for own_race in own_races if own_race is not None]
        self._device_times.look()

    async def look_at_market(self, own_statuses: Sequence[DeviceStatus]) -> None:
        """Note the status of this provider's devices, and the demand for idle ones. May raise ChainError."""
        self.has_looked, self._own_statuses = True, {device_status.id: device_status for device_status in own_statuses}
        self._still_ms = max(STILL_MS_MIN, STILL_SLOTS * await self._parts.chain.slot_ms())
        own_idle = (
            device_status
            for device_status in self._own_statuses.values()
            if self._device_times.is_idle(device_status.id)
        )
        pause_notes = self._parts.pauses.read()
        paused_statuses = (
            device_status for device_status in self._own_statuses.values() if device_status.device.is_paused
        )
        self._why_paused = {
            paused_status.id: why_paused(paused_status, pause_notes.get(paused_status.id), self._height).why
            for paused_status in paused_statuses
        }
        idle_statuses = [device_status for device_status in own_idle if not device_status.device.is_paused]
        # Demand is read only for idle devices that are not paused: it costs reads of the market's state.
        if idle_statuses:
            services = {service_number for device_status in idle_statuses for service_number, _ in device_status.offers}
            self._demand = await self._parts.chain.demand(sorted(services))
        self._device_times.look()

    def write(self) -> None:
        """Write the measurements."""
        self._device_times.look()
        self._book.add(self._device_times.take(), self._device_times.present())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.write()

    def _why_idle(self, device_id: bytes) -> IdleNote:
        """Return the reason that a device is idle, as far as it is known."""
        device_status, watched_from, provider_journal = (
            self._own_statuses.get(device_id),
            self._watched_from,
            self._parts.journal,
        )
        races_with_entries = ((open_race, provider_journal.races.get(open_race.key)) for open_race in self._own_races)
        # The threshold grows with the slot time, so that a chain with slow slots does not look halted.
        is_seen = 1_000 * (self._clock() - self._seen_at) < self._still_ms
        idle_scene = IdleScene(
            device_status,
            self._height,
            is_connected=is_seen,
            drains=watched_from.drains(),
            why_paused=self._why_paused.get(device_id, ""),
            race=race_wait(races_with_entries, device_id, watched_from.hindered),
            is_bid_for=device_id in watched_from.devices_in_use(),
            why_unproven=""
            if device_status is None
            else watched_from.why_unproven(device_id, device_status.device.kind),
            demand=self._demand,
        )
        return why_idle(idle_scene)


class DeviceReview(Duty):
    """The periodic check of the provider key's balance, lost bonds, devices to resume, and the market.

    It follows the endings: a device whose result was refuted is known by then and is not resumed.
    """

    def __init__(
        self,
        daemon_parts: Parts[DevicePort],
        device_duty: DeviceDuty,
        loss_notes: LossNotes,
        resumer: Resumer,
        device_watch: DeviceWatch,
    ) -> None:
        """Nothing has been checked yet."""
        self.losses = loss_notes
        self.resumer = resumer
        self.running = (resumer.tasks,)
        self._parts = daemon_parts
        self._devices = device_duty
        self._watch = device_watch
        self._is_key_poor = False

    def learn(self, ended: Endings) -> None:
        """Reset the miss count of paid devices: their next miss counts as the first."""
        for device_id in ended.paid:
            self.resumer.did_well(device_id)

    async def step(self, view: View) -> None:
        """Check key and devices, in a due block or the first time."""
        if view.height % ENDINGS_EVERY_BLOCKS and self._watch.has_looked:
            return
        await self._check_key_balance()
        own_statuses = await self._parts.chain.own_devices()
        # Losses come first: they compare the bonds with the notes that `resumer.step` then updates.
        await self.losses.step(view.height, own_statuses)
        await self.resumer.step(view.height, own_statuses, self._devices.promised)
        await self._watch.look_at_market(own_statuses)

    async def _check_key_balance(self) -> None:
        """Report a provider key that cannot cover the fees of its calls, once until it can."""
        key_grains = await self._parts.chain.key_balance()
        is_poor = key_grains < PROVIDER_KEY_LEAST
        if is_poor and not self._is_key_poor:
            self._parts.telemetry.tell("key_poor", grains=key_grains, problem=f"{poor_key(key_grains)}; {FUND_KEY}")
        self._is_key_poor = is_poor
