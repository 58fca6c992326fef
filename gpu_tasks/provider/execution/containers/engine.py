"""A stranger's program in a container: start it, watch it, end it, and remove every trace.

Invariants:

* Everything made carries the owner's label and name, so that the next daemon finds it.
* The remains of a failed start are removed before its error is raised.
* The time limit holds whether or not a caller waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gpu_tasks.provider.execution.containers.ability import ContainerAbility, look_at_engine
from gpu_tasks.provider.execution.containers.docker_door import DEFAULT_ADDRESS, DockerDoor, open_door
from gpu_tasks.provider.execution.containers.holder import holder_archive
from gpu_tasks.provider.execution.containers.images import BOOK_FILE, ImageBook, Images
from gpu_tasks.provider.execution.containers.inside import Inside
from gpu_tasks.provider.execution.containers.labels import OWNER_LABEL, Owner, owner_of
from gpu_tasks.provider.execution.containers.logs import ContainerLog, keep_log, pump
from gpu_tasks.provider.execution.containers.networks import Networks
from gpu_tasks.provider.execution.containers.outputs import OutputArchive, OutputLimits
from gpu_tasks.provider.execution.containers.parts import ContainerParts
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError
from gpu_tasks.provider.execution.containers.run import ContainerEnd, ContainerUse, EndReason, RunningContainer, use_of
from gpu_tasks.provider.execution.containers.spec import (
    MIB,
    ContainerPolicy,
    ContainerSpec,
    ImageArchive,
    NetworkAccess,
    check_spec,
)
from gpu_tasks.provider.execution.containers.streams import EngineStream, open_stream
from gpu_tasks.provider.execution.containers.workspaces import WorkspaceKind, Workspaces, best_kind

STOP_SECONDS = 10.0
"""The time for a stopped program to end by itself."""
KILL_SECONDS = 60.0
"""An engine that does not end a container in this time counts as lost."""
LOG_END_SECONDS = 10.0
"""The time to read the rest of a program's output after its end."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The numbers of removed things."""

    containers: int = 0
    volumes: int = 0
    networks: int = 0
    rules: int = 0
    files: int = 0

    @property
    def total(self) -> int:
        """The sum of all numbers."""
        return self.containers + self.volumes + self.networks + self.rules + self.files


async def remove_leftovers(door: DockerDoor, owner: Owner, networks: Networks, workspaces: Workspaces) -> Leftovers:
    """Remove everything of this owner, when none of its containers is needed.

    Raise ContainerError if something remains.
    """
    label_filters = owner.filters()
    containers = await door.call("list containers", lambda client: client.containers(all=True, filters=label_filters))
    # The label alone is not enough: a container inherits its image's labels.
    container_names = [name for name in map(_container_name, containers) if name.startswith(owner.prefix)]
    for name in container_names:
        await door.remove_container(name)
    listed_networks = await door.call("list networks", lambda client: client.networks(filters=label_filters))
    network_names = list(_with_our_label(listed_networks, owner))
    for name in network_names:
        await door.remove_network(name)
    listed_volumes = await door.call("list volumes", lambda client: client.volumes(filters=label_filters))
    volume_names = list(_with_our_label(listed_volumes.get("Volumes") or [], owner))
    for name in volume_names:
        await door.remove_volume(name)
    return Leftovers(
        len(container_names),
        len(volume_names),
        len(network_names),
        await networks.remove_rules(),
        await workspaces.remove_files(),
    )


def _with_our_label(engine_things: Iterable[dict[str, Any]], owner: Owner) -> Iterable[str]:
    """Yield the names of things that carry both our label and our name prefix."""
    for engine_thing in engine_things:
        thing_name, thing_labels = str(engine_thing.get("Name") or ""), engine_thing.get("Labels") or {}
        if thing_name.startswith(owner.prefix) and thing_labels.get(OWNER_LABEL) == owner.name:
            yield thing_name


