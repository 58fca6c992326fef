"""What a killed daemon has left in an engine, and its removal. Always: what belongs to others is not touched."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpu_tasks.provider.execution.containers.docker_door import DockerDoor, GoneError
from gpu_tasks.provider.execution.containers.labels import OWNER_LABEL, Owner
from gpu_tasks.provider.execution.containers.networks import Networks
from gpu_tasks.provider.execution.containers.workspaces import Workspaces


@dataclass(frozen=True, slots=True)
class Leftovers:
    """How much was there."""

    containers: int = 0
    volumes: int = 0
    networks: int = 0
    rules: int = 0
    files: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.containers + self.volumes + self.networks + self.rules + self.files


async def remove_leftovers(door: DockerDoor, owner: Owner, networks: Networks, workspaces: Workspaces) -> Leftovers:
    """Remove everything of this owner: when no container of it is wanted any more. ContainerError if it stays."""
    filters = owner.filters()
    containers = await door.call("list containers", lambda client: client.containers(all=True, filters=filters))
    names = [name for name in map(_container_name, containers) if name.startswith(owner.prefix)]
    for name in names:
        await _remove_container(door, name)
    found = await door.call("list networks", lambda client: client.networks(filters=filters))
    bridges = list(_ours(found, owner))
    for name in bridges:
        await _remove_network(door, name)
    listed = await door.call("list volumes", lambda client: client.volumes(filters=filters))
    volumes = list(_ours(listed.get("Volumes") or [], owner))
    for name in volumes:
        await _remove_volume(door, name)
    return Leftovers(
        len(names), len(volumes), len(bridges), await networks.remove_rules(), await workspaces.remove_files()
    )


def _ours(things: Iterable[dict[str, Any]], owner: Owner) -> Iterable[str]:
    """Names of things that carry both our label and our name."""
    for thing in things:
        name, labels = str(thing.get("Name") or ""), thing.get("Labels") or {}
        if name.startswith(owner.prefix) and labels.get(OWNER_LABEL) == owner.name:
            yield name


def _container_name(container: dict[str, Any]) -> str:
    names = container.get("Names") or [""]
    return str(names[0]).removeprefix("/")


async def _remove_container(door: DockerDoor, name: str) -> None:
    with contextlib.suppress(GoneError):
        await door.call("remove a container", lambda client: client.remove_container(name, v=True, force=True))


async def _remove_network(door: DockerDoor, name: str) -> None:
    with contextlib.suppress(GoneError):
        await door.call("remove a network", lambda client: client.remove_network(name))


async def _remove_volume(door: DockerDoor, name: str) -> None:
    with contextlib.suppress(GoneError):
        await door.call("remove a volume", lambda client: client.remove_volume(name))
