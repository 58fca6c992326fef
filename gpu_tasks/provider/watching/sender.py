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
                ) as broker_client:
                    failures, self.is_connected = 0, True
                    await self._serve_connection(broker_client)
            except BROKER_ERRORS as error:
                # One report for several attempts, so that a missing broker does not fill the log.
                if failures % len(RECONNECT_SECONDS) == 0:
                    self.say(f"the broker {self.address.url} accepts no telemetry ({error}); trying again")
            finally:
                self.is_connected = False
            await asyncio.sleep(RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)])
            failures += 1

    def told(self, note_subject: Subject, note_channel: Channel) -> int:
        """Return the number of messages numbered in a channel in this session."""
        return self._numbers.get((note_subject, note_channel), 0)

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

    async def _serve_connection(self, broker_client: aiomqtt.Client) -> None:
        """Announce presence and send waiting notes until the connection ends or the task is cancelled."""
        sending_task, broken_task = asyncio.create_task(self._send(broker_client)), broken_off(broker_client)
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
                    await self._publish_presence(broker_client, is_here=False)
            raise
        finally:
            sending_task.cancel()
            await asyncio.gather(sending_task, return_exceptions=True)

    async def _send(self, broker_client: aiomqtt.Client) -> NoReturn:
        await self._publish_presence(broker_client, is_here=True)
        while True:
            await self._send_first(broker_client)

    async def _publish_presence(self, broker_client: aiomqtt.Client, *, is_here: bool) -> None:
        """Publish presence with a number of its own. Absence has the next number, which the will uses too."""
        channel_line = (self._own_subject, Channel.STATUS)
        message_number = self.told(*channel_line) + 1 if is_here else self.told(*channel_line)
        if is_here:
            self._numbers[channel_line] = message_number + 1
        signed_message = self._signed(PresenceNote(is_here), message_number)
        await broker_client.publish(self.topics.of(*channel_line), signed_message, AT_LEAST_ONCE, retain=True)

    async def _send_first(self, broker_client: aiomqtt.Client) -> None:
        waiting_note = await self.outbox.first()
        # A note that is sent again keeps its number and bytes, so that a reader recognises the repetition.
        if self._begun is None or self._begun[0] is not waiting_note:
            signed_message = b"" if waiting_note.note is None else self._numbered(waiting_note, waiting_note.note)
            self._begun = (waiting_note, self.topics.of(waiting_note.subject, waiting_note.channel), signed_message)
        _, message_topic, signed_message = self._begun
        await broker_client.publish(message_topic, signed_message, AT_LEAST_ONCE, retain=waiting_note.is_retained)
        self.outbox.sent(waiting_note)

    @property
    def _own_subject(self) -> ProviderSubject:
        return ProviderSubject(self.identity.stash)

    def _numbered(self, waiting_note: WaitingNote, telemetry_note: TelemetryNote) -> bytes:
        channel_line = (waiting_note.subject, waiting_note.channel)
        self._numbers[channel_line] = self._numbers.pop(channel_line, 0) + 1
        if len(self._numbers) > CHANNELS_MAX:
            del self._numbers[next(iter(self._numbers))]
        note_payload = payload_of(telemetry_note, waiting_note.reader)
        dropped_count = self.outbox.take_dropped(waiting_note)
        return self._message(
            waiting_note.subject,
            waiting_note.channel,
            self._numbers[channel_line],
            waiting_note.told_at_ms,
            dropped_count,
            note_payload,
        )

    def _signed(self, presence_note: PresenceNote, message_number: int) -> bytes:
        now_ms = time.time_ns() // 1_000_000
        return self._message(
            self._own_subject, Channel.STATUS, message_number, now_ms, 0, payload_of(presence_note, None)
        )

    def _message(
        self,
        note_subject: Subject,
        note_channel: Channel,
        message_number: int,
        told_at_ms: int,
        dropped_count: int,
        note_payload: bytes,
    ) -> bytes:
        provider_key = self.identity.key
        telemetry_message = TelemetryMessage(
            VERSION,
            provider_key.public_key,
            note_subject,
            note_channel,
            self.session,
            message_number,
            told_at_ms,
            dropped_count,
            note_payload,
        )
        return sign_message(telemetry_message, self.identity.genesis, provider_key.sign)
