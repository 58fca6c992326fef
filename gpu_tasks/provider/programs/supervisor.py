"""The programs of one daemon: made ready, begun, stopped, removed.

Always: a program is made ready before anything is promised for it, image and all; one that was begun has its container
until it is removed, and nothing of it is left then; what it used is counted from reading to reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Protocol

from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.orders import is_replicated
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.chain.port import NetworkPort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.containers.image_rules import check_allowed
from gpu_tasks.provider.execution.containers.logs import ContainerLog
from gpu_tasks.provider.execution.containers.outputs import OutputArchive
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError
from gpu_tasks.provider.execution.containers.run import ContainerEnd, ContainerUse, RunningContainer
from gpu_tasks.provider.execution.containers.spec import (
    MIB,
    ContainerLimits,
    ContainerPolicy,
    ContainerSpec,
    ImageArchive,
    ImageByDigest,
    NetworkAccess,
    check_spec,
)
from gpu_tasks.provider.execution.gpu import Hardware, Meter, meter_for
from gpu_tasks.provider.journal.task_records import TaskKey
from gpu_tasks.provider.programs.container_access import EntersContainers
from gpu_tasks.provider.programs.image_parts import ImageSpool, check_asked
from gpu_tasks.provider.programs.requests import AskedProgram, ProgramError, UnfitProgramError, open_program
from gpu_tasks.tasks.container_request import AskedImage, ContainerNetwork, ContainerRequest, RegistryImage

READY_MAX = 64
"""Programs that are ready and not begun: bids that may win."""
KEPT_MAX = 8
"""Whose workspaces are kept after their end, or will be: a kept one takes its disk, and earns nothing."""

NO_SPOOL = Path("/nonexistent")
"""Of who brings no image."""


# A request as a container of this machine, within what the provider lets it use.
#
# Always: a limit that a customer asks for is never raised, and one that the provider has is never passed over; what
# does not fit is refused before anything is bid.
SLACK_SECONDS = 120
"""Beyond the time that was bought: blocks may come slowly, and the chain ends it, not this limit."""
OUTPUT_BYTES_MAX = MIB
"""What is sealed is one blob, the archive's headers included."""
SLOWEST_BLOCK_SLOTS = 10
"""A chain on which nobody has anything to say has a block in every tenth slot."""
_NETWORKS = {ContainerNetwork.NONE: NetworkAccess.NONE, ContainerNetwork.OUTBOUND: NetworkAccess.OUTBOUND}


def seconds_of(blocks: int, slot_ms: int) -> int:
    """How long a container may run that was bought for so many blocks."""
    return blocks * slot_ms * SLOWEST_BLOCK_SLOTS // 1_000 + SLACK_SECONDS


def spec_of(
    request: ContainerRequest,
    policy: ContainerPolicy,
    container_id: str,
    gpus: Sequence[str],
    seconds: int,
    archive: Path,
) -> ContainerSpec:
    """The container; UnfitProgramError where this provider runs no such thing.

    `archive` is where its image lies when it is loaded, if it comes as one.
    """
    if request.gpus > len(gpus):
        raise UnfitProgramError(f"it wants {request.gpus} GPUs, and the device has {len(gpus)}")
    asked = request.limits
    if asked.output_bytes > OUTPUT_BYTES_MAX:
        raise UnfitProgramError(f"it wants {asked.output_bytes} bytes of /out, and a blob holds {OUTPUT_BYTES_MAX}")
    spec = ContainerSpec(
        container_id=container_id,
        image=_image(request.image, archive),
        command=request.command,
        environment={each.name: each.value for each in request.environment},
        inputs={each.name: each.content for each in request.inputs},
        secrets=dict.fromkeys(request.secrets, b""),  # their values come later, and never lie on a disk
        gpus=tuple(gpus[: request.gpus]),
        network=_NETWORKS[request.network],
        limits=ContainerLimits(
            cpu_thousandths=asked.cpu_thousandths,
            memory_bytes=asked.memory_bytes,
            processes=asked.processes,
            wall_seconds=seconds,
            log_bytes=asked.log_bytes,
            workspace_bytes=asked.workspace_bytes,
            output_bytes=OUTPUT_BYTES_MAX,
        ),
    )
    try:
        check_spec(spec, policy)
        check_allowed(spec.image, policy)
    except ContainerRefusedError as error:
        raise UnfitProgramError(str(error)) from None
    return spec


