"""What is heard of tasks in a while: opened with the customer's key, at the brokers that providers name."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping

from gpu_tasks.client.telemetry.brokers import TOLD, BrokerBook
from gpu_tasks.client.telemetry.following import TaskHearings
from gpu_tasks.client.telemetry.hearing import HeardNote
from gpu_tasks.client.telemetry.progress import ProgressTable
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.endpoint import EndpointError
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.telemetry.broker import parse_broker
from wallet.client import ChainClient
from wallet.errors import WalletError

LINGER_SECONDS = 1.5
"""Events and lines come over channels of their own, in any order."""

SeeTasks = Callable[[Mapping[bytes, Task]], None]


class BrokerNameError(WalletError):
    """What was named is no broker."""


@contextlib.asynccontextmanager
async def hearings_of(
    client: ChainClient, key: SealKey, task_ids: tuple[bytes, ...], mqtt: str | None, seen: SeeTasks = lambda _: None
) -> AsyncIterator[AsyncIterator[HeardNote]]:
    """What is heard of some tasks; `seen` hears how they stand on the chain. BrokerNameError."""
    private = market_reads.is_development(client)
    override = None
    if mqtt is not None:
        try:
            override = parse_broker(mqtt, private=private)
        except EndpointError as error:
            raise BrokerNameError(f"--mqtt: {error}") from None
    async with BlobClient(private=private) as blobs:
        stream = TaskHearings(BrokerBook(client, blobs, override), key, task_ids, seen).stream()
        async with contextlib.aclosing(stream):
            yield stream


async def for_a_while(hearings: AsyncIterator[HeardNote], seconds: float) -> AsyncIterator[HeardNote]:
    """What is heard in the next seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for hearing in hearings:
                yield hearing


async def live_table(
    client: ChainClient, key: SealKey, task_id: bytes, task: Task, mqtt: str | None, seconds: float
) -> ProgressTable | None:
    """What the providers of a task tell now, after so many seconds or once all have; None where nobody works on it."""
    if task.state not in TOLD or not task.slots:
        return None
    table = ProgressTable()
    table.see({task_id: task})
    async with hearings_of(client, key, (task_id,), mqtt, table.see) as hearings:
        await _fill(table, hearings, seconds)
    table.note_silence(time.time_ns() // 1_000_000, nothing_heard(seconds))
    return table


async def _fill(table: ProgressTable, hearings: AsyncIterator[HeardNote], seconds: float) -> None:
    """For so many seconds, or a little longer than until all slots have told how far they are."""
    now, is_heard = asyncio.get_running_loop().time, False
    end = now() + seconds
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(end) as limit:
            async for hearing in hearings:
                table.take(hearing)
                if table.is_heard() and not is_heard:
                    is_heard = True
                    limit.reschedule(min(end, now() + LINGER_SECONDS))


def nothing_heard(seconds: float) -> str:
    """A sentence."""
    return f"nothing was heard in {seconds:g} s: the provider is gone or silent, or its broker withholds all of it"
