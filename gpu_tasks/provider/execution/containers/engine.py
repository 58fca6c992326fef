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
from gpu_tasks.provider.execution.containers.run import (
    ContainerEnd,
    ContainerUse,
    EndReason,
    RunningContainer,
    use_of,
)
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
    filters = owner.filters()
    containers = await door.call("list containers", lambda client: client.containers(all=True, filters=filters))
    # The label alone is not enough: a container inherits its image's labels.
    names = [name for name in map(_container_name, containers) if name.startswith(owner.prefix)]
    for name in names:
        await door.remove_container(name)
    found = await door.call("list networks", lambda client: client.networks(filters=filters))
    bridges = list(_ours(found, owner))
    for name in bridges:
        await door.remove_network(name)
    listed = await door.call("list volumes", lambda client: client.volumes(filters=filters))
    volumes = list(_ours(listed.get("Volumes") or [], owner))
    for name in volumes:
        await door.remove_volume(name)
    return Leftovers(
        len(names), len(volumes), len(bridges), await networks.remove_rules(), await workspaces.remove_files()
    )


def _ours(things: Iterable[dict[str, Any]], owner: Owner) -> Iterable[str]:
    """Yield the names of things that carry both our label and our name prefix."""
    for thing in things:
        name, labels = str(thing.get("Name") or ""), thing.get("Labels") or {}
        if name.startswith(owner.prefix) and labels.get(OWNER_LABEL) == owner.name:
            yield name


def _container_name(container: dict[str, Any]) -> str:
    names = container.get("Names") or [""]
    return str(names[0]).removeprefix("/")


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
            await self._signal(container.name, "SIGTERM")
            await asyncio.wait({container.end}, timeout=grace_seconds)
        if not container.end.done():
            container.hurry.set()
            await self._signal(container.name, "SIGKILL")
        return await self.wait(container)

    async def use(self, container: RunningContainer) -> ContainerUse:
        """Return the container's consumption since its start, or zeros after its end.

        Raise ContainerError on failure.
        """
        name = container.name
        found = await self._door.call("count", lambda client: client.stats(name, stream=False, one_shot=True))
        return use_of(found)

    async def outputs(self, container: RunningContainer, sink: BinaryIO) -> OutputArchive:
        """Write the content of /out as a canonical archive.

        Raise ContainerRefusedError if it breaks the output rules.
        """
        limits = container.spec.limits
        most = OutputLimits(limits.output_files, limits.output_bytes)
        return await self._inside.outputs(container, most, sink)

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
            why = self.ability.why_no_outbound
            raise ContainerRefusedError(
                "open the network to a container", why, "ask without a network", code="no_outbound_network"
            )

    async def _started(self, spec: ContainerSpec) -> RunningContainer:
        image_id = await self._image_ready(spec)
        try:
            await self._parts.make(spec, image_id)
            return await self._begin(spec)
        except BaseException:
            with contextlib.suppress(ContainerError):
                # Shielded, since a cancelled start must not leave a container behind.
                await asyncio.shield(self._parts.remove(spec.container_id))
            raise

    async def _image_ready(self, spec: ContainerSpec) -> str:
        most, name = spec.limits.image_bytes, spec.container_id
        return await self._images.ready(spec.image, most, has_command=bool(spec.command), used_by=name)

    async def _begin(self, spec: ContainerSpec) -> RunningContainer:
        name, holder = self._parts.task_name(spec.container_id), self._parts.holder_name(spec.container_id)
        # Attach before the start, so that the first output is not lost.
        stream = await open_stream(self._door.socket_path, f"/containers/{name}/attach?stream=1&stdout=1&stderr=1")
        try:
            await self._door.call("start a container", lambda client: client.start(name))
        except BaseException:
            stream.close()
            raise
        container = RunningContainer(spec, name, holder, ContainerLog(spec.limits.log_bytes))
        container.end = asyncio.ensure_future(self._watch(container, stream))
        return container

    async def _watch(self, container: RunningContainer, stream: EngineStream) -> ContainerEnd:
        """Enforce the time limit, read the log and determine the end."""
        began = time.monotonic()
        said = asyncio.create_task(pump(stream.frames(), container.log, container.hurry))
        try:
            is_late = await self._until_over(container)
            seconds = time.monotonic() - began
            end = await self._end_of(container, seconds, is_late=is_late)
            container.hurry.set()
            await asyncio.wait({said}, timeout=LOG_END_SECONDS)
        finally:
            said.cancel()
            stream.close()
            container.log.close()
        with contextlib.suppress(OSError):
            await asyncio.to_thread(keep_log, self._logs_folder, container.spec.container_id, container.log.lines)
        return end

    async def _until_over(self, container: RunningContainer) -> bool:
        """Wait for the end, at most for the time limit. Return True if the limit ended it."""
        ended = asyncio.create_task(self._ended(container.name))
        try:
            await asyncio.wait({ended}, timeout=container.spec.limits.wall_seconds)
            if ended.done():
                return False
            container.hurry.set()
            await self._signal(container.name, "SIGKILL")
            await asyncio.wait({ended}, timeout=KILL_SECONDS)
            return True
        finally:
            ended.cancel()

    async def _ended(self, name: str) -> None:
        """Wait until the engine reports that a container does not run, or disconnects."""
        with contextlib.suppress(ContainerError, TimeoutError):
            waiting = await open_stream(self._door.socket_path, f"/containers/{name}/wait?condition=not-running")
            try:
                await waiting.read()
            finally:
                waiting.close()

    async def _end_of(self, container: RunningContainer, seconds: float, *, is_late: bool) -> ContainerEnd:
        try:
            name = container.name
            found = await self._door.call("inspect a container", lambda client: client.inspect_container(name))
        except ContainerError:
            reason = EndReason.STOPPED if container.stop_wanted.is_set() else EndReason.ENGINE_LOST
            return ContainerEnd(reason, -1, seconds)
        if (found.get("State") or {}).get("Running"):
            await self._signal(name, "SIGKILL")  # its end was not reported, and its time limit ends here
        return end_of(found.get("State") or {}, seconds, is_late=is_late, is_stopped=container.stop_wanted.is_set())

    async def _signal(self, name: str, signal: str) -> None:
        """Signal a program that may have ended."""
        with contextlib.suppress(ContainerError):
            await self._door.call("end a container", lambda client: client.kill(name, signal))


