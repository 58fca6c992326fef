"""All brokers of some tasks, as slots change hands: what is heard, in one stream; and silence, with what it means."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from gpu_tasks.client.telemetry.brokers import TOLD, BrokerBook, ToldSlot, known_tasks
from gpu_tasks.client.telemetry.messages import BrokerTrouble, HeardNote
from gpu_tasks.client.telemetry.progress import ProgressTable
from gpu_tasks.client.telemetry.subscriber import BrokerListener
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.endpoint import EndpointError
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.training.tasks import Task, is_open
from gpu_tasks.telemetry.broker import BrokerAddress, parse_broker
from wallet.client import ChainClient
from wallet.errors import WalletError

LOOK_SECONDS = 2.0
"""How often the chain is asked who has the slots."""
SILENCE_SECONDS = 35.0
"""A provider beats every ten."""
HEARINGS_MAX = 1_024


@dataclass(slots=True)
class TaskHearings:
    """Everything that is heard of some tasks until all have ended in the final chain."""

    book: BrokerBook
    seal_key: SealKey
    task_ids: tuple[bytes, ...]
    seen: Callable[[Mapping[bytes, Task]], None] = lambda _: None
    """Hears how the tasks stand on the final chain, each time that it is looked at."""
    _queue: asyncio.Queue[HeardNote | None] = field(default_factory=lambda: asyncio.Queue(HEARINGS_MAX))
    _listeners: dict[BrokerAddress, tuple[BrokerListener, asyncio.Task[NoReturn]]] = field(default_factory=dict)
    _heard_at: dict[tuple[bytes, int], float] = field(default_factory=dict)
    _said: dict[tuple[bytes, int], str] = field(default_factory=dict)

    async def stream(self) -> AsyncGenerator[HeardNote, None]:
        """What is heard, as it is heard."""
        looking = asyncio.create_task(self._look_again_and_again())
        try:
            while (hearing := await self._queue.get()) is not None:
                yield hearing
            await looking
        finally:
            running = [looking, *(task for _, task in self._listeners.values())]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _look_again_and_again(self) -> None:
        try:
            while True:
                tasks = await known_tasks(self.book.client, self.task_ids)
                self.seen(tasks)
                await self._listen_to(await self.book.slots(tasks))
                if not any(is_open(task) for task in tasks.values()):
                    return
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await self._queue.put(None)

    async def _listen_to(self, slots: list[ToldSlot]) -> None:
        for slot in slots:
            await self._say_if_new(slot, slot.problem, BrokerTrouble.NO_BROKER)
        wanted: dict[BrokerAddress, dict[tuple[bytes, int], ToldSlot]] = {}
        for slot in slots:
            if slot.broker is not None:
                wanted.setdefault(slot.broker, {})[slot.task, slot.place] = slot
                self._heard_at.setdefault((slot.task, slot.place), time.monotonic())
        # side by side: whoever is silent may take its time to answer too
        await asyncio.gather(*(self._notice_silence(slot) for slot in slots if slot.broker is not None))
        for broker, told in wanted.items():
            self._listen_at(broker, told)
        for broker in [broker for broker in self._listeners if broker not in wanted]:
            _, task = self._listeners.pop(broker)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _listen_at(self, broker: BrokerAddress, told: dict[tuple[bytes, int], ToldSlot]) -> None:
        if broker in self._listeners:
            listener, task = self._listeners[broker]
            if task.done():
                task.result()
            if listener.slots != told:
                listener.slots = told
                listener.again.set()
            return
        listener = BrokerListener(broker, self.book.client, self.seal_key, self._queue.put, told, self._heard_at)
        self._listeners[broker] = (listener, asyncio.create_task(listener.run()))

    async def _notice_silence(self, slot: ToldSlot) -> None:
        """Say once that nothing is heard, and whether the provider itself still answers."""
        silent = time.monotonic() - self._heard_at[slot.task, slot.place]
        if silent < SILENCE_SECONDS or slot.broker is None:
            await self._say_if_new(slot, None, BrokerTrouble.SILENT)
            return
        url = slot.broker.url
        trouble = BrokerTrouble.SILENT
        if await self.book.answers(slot.stash):
            trouble = BrokerTrouble.GONE
            text = f"nothing is heard, but the provider answers: its broker {url} is gone, or holds everything back"
        else:
            text = f"nothing is heard, and the provider does not answer either (broker {url})"
        await self._say_if_new(slot, text, trouble)

    async def _say_if_new(self, slot: ToldSlot, problem: str | None, trouble: BrokerTrouble) -> None:
        here = (slot.task, slot.place)
        if problem is None:
            self._said.pop(here, None)
        elif self._said.get(here) != problem:
            self._said[here] = problem
            now_ms = time.time_ns() // 1_000_000
            await self._queue.put(HeardNote(slot.task, slot.place, now_ms, problem=problem, trouble=trouble))


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
