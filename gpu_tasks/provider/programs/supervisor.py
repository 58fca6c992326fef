"""The container supervisor: prepares, starts, stops and removes the programs of one daemon.

Invariants:

* A program is prepared, with its image, before anything is promised for it.
* A started program has its container until removal, which leaves nothing behind.
* Its use is counted from reading to reading.
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
"""Prepared programs that have not started: bids that may win."""
KEPT_MAX = 8
"""Workspaces that are kept after the end, or will be. A kept one takes disk space and earns nothing."""

NO_SPOOL = Path("/nonexistent")
"""The spool of a supervisor that needs none."""


# A request as a container of this machine, within the provider's limits.
# Invariant: a limit is never above the customer's request or the provider's maximum. A request that does not fit is
# refused before any bid.
SLACK_SECONDS = 120
"""Seconds beyond the bought time. Blocks may be slow, and the chain ends the time, not this limit."""
OUTPUT_BYTES_MAX = MIB
"""The outputs are sealed in one blob, which includes the archive's headers."""
SLOWEST_BLOCK_SLOTS = 10
"""An idle chain produces a block in every tenth slot."""
_NETWORKS = {ContainerNetwork.NONE: NetworkAccess.NONE, ContainerNetwork.OUTBOUND: NetworkAccess.OUTBOUND}


def seconds_of(block_count: int, slot_ms: int) -> int:
    """Return the seconds that a container may run for a number of bought blocks."""
    return block_count * slot_ms * SLOWEST_BLOCK_SLOTS // 1_000 + SLACK_SECONDS


def spec_of(
    request: ContainerRequest,
    policy: ContainerPolicy,
    container_id: str,
    gpu_uuids: Sequence[str],
    wall_seconds: int,
    archive_path: Path,
) -> ContainerSpec:
    """Return the container for a request. `archive_path` is the path of its image archive, if it comes as one.

    Raise UnfitProgramError if this provider does not run such a request.
    """
    if request.gpus > len(gpu_uuids):
        raise UnfitProgramError(
            f"it needs {request.gpus} GPUs, and the device has {len(gpu_uuids)}", code="too_many_gpus"
        )
    limits = request.limits
    if limits.output_bytes > OUTPUT_BYTES_MAX:
        raise UnfitProgramError(
            f"it needs {limits.output_bytes} bytes of /out, and a blob holds {OUTPUT_BYTES_MAX}",
            code="output_too_large",
        )
    spec = ContainerSpec(
        container_id=container_id,
        image=_image(request.image, archive_path),
        command=request.command,
        environment={variable.name: variable.value for variable in request.environment},
        inputs={file.name: file.content for file in request.inputs},
        secrets=dict.fromkeys(request.secrets, b""),  # the values come later and never touch a disk
        gpus=tuple(gpu_uuids[: request.gpus]),
        network=_NETWORKS[request.network],
        limits=ContainerLimits(
            cpu_thousandths=limits.cpu_thousandths,
            memory_bytes=limits.memory_bytes,
            processes=limits.processes,
            wall_seconds=wall_seconds,
            log_bytes=limits.log_bytes,
            workspace_bytes=limits.workspace_bytes,
            output_bytes=OUTPUT_BYTES_MAX,
        ),
    )
    try:
        check_spec(spec, policy)
        check_allowed(spec.image, policy)
    except ContainerRefusedError as error:
        raise UnfitProgramError(str(error), code=error.code) from None
    return spec


def _image(image: AskedImage, archive_path: Path) -> ImageByDigest | ImageArchive:
    if isinstance(image, RegistryImage):
        return ImageByDigest(image.repository, image.sha256.hex())
    check_asked(image)
    return ImageArchive(archive_path, image.sha256.hex())