def _container_name(container: dict[str, Any]) -> str:
    container_names = container.get("Names") or [""]
    return str(container_names[0]).removeprefix("/")


class ContainerEngine:
    """The containers of one provider's daemon. Create it with `open_engine` and `close` it."""

    def __init__(
        self,
        door: DockerDoor,
        ability: ContainerAbility,
        images: Images,
        parts: ContainerParts,
        policy: ContainerPolicy,
        logs_folder: Path,
    ) -> None:
        """`open_engine` supplies the parts."""
        self._door = door
        self._images = images
        self._parts = parts
        self._policy = policy
        self._logs_folder = logs_folder
        self._containers: dict[str, RunningContainer] = {}
        self._starting: set[str] = set()
        self.ability = ability
        self._inside = Inside(door, parts)
        self.leftovers = Leftovers()
        """The things removed at the start."""

    @property
    def inside(self) -> Inside:
        """Operations inside running containers."""
        return self._inside

    @property
    def containers(self) -> dict[str, RunningContainer]:
        """The containers that are not removed, by id."""
        return dict(self._containers)

    async def ready(self, spec: ContainerSpec) -> None:
        """Fetch the image, so that the container can start at once. It raises the errors of `start`."""
        check_spec(spec, self._policy)
        self._check_ability(spec)
        await self._image_ready(spec)

    async def release(self, spec: ContainerSpec) -> None:
        """Give up a prepared or removed container: its image may be removed."""
        self._images.keeping.release(spec.container_id)
        await self._images.keeping.tidy()

    async def tidy(self) -> None:
        """Remove images without recent use. Raise ContainerError on failure."""
        await self._images.keeping.tidy()

    async def has_image(self, spec: ContainerSpec) -> bool:
        """Return True if the image is present. Raise ContainerError on failure."""
        return await self._images.has(spec.image)

    async def start(self, spec: ContainerSpec) -> RunningContainer:
        """Start a container. A failed start leaves nothing behind.

        Raise ContainerRefusedError if this provider does not run it, or ContainerError.
        """
        check_spec(spec, self._policy)
        self._check_ability(spec)
        # A second start would fail half-way, and its cleanup would remove the running container.
        if spec.container_id in self._containers or spec.container_id in self._starting:
            raise ContainerRefusedError(
                "run a container", f"{spec.container_id} exists already", "remove it first", code="container_exists"
            )
        self._starting.add(spec.container_id)
        try:
            container = await self._started(spec)
        finally:
            self._starting.discard(spec.container_id)
        self._containers[spec.container_id] = container
        return container

    async def wait(self, container: RunningContainer) -> ContainerEnd:
        """Wait for a container and return its end. Cancellation of the caller leaves it running."""
        # Shielded, because many callers wait for the same future.
        return await asyncio.shield(container.end)

    async def stop(self, container: RunningContainer, grace_seconds: float = STOP_SECONDS) -> ContainerEnd:
        """Ask the program to end, and kill it after the grace period."""
        if not container.end.done():
            # Set first, so that the watcher reports a stop and not a program that ended by itself.
            container.stop_wanted.set()
            await self._send_signal(container.name, "SIGTERM")
            await asyncio.wait({container.end}, timeout=grace_seconds)
        if not container.end.done():
            container.hurry.set()
            await self._send_signal(container.name, "SIGKILL")
        return await self.wait(container)

    async def use(self, container: RunningContainer) -> ContainerUse:
        """Return the container's consumption since its start, or zeros after its end.

        Raise ContainerError on failure.
        """
        container_name = container.name
        container_stats = await self._door.call(
            "count", lambda client: client.stats(container_name, stream=False, one_shot=True)
        )
        return use_of(container_stats)

    async def outputs(self, container: RunningContainer, sink: BinaryIO) -> OutputArchive:
        """Write the content of /out as a canonical archive.

        Raise ContainerRefusedError if it breaks the output rules.
        """
        limits = container.spec.limits
        output_limits = OutputLimits(limits.output_files, limits.output_bytes)
        return await self._inside.outputs(container, output_limits, sink)

    async def remove(self, container: RunningContainer) -> None:
        """Kill the container and remove it with its volumes. Raise ContainerError that names the remains."""
        container.stop_wanted.set()
        container.hurry.set()
        try:
            await self._parts.remove(container.spec.container_id)
        finally:
            await asyncio.wait({container.end}, timeout=KILL_SECONDS)
        self._containers.pop(container.spec.container_id, None)
        self._images.keeping.release(container.spec.container_id)

    async def close(self) -> None:
        """Remove every container and disconnect."""
        for container in list(self._containers.values()):
            with contextlib.suppress(ContainerError):
                await self.remove(container)
            container.end.cancel()
        await self._door.close()

    def _check_ability(self, spec: ContainerSpec) -> None:
        if spec.gpus and self.ability.why_no_gpu:
            raise ContainerRefusedError(
                "give a container a GPU", self.ability.why_no_gpu, "ask for none here", code="no_gpu_for_containers"
            )
        if spec.network is NetworkAccess.OUTBOUND and self.ability.why_no_outbound:
            reason = self.ability.why_no_outbound
            raise ContainerRefusedError(
                "open the network to a container", reason, "ask without a network", code="no_outbound_network"
            )

    async def _started(self, spec: ContainerSpec) -> RunningContainer:
        image_id = await self._image_ready(spec)
        try:
            await self._parts.make(spec, image_id)
            return await self._start_container(spec)
        except BaseException:
            with contextlib.suppress(ContainerError):
                # Shielded, since a cancelled start must not leave a container behind.
                await asyncio.shield(self._parts.remove(spec.container_id))
            raise

    async def _image_ready(self, spec: ContainerSpec) -> str:
        image_bytes_max, container_id = spec.limits.image_bytes, spec.container_id
        return await self._images.ready(
            spec.image, image_bytes_max, has_command=bool(spec.command), user_name=container_id
        )

    async def _start_container(self, spec: ContainerSpec) -> RunningContainer:
        task_name, holder_name = self._parts.task_name(spec.container_id), self._parts.holder_name(spec.container_id)
        # Attach before the start, so that the first output is not lost.
        log_stream = await open_stream(
            self._door.socket_path, f"/containers/{task_name}/attach?stream=1&stdout=1&stderr=1"
        )
        try:
            await self._door.call("start a container", lambda client: client.start(task_name))
        except BaseException:
            log_stream.close()
            raise
        container = RunningContainer(spec, task_name, holder_name, ContainerLog(spec.limits.log_bytes))
        container.end = asyncio.ensure_future(self._watch_container(container, log_stream))
        return container

    async def _watch_container(self, container: RunningContainer, log_stream: EngineStream) -> ContainerEnd:
        """Enforce the time limit, read the log and determine the end."""
        began_at = time.monotonic()
        log_pump = asyncio.create_task(pump(log_stream.frames(), container.log, container.hurry))
        try:
            is_over_time = await self._until_over(container)
            run_seconds = time.monotonic() - began_at
            container_end = await self._read_end(container, run_seconds, is_over_time=is_over_time)
            container.hurry.set()
            await asyncio.wait({log_pump}, timeout=LOG_END_SECONDS)
        finally:
            log_pump.cancel()
            log_stream.close()
            container.log.close()
        with contextlib.suppress(OSError):
            await asyncio.to_thread(keep_log, self._logs_folder, container.spec.container_id, container.log.lines)
        return container_end

    async def _until_over(self, container: RunningContainer) -> bool:
        """Wait for the end, at most for the time limit. Return True if the limit ended it."""
        end_task = asyncio.create_task(self._wait_for_end(container.name))
        try:
            await asyncio.wait({end_task}, timeout=container.spec.limits.wall_seconds)
            if end_task.done():
                return False
            container.hurry.set()
            await self._send_signal(container.name, "SIGKILL")
            await asyncio.wait({end_task}, timeout=KILL_SECONDS)
            return True
        finally:
            end_task.cancel()

    async def _wait_for_end(self, container_name: str) -> None:
        """Wait until the engine reports that a container does not run, or disconnects."""
        with contextlib.suppress(ContainerError, TimeoutError):
            wait_stream = await open_stream(
                self._door.socket_path, f"/containers/{container_name}/wait?condition=not-running"
            )
            try:
                await wait_stream.read()
            finally:
                wait_stream.close()

    async def _read_end(self, container: RunningContainer, run_seconds: float, *, is_over_time: bool) -> ContainerEnd:
        try:
            container_name = container.name
            inspected = await self._door.call(
                "inspect a container", lambda client: client.inspect_container(container_name)
            )
        except ContainerError:
            end_reason = EndReason.STOPPED if container.stop_wanted.is_set() else EndReason.ENGINE_LOST
            return ContainerEnd(end_reason, -1, run_seconds)
        if (inspected.get("State") or {}).get("Running"):
            await self._send_signal(container_name, "SIGKILL")  # its end was not reported, and its time limit ends here
        return end_of(
            inspected.get("State") or {},
            run_seconds,
            is_over_time=is_over_time,
            is_stopped=container.stop_wanted.is_set(),
        )

    async def _send_signal(self, container_name: str, signal_name: str) -> None:
        """Signal a program that may have ended."""
        with contextlib.suppress(ContainerError):
            await self._door.call("end a container", lambda client: client.kill(container_name, signal_name))


