"""The container engine of `run`, which opens it if the policy offers containers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.provider.commands.options import ProviderOptions
from gpu_tasks.provider.execution.containers.engine import ContainerEngine, open_engine
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.workloads import Workloads
from gpu_tasks.provider.programs.means import CONTAINER_KIND
from gpu_tasks.provider.tasks.policy import BidPolicy, PolicyError
from gpu_tasks.provider.tasks.policy_file import read_policy

ENGINE_FOLDER = "containers"
NOT_OFFERED = "its policy offers no containers (`ogpu-provider policy --kind container --image REPOSITORY`)"


@dataclass(frozen=True, slots=True)
class Containers:
    """The engine, or the reason for none."""

    engine: ContainerEngine | None
    why_not: str = ""


@contextlib.asynccontextmanager
async def closing_containers(containers: Containers) -> AsyncIterator[None]:
    """Remove the running containers at the end, and close the connection."""
    try:
        yield
    finally:
        # Containers are children of Docker and not of the daemon, so they would run on after its end.
        if containers.engine is not None:
            await containers.engine.close()


def bidding_kinds() -> tuple[str, ...]:
    """Return the kinds of tasks: the names of workloads in steps, and containers."""
    return (*Workloads().stepwise, CONTAINER_KIND)


def policy_of(options: ProviderOptions) -> BidPolicy:
    """Read the base path's policy. A missing or damaged file bids for nothing."""
    try:
        return read_policy(options.base_path, bidding_kinds())
    except PolicyError:  # the daemon tells it, and reads it again when it changes
        return BidPolicy()


def offers_containers(policy: BidPolicy) -> bool:
    """Return True if the policy offers containers."""
    return CONTAINER_KIND in policy.kinds and policy.containers.has_images


async def containers_for(policy: BidPolicy, base_path: Path, workers: WorkerPool, engine_address: str) -> Containers:
    """Open the container engine, if the present policy offers containers and this machine has one."""
    if not offers_containers(policy):
        return Containers(None, NOT_OFFERED)
    # By UUID: NVIDIA's indices can change between boots, and would give a container another card.
    gpu_uuids = tuple(hardware.uuid for hardware in workers.hardware if hardware.index is not None)
    try:
        container_policy = policy.containers.container_policy(gpu_uuids)
        return Containers(await open_engine(base_path / ENGINE_FOLDER, container_policy, engine_address))
    except (ContainerError, OSError) as error:
        return Containers(None, str(error))
