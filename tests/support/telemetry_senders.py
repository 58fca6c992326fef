"""Senders of task telemetry for tests: a provider with its own keys, and its signed messages."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.telemetry.envelope import (
    VERSION,
    Channel,
    DeviceSubject,
    ProviderSubject,
    TaskSubject,
    TelemetryMessage,
    TelemetryTopics,
    payload_of,
    sign_message,
)
from gpu_tasks.telemetry.notes import EventNote, TelemetryNote
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair

GENESIS = b"g" * 32
TASK = b"t" * 32
STASH = b"s" * 32
CUSTOMER = SealKey.from_seed(b"c" * 32)
SOMETHING = EventNote("computed", ())


@dataclass
class Teller:
    """A provider, as the broker sees it."""

    key: Keypair = field(default_factory=lambda: Keypair.from_seed(Scheme.ED25519, b"p" * 32))
    stash: bytes = STASH
    genesis: bytes = GENESIS
    subject: TaskSubject | DeviceSubject | ProviderSubject = TaskSubject(TASK, 0)  # noqa: RUF009 - frozen
    reader: bytes | None = CUSTOMER.public

    def message(self, number: int, note: TelemetryNote = SOMETHING, **other: object) -> TelemetryMessage:
        """Return its message `number`, with some fields changed."""
        told = TelemetryMessage(
            version=VERSION,
            provider_key=self.key.public_key,
            subject=self.subject,
            channel=Channel.STATUS,
            session=1_000,
            number=number,
            told_at_ms=2_000,
            dropped=0,
            payload=payload_of(note, self.reader),
        )
        return replace(told, **other)  # type: ignore[arg-type]  # by name

    def told(self, number: int, note: TelemetryNote = SOMETHING, **other: object) -> tuple[str, bytes]:
        """Return topic and bytes of a message."""
        message = self.message(number, note, **other)
        topic = TelemetryTopics(self.genesis).of(message.subject, message.channel)
        return topic, sign_message(message, self.genesis, self.key.sign)