def end_of(state: dict[str, Any], seconds: float, *, is_late: bool, is_stopped: bool) -> ContainerEnd:
    """Return the meaning of the engine's state of a container."""
    code = int(state.get("ExitCode", -1))
    if state.get("Running"):
        return ContainerEnd(EndReason.ENGINE_LOST, -1, seconds)
    # Checked before the exit code: a program killed by the time limit also looks like one killed by a signal.
    if is_late:
        return ContainerEnd(EndReason.TIME_IS_UP, code, seconds)
    if is_stopped:
        return ContainerEnd(EndReason.STOPPED, code, seconds)
    if state.get("OOMKilled"):
        return ContainerEnd(EndReason.OUT_OF_MEMORY, code, seconds)
    return ContainerEnd(EndReason.EXITED, code, seconds)


async def open_engine(
    folder: Path, policy: ContainerPolicy, address: str = DEFAULT_ADDRESS, kind: WorkspaceKind | None = None
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
        workspaces = Workspaces(door, owner, folder / "workspaces", kind or best_kind())
        networks = Networks(door, owner)
        leftovers = await remove_leftovers(door, owner, networks, workspaces)
        holder_image = await _holder_image(door, ability.machine)
        images = Images(door, policy, ability.machine, ImageBook(folder / BOOK_FILE))
        await images.keeping.settle()
        parts = ContainerParts(door, owner, workspaces, networks, policy, holder_image)
        engine = ContainerEngine(door, ability, images, parts, policy, folder / "container-logs")
    except BaseException:
        await door.close()
        raise
    engine.leftovers = leftovers
    return engine


async def _holder_image(door: DockerDoor, machine: str) -> str:
    content, sha256 = holder_archive(machine)
    policy = ContainerPolicy(any_archive=True)
    return await Images(door, policy, machine).ready(ImageArchive(content, sha256), MIB)