def _image(image: AskedImage, archive: Path) -> ImageByDigest | ImageArchive:
    if isinstance(image, RegistryImage):
        return ImageByDigest(image.repository, image.sha256.hex())
    check_asked(image)
    return ImageArchive(archive, image.sha256.hex())


class ProgramEngine(Protocol):
    """What runs containers: `ContainerEngine`, or what stands in for it in tests."""

    @property
    def inside(self) -> EntersContainers:
        """What is done in those that run."""
        ...

    async def ready(self, spec: ContainerSpec) -> None:
        """Bring its image; ContainerRefusedError, ContainerError."""
        ...

    async def release(self, spec: ContainerSpec) -> None:
        """Its image may go: it is not started, or was removed; ContainerError."""
        ...

    async def tidy(self) -> None:
        """Remove images that nobody used for long; ContainerError."""
        ...

    async def has_image(self, spec: ContainerSpec) -> bool:
        """Whether its image need not be brought; ContainerError."""
        ...

    async def start(self, spec: ContainerSpec) -> RunningContainer:
        """Start it; errors as `ready`."""
        ...

    async def stop(self, container: RunningContainer) -> ContainerEnd:
        """End it."""
        ...

    async def use(self, container: RunningContainer) -> ContainerUse:
        """What it has used since it began; ContainerError."""
        ...

    async def outputs(self, container: RunningContainer, sink: BinaryIO) -> OutputArchive:
        """What lies in /out; ContainerRefusedError, ContainerError."""
        ...

    async def remove(self, container: RunningContainer) -> None:
        """Take it away; ContainerError."""
        ...


@dataclass(slots=True)
class _Program:
    asked: AskedProgram
    spec: ContainerSpec
    hardware: Hardware
    is_compared: bool
    """With what others find: nobody enters it."""
    container: RunningContainer | None = None
    meter: Meter | None = None
    lacks_secrets: bool = False
    keep_seconds: int = 0
    kept_until: float | None = None
    """Set at its end, by the monotonic clock."""
    counted: ContainerUse = field(default_factory=lambda: ContainerUse(0, 0))
    counted_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ProgramOutputs:
    """What lay in /out, as one archive."""

    archive: bytes
    blake2_256: bytes


@dataclass(frozen=True, slots=True)
class HousedProgram:
    """A program that runs, as who lets its customer in has to know it."""

    container: RunningContainer
    reply_key: bytes
    """The customer's, X25519."""
    ports: tuple[int, ...]