def end_of(state: dict[str, Any], run_seconds: float, *, is_over_time: bool, is_stopped: bool) -> ContainerEnd:
    """Return the meaning of the engine's state of a container."""
    exit_code = int(state.get("ExitCode", -1))
    if state.get("Running"):
        return ContainerEnd(EndReason.ENGINE_LOST, -1, run_seconds)
    # Checked before the exit code: a program killed by the time limit also looks like one killed by a signal.
    if is_over_time:
        return ContainerEnd(EndReason.TIME_IS_UP, exit_code, run_seconds)
    if is_stopped:
        return ContainerEnd(EndReason.STOPPED, exit_code, run_seconds)
    if state.get("OOMKilled"):
        return ContainerEnd(EndReason.OUT_OF_MEMORY, exit_code, run_seconds)
    return ContainerEnd(EndReason.EXITED, exit_code, run_seconds)


async def open_engine(
    folder: Path, policy: ContainerPolicy, address: str = DEFAULT_ADDRESS, workspace_kind: WorkspaceKind | None = None
) -> ContainerEngine:
    """Connect to the engine, and remove the remains of an earlier daemon of this folder.

    Raise ContainerError with the reason, or OSError. `folder` belongs to one daemon at a time.
    """
    ability = await look_at_engine(address)
    if ability.why_not:
        raise ContainerError("run containers", ability.why_not, "see `ogpu-provider doctor`", code="machine_unfit")
    owner = owner_of(folder)
    door = await open_door(address)
    try:
        workspaces = Workspaces(door, owner, folder / "workspaces", workspace_kind or best_kind())
        networks = Networks(door, owner)
        leftovers = await remove_leftovers(door, owner, networks, workspaces)
        holder_image = await _holder_image(door, ability.machine)
        engine_images = Images(door, policy, ability.machine, ImageBook(folder / BOOK_FILE))
        await engine_images.keeping.settle()
        container_parts = ContainerParts(door, owner, workspaces, networks, policy, holder_image)
        container_engine = ContainerEngine(
            door, ability, engine_images, container_parts, policy, folder / "container-logs"
        )
    except BaseException:
        await door.close()
        raise
    container_engine.leftovers = leftovers
    return container_engine


async def _holder_image(door: DockerDoor, machine_name: str) -> str:
    content, image_sha256 = holder_archive(machine_name)
    holder_policy = ContainerPolicy(any_archive=True)
    return await Images(door, holder_policy, machine_name).ready(ImageArchive(content, image_sha256), MIB)
