"""All brokers of some tasks, as slots change hands: one stream of notes, and a row for each slot.

Invariant: facts of the chain and claims of the provider have separate columns. No note changes the first, and a problem
with a broker appears beside its data.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from gpu_tasks.client.tasks.records import task_view
from gpu_tasks.client.tasks.subscriber import (
    LASTING,
    TOLD,
    BrokerBook,
    BrokerListener,
    BrokerTrouble,
    HeardNote,
    ToldSlot,
    known_tasks,
    seconds_left,
)
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.endpoint import EndpointError
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.training.tasks import Task, is_open
from gpu_tasks.telemetry.broker import BrokerAddress, parse_broker
from gpu_tasks.telemetry.notes import EventNote, LogNote, ProgressNote
from wallet.client import ChainClient
from wallet.errors import WalletError

CHAIN_COLUMNS = ("task", "place", "state", "milestones")
"""The facts of the chain."""
TOLD_COLUMNS = (
    "event", "done", "total", "percent", "seconds_left", "gpu_percent", "memory_mib", "celsius", "watts",
    "heard_seconds_ago", "last_line",
)  # fmt: skip
"""The unproven claims of the provider."""
PROGRESS_COLUMNS = (*CHAIN_COLUMNS, *TOLD_COLUMNS, "trouble", "problem")
SHOWN_COLUMNS = (
    *CHAIN_COLUMNS, "event", "percent", "seconds_left", "gpu_percent", "memory_mib", "celsius", "watts",
    "heard_seconds_ago", "last_line", "problem",
)  # fmt: skip
"""The columns for people."""
WHOSE_WORD = "state and milestones are the chain's; the rest is what providers tell, and nothing proves it"
ROWS_MAX = 4_096
LINES_KEPT = 5
SAID_FOR_MS = 60_000
"""The time for which a broker's lie, delay or loss is shown after its last occurrence."""
MIB = 1024 * 1024


@dataclass(slots=True)
class _SlotNotes:
    state: str | None = None
    milestones: str | None = None
    heard_ms: int = 0
    event: str | None = None
    progress: ProgressNote | None = None
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    problem: str | None = None
    trouble: BrokerTrouble | None = None
    said_ms: int = 0

    def problem_at(self, now_ms: int) -> tuple[BrokerTrouble | None, str | None]:
        """Return the current problem with the notes."""
        is_over = self.trouble not in LASTING and now_ms - self.said_ms > SAID_FOR_MS
        return (None, None) if is_over else (self.trouble, self.problem)


@dataclass(slots=True)
class ProgressTable:
    """The newest data of each slot. Silence is shown until a note arrives, and other problems for a minute."""

    _slots: dict[tuple[bytes, int], _SlotNotes] = field(default_factory=dict)

    def see(self, tasks: Mapping[bytes, Task]) -> None:
        """Take the tasks' state on the chain. All assigned slots get a row."""
        for task_id, task in tasks.items():
            view = task_view(task_id, task)
            for place in range(len(task.slots)):
                slot = self._slot((task_id, place))
                if slot is not None:
                    slot.state, slot.milestones = view.state, view.milestones

    def take(self, hearing: HeardNote) -> None:
        """Take a note or a problem."""
        if hearing.place is None:
            for (task, _), each in self._slots.items():
                if task == hearing.task:
                    _note_problem(each, hearing)
            return
        slot = self._slot((hearing.task, hearing.place))
        if slot is None:
            return
        if hearing.note is None:
            _note_problem(slot, hearing)
            return
        if slot.trouble is None or slot.trouble in LASTING:
            slot.trouble, slot.problem = None, None
        slot.heard_ms = max(slot.heard_ms, hearing.at_ms)
        match hearing.note:
            case EventNote():
                slot.event = hearing.note.event
            case ProgressNote():
                slot.progress = hearing.note
            case LogNote():
                slot.lines.extend(line.text for line in hearing.note.lines)
            case _:
                pass

    def note_silence(self, now_ms: int, text: str) -> None:
        """Mark each slot without notes or another problem as silent."""
        for slot in self._slots.values():
            if not slot.heard_ms and slot.problem is None:
                slot.problem, slot.trouble, slot.said_ms = text, BrokerTrouble.SILENT, now_ms

    def is_heard(self) -> bool:
        """Return True if each slot has reported its progress."""
        return bool(self._slots) and all(each.progress is not None for each in self._slots.values())

    def rows(self, now_ms: int) -> list[dict[str, Any]]:
        """Return a row for each slot. None stands for an unknown value."""
        return [_slot_row(task, place, slot, now_ms) for (task, place), slot in sorted(self._slots.items())]

    def lines(self) -> dict[int, list[str]]:
        """Return the last lines of the one task's programs by place, the oldest first."""
        return {place: list(slot.lines) for (_, place), slot in sorted(self._slots.items()) if slot.lines}

    def _slot(self, slot_key: tuple[bytes, int]) -> _SlotNotes | None:
        if slot_key not in self._slots and len(self._slots) >= ROWS_MAX:
            return None
        return self._slots.setdefault(slot_key, _SlotNotes())


