"""The provider's devices on this machine: served, paused and resumed.

A daemon that cannot open inputs would decline every race. Two such providers would let voters decide about each input,
at their own cost.

A device is paused if it is not on this machine, or promises work that this daemon does not have. Otherwise other
hardware would compute for it, or it would miss every race at 1 % of its collateral. Invariant: a pause is noted before
it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.units import racer_of
from gpu_tasks.provider.chain.port import ChainError, DevicePort, View
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.resumer import Resumer
from gpu_tasks.provider.execution.gpu import Hardware, on_this_machine
from gpu_tasks.provider.execution.workloads import UnknownWorkloadError, Workloads
from gpu_tasks.provider.journal.pause_book import OWN_CAUSES, PauseCause
from gpu_tasks.provider.telemetry import failure
from gpu_tasks.workloads.form import WorkloadForm
from wallet.errors import CodedError

DRAINING = "the daemon takes no new work: `ogpu-provider drain`"


class StandingError(CodedError):
    """The registered provider is not the running one. The text states the remedy."""


@dataclass(slots=True)
class DeviceStanding:
    """The devices that work here with their hardware and promised work, and the reasons for the others."""

    served: dict[bytes, Hardware] = field(default_factory=dict)
    promised: dict[bytes, list[WorkloadForm]] = field(default_factory=dict)
    unserved: dict[bytes, str] = field(default_factory=dict)


class DeviceDuty(Duty):
    """The duty to serve, pause and resume devices: at the start, for new ones, and when the operator drains."""

    def __init__(
        self, parts: Parts[DevicePort], resumer: Resumer, wants_drain: Callable[[], bool], *, keep_paused: bool
    ) -> None:
        """No device is known yet. With `keep_paused` no device is resumed."""
        self.parts = parts
        self.drains = False
        self._resumer = resumer
        self._wants_drain = wants_drain
        self._keep_paused = keep_paused
        self._standing = DeviceStanding()
        self._known: set[bytes] = set()
        self._is_drained = False

    @property
    def promised(self) -> Mapping[bytes, Sequence[WorkloadForm]]:
        """The devices that take new work, each with its promised workloads."""
        return {} if self.drains else self._standing.promised

    async def look(self) -> DeviceStanding:
        """Return the registered devices that are on this machine and can keep their promises.

        Raise ChainError on failure.
        """
        chain, workers = self.parts.chain, self.parts.workers
        own_devices = await chain.own_devices()
        self._known.update(device_status.id for device_status in own_devices)
        self._resumer.remember(own_devices)
        terms_by_number = {number: service.terms for number, service in (await chain.services()).items()}
        self._standing = standing_of(own_devices, workers.hardware, terms_by_number, workers.workloads)
        return self._standing

    async def begin(self) -> bool:
        """Check the registration and settle the devices. Return False if the node does not answer.

        Raise StandingError if the registration does not match.
        """
        identity = self.parts.identity
        try:
            provider = await self.parts.chain.provider(identity.stash)
        except ChainError as error:
            self.parts.telemetry.tell("not_settled", **failure(error))
            return False
        if provider is None:
            raise StandingError(
                "the stash is not registered as provider; run `ogpu-provider register`", code="not_registered"
            )
        if provider.seal_key != identity.seal_key.public:
            raise StandingError(
                "inputs are sealed to another key; run `ogpu-provider register` to change it", code="other_seal_key"
            )
        self.drains = self._wants_drain()
        return await self._settle_devices(is_resuming=not self._keep_paused)

    async def step(self, view: View) -> None:
        """Follow the operator's choice to drain, and settle a newly registered device."""
        is_draining = self._wants_drain()
        if is_draining is not self.drains:
            self.drains, self._is_drained = is_draining, False
            self.parts.telemetry.tell("draining" if is_draining else "drains_no_more", height=view.height)
            await self._settle_devices(is_resuming=not self._keep_paused)
        if is_draining and not self._is_drained and not self._has_work(view):
            self._is_drained = True
            self.parts.telemetry.tell("drained", height=view.height)
        if self._names_new_device(view):
            # A new device is no reason to resume the others.
            await self._settle_devices(is_resuming=False)

    def _has_work(self, view: View) -> bool:
        journal = self.parts.journal
        is_noted = any(journal.open_races()) or any(journal.open_tasks())
        return is_noted or view.is_owing

    def _names_new_device(self, view: View) -> bool:
        """Return True if a race is on a device that was registered after the last look."""
        stash = self.parts.identity.stash
        racers = (racer_of(duty.status.unit, stash) for duty in view.duties)
        return any(racer is not None and racer.device not in self._known for racer in racers)

    async def _settle_devices(self, *, is_resuming: bool) -> bool:
        """Serve the devices on this machine and pause the others. With `is_resuming`, resume those a daemon paused.

        `Resumer` resumes the devices that the chain paused. Return True once the devices are known: a call that the
        node refuses does not keep the others from working.
        """
        is_known = False
        try:
            standing = await self.look()
            is_known = True
            self.parts.workers.serve(standing.served)
            for device_status in await self.parts.chain.own_devices():
                await self._settle_device(device_status, standing, is_resuming=is_resuming)
        except ChainError as error:
            self.parts.telemetry.tell("not_settled", **failure(error))
        return is_known

    async def _settle_device(self, device_status: DeviceStatus, standing: DeviceStanding, *, is_resuming: bool) -> None:
        """Pause or resume one device, as far as this daemon may."""
        device_id, is_paused, tell = device_status.id, device_status.device.is_paused, self.parts.telemetry.tell
        why_unserved = standing.unserved.get(device_id)
        if why_unserved is not None:
            tell("not_served", device=device_id, problem=why_unserved)
        if not is_paused and (self.drains or why_unserved is not None):
            reason = DRAINING if why_unserved is None else why_unserved
            cause = PauseCause.DRAINED if why_unserved is None else PauseCause.UNSERVED
            # Before the call: after a crash in between, the chain's pause must not look like the operator's.
            self.parts.pauses.note(device_id, cause=cause, why=reason)
            await self.parts.chain.submit(Devices.pause(device=device_id))
            tell("paused", device=device_id, why=reason)
            return
        device_note = self.parts.pauses.read().get(device_id)
        # Only the daemon's own pauses end here. The operator and `Resumer` end the others.
        if why_unserved is not None or self.drains or device_note is None or device_note.cause not in OWN_CAUSES:
            return
        if not is_paused:
            self.parts.pauses.note(device_id, cause=None, why="")
        elif is_resuming:
            await self.parts.chain.submit(Devices.resume(device=device_id))
            tell("resumed", device=device_id)


