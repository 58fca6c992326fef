"""What a reader makes of what a broker hands it. No clock, no connection: time is an argument.

Always: a message counts once; who told it is whom the reader expects; what is forged, replayed, foreign or missing is
said, a few times and then counted; a reader remembers a bounded number of channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
"""So long after it was told, what a broker hands over for the first time is late."""
NOT_ITS = "forged: it is signed by somebody whom it does not concern"

ChannelLine = tuple[bytes, TaskSubject | DeviceSubject | ProviderSubject, Channel]


class UnknownTellerError(Exception):
    """A message of a key that the reader has not looked up on the chain yet."""

    def __init__(self, provider_key: bytes) -> None:
        """`provider_key` is who signed."""
        super().__init__(provider_key.hex())
        self.provider_key = provider_key


@dataclass(frozen=True, slots=True)
class HeardMessage:
    """What came of a message: it, if it is new, and what is to be said of it and of the broker."""

    message: TelemetryMessage | None = None
    missing: int = 0
    """Messages before it that the broker has not handed over."""
    dropped: int = 0
    """Notes before it that the provider says it threw away."""
    late_ms: int = 0
    """How long ago it was told, if that is too long."""
    problem: str | None = None
    """Why it is none, or none that counts."""


@dataclass(slots=True)
class TelemetryLedger:
    """What one reader has heard. `owners` says whose stash each provider key works for, as the chain has it."""

    topics: TelemetryTopics
    owners: Mapping[bytes, bytes | None]
    _last: dict[ChannelLine, tuple[int, int]] = field(default_factory=dict)
    """The session and the number of the newest message of each channel."""
    _joined: set[ChannelLine] = field(default_factory=set)
    """Channels of which nothing but a kept message was heard: what was told between it and the next was not for us."""
    _since: set[ChannelLine] = field(default_factory=set)
    """Channels that were heard since the reader subscribed: what is new of them was not kept for it."""

    def take(
        self, topic: str, raw: bytes, teller: bytes | None, now_ms: int, *, is_retained: bool = False
    ) -> HeardMessage | None:
        """What came of bytes under a topic that only the stash `teller` may fill; None for one that came twice.

        UnknownTellerError: look the key up, and ask again. `is_retained`: the broker kept it for whoever comes later.
        """
        try:
            message = read_message(raw, topic, self.topics)
        except ForgedTelemetryError as error:
            return HeardMessage(problem=f"forged: {error}")
        if message.provider_key not in self.owners:
            raise UnknownTellerError(message.provider_key)
        owner = self.owners[message.provider_key]
        if owner is None or owner != teller or _is_of_another(message, owner):
            return HeardMessage(problem=NOT_ITS)
        return self._in_order(message, now_ms, is_retained=is_retained)

    def subscribed(self) -> None:
        """From here on the broker hands over what it kept, once for each channel, and then what is told."""
        self._since.clear()

    def newest(self, provider_key: bytes, subject: TaskSubject, channel: Channel, session: int) -> int:
        """The number of the newest message of a channel in a session; 0 where none was heard."""
        known, number = self._last.get((provider_key, subject, channel), (0, 0))
        return number if known == session else 0

    def _in_order(self, message: TelemetryMessage, now_ms: int, *, is_retained: bool) -> HeardMessage | None:
        line = (message.provider_key, message.subject, message.channel)
        before = self._last.get(line)
        here = (message.session, message.number)
        if before == here:
            self._since.add(line)
            return None  # a broker that was not heard to have taken a message gets it again
        if before is not None and here < before:
            return HeardMessage(problem=f"replayed: number {message.number} was told before number {before[1]}")
        if before is None and len(self._last) >= CHANNELS_MAX:
            return HeardMessage(problem="not looked at: too many channels")
        self._last[line] = here
        is_same = before is not None and before[0] == message.session
        missing = message.number - before[1] - 1 if before is not None and is_same and line not in self._joined else 0
        self._joined.discard(line)
        if before is None and is_retained:
            self._joined.add(line)
        # A broker that holds everything back may call all of it kept: of each channel one message is.
        late = 0 if is_retained and line not in self._since else max(0, now_ms - message.told_at_ms)
        self._since.add(line)
        return HeardMessage(message, missing, message.dropped, late if late > LATE_MS else 0)


def _is_of_another(message: TelemetryMessage, owner: bytes) -> bool:
    """Whether a provider speaks of another provider."""
    return isinstance(message.subject, ProviderSubject) and message.subject.stash != owner