class ProgramEngine(Protocol):
    """An engine that runs containers: `ContainerEngine`, or a substitute in tests."""

    @property
    def inside(self) -> EntersContainers:
        """Operations inside running containers."""
        ...

    async def ready(self, spec: ContainerSpec) -> None:
        """Fetch the image. Raise ContainerRefusedError or ContainerError."""
        ...

    async def release(self, spec: ContainerSpec) -> None:
        """Release the image of a program that does not start or was removed. Raise ContainerError on failure."""
        ...

    async def tidy(self) -> None:
        """Remove images without recent use. Raise ContainerError on failure."""
        ...

    async def has_image(self, spec: ContainerSpec) -> bool:
        """Return True if the image is present. Raise ContainerError on failure."""
        ...

    async def start(self, spec: ContainerSpec) -> RunningContainer:
        """Start the container. It raises the errors of `ready`."""
        ...

    async def stop(self, container: RunningContainer) -> ContainerEnd:
        """Stop the container."""
        ...

    async def use(self, container: RunningContainer) -> ContainerUse:
        """Return the consumption since the start. Raise ContainerError on failure."""
        ...

    async def outputs(self, container: RunningContainer, sink: BinaryIO) -> OutputArchive:
        """Write the archive of /out. Raise ContainerRefusedError or ContainerError."""
        ...

    async def remove(self, container: RunningContainer) -> None:
        """Remove the container. Raise ContainerError on failure."""
        ...


@dataclass(slots=True)
class _Program:
    asked: AskedProgram
    spec: ContainerSpec
    hardware: Hardware
    is_compared: bool
    """True if its result is compared with other replicas. Its customer may not enter it."""
    container: RunningContainer | None = None
    meter: Meter | None = None
    lacks_secrets: bool = False
    keep_seconds: int = 0
    kept_until: float | None = None
    """The end of the kept time, by the monotonic clock. It is set when the program ends."""
    counted: ContainerUse = field(default_factory=lambda: ContainerUse(0, 0))
    counted_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ProgramOutputs:
    """The content of /out as one archive."""

    archive: bytes
    blake2_256: bytes


@dataclass(frozen=True, slots=True)
class HousedProgram:
    """A running program, with the data that a tunnel to it needs."""

    container: RunningContainer
    reply_key: bytes
    """The customer's reply key (X25519)."""
    ports: tuple[int, ...]


