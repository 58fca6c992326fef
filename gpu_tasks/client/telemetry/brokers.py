"""Which provider tells of which slot, and at which broker: slots by the chain, brokers by the provider's own word.

Always: what a provider says of its broker is a stranger's word: it has to be a broker's address that may be connected
to; a slot whose provider names none is said with its reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.endpoint import EndpointError
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.telemetry.broker import BrokerAddress, parse_broker
from wallet.client import ChainClient

TOLD = (
    TaskState.STARTING, TaskState.RUNNING, TaskState.OPENING, TaskState.SUBMITTED, TaskState.SHOWING, TaskState.JUDGED,
)  # fmt: skip
"""States in which somebody has the slots."""


@dataclass(frozen=True, slots=True)
class ToldSlot:
    """A slot of a task, who has it, and where that is heard; or why not."""

    task: bytes
    place: int
    stash: bytes
    broker: BrokerAddress | None
    problem: str | None = None


@dataclass(slots=True)
class BrokerBook:
    """Finds the brokers of tasks. `override` is the broker that the user names, for all of them."""

    client: ChainClient
    blobs: BlobClient
    override: BrokerAddress | None = None

    async def slots(self, tasks: Mapping[bytes, Task]) -> list[ToldSlot]:
        """The slots of these tasks that somebody has."""
        named = [
            (task_id, place, slot.provider)
            for task_id, task in tasks.items()
            if task.state in TOLD
            for place, slot in enumerate(task.slots)
        ]
        stashes = list(dict.fromkeys(stash for _, _, stash in named))
        found = dict(zip(stashes, await asyncio.gather(*map(self._broker, stashes)), strict=True))
        return [ToldSlot(task_id, place, stash, *found[stash]) for task_id, place, stash in named]

    async def answers(self, stash: bytes) -> bool:
        """Whether a provider answers at its endpoint."""
        provider = await market_reads.provider(self.client, stash)
        endpoint = None if provider is None else market_reads.endpoint_of(provider)
        if endpoint is None:
            return False
        try:
            await self.blobs.broker_of(endpoint)
        except BlobError as error:
            return str(error).startswith(("answered", "sent more"))
        return True

    async def _broker(self, stash: bytes) -> tuple[BrokerAddress | None, str | None]:
        if self.override is not None:
            return self.override, None
        provider: Provider | None = await market_reads.provider(self.client, stash)
        endpoint = None if provider is None else market_reads.endpoint_of(provider)
        if endpoint is None:
            return None, "its provider has no endpoint on the chain"
        try:
            text = await self.blobs.broker_of(endpoint)
            return parse_broker(text.strip(), private=market_reads.is_development(self.client)), None
        except BlobError as error:
            return None, f"its provider names no broker: {endpoint} {error}"
        except EndpointError as error:
            return None, f"its provider names a broker that is none: {error}"


async def known_tasks(client: ChainClient, task_ids: tuple[bytes, ...]) -> dict[bytes, Task]:
    """The tasks that the final chain knows."""
    final = await client.finalized()
    found = {task_id: await training_reads.task(client, task_id, final) for task_id in task_ids}
    return {task_id: task for task_id, task in found.items() if task is not None}
