"""The resources of duties: identity, chain, journal, devices and blobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.provider.blobs.inputs import Inputs
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.provider.chain.port import Identity, RacePort
from gpu_tasks.provider.earnings import EarningsBook, LossBook
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.workloads import UnknownWorkloadError
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.pause_book import PauseBook
from gpu_tasks.provider.telemetry import Telemetry
from gpu_tasks.provider.watching.broadcast import TaskWatch
from gpu_tasks.workloads.form import WorkloadForm

PortT_co = TypeVar("PortT_co", covariant=True)
"""The port of the chain that a duty uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Generic[PortT_co]):
    """One of each resource. A daemon creates them once, and its duties share them."""

    identity: Identity
    chain: PortT_co
    journal: Journal
    workers: WorkerPool
    inputs: Inputs
    store: BlobStore
    blobs: BlobClient
    telemetry: Telemetry
    earnings: EarningsBook
    losses: LossBook
    pauses: PauseBook
    watch: TaskWatch = field(default_factory=TaskWatch)

    async def form_of(self: Parts[RacePort], unit: Unit) -> WorkloadForm:
        """Return the workload of a unit's service.

        Raise ExecutionError if this daemon does not have it, or ChainError.
        """
        service_terms = (await self.chain.service(unit.service)).terms
        try:
            return self.workers.workloads.of(service_terms)
        except UnknownWorkloadError as error:
            raise ExecutionError(f"service {unit.service}: {error}", code=error.code) from None