def _note_problem(slot: _SlotNotes, hearing: HeardNote) -> None:
    slot.problem, slot.trouble, slot.said_ms = hearing.problem, hearing.trouble, hearing.at_ms


def _slot_row(task: bytes, place: int, slot: _SlotNotes, now_ms: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PROGRESS_COLUMNS)
    trouble, problem = slot.problem_at(now_ms)
    row |= {"task": task, "place": place, "state": slot.state, "milestones": slot.milestones, "event": slot.event}
    row |= {"trouble": None if trouble is None else trouble.name.lower(), "problem": problem}
    row["last_line"] = slot.lines[-1] if slot.lines else None
    if slot.heard_ms:
        row["heard_seconds_ago"] = max(0, now_ms - slot.heard_ms) // 1_000
    note = slot.progress
    if note is None:
        return row
    row |= {"done": note.done, "total": note.total, "seconds_left": seconds_left(note)}
    row["percent"] = 100 * note.done // note.total if note.total else None
    meter = note.meter
    if meter.memory_bytes:
        row |= {"gpu_percent": meter.busy_percent, "memory_mib": meter.memory_bytes // MIB}
        row |= {"celsius": meter.temperature_celsius, "watts": meter.power_milliwatts // 1_000}
    return row


LOOK_SECONDS = 2.0
"""The interval between reads of the slots on the chain."""
SILENCE_SECONDS = 35.0
"""The time after which a provider is silent. It beats every ten seconds."""
HEARINGS_MAX = 1_024


@dataclass(slots=True)
class TaskHearings:
    """All notes about some tasks, until all have ended in the final chain."""

    book: BrokerBook
    seal_key: SealKey
    task_ids: tuple[bytes, ...]
    seen: Callable[[Mapping[bytes, Task]], None] = lambda _: None
    """A function that receives the tasks' state at each read of the final chain."""
    # A full queue makes the listeners wait, so a flood cannot fill the memory.
    _queue: asyncio.Queue[HeardNote | None] = field(default_factory=lambda: asyncio.Queue(HEARINGS_MAX))
    _listeners: dict[BrokerAddress, tuple[BrokerListener, asyncio.Task[NoReturn]]] = field(default_factory=dict)
    _heard_at: dict[tuple[bytes, int], float] = field(default_factory=dict)
    _said: dict[tuple[bytes, int], str] = field(default_factory=dict)

    async def stream(self) -> AsyncGenerator[HeardNote, None]:
        """Yield the notes as they arrive."""
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
        slots_by_broker: dict[BrokerAddress, dict[tuple[bytes, int], ToldSlot]] = {}
        for slot in slots:
            if slot.broker is not None:
                slots_by_broker.setdefault(slot.broker, {})[slot.task, slot.place] = slot
                self._heard_at.setdefault((slot.task, slot.place), time.monotonic())
        # In parallel: a silent provider may also answer slowly.
        await asyncio.gather(*(self._notice_silence(slot) for slot in slots if slot.broker is not None))
        for broker, broker_slots in slots_by_broker.items():
            self._listen_at(broker, broker_slots)
        for broker in [broker for broker in self._listeners if broker not in slots_by_broker]:
            _, task = self._listeners.pop(broker)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _listen_at(self, broker: BrokerAddress, broker_slots: dict[tuple[bytes, int], ToldSlot]) -> None:
        if broker in self._listeners:
            listener, task = self._listeners[broker]
            if task.done():
                # A listener never returns, so this raises the error that ended it.
                task.result()
            if listener.slots != broker_slots:
                listener.slots = broker_slots
                listener.again.set()
            return
        listener = BrokerListener(
            broker, self.book.client, self.seal_key, self._queue.put, broker_slots, self._heard_at
        )
        self._listeners[broker] = (listener, asyncio.create_task(listener.run()))

    async def _notice_silence(self, slot: ToldSlot) -> None:
        """Report silence once, and whether the provider itself still answers."""
        silent_seconds = time.monotonic() - self._heard_at[slot.task, slot.place]
        if silent_seconds < SILENCE_SECONDS or slot.broker is None:
            await self._say_if_new(slot, None, BrokerTrouble.SILENT)
            return
        url = slot.broker.url
        trouble = BrokerTrouble.SILENT
        if await self.book.answers(slot.stash):
            trouble = BrokerTrouble.GONE
            text = f"no messages come, but the provider answers: its broker {url} is unreachable, or withholds them"
        else:
            text = f"no messages come, and the provider does not answer either (broker {url})"
        await self._say_if_new(slot, text, trouble)

    async def _say_if_new(self, slot: ToldSlot, problem: str | None, trouble: BrokerTrouble) -> None:
        slot_key = (slot.task, slot.place)
        if problem is None:
            self._said.pop(slot_key, None)
        elif self._said.get(slot_key) != problem:
            self._said[slot_key] = problem
            now_ms = time.time_ns() // 1_000_000
            await self._queue.put(HeardNote(slot.task, slot.place, now_ms, problem=problem, trouble=trouble))


LINGER_SECONDS = 1.5
"""The wait for further notes. Events and lines use separate channels, in any order."""

SeeTasks = Callable[[Mapping[bytes, Task]], None]


class BrokerNameError(WalletError):
    """The text is no broker's address."""


@contextlib.asynccontextmanager
async def hearings_of(
    client: ChainClient, key: SealKey, task_ids: tuple[bytes, ...], mqtt: str | None, seen: SeeTasks = lambda _: None
) -> AsyncIterator[AsyncIterator[HeardNote]]:
    """Provide the notes about some tasks.

    `seen` receives their state on the chain. Raise BrokerNameError for a bad `mqtt`.
    """
    private = market_reads.is_development(client)
    override = None
    if mqtt is not None:
        try:
            override = parse_broker(mqtt, is_private_allowed=private)
        except EndpointError as error:
            raise BrokerNameError(f"--mqtt: {error}", code="invalid_broker") from None
    async with BlobClient(private=private) as blob_client:
        stream = TaskHearings(BrokerBook(client, blob_client, override), key, task_ids, seen).stream()
        async with contextlib.aclosing(stream):
            yield stream


async def for_a_while(hearings: AsyncIterator[HeardNote], seconds: float) -> AsyncIterator[HeardNote]:
    """Yield the notes of the next seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for hearing in hearings:
                yield hearing


async def live_table(
    client: ChainClient, key: SealKey, task_id: bytes, task: Task, mqtt: str | None, seconds: float
) -> ProgressTable | None:
    """Return the providers' current notes about a task, or None if it has no provider.

    It waits for `seconds`, or less if all slots have reported.
    """
    if task.state not in TOLD or not task.slots:
        return None
    table = ProgressTable()
    table.see({task_id: task})
    async with hearings_of(client, key, (task_id,), mqtt, table.see) as hearings:
        await _fill_table(table, hearings, seconds)
    table.note_silence(time.time_ns() // 1_000_000, nothing_heard(seconds))
    return table


async def _fill_table(table: ProgressTable, hearings: AsyncIterator[HeardNote], seconds: float) -> None:
    """Take notes for `seconds`, or until shortly after all slots have reported their progress."""
    clock, is_heard = asyncio.get_running_loop().time, False
    deadline = clock() + seconds
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(deadline) as limit:
            async for hearing in hearings:
                table.take(hearing)
                if table.is_heard() and not is_heard:
                    is_heard = True
                    limit.reschedule(min(deadline, clock() + LINGER_SECONDS))


def nothing_heard(seconds: float) -> str:
    """Return a sentence about the silence."""
    return f"no messages came in {seconds:g} s: the provider is offline, or its broker withholds them"
