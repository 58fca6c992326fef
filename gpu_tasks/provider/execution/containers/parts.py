"""The parts of one container in the engine, made in order and removed in reverse.

These are the volumes, the holder that keeps them, their content, the network, and the container itself, which is not
started here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from gpu_tasks.provider.execution.containers.creation import NO_NETWORK, check_made, holder_config, task_config
from gpu_tasks.provider.execution.containers.docker_door import DockerDoor
from gpu_tasks.provider.execution.containers.holder import FOLDERS
from gpu_tasks.provider.execution.containers.labels import Owner
from gpu_tasks.provider.execution.containers.layout import input_files, laid_in
from gpu_tasks.provider.execution.containers.networks import Networks
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.containers.spec import KIB, ContainerPolicy, ContainerSpec, NetworkAccess
from gpu_tasks.provider.execution.containers.workspaces import INPUT_SLACK_BYTES, Workspaces

SECRET_BLOCK_BYTES = 8 * KIB
"""The least space of a secret's file."""
TASK, HOLDER = "task", "holder"


class ContainerParts:
    """The maker and remover of all parts of a container."""

    def __init__(
        self,
        door: DockerDoor,
        owner: Owner,
        workspaces: Workspaces,
        networks: Networks,
        policy: ContainerPolicy,
        holder_image: str,
    ) -> None:
        """`holder_image` is an image id."""
        self._door = door
        self._owner = owner
        self._workspaces = workspaces
        self._networks = networks
        self._policy = policy
        self._holder_image = holder_image

    def task_name(self, container_id: str) -> str:
        """Return the name of the customer's container."""
        return self._owner.name_of(container_id, TASK)

    def holder_name(self, container_id: str) -> str:
        """Return the name of the holder."""
        return self._owner.name_of(container_id, HOLDER)

    async def make(self, spec: ContainerSpec, image_id: str) -> None:
        """Make all parts without starting the container. On an error the caller removes the existing parts.

        Raise ContainerError or ContainerRefusedError.
        """
        placed_files = await asyncio.to_thread(input_files, spec.inputs, spec.limits.input_bytes)
        folder_volumes = await self._make_volumes(
            spec, sum(-(-file.size // (4 * KIB)) * 4 * KIB for file in placed_files)
        )
        container_labels = self._owner.labels(spec.container_id)
        holder_container = holder_config(self._holder_image, folder_volumes, container_labels)
        holder = self.holder_name(spec.container_id)
        await self._create_container(holder, holder_container)
        # A volume in memory exists only while a container mounts it.
        await self._door.call("start a holder", lambda client: client.start(holder))
        await self.lay(spec.container_id, laid_in(tuple(folder_volumes), placed_files, spec.secrets))
        is_outbound = spec.network is NetworkAccess.OUTBOUND
        # The rules exist before the container is created, so it never runs without them.
        network_name = await self._networks.make(spec.container_id) if is_outbound else NO_NETWORK
        task_container = task_config(
            spec, image_id, folder_volumes, container_labels, network_name, self._policy.name_servers
        )
        await self._create_container(self.task_name(spec.container_id), task_container)

    async def lay(self, container_id: str, pieces: Iterator[bytes]) -> None:
        """Unpack a tar stream into the volumes."""
        container_holder = self.holder_name(container_id)
        await self._door.call(
            "copy inputs into a container", lambda client: client.put_archive(container_holder, "/", pieces)
        )

    async def remove(self, container_id: str) -> None:
        """Remove all existing parts. Raise ContainerError that names everything that remains."""
        failures: list[str] = []
        # The task first: its volumes and network cannot be removed while it uses them.
        for container_name in (self.task_name(container_id), self.holder_name(container_id)):
            with _noting_failures(failures):
                await self._door.remove_container(container_name)
        with _noting_failures(failures):
            await self._networks.remove(container_id)
        for folder_name in FOLDERS:
            with _noting_failures(failures):
                await self._workspaces.remove(container_id, folder_name)
        if failures:
            raise ContainerError("remove a container", "; ".join(failures)[:1_000], "the next start retries")

    async def _make_volumes(self, spec: ContainerSpec, input_bytes: int) -> dict[str, str]:
        limits, volume_names = spec.limits, {}
        size_by_folder = {"out": limits.output_bytes, "workspace": limits.workspace_bytes}
        if spec.inputs:
            # Room for the file system's own structures beside the files.
            size_by_folder["in"] = input_bytes + input_bytes // 16 + INPUT_SLACK_BYTES
        for folder_name, secrets_bytes in size_by_folder.items():
            volume_names[folder_name] = await self._workspaces.make(spec.container_id, folder_name, secrets_bytes)
        if spec.secrets:
            secrets_bytes = (
                sum(len(secret_content) + SECRET_BLOCK_BYTES for secret_content in spec.secrets.values()) + 64 * KIB
            )
            volume_names["secrets"] = await self._workspaces.make_in_memory(spec.container_id, "secrets", secrets_bytes)
        return volume_names

    async def _create_container(self, container_name: str, container_config: dict[str, object]) -> None:
        created = await self._door.call(
            "make a container",
            lambda client: client.create_container_from_config(container_config, name=container_name),
        )
        inspected = await self._door.call(
            "inspect a container", lambda client: client.inspect_container(container_name)
        )
        check_made(container_config, created.get("Warnings"), inspected)


@contextlib.contextmanager
def _noting_failures(failures: list[str]) -> Iterator[None]:
    try:
        yield
    except (ContainerError, OSError) as error:
        failures.append(str(error))
