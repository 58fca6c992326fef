"""The connection to the broker, for as long as the daemon runs: connect, announce presence, send waiting notes.

Invariants:

* The sender retries a missing, slow or misbehaving broker at growing intervals, and reports it rarely.
* Only the notes wait for the broker. No duty does.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

import aiomqtt

from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.watching.outbox import NoteOutbox, Subject, WaitingNote
from gpu_tasks.telemetry.broker import BROKER_ERRORS, BrokerAddress, broken_off, broker_connection
from gpu_tasks.telemetry.envelope import (
    VERSION,
    Channel,
    ProviderSubject,
    TelemetryMessage,
    TelemetryTopics,
    payload_of,
    sign_message,
)
from gpu_tasks.telemetry.notes import PresenceNote, TelemetryNote

RECONNECT_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
CHANNELS_MAX = 4_096
"""Channels with a known running number. The least recently used is forgotten first."""
FAREWELL_SECONDS = 2.0
AT_LEAST_ONCE = 1
"""MQTT's quality of service 1."""

SayProblem = Callable[[str], None]


@dataclass(slots=True)
class BrokerSender:
    """The sender of an outbox's notes. `session` is the daemon's start in milliseconds since 1970."""

    address: BrokerAddress
    identity: Identity
    outbox: NoteOutbox
    say: SayProblem
    is_private: bool
    login: tuple[str, str] | None = None
    session: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    is_connected: bool = False
    _numbers: dict[tuple[Subject, Channel], int] = field(default_factory=dict)
    _begun: tuple[WaitingNote, str, bytes] | None = None
    """The note being sent, with its topic and bytes."""

    @property
    def topics(self) -> TelemetryTopics:
        """The topics of the chain."""
        return TelemetryTopics(self.identity.genesis)

    async def run(self) -> NoReturn:
        """Send for ever."""
        failures = 0
        while True:
            try:
                async with broker_connection(
                    self.address, private=self.is_private, last_will=self._last_will(), user_and_password=self.login
                ) as client:
                    failures, self.is_connected = 0, True
                    await self._serve_connection(client)
            except BROKER_ERRORS as error:
                # A broker that is gone at the farewell fails it, and that error replaces the cancellation.
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise asyncio.CancelledError from error
                # One report for several attempts, so that a missing broker does not fill the log.
                if failures % len(RECONNECT_SECONDS) == 0:
                    self.say(f"the broker {self.address.url} accepts no telemetry ({error}); trying again")
            finally:
                self.is_connected = False
            await asyncio.sleep(RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)])
            failures += 1

    def told(self, subject: Subject, channel: Channel) -> int:
        """Return the number of messages numbered in a channel in this session."""
        return self._numbers.get((subject, channel), 0)

    def _last_will(self) -> aiomqtt.Will:
        """Return the message that the broker publishes when the connection breaks.

        Its number follows the one of presence.
        """
        return aiomqtt.Will(
            self.topics.of(self._own_subject, Channel.STATUS),
            self._signed(PresenceNote(is_here=False), self.told(self._own_subject, Channel.STATUS) + 2),
            AT_LEAST_ONCE,
            retain=True,
        )

    async def _serve_connection(self, client: aiomqtt.Client) -> None:
        """Announce presence and send waiting notes until the connection ends or the task is cancelled."""
        sending_task, broken_task = asyncio.create_task(self._send(client)), broken_off(client)
        try:
            # Sending waits for new notes and would not notice a broken connection by itself.
            await asyncio.wait((sending_task, broken_task), return_when=asyncio.FIRST_COMPLETED)
            if sending_task.done():
                sending_task.result()
            raise aiomqtt.MqttError("the connection was lost") from broken_task.exception()
        except asyncio.CancelledError:
            # MQTT 3.1.1, 3.14.4: a clean disconnect discards the will, so absence is published here.
            with contextlib.suppress(*BROKER_ERRORS, TimeoutError):
                async with asyncio.timeout(FAREWELL_SECONDS):
                    await self._publish_presence(client, is_here=False)
            raise
        finally:
            sending_task.cancel()
            await asyncio.gather(sending_task, return_exceptions=True)

    async def _send(self, client: aiomqtt.Client) -> NoReturn:
        await self._publish_presence(client, is_here=True)
        while True:
            await self._send_first(client)

    async def _publish_presence(self, client: aiomqtt.Client, *, is_here: bool) -> None:
        """Publish presence with a number of its own. Absence has the next number, which the will uses too."""
        line = (self._own_subject, Channel.STATUS)
        number = self.told(*line) + 1 if is_here else self.told(*line)
        if is_here:
            self._numbers[line] = number + 1
        signed_message = self._signed(PresenceNote(is_here), number)
        await client.publish(self.topics.of(*line), signed_message, AT_LEAST_ONCE, retain=True)

    async def _send_first(self, client: aiomqtt.Client) -> None:
        waiting = await self.outbox.first()
        # A note that is sent again keeps its number and bytes, so that a reader recognises the repetition.
        if self._begun is None or self._begun[0] is not waiting:
            signed_message = b"" if waiting.note is None else self._numbered(waiting, waiting.note)
            self._begun = (waiting, self.topics.of(waiting.subject, waiting.channel), signed_message)
        _, message_topic, signed_message = self._begun
        await client.publish(message_topic, signed_message, AT_LEAST_ONCE, retain=waiting.is_retained)
        self.outbox.sent(waiting)

    @property
    def _own_subject(self) -> ProviderSubject:
        return ProviderSubject(self.identity.stash)

    def _numbered(self, waiting: WaitingNote, note: TelemetryNote) -> bytes:
        line = (waiting.subject, waiting.channel)
        self._numbers[line] = self._numbers.pop(line, 0) + 1
        if len(self._numbers) > CHANNELS_MAX:
            del self._numbers[next(iter(self._numbers))]
        payload = payload_of(note, waiting.reader)
        dropped_count = self.outbox.take_dropped(waiting)
        return self._message(
            waiting.subject, waiting.channel, self._numbers[line], waiting.told_at_ms, dropped_count, payload
        )

    def _signed(self, presence: PresenceNote, number: int) -> bytes:
        now_ms = time.time_ns() // 1_000_000
        return self._message(self._own_subject, Channel.STATUS, number, now_ms, 0, payload_of(presence, None))

    def _message(
        self, subject: Subject, channel: Channel, number: int, told_at_ms: int, dropped_count: int, payload: bytes
    ) -> bytes:
        provider_key = self.identity.key
        message = TelemetryMessage(
            VERSION, provider_key.public_key, subject, channel, self.session, number, told_at_ms, dropped_count, payload
        )
        return sign_message(message, self.identity.genesis, provider_key.sign)