class ContainerSupervisor:
    """The programs of one daemon, shared by the duties that bid for time and those that sell it."""

    def __init__(
        self,
        engine: ProgramEngine | None,
        policy: ContainerPolicy,
        devices: Callable[[], Mapping[bytes, Hardware]],
        why_not: str = "",
        *,
        keep_seconds: int = 0,
        spool_folder: Path = NO_SPOOL,
    ) -> None:
        """Without an engine nothing runs, and `why_not` is the reason. Workspaces are kept for at most `keep_seconds`.

        Image archives are in `spool_folder` while they are loaded.
        """
        self._program_engine = engine
        self._policy = policy
        self._devices = devices
        self._keep_seconds = keep_seconds
        self._image_spool = ImageSpool(spool_folder)
        self._programs: dict[TaskKey, _Program] = {}
        self.why_not = why_not or ("" if engine is not None else "this daemon runs no containers")

    def is_ready(self, key: TaskKey) -> bool:
        """Return True if the program is prepared or started."""
        return key in self._programs

    def is_begun(self, key: TaskKey) -> bool:
        """Return True if the program has a container."""
        return key in self._programs and self._programs[key].container is not None

    def of_task(self, task_id: bytes) -> HousedProgram | None:
        """Return the program of a task, if it has a container here and its customer may enter it."""
        matching_programs = (
            known_program
            for (known_task, _), known_program in self._programs.items()
            if known_task == task_id and known_program.container is not None
        )
        program = next(matching_programs, None)
        # A customer that enters a replica could change the compared result.
        if program is None or program.container is None or program.is_compared:
            return None
        return HousedProgram(program.container, program.asked.reply_key, program.asked.request.ports)

    def waiting(self, task_id: bytes) -> TaskKey | None:
        """Return the program of a task that waits for its customer's secrets."""
        return next(
            (key for key, known_program in self._programs.items() if key[0] == task_id and known_program.lacks_secrets),
            None,
        )

    def lacks_secrets(self, key: TaskKey) -> bool:
        """Return True if the program waits for its customer's secrets."""
        return key in self._programs and self._programs[key].lacks_secrets

    def give_secrets(self, key: TaskKey, secrets: Mapping[str, bytes]) -> None:
        """Let a program start with the customer's secrets. Raise ProgramError unless they match its request."""
        program = self._programs.get(key)
        if program is None or not program.lacks_secrets:
            raise ProgramError("its program expects no secrets", code="no_secrets_expected")
        # All at once, because the program starts as soon as it has them.
        if set(secrets) != set(program.asked.request.secrets):
            raise ProgramError(
                f"its program expects all of these at once: {', '.join(program.asked.request.secrets)}",
                code="secrets_differ",
            )
        program.spec = replace(program.spec, secrets=dict(secrets))
        program.lacks_secrets = False

    def reply_key(self, key: TaskKey) -> bytes:
        """Return the key to which its outputs are sealed."""
        return self._programs[key].asked.reply_key

    async def prepare(self, parts: Parts[NetworkPort], key: TaskKey, task: Task, device: bytes) -> None:
        """Prepare a program: open and check its request, and fetch its image.

        Raise UnfitProgramError if this provider does not run it, or ProgramError if it cannot at the moment, or the
        errors of `open_program`.
        """
        if key in self._programs:
            return
        engine = self._running_engine()
        if len(self._programs) >= READY_MAX:
            raise ProgramError(f"{READY_MAX} programs are prepared already", code="too_many_programs")
        hardware = self._devices().get(device)
        if hardware is None:
            raise UnfitProgramError("the device is not on this machine", code="device_not_here")
        asked = await open_program(parts, task)
        gpu_uuids = () if hardware.index is None else (hardware.uuid,)
        slot_ms = await parts.chain.slot_ms()
        wall_seconds = seconds_of(task.terms.blocks_max, slot_ms)
        keep_seconds = self._kept_for(asked.request.keep_blocks * slot_ms // 1_000)
        container_id = f"{key[0].hex()[:32]}-{key[1]}"
        spec = spec_of(
            asked.request, self._policy, container_id, gpu_uuids, wall_seconds, self._image_spool.path(container_id)
        )
        try:
            async with self._with_archive(parts, engine, asked.request.image, spec):
                await engine.ready(spec)
        except ContainerRefusedError as error:
            raise UnfitProgramError(str(error), code=error.code) from None
        except ContainerError as error:
            raise ProgramError(str(error), code=error.code) from None
        # A parallel call may have started the program meanwhile. Replacing it would lose track of its container.
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
        """Start a program. Raise ProgramError on failure, also if its task ended before the start."""
        program, engine = self._programs[key], self._running_engine()
        try:
            container = await engine.start(program.spec)
            # Removed meanwhile: nothing would ever end the container, and nobody pays for it.
            if self._programs.get(key) is not program:
                await engine.remove(container)
                raise ProgramError("its task ended before it began", code="task_ended")
        except ContainerError as error:
            raise ProgramError(str(error), code=error.code) from None
        program.container = container
        program.meter, program.counted_at = meter_for(program.hardware), time.monotonic()
        program.meter.begin()

    def has_ended(self, key: TaskKey) -> bool:
        """Return True if the program has ended."""
        return self._container(key).end.done()

    async def ended(self, key: TaskKey) -> None:
        """Wait until the program has ended."""
        await asyncio.wait((self._container(key).end,))

    async def stop(self, key: TaskKey) -> ContainerEnd:
        """Stop the program."""
        return await self._running_engine().stop(self._container(key))

    async def usage(self, key: TaskKey) -> Usage:
        """Return the usage since the last call. A value that the engine does not report is 0."""
        program, now_seconds, use = self._programs[key], time.monotonic(), ContainerUse(0, 0)
        with contextlib.suppress(ContainerError):
            use = await self._running_engine().use(self._container(key))
        wall_ms = int(1_000 * (now_seconds - program.counted_at))
        energy_mj, gpu_memory = 0, 0
        if program.meter is not None:
            reading = program.meter.end()
            program.meter.begin()
            energy_mj, gpu_memory = reading.energy_mj, reading.memory_peak_bytes
        has_gpu = bool(program.spec.gpus)
        # The engine reports zero after the program's end, which would be a negative difference.
        cpu_ms = max(0, use.cpu_ms - program.counted.cpu_ms)
        program.counted, program.counted_at = use, now_seconds
        return Usage(
            work_units=0,
            gpu_ms=wall_ms if has_gpu else 0,
            energy_mj=energy_mj if has_gpu else 0,
            cpu_ms=cpu_ms,
            wall_ms=wall_ms,
            memory_peak_bytes=max(use.memory_peak_bytes, gpu_memory if has_gpu else 0),
        )

    async def outputs(self, key: TaskKey) -> ProgramOutputs:
        """Return the outputs. Raise ProgramError if they break the rules."""
        archive_buffer = io.BytesIO()
        try:
            archive = await self._running_engine().outputs(self._container(key), archive_buffer)
        except ContainerError as error:
            raise ProgramError(str(error), code=error.code) from None
        return ProgramOutputs(archive_buffer.getvalue(), archive.blake2_256)

    def log(self, key: TaskKey) -> ContainerLog:
        """Return the log of the program."""
        return self._container(key).log

    async def remove(self, key: TaskKey) -> None:
        """Remove a program if it exists. Raise ProgramError that names the remains; the caller tries again.

        A program with a kept workspace is only stopped. The first call after the kept time removes it.
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
                raise ProgramError(str(error), code=error.code) from None
        self._programs.pop(key, None)
        with contextlib.suppress(ContainerError):
            await self._running_engine().release(program.spec)

    async def tidy(self) -> None:
        """Let the engine remove images without recent use. A failure is tried again later."""
        if self._program_engine is not None:
            with contextlib.suppress(ContainerError):
                await self._program_engine.tidy()

    @contextlib.asynccontextmanager
    async def _with_archive(
        self, parts: Parts[NetworkPort], engine: ProgramEngine, image: AskedImage, spec: ContainerSpec
    ) -> AsyncIterator[None]:
        """Provide an image archive if the image comes as one and the engine lacks it.

        It raises the errors of `prepare`.
        """
        if isinstance(image, RegistryImage) or await engine.has_image(spec):
            yield
            return
        async with self._image_spool.laid(parts, image, spec.container_id):
            yield

    def _kept_for(self, asked_seconds: int) -> int:
        """Return the time to keep a workspace, if the customer's wish is permitted.

        It raises the errors of `prepare`.
        """
        if asked_seconds > self._keep_seconds:
            raise UnfitProgramError(
                f"it asks to keep its workspace for {asked_seconds} s, and this provider keeps one for "
                f"{self._keep_seconds} s",
                code="kept_too_long",
            )
        # Each kept workspace binds disk, or memory if the daemon is not root.
        kept_count = sum(bool(known_program.keep_seconds) for known_program in self._programs.values())
        if asked_seconds and kept_count >= KEPT_MAX:
            raise ProgramError(f"{KEPT_MAX} workspaces are kept or reserved already", code="too_many_workspaces")
        return asked_seconds

    async def _is_kept(self, program: _Program, container: RunningContainer) -> bool:
        """Stop an ended program. Return True if its workspace is still kept."""
        now_seconds = time.monotonic()
        if program.kept_until is None:
            program.kept_until = now_seconds + program.keep_seconds
            if program.keep_seconds:
                await self._running_engine().stop(container)
        return now_seconds < program.kept_until

    def _container(self, key: TaskKey) -> RunningContainer:
        container = self._programs[key].container
        assert container is not None, "the program has begun"
        return container

    def _running_engine(self) -> ProgramEngine:
        if self._program_engine is None:
            raise UnfitProgramError(self.why_not, code="no_container_engine")
        return self._program_engine
