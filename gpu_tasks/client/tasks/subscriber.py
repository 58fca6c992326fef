"""One broker of providers' notes, while it is of use: its slots, and its opened messages.

Invariants:

* A provider's broker is a stranger's claim. It must be a broker's address that may be connected to. A slot without one
  has a reason.
* No unsigned message counts. The program looks up the keys of slot owners on the chain, and no other keys.
* Messages beyond a bounded rate are dropped.
* A lost broker is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NoReturn

import aiomqtt

from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.endpoint import EndpointError
from gpu_tasks.data.program_left import LogLine
from gpu_tasks.data.sealing import SealError, SealKey
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.telemetry.broker import BROKER_ERRORS, BrokerAddress, broker_connection, parse_broker, take_overflow
from gpu_tasks.telemetry.envelope import Channel, ProviderSubject, TaskSubject, TelemetryMessage, TelemetryTopics
from gpu_tasks.telemetry.ledger import NOT_ITS, HeardMessage, MessageFault, TelemetryLedger, UnknownTellerError
from gpu_tasks.telemetry.notes import (
    NOTE,
    BeatNote,
    DeviceMeter,
    EventNote,
    LogNote,
    PresenceNote,
    ProgressNote,
    TelemetryNote,
)
from runtime.encoding.codec import DecodeError
from wallet.client import ChainClient

SAID_EACH_MINUTE = 3
"""The reported problems of each kind per minute. Further ones are counted."""
MINUTE = 60.0
KINDS_MAX = 64


class BrokerTrouble(Enum):
    """A problem with a broker or a provider, as a sentence. The name is for programs."""

    LIES = "the broker delivers forged or repeated messages"
    WITHHOLDS = "the broker loses or withholds notes"
    SLOW = "the broker is slow, or a clock is wrong"
    FLOODS = "the broker sends too many messages, and some are dropped unread"
    GONE = "the broker is unreachable, or delivers nothing"
    LEFT = "the broker reports that the provider disconnected"
    SILENT = "the provider sends no messages"
    NO_BROKER = "the provider names no broker"
    THROWN_AWAY = "the provider dropped notes, because its broker accepted none"
    FOREIGN = "the notes are sealed to the key of another customer"


LASTING = (BrokerTrouble.GONE, BrokerTrouble.LEFT, BrokerTrouble.SILENT, BrokerTrouble.NO_BROKER)
"""Problems that end with the next note. One note says nothing about the others."""


@dataclass(frozen=True, slots=True)
class HeardNote:
    """A note about a slot, or a sentence of this program about a broker. Times are the sender's Unix milliseconds."""

    task: bytes
    place: int | None
    at_ms: int
    note: TelemetryNote | None = None
    problem: str | None = None
    trouble: BrokerTrouble | None = None
    """The kind of problem."""

    def lines(self) -> list[str]:
        """Return the note as lines for people, none for a beat."""
        if self.problem is not None:
            return [f"! {self.problem}"]
        match self.note:
            case EventNote():
                details = " ".join(f"{note_field.name}={note_field.text}" for note_field in self.note.fields)
                return [f"{self.note.event} {details}".rstrip()]
            case LogNote():
                left_out = f"... {self.note.left_out:,} lines left out: they came too fast"
                return [*[left_out] * bool(self.note.left_out), *map(shown_line, self.note.lines)]
            case ProgressNote():
                return [_progress_text(self.note)]
            case _:
                return []

    def row(self) -> dict[str, Any]:
        """Return the note for programs."""
        row: dict[str, Any] = {"task": "0x" + self.task.hex(), "place": self.place, "at_ms": self.at_ms}
        if self.problem is not None:
            trouble = None if self.trouble is None else self.trouble.name.lower()
            return row | {"kind": "problem", "trouble": trouble, "says": self.problem}
        match self.note:
            case EventNote():
                fields = {note_field.name: note_field.text for note_field in self.note.fields}
                return row | {"kind": "event", "event": self.note.event, "fields": fields}
            case LogNote():
                return row | {"kind": "log", **lines_row(self.note.lines, self.note.left_out)}
            case ProgressNote():
                counts = {"done": self.note.done, "total": self.note.total, "step_us": self.note.step_us}
                return row | {"kind": "progress", **counts, **meter_row(self.note.meter)}
            case BeatNote():
                return row | {"kind": "beat"}
            case _:
                return row | {"kind": "other"}


def shown_line(line: LogLine) -> str:
    """Return a line of a program with its stream."""
    return f"{'err' if line.is_error else 'out'} {line.text}"