def standing_of(
    device_statuses: Sequence[DeviceStatus],
    hardware: Iterable[Hardware],
    terms_by_number: Mapping[int, ServiceTerms],
    workloads: Workloads,
) -> DeviceStanding:
    """Sort the devices by whether they can work here. `terms_by_number` are those of all services, by number.

    An offer outlives a service that its owner closes, and then promises nothing.
    """
    standing = DeviceStanding()
    hardware_by_device = on_this_machine(device_statuses, hardware)
    for device_status in device_statuses:
        if device_status.id not in hardware_by_device:
            standing.unserved[device_status.id] = (
                f"its hardware 0x{device_status.device.uuid_hash.hex()[:8]}.. "
                f"({device_status.device.kind.name.lower()}) is not "
                "on this machine, is excluded by --device, or is a GPU without PyTorch; see `ogpu-provider doctor`"
            )
            continue
        try:
            promised = [
                _promised_form(number, terms_by_number[number], workloads)
                for number, _ in device_status.offers
                if number in terms_by_number
            ]
        except UnknownWorkloadError as error:
            standing.unserved[device_status.id] = str(error)
            continue
        standing.served[device_status.id] = hardware_by_device[device_status.id]
        standing.promised[device_status.id] = promised
    return standing


def _promised_form(number: int, service_terms: ServiceTerms, workloads: Workloads) -> WorkloadForm:
    try:
        return workloads.of(service_terms)
    except UnknownWorkloadError as error:
        raise UnknownWorkloadError(
            f"it offers service {number}, but {error}; run `ogpu-provider withdraw-offer`, "
            "or install a release with it",
            code=error.code,
        ) from None
