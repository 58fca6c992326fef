"""One broker, as long as it is of use: what it hands over of some slots, opened, and what is to be said of it.

Always: nothing that a broker hands over is believed unsigned; the keys of those who have the slots are looked up on the
chain, those of others never; messages beyond a bounded rate are not looked at; a broker that is gone is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NoReturn

import aiomqtt

from gpu_tasks.client.telemetry.brokers import ToldSlot
from gpu_tasks.client.telemetry.messages import BrokerTrouble, Complaints, HeardNote
from gpu_tasks.data import market_reads
from gpu_tasks.data.sealing import SealError, SealKey
from gpu_tasks.telemetry.broker import BROKER_ERRORS, BrokerAddress, broker_connection, take_overflow
from gpu_tasks.telemetry.envelope import Channel, ProviderSubject, TaskSubject, TelemetryMessage, TelemetryTopics
from gpu_tasks.telemetry.ledger import NOT_ITS, HeardMessage, TelemetryLedger, UnknownTellerError
from gpu_tasks.telemetry.notes import NOTE, BeatNote, PresenceNote, TelemetryNote
from runtime.encoding.codec import DecodeError
from wallet.client import ChainClient

RECONNECT_SECONDS = (1.0, 2.0, 5.0, 10.0)
FLOOD_SECONDS = 5.0
KEY_SECONDS = 5.0
"""Before the key of a provider is looked up again, which may have changed it."""
LOOKED_AT_MAX = 500
"""Messages a second; a signature is checked in 45 us."""

TakeHeard = Callable[[HeardNote], Awaitable[None]]


@dataclass(slots=True)
class BrokerListener:
    """Listens to one broker. `slots` may be changed while it does; `again` has it subscribe to what they are now."""

    address: BrokerAddress
    client: ChainClient
    seal_key: SealKey
    tell: TakeHeard
    slots: dict[tuple[bytes, int], ToldSlot]
    heard_at: dict[tuple[bytes, int], float]
    """When a slot was last heard of, by `time.monotonic`."""
    again: asyncio.Event = field(default_factory=asyncio.Event)
    _owners: dict[bytes, bytes | None] = field(default_factory=dict)
    _keys: dict[bytes, tuple[bytes | None, float]] = field(default_factory=dict)
    """By stash the key that works for it, and when that was looked up."""
    _complaints: Complaints = field(default_factory=Complaints)
    _second: tuple[int, int] = (0, 0)
    """A second, and how many messages were looked at in it."""

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
                    BrokerTrouble.GONE, "gone", f"the broker {self.address.url} is gone ({error}); trying again"
                )
            await asyncio.sleep(RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)])
            failures += 1

    async def _listen(self, connection: aiomqtt.Client, topics: TelemetryTopics, ledger: TelemetryLedger) -> None:
        """Until the slots change, or the connection ends."""
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
            text = f"{self.address.url} floods: {lost:,} messages were not looked at"
            await self._complain(BrokerTrouble.FLOODS, "flood", text)

    async def _read(self, connection: aiomqtt.Client, ledger: TelemetryLedger) -> None:
        async for message in connection.messages:
            if not await self._has_room():
                continue
            await self._take(ledger, str(message.topic), bytes(message.payload), is_retained=bool(message.retain))

    async def _has_room(self) -> bool:
        """Whether one more message is looked at in this second."""
        second = int(time.monotonic())
        count = self._second[1] + 1 if self._second[0] == second else 1
        self._second = (second, count)
        if count == LOOKED_AT_MAX + 1:
            text = f"{self.address.url} floods: beyond {LOOKED_AT_MAX} a second, messages are not looked at"
            await self._complain(BrokerTrouble.FLOODS, "flood", text)
        return count <= LOOKED_AT_MAX

    async def _take(self, ledger: TelemetryLedger, topic: str, raw: bytes, *, is_retained: bool) -> None:
        if not raw:
            return  # a kept message that was taken back
        now_ms = time.time_ns() // 1_000_000
        teller = self._teller(ledger.topics, topic)
        try:
            heard = ledger.take(topic, raw, teller, now_ms, is_retained=is_retained)
        except UnknownTellerError as error:
            if teller is not None and await self._is_key_of(teller, error.provider_key):
                heard = ledger.take(topic, raw, teller, now_ms, is_retained=is_retained)
            else:
                heard = HeardMessage(problem=NOT_ITS)
        if heard is not None:
            await self._tell_heard(heard, ledger)

    async def _is_key_of(self, stash: bytes, provider_key: bytes) -> bool:
        """Whether a key that was not known works for a stash: of strangers' keys, however many, none is looked up."""
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
        """Who alone may tell something there."""
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
        if heard.problem is not None:
            kind = heard.problem.partition(":")[0]
            trouble = BrokerTrouble.FLOODS if kind == "not looked at" else BrokerTrouble.LIES
            await self._complain(trouble, kind, f"{self.address.url}: {heard.problem}")
        message = heard.message
        if message is None:
            return
        note = self._opened(message)
        subject = message.subject
        if isinstance(subject, ProviderSubject):
            if isinstance(note, PresenceNote) and not note.is_here:
                text = f"{self.address.url} says that the provider's connection broke off"
                await self._complain(BrokerTrouble.LEFT, "gone", text)
            return
        assert isinstance(subject, TaskSubject), "nothing else is subscribed to"
        self.heard_at[subject.task, subject.place] = time.monotonic()
        for trouble, text in _odd(heard, note, ledger):
            await self._complain(trouble, text.lstrip("0123456789, "), f"{self.address.url}: {text}")
        if note is None:
            text = "a message is not sealed to this key: it is another customer's task"
            await self._complain(BrokerTrouble.FOREIGN, "sealed", text)
        else:
            await self.tell(HeardNote(subject.task, subject.place, message.told_at_ms, note))

    def _opened(self, message: TelemetryMessage) -> TelemetryNote | None:
        """The note of a message; None where this key does not open it, or it is none."""
        try:
            is_sealed = isinstance(message.subject, TaskSubject)
            note: TelemetryNote = NOTE.decode(
                self.seal_key.open_note(message.payload) if is_sealed else message.payload
            )
        except (SealError, DecodeError):
            return None
        return note

    async def _complain(self, trouble: BrokerTrouble, kind: str, text: str) -> None:
        """Say it of each slot's task, not too often."""
        now_ms = time.time_ns() // 1_000_000
        for said in self._complaints.said(kind, text, time.monotonic()):
            for task in dict.fromkeys(task for task, _ in self.slots):
                await self.tell(HeardNote(task, None, now_ms, problem=said, trouble=trouble))


def _odd(heard: HeardMessage, note: TelemetryNote | None, ledger: TelemetryLedger) -> list[tuple[BrokerTrouble, str]]:
    """What is to be said of a message that counts."""
    found = []
    if heard.missing:
        text = f"{heard.missing:,} messages before this one were not handed over"
        found.append((BrokerTrouble.WITHHOLDS, text))
    if heard.dropped:
        text = f"{heard.dropped:,} notes before this one the provider itself threw away: its broker took none"
        found.append((BrokerTrouble.THROWN_AWAY, text))
    if heard.late_ms:
        text = f"{heard.late_ms // 1_000:,} s late: the broker is slow, or a clock is wrong"
        found.append((BrokerTrouble.SLOW, text))
    message = heard.message
    if isinstance(note, BeatNote) and message is not None and isinstance(message.subject, TaskSubject):
        for channel, told in ((Channel.LOG, note.logs), (Channel.METRICS, note.progress)):
            newest = ledger.newest(message.provider_key, message.subject, channel, message.session)
            if newest and told > newest:
                text = f"{told - newest:,} messages of the {channel.name.lower()} are held back"
                found.append((BrokerTrouble.WITHHOLDS, text))
    return found
