"""A reader's check of the messages from a broker. It uses neither clock nor connection: time is an argument.

Invariants:

* A message counts once, and only if the expected provider signed it.
* Forged, replayed, foreign and missing messages are reported.
* The reader remembers a bounded number of channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gpu_tasks.telemetry.envelope import (
    Channel,
    DeviceSubject,
    ForgedTelemetryError,
    ProviderSubject,
    TaskSubject,
    TelemetryMessage,
    TelemetryTopics,
    read_message,
)

CHANNELS_MAX = 4_096
LATE_MS = 30_000
"""The delay after which a message that the broker delivers for the first time is late."""
ChannelLine = tuple[bytes, TaskSubject | DeviceSubject | ProviderSubject, Channel]


class MessageFault(Enum):
    """A kind of reason for rejecting a message."""

    FORGED = "forged"
    REPLAYED = "replayed"
    IGNORED = "ignored"
    """The reader follows too many channels."""


class UnknownTellerError(Exception):
    """The reader has not looked up this provider key on the chain yet."""

    def __init__(self, provider_key: bytes) -> None:
        """`provider_key` is the signer's key."""
        super().__init__(provider_key.hex())
        self.provider_key = provider_key


@dataclass(frozen=True, slots=True)
class HeardMessage:
    """The outcome of a received message: the message itself if it is new, and problems of it or of the broker."""

    message: TelemetryMessage | None = None
    missing: int = 0
    """Messages before this one that the broker did not deliver."""
    dropped: int = 0
    """Notes before this one that the provider itself dropped."""
    late_ms: int = 0
    """The delay of a late message; 0 if it came in time."""
    fault: MessageFault | None = None
    problem: str | None = None
    """The reason for rejecting the message."""


NOT_ITS = HeardMessage(fault=MessageFault.FORGED, problem="forged: signed by a key without a part in it")


@dataclass(slots=True)
class TelemetryLedger:
    """The messages that one reader has received. `owners` gives the stash of each provider key, read from the chain."""

    topics: TelemetryTopics
    owners: Mapping[bytes, bytes | None]
    _newest_numbers: dict[ChannelLine, tuple[int, int]] = field(default_factory=dict)
    """The session and number of the newest message of each channel."""
    _retained_only: set[ChannelLine] = field(default_factory=set)
    """Channels with nothing but a retained message so far. Messages between it and the next were not meant for this
    reader."""
    _live_lines: set[ChannelLine] = field(default_factory=set)
    """Channels with a message since the reader subscribed. Their next messages are live, not retained."""

    def take(
        self, topic: str, payload: bytes, teller_stash: bytes | None, now_ms: int, *, is_retained: bool = False
    ) -> HeardMessage | None:
        """Return the outcome of bytes under a topic of stash `teller_stash` alone, or None for a repeated message.

        Raise UnknownTellerError if the key is unknown: look it up and call again. `is_retained` says that the broker
        had kept the message for later subscribers.
        """
        try:
            message = read_message(payload, topic, self.topics)
        except ForgedTelemetryError as error:
            return HeardMessage(fault=MessageFault.FORGED, problem=f"forged: {error}")
        if message.provider_key not in self.owners:
            raise UnknownTellerError(message.provider_key)
        owner_stash = self.owners[message.provider_key]
        if owner_stash is None or owner_stash != teller_stash or _is_of_another(message, owner_stash):
            return NOT_ITS
        return self._in_order(message, now_ms, is_retained=is_retained)

    def subscribed(self) -> None:
        """Note a new subscription: the broker sends one retained message for each channel, then live ones."""
        self._live_lines.clear()

    def newest(self, provider_key: bytes, subject: TaskSubject, channel: Channel, session: int) -> int:
        """Return the number of a channel's newest message in a session, or 0 if there is none."""
        newest_session, newest_number = self._newest_numbers.get((provider_key, subject, channel), (0, 0))
        return newest_number if newest_session == session else 0

    def _in_order(self, message: TelemetryMessage, now_ms: int, *, is_retained: bool) -> HeardMessage | None:
        channel_line = (message.provider_key, message.subject, message.channel)
        earlier_newest = self._newest_numbers.get(channel_line)
        session_and_number = (message.session, message.number)
        if earlier_newest == session_and_number:
            self._live_lines.add(channel_line)
            return None  # the provider sends a message again if the broker did not confirm it
        if earlier_newest is not None and session_and_number < earlier_newest:
            return HeardMessage(
                fault=MessageFault.REPLAYED,
                problem=f"replayed: number {message.number} came after number {earlier_newest[1]}",
            )
        # Anyone who owns a provider key can invent subjects, so the memory needs a bound.
        if earlier_newest is None and len(self._newest_numbers) >= CHANNELS_MAX:
            return HeardMessage(fault=MessageFault.IGNORED, problem="ignored: too many channels")
        self._newest_numbers[channel_line] = session_and_number
        is_same_session = earlier_newest is not None and earlier_newest[0] == message.session
        missing_count = (
            message.number - earlier_newest[1] - 1
            if earlier_newest is not None and is_same_session and channel_line not in self._retained_only
            else 0
        )
        self._retained_only.discard(channel_line)
        if earlier_newest is None and is_retained:
            self._retained_only.add(channel_line)
        # A broker that delays messages could mark all of them as retained. Only the first of a channel can be.
        late_ms = 0 if is_retained and channel_line not in self._live_lines else max(0, now_ms - message.told_at_ms)
        self._live_lines.add(channel_line)
        return HeardMessage(message, missing_count, message.dropped, late_ms if late_ms > LATE_MS else 0)


def _is_of_another(message: TelemetryMessage, owner_stash: bytes) -> bool:
    """Return True if a provider reports on another provider."""
    return isinstance(message.subject, ProviderSubject) and message.subject.stash != owner_stash