def lines_row(lines: Sequence[LogLine], left_out: int) -> dict[str, Any]:
    """Return lines of a program, for programs."""
    shown = [{"at_ms": line.at_ms, "error": line.is_error, "text": line.text} for line in lines]
    return {"lines": shown, "left_out": left_out}


def meter_row(meter: DeviceMeter) -> dict[str, int]:
    """Return the readings of a device."""
    return {
        "busy_percent": meter.busy_percent,
        "memory_bytes": meter.memory_bytes,
        "temperature_celsius": meter.temperature_celsius,
        "power_milliwatts": meter.power_milliwatts,
    }


def seconds_left(note: ProgressNote) -> int | None:
    """Return the remaining time at the current pace, or None if it is unknown."""
    return (note.total - note.done) * note.step_us // 1_000_000 if note.step_us and note.done <= note.total else None


def _progress_text(note: ProgressNote) -> str:
    share = f", {100 * note.done // note.total} %" if note.total else ""
    remaining = seconds_left(note)
    text = f"step {note.done:,} of {note.total:,}{share}" + ("" if remaining is None else f", {remaining:,} s left")
    meter = note.meter
    if not meter.memory_bytes:
        return text
    watts, gib = meter.power_milliwatts // 1_000, meter.memory_bytes / 1024**3
    return f"{text}, GPU {meter.busy_percent} %, {gib:.1f} GiB, {meter.temperature_celsius} C, {watts} W"


@dataclass(slots=True)
class Complaints:
    """Limits the reports of each kind of problem to a few a minute, and counts the others."""

    _since: float = field(default_factory=time.monotonic)
    _counts: dict[str, int] = field(default_factory=dict)

    def said(self, kind: str, text: str, now: float) -> list[str]:
        """Return the reports that are due for a problem. `now` is in seconds of a monotonic clock."""
        reports = []
        if now - self._since >= MINUTE:
            reports = [f"{count - SAID_EACH_MINUTE} more: {kind}" for kind, count in self._counts.items()
                    if count > SAID_EACH_MINUTE]  # fmt: skip
            self._since, self._counts = now, {}
        # A broker chooses some of these texts, so the number of kinds is bounded.
        if len(self._counts) >= KINDS_MAX and kind not in self._counts:
            return reports
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return [*reports, text] if self._counts[kind] <= SAID_EACH_MINUTE else reports


TOLD = (
    TaskState.STARTING, TaskState.RUNNING, TaskState.OPENING, TaskState.CLAIMED, TaskState.DISPUTED,
)  # fmt: skip
"""States with assigned slots."""


@dataclass(frozen=True, slots=True)
class ToldSlot:
    """A slot of a task, its owner, and its broker or the reason for none."""

    task: bytes
    place: int
    stash: bytes
    broker: BrokerAddress | None
    problem: str | None = None


@dataclass(slots=True)
class BrokerBook:
    """Finds the brokers of tasks. `override` is a broker that the user names for all of them."""

    client: ChainClient
    blobs: BlobClient
    override: BrokerAddress | None = None

    async def slots(self, tasks: Mapping[bytes, Task]) -> list[ToldSlot]:
        """Return the assigned slots of these tasks."""
        assigned_slots = [
            (task_id, place, slot.provider)
            for task_id, task in tasks.items()
            if task.state in TOLD
            for place, slot in enumerate(task.slots)
        ]
        stashes = list(dict.fromkeys(stash for _, _, stash in assigned_slots))
        brokers_by_stash = dict(zip(stashes, await asyncio.gather(*map(self._broker, stashes)), strict=True))
        return [ToldSlot(task_id, place, stash, *brokers_by_stash[stash]) for task_id, place, stash in assigned_slots]

    async def answers(self, stash: bytes) -> bool:
        """Return True if a provider answers at its endpoint."""
        provider = await market_reads.provider(self.client, stash)
        endpoint = None if provider is None else market_reads.endpoint_of(provider)
        if endpoint is None:
            return False
        try:
            await self.blobs.broker_of(endpoint)
        except BlobError as error:
            return error.is_answer
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
            # A provider must not make its customers connect to machines of their own network.
            return parse_broker(text.strip(), is_private_allowed=market_reads.is_development(self.client)), None
        except BlobError as error:
            return None, f"its provider names no broker: {endpoint} {error}"
        except EndpointError as error:
            return None, f"its provider names an invalid broker address: {error}"


async def known_tasks(client: ChainClient, task_ids: tuple[bytes, ...]) -> dict[bytes, Task]:
    """Return the tasks that the final chain knows."""
    final_hash = await client.finalized()
    tasks_by_id = {task_id: await training_reads.task(client, task_id, final_hash) for task_id in task_ids}
    return {task_id: task for task_id, task in tasks_by_id.items() if task is not None}