class ContainerSupervisor:
    """Shared by the duties that bid for time and those that sell it."""

    def __init__(
        self,
        engine: ProgramEngine | None,
        policy: ContainerPolicy,
        devices: Callable[[], Mapping[bytes, Hardware]],
        why_not: str = "",
        *,
        keep_seconds: int = 0,
        spool: Path = NO_SPOOL,
    ) -> None:
        """Without an engine nothing is run, and `why_not` says why; workspaces are kept for `keep_seconds` at most.

        Archives of images lie in `spool` while they are loaded.
        """
        self._engine = engine
        self._policy = policy
        self._devices = devices
        self._keep_seconds = keep_seconds
        self._spool = ImageSpool(spool)
        self._programs: dict[TaskKey, _Program] = {}
        self.why_not = why_not or ("" if engine is not None else "this daemon runs no containers")

    def is_ready(self, key: TaskKey) -> bool:
        """Whether it could begin, or has begun."""
        return key in self._programs

    def is_begun(self, key: TaskKey) -> bool:
        """Whether it has a container."""
        return key in self._programs and self._programs[key].container is not None

    def of_task(self, task: bytes) -> HousedProgram | None:
        """The program of a task that its customer may enter, if it has a container here."""
        found = (each for (name, _), each in self._programs.items() if name == task and each.container is not None)
        program = next(found, None)
        if program is None or program.container is None or program.is_compared:
            return None
        return HousedProgram(program.container, program.asked.reply_key, program.asked.request.ports)

    def waiting(self, task: bytes) -> TaskKey | None:
        """The program of a task that has not begun, since its customer has yet to hand over its secrets."""
        return next((key for key, each in self._programs.items() if key[0] == task and each.lacks_secrets), None)

    def lacks_secrets(self, key: TaskKey) -> bool:
        """Whether its customer has yet to hand over secrets."""
        return key in self._programs and self._programs[key].lacks_secrets

    def give_secrets(self, key: TaskKey, secrets: Mapping[str, bytes]) -> None:
        """Let it begin with what its customer handed over; ProgramError unless it is what its request names."""
        program = self._programs.get(key)
        if program is None or not program.lacks_secrets:
            raise ProgramError("its program waits for no secrets")
        if set(secrets) != set(program.asked.request.secrets):
            raise ProgramError(f"its program waits for {', '.join(program.asked.request.secrets)}, all of them at once")
        program.spec, program.lacks_secrets = replace(program.spec, secrets=dict(secrets)), False

    def reply_key(self, key: TaskKey) -> bytes:
        """Whom its outputs are sealed to."""
        return self._programs[key].asked.reply_key

    async def prepare(self, parts: Parts[NetworkPort], key: TaskKey, task: Task, device: bytes) -> None:
        """Make it ready: request opened and checked, image brought.

        UnfitProgramError for what is not run here, ProgramError for what cannot be run now; errors of `open_program`.
        """
        if key in self._programs:
            return
        engine = self._running_engine()
        if len(self._programs) >= READY_MAX:
            raise ProgramError(f"{READY_MAX} programs are ready already")
        hardware = self._devices().get(device)
        if hardware is None:
            raise UnfitProgramError("the device is not on this machine")
        asked = await open_program(parts, task)
        gpus = () if hardware.index is None else (hardware.uuid,)
        slot_ms = await parts.chain.slot_ms()
        seconds = seconds_of(task.terms.blocks_max, slot_ms)
        keep_seconds = self._kept_for(asked.request.keep_blocks * slot_ms // 1_000)
        name = f"{key[0].hex()[:32]}-{key[1]}"
        spec = spec_of(asked.request, self._policy, name, gpus, seconds, self._spool.path(name))
        try:
            async with self._laid(parts, engine, asked.request.image, spec):
                await engine.ready(spec)
        except ContainerRefusedError as error:
            raise UnfitProgramError(str(error)) from None
        except ContainerError as error:
            raise ProgramError(str(error)) from None
        # Whoever asked at the same time may have begun it by now: another one in its place would look like a lost one.
        program = _Program(
            asked,
            spec,
            hardware,
            is_replicated(task.order),
            lacks_secrets=bool(asked.request.secrets),
            keep_seconds=keep_seconds,
        )
        self._programs.setdefault(key, program)

    async def begin(self, key: TaskKey) -> None:
        """Start it; ProgramError, also where its task was over, and it was taken away, before it had started."""
        program, engine = self._programs[key], self._running_engine()
        try:
            container = await engine.start(program.spec)
            if self._programs.get(key) is not program:  # nobody would ever end it, and nobody pays for it
                await engine.remove(container)
                raise ProgramError("its task was over before it had begun")
        except ContainerError as error:
            raise ProgramError(str(error)) from None
        program.container = container
        program.meter, program.counted_at = meter_for(program.hardware), time.monotonic()
        program.meter.begin()

    def has_ended(self, key: TaskKey) -> bool:
        """Whether it runs no more."""
        return self._container(key).end.done()

    async def ended(self, key: TaskKey) -> None:
        """Wait until it runs no more."""
        await asyncio.wait((self._container(key).end,))

    async def stop(self, key: TaskKey) -> ContainerEnd:
        """End it."""
        return await self._running_engine().stop(self._container(key))

    async def usage(self, key: TaskKey) -> Usage:
        """What it used since this was asked last; what the engine does not say is 0."""
        program, now, use = self._programs[key], time.monotonic(), ContainerUse(0, 0)
        with contextlib.suppress(ContainerError):
            use = await self._running_engine().use(self._container(key))
        wall_ms = int(1_000 * (now - program.counted_at))
        energy_mj, gpu_memory = 0, 0
        if program.meter is not None:
            reading = program.meter.end()
            program.meter.begin()
            energy_mj, gpu_memory = reading.energy_mj, reading.memory_peak_bytes
        has_gpu = bool(program.spec.gpus)
        cpu_ms = max(0, use.cpu_ms - program.counted.cpu_ms)
        program.counted, program.counted_at = use, now
        return Usage(
            work_units=0,
            gpu_ms=wall_ms if has_gpu else 0,
            energy_mj=energy_mj if has_gpu else 0,
            cpu_ms=cpu_ms,
            wall_ms=wall_ms,
            memory_peak_bytes=max(use.memory_peak_bytes, gpu_memory if has_gpu else 0),
        )

    async def outputs(self, key: TaskKey) -> ProgramOutputs:
        """What it left; ProgramError where that is not taken."""
        sink = io.BytesIO()
        try:
            found = await self._running_engine().outputs(self._container(key), sink)
        except ContainerError as error:
            raise ProgramError(str(error)) from None
        return ProgramOutputs(sink.getvalue(), found.blake2_256)

    def log(self, key: TaskKey) -> ContainerLog:
        """What it writes."""
        return self._container(key).log

    async def remove(self, key: TaskKey) -> None:
        """Take it away, if it is there; ProgramError with what stayed, and it is tried again.

        What is to be kept is ended, and taken away by the first call once its time is up.
        """
        program = self._programs.get(key)
        if program is None:
            return
        if program.meter is not None:
            program.meter.end()
            program.meter = None
        if program.container is not None and await self._is_kept(program, program.container):
            return
        if program.container is not None:
            try:
                await self._running_engine().remove(program.container)
            except ContainerError as error:
                raise ProgramError(str(error)) from None
        self._programs.pop(key, None)
        with contextlib.suppress(ContainerError):
            await self._running_engine().release(program.spec)

    async def tidy(self) -> None:
        """Have the engine remove images that nobody used for long; what it fails at is tried again."""
        if self._engine is not None:
            with contextlib.suppress(ContainerError):
                await self._engine.tidy()

    @contextlib.asynccontextmanager
    async def _laid(
        self, parts: Parts[NetworkPort], engine: ProgramEngine, image: AskedImage, spec: ContainerSpec
    ) -> AsyncIterator[None]:
        """Have the archive of an image, if it comes as one and the engine does not have it; errors as `prepare`."""
        if isinstance(image, RegistryImage) or await engine.has_image(spec):
            yield
            return
        async with self._spool.laid(parts, image, spec.container_id):
            yield

    def _kept_for(self, seconds: int) -> int:
        """How long a workspace is kept whose customer wants it for so many seconds; errors as `prepare`."""
        if seconds > self._keep_seconds:
            raise UnfitProgramError(
                f"it wants its workspace kept for {seconds} s, and this provider keeps one for {self._keep_seconds} s"
            )
        if seconds and sum(bool(each.keep_seconds) for each in self._programs.values()) >= KEPT_MAX:
            raise ProgramError(f"{KEPT_MAX} workspaces are kept here already, or will be")
        return seconds

    async def _is_kept(self, program: _Program, container: RunningContainer) -> bool:
        """End a program that is over, and whether its workspace stays a while."""
        now = time.monotonic()
        if program.kept_until is None:
            program.kept_until = now + program.keep_seconds
            if program.keep_seconds:
                await self._running_engine().stop(container)
        return now < program.kept_until

    def _container(self, key: TaskKey) -> RunningContainer:
        container = self._programs[key].container
        assert container is not None, "it was begun"
        return container

    def _running_engine(self) -> ProgramEngine:
        if self._engine is None:
            raise UnfitProgramError(self.why_not)
        return self._engine
