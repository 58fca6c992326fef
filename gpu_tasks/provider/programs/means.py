"""The resources and permissions that this provider gives to programs.

Invariant: without a section of the policy no program runs, and a program gets nothing that the policy does not name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from gpu_tasks.data.inventory import CONTAINER_KIND as CONTAINER_KIND  # noqa: PLC0414  # a policy's word
from gpu_tasks.provider.execution.containers.spec import BOUNDS, ContainerLimits, ContainerPolicy


@dataclass(frozen=True, slots=True)
class ProgramMeans:
    """The maximum of each resource, and the permissions, in a policy for programs."""

    images: tuple[str, ...] = ()
    """Repositories, repositories with a digest, or archives by `sha256:…` of their id."""
    any_archive: bool = False
    """True if archives of any id may run."""
    outbound: bool = False
    cpu_thousandths: int = 2_000
    memory_bytes: int = 2 << 30
    disk_bytes: int = 8 << 30
    processes: int = 1_024
    keep_seconds: int = 3_600
    """The longest time that a lease's workspace is kept after its end, if its customer asks for that."""
    image_disk_bytes: int = 20 << 30
    """The space for all images fetched for tasks."""
    image_age_seconds: int = 7 * 86_400
    """An image that no task used for so long is removed; 0: only when its space is needed."""

    @property
    def has_images(self) -> bool:
        """True if any image may run."""
        return bool(self.images) or self.any_archive

    def container_policy(self, gpus: tuple[str, ...] = ()) -> ContainerPolicy:
        """Return the same limits as rules of the container engine."""
        limits_max = {limit_field.name: BOUNDS[limit_field.name][1] for limit_field in fields(ContainerLimits)}
        container_limits = replace(
            ContainerLimits(**limits_max),
            cpu_thousandths=self.cpu_thousandths,
            memory_bytes=self.memory_bytes,
            processes=self.processes,
            workspace_bytes=self.disk_bytes,
        )
        return ContainerPolicy(
            images=self.images,
            any_archive=self.any_archive,
            outbound=self.outbound,
            greatest=container_limits,
            gpus=gpus,
            image_disk_bytes=self.image_disk_bytes,
            image_age_seconds=self.image_age_seconds,
        )
