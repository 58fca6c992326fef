"""Leftovers of a killed daemon in an engine: all are removed, and nothing of other owners."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

docker = pytest.importorskip("docker", reason="the library docker is not installed")

from gpu_tasks.provider.execution.containers.docker_door import DockerDoor  # noqa: E402 docker may be missing
from gpu_tasks.provider.execution.containers.engine import Leftovers, remove_leftovers  # noqa: E402 as above
from gpu_tasks.provider.execution.containers.labels import Owner  # noqa: E402 as above

OWNER, OTHER = Owner("0123456789ab"), Owner("ba9876543210")


def thing(part: str, named: Owner = OWNER, labelled: Owner = OWNER) -> dict[str, Any]:
    return {"Name": named.name_of("task-1", part), "Labels": labelled.labels("task-1")}


def things(part: str, count: int) -> list[dict[str, Any]]:
    """Return `count` things of this owner, and others that only look alike."""
    others = [thing(part, named=OTHER), thing(part, labelled=OTHER), {"Name": thing(part)["Name"], "Labels": None}]
    return [*(thing(f"{part}{number}") for number in range(count)), *others]


class EngineClient:
    """The engine's API. A part of the things is already gone at the time of removal."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def containers(self, *, all: bool, filters: object) -> list[dict[str, Any]]:  # noqa: A002 the API's word
        assert (all, filters) == (True, OWNER.filters())
        return [{"Names": ["/" + OWNER.name_of("task-1", "run")]}, {"Names": ["/theirs"]}, {"Names": None}]

    def networks(self, *, filters: object) -> list[dict[str, Any]]:
        assert filters == OWNER.filters()
        return things("net", 2)

    def volumes(self, *, filters: object) -> dict[str, Any]:
        assert filters == OWNER.filters()
        return {"Volumes": things("work", 3)}

    def remove_container(self, name: str, *, v: bool, force: bool) -> None:
        assert (v, force) == (True, True), "it may run, and has volumes without a name"
        self.remove_network(name)

    def remove_network(self, name: str) -> None:
        self.removed.append(name.removeprefix(OWNER.name_of("task-1", "")))
        raise docker.errors.NotFound("gone meanwhile")

    remove_volume = remove_network

    def close(self) -> None:
        """Nothing is open."""


def test_leftovers_of_this_owner_alone_are_removed_and_counted() -> None:
    async def four() -> int:
        return 4

    async def five() -> int:
        return 5

    client: Any = EngineClient()
    networks: Any = SimpleNamespace(remove_rules=four)
    workspaces: Any = SimpleNamespace(remove_files=five)

    async def main() -> Leftovers:
        door = DockerDoor(client, "engine.sock")
        try:
            return await remove_leftovers(door, OWNER, networks, workspaces)
        finally:
            await door.close()

    found = asyncio.run(main())
    assert (found, found.total) == (Leftovers(containers=1, volumes=3, networks=2, rules=4, files=5), 15)
    assert client.removed == ["run", "net0", "net1", "work0", "work1", "work2"]