RECONNECT_SECONDS = (1.0, 2.0, 5.0, 10.0)
FLOOD_SECONDS = 5.0
KEY_SECONDS = 5.0
"""The least time between look-ups of a provider's key, which may have changed."""
LOOKED_AT_MAX = 500
"""The most messages read per second. Checking a signature takes 45 us."""

TakeHeard = Callable[[HeardNote], Awaitable[None]]


@dataclass(slots=True)
class BrokerListener:
    """Listens to one broker. `slots` may change during that, and `again` triggers a new subscription."""

    address: BrokerAddress
    client: ChainClient
    seal_key: SealKey
    tell: TakeHeard
    slots: dict[tuple[bytes, int], ToldSlot]
    heard_at: dict[tuple[bytes, int], float]
    """The time of a slot's last note, by `time.monotonic`."""
    again: asyncio.Event = field(default_factory=asyncio.Event)
    _owners: dict[bytes, bytes | None] = field(default_factory=dict)
    _keys: dict[bytes, tuple[bytes | None, float]] = field(default_factory=dict)
    """The provider key of each stash, and the time of its look-up."""
    _complaints: Complaints = field(default_factory=Complaints)
    _second: tuple[int, int] = (0, 0)
    """A second, and the number of messages read in it."""

    async def run(self) -> NoReturn:
        """Listen for ever."""
        topics = TelemetryTopics(self.client.genesis_hash)
        ledger = TelemetryLedger(topics, self._owners)
        failures = 0
        while True:
            try:
                private = market_reads.is_development(self.client)
                async with broker_connection(self.address, private=private) as connection:
                    failures = 0
                    await self._listen(connection, topics, ledger)
            except BROKER_ERRORS as error:
                await self._complain(
                    BrokerTrouble.GONE, "gone", f"the broker {self.address.url} is unreachable ({error}). ogpu retries"
                )
            await asyncio.sleep(RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)])
            failures += 1

    async def _listen(self, connection: aiomqtt.Client, topics: TelemetryTopics, ledger: TelemetryLedger) -> None:
        """Listen until the slots change, or the connection ends."""
        self.again.clear()
        filters = {topics.task(slot.task) for slot in self.slots.values()}
        filters |= {topics.of(ProviderSubject(slot.stash), Channel.STATUS) for slot in self.slots.values()}
        ledger.subscribed()
        await connection.subscribe([(each, 1) for each in sorted(filters)])
        changed = asyncio.create_task(self.again.wait())
        reading = asyncio.create_task(self._read(connection, ledger))
        try:
            while not changed.done() and not reading.done():
                await asyncio.wait((changed, reading), timeout=FLOOD_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                await self._notice_flood(connection)
            if reading.done():
                reading.result()
        finally:
            changed.cancel()
            reading.cancel()
            await asyncio.gather(changed, reading, return_exceptions=True)

    async def _notice_flood(self, connection: aiomqtt.Client) -> None:
        lost = take_overflow(connection)
        if lost:
            problem = f"{self.address.url} floods this reader: {lost:,} messages were dropped unread"
            await self._complain(BrokerTrouble.FLOODS, "flood", problem)

    async def _read(self, connection: aiomqtt.Client, ledger: TelemetryLedger) -> None:
        async for message in connection.messages:
            if not await self._has_room():
                continue
            await self._take(ledger, str(message.topic), bytes(message.payload), is_retained=bool(message.retain))

    async def _has_room(self) -> bool:
        """Return True if one more message may be read in this second."""
        second = int(time.monotonic())
        count = self._second[1] + 1 if self._second[0] == second else 1
        self._second = (second, count)
        if count == LOOKED_AT_MAX + 1:
            problem = (
                f"{self.address.url} floods this reader: beyond {LOOKED_AT_MAX} messages a second, all are dropped"
            )
            await self._complain(BrokerTrouble.FLOODS, "flood", problem)
        return count <= LOOKED_AT_MAX

    async def _take(self, ledger: TelemetryLedger, topic: str, message_bytes: bytes, *, is_retained: bool) -> None:
        if not message_bytes:
            # An empty message withdraws a retained one, by MQTT's rules.
            return
        now_ms = time.time_ns() // 1_000_000
        teller = self._teller(ledger.topics, topic)
        try:
            heard = ledger.take(topic, message_bytes, teller, now_ms, is_retained=is_retained)
        except UnknownTellerError as error:
            if teller is not None and await self._is_key_of(teller, error.provider_key):
                heard = ledger.take(topic, message_bytes, teller, now_ms, is_retained=is_retained)
            else:
                heard = NOT_ITS
        if heard is not None:
            await self._tell_heard(heard, ledger)

    async def _is_key_of(self, stash: bytes, provider_key: bytes) -> bool:
        """Return True if an unknown key works for a stash.

        Keys of strangers cause no look-up, at any rate of messages.
        """
        known, looked_at = self._keys.get(stash, (None, -KEY_SECONDS))
        if time.monotonic() - looked_at >= KEY_SECONDS:
            key = await market_reads.provider_key_of(self.client, stash)
            if key != known and known is not None:
                self._owners.pop(known, None)
            self._keys[stash] = (key, time.monotonic())
            if key is not None:
                self._owners[key] = stash
        return self._owners.get(provider_key) == stash

    def _teller(self, topics: TelemetryTopics, topic: str) -> bytes | None:
        """Return the stash that alone may write to a topic."""
        parts = topic.removeprefix(topics.base + "/").split("/")
        with contextlib.suppress(ValueError, IndexError):
            if parts[0] == "tasks":
                slot = self.slots.get((bytes.fromhex(parts[1]), int(parts[2])))
                return None if slot is None else slot.stash
            if parts[0] == "providers":
                stash = bytes.fromhex(parts[1])
                return stash if any(slot.stash == stash for slot in self.slots.values()) else None
        return None

    async def _tell_heard(self, heard: HeardMessage, ledger: TelemetryLedger) -> None:
        if heard.fault is not None:
            trouble = BrokerTrouble.FLOODS if heard.fault is MessageFault.IGNORED else BrokerTrouble.LIES
            await self._complain(trouble, heard.fault.value, f"{self.address.url}: {heard.problem}")
        message = heard.message
        if message is None:
            return
        note = self._opened(message)
        subject = message.subject
        if isinstance(subject, ProviderSubject):
            if isinstance(note, PresenceNote) and not note.is_here:
                problem = f"{self.address.url} reports that the provider disconnected"
                await self._complain(BrokerTrouble.LEFT, "gone", problem)
            return
        assert isinstance(subject, TaskSubject), "only providers and tasks are subscribed to"
        self.heard_at[subject.task, subject.place] = time.monotonic()
        for trouble, kind, problem in _oddities(heard, note, ledger):
            await self._complain(trouble, kind, f"{self.address.url}: {problem}")
        if note is None:
            problem = "a message is not sealed to this key, because the task belongs to another customer"
            await self._complain(BrokerTrouble.FOREIGN, "sealed", problem)
        else:
            await self.tell(HeardNote(subject.task, subject.place, message.told_at_ms, note))

    def _opened(self, message: TelemetryMessage) -> TelemetryNote | None:
        """Return the note of a message, or None if this key cannot open it, or it is invalid."""
        try:
            is_sealed = isinstance(message.subject, TaskSubject)
            note: TelemetryNote = NOTE.decode(
                self.seal_key.open_note(message.payload) if is_sealed else message.payload
            )
        except (SealError, DecodeError):
            return None
        return note

    async def _complain(self, trouble: BrokerTrouble, kind: str, problem: str) -> None:
        """Report a problem for each slot's task, within the limits."""
        now_ms = time.time_ns() // 1_000_000
        for said in self._complaints.said(kind, problem, time.monotonic()):
            for task in dict.fromkeys(task for task, _ in self.slots):
                await self.tell(HeardNote(task, None, now_ms, problem=said, trouble=trouble))


def _oddities(
    heard: HeardMessage, note: TelemetryNote | None, ledger: TelemetryLedger
) -> list[tuple[BrokerTrouble, str, str]]:
    """Return the oddities of a valid message: the problem, its kind for the limits, and a sentence."""
    oddities = []
    if heard.missing:
        problem = f"{heard.missing:,} messages before this one were not delivered"
        oddities.append((BrokerTrouble.WITHHOLDS, "missing", problem))
    if heard.dropped:
        problem = f"the provider dropped {heard.dropped:,} notes before this one, because its broker accepted none"
        oddities.append((BrokerTrouble.THROWN_AWAY, "dropped", problem))
    if heard.late_ms:
        problem = f"a message came {heard.late_ms // 1_000:,} s late: the broker is slow, or a clock is wrong"
        oddities.append((BrokerTrouble.SLOW, "late", problem))
    message = heard.message
    if isinstance(note, BeatNote) and message is not None and isinstance(message.subject, TaskSubject):
        for channel, stated_count in ((Channel.LOG, note.logs), (Channel.METRICS, note.progress)):
            newest = ledger.newest(message.provider_key, message.subject, channel, message.session)
            if newest and stated_count > newest:
                problem = f"{stated_count - newest:,} messages of the {channel.name.lower()} are withheld"
                oddities.append((BrokerTrouble.WITHHOLDS, f"withheld {channel.name}", problem))
    return oddities
