"""The envelope of telemetry: a signed message on a topic of its subject and channel.

    signed = SCALE(message, ed25519 signature of the provider key over domain("watch", genesis, message))

Invariant: the signature covers the subject, the channel and a running number. A broker can neither move a message to
another topic nor drop one unnoticed.

Notes about a customer's task are sealed to its reply key (X25519). The broker learns only their length and time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from gpu_tasks.data.sealing import NOTE_SEAL_BYTES, seal_note
from gpu_tasks.telemetry.notes import NOTE, NOTE_BYTES_MAX, TelemetryNote
from runtime.cryptography.signatures import verify_ed25519
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, U32, U64, Bounded, DecodeError, Tagged, codec, named, struct, variant
from runtime.encoding.types import AccountId, Hash, Signature

VERSION = 1
KIND = b"watch"
PAYLOAD_BYTES_MAX = NOTE_BYTES_MAX + NOTE_SEAL_BYTES
ENVELOPE_BYTES_MAX = PAYLOAD_BYTES_MAX + 512
ROOT = "ogpu"
CHAIN_DIGITS = 16
"""Digits of the genesis hash in a topic, because one broker may serve several chains."""


@variant(0)
class TaskSubject:
    """A slot of a task. Its notes are sealed to the customer."""

    task: Hash
    place: U8


@variant(1)
class DeviceSubject:
    """A device. Its notes are public."""

    device: Hash


@variant(2)
class ProviderSubject:
    """A provider. Its notes are public."""

    stash: AccountId


TelemetrySubject = Annotated[TaskSubject | DeviceSubject | ProviderSubject, Tagged("ogpu::TelemetrySubject")]


@named("ogpu::Channel")
class Channel(IntEnum):
    """The kinds of messages about a subject. Each channel numbers its own messages."""

    STATUS = 0
    LOG = 1
    METRICS = 2


@struct
class TelemetryMessage:
    """A message without its signature."""

    version: U8
    provider_key: Hash
    subject: TelemetrySubject
    channel: Channel
    session: U64
    """The start of the sending daemon, in milliseconds since 1970. A message of a later session is newer."""
    number: U64
    """The running number within session, subject and channel, from 1 and without gaps."""
    told_at_ms: U64
    dropped: U32
    """Notes of this channel that the provider dropped before this one, because the broker did not accept them in time.
    """
    payload: Annotated[bytes, Bounded(PAYLOAD_BYTES_MAX)]
    """The encoded note. A note about a task is sealed."""


@struct
class SignedTelemetry:
    """A message and its signature."""

    message: TelemetryMessage
    signature: Signature


_MESSAGE = codec(TelemetryMessage)
_SIGNED = codec(SignedTelemetry)


class ForgedTelemetryError(ValueError):
    """The bytes are no valid message of a provider under this topic. The text states the reason."""


@dataclass(frozen=True, slots=True)
class TelemetryTopics:
    """The topics of a chain."""

    genesis: bytes

    @property
    def base(self) -> str:
        """The prefix of all topics."""
        return f"{ROOT}/{self.genesis.hex()[:CHAIN_DIGITS]}"

    def of(self, subject: TaskSubject | DeviceSubject | ProviderSubject, channel: Channel) -> str:
        """Return the topic of a subject's channel."""
        match subject:
            case TaskSubject():
                return f"{self.base}/tasks/{subject.task.hex()}/{subject.place}/{channel.name.lower()}"
            case DeviceSubject():
                return f"{self.base}/devices/{subject.device.hex()}/{channel.name.lower()}"
            case ProviderSubject():
                return f"{self.base}/providers/{subject.stash.hex()}/{channel.name.lower()}"

    def task(self, task: bytes) -> str:
        """Return a filter for all topics of a task."""
        return f"{self.base}/tasks/{task.hex()}/+/+"


def payload_of(note: TelemetryNote, reader_key: bytes | None) -> bytes:
    """Return the encoded note, sealed to `reader_key` or public if that is None.

    Raise ValueError if the note is too long.
    """
    packed_note = NOTE.encode(note)
    if len(packed_note) > NOTE_BYTES_MAX:
        raise ValueError(f"a note has at most {NOTE_BYTES_MAX:,} bytes")
    return packed_note if reader_key is None else seal_note(packed_note, reader_key)


def sign_message(message: TelemetryMessage, genesis: bytes, sign_bytes: Callable[[bytes], bytes]) -> bytes:
    """Return the signed bytes of a message for the broker. `sign_bytes` signs with the provider key."""
    return _SIGNED.encode(SignedTelemetry(message, sign_bytes(domain(KIND, genesis, _MESSAGE.encode(message)))))


def read_message(payload: bytes, topic: str, topics: TelemetryTopics) -> TelemetryMessage:
    """Return the message received under a topic.

    Raise ForgedTelemetryError unless it is signed correctly and belongs to the topic.
    """
    # The size comes first: a stranger can publish here, and decoding and verifying cost more than this check.
    if len(payload) > ENVELOPE_BYTES_MAX:
        raise ForgedTelemetryError(f"{len(payload):,} bytes are more than a message has")
    try:
        message = _SIGNED.decode(payload)
    except DecodeError as error:
        raise ForgedTelemetryError(f"not a message: {error}") from None
    telemetry_message = message.message
    # Before the signature, because another version may sign other bytes.
    if telemetry_message.version != VERSION:
        raise ForgedTelemetryError(f"unknown version {telemetry_message.version}")
    # A broker or a stranger could publish a genuine message again under the topic of another subject.
    if topics.of(telemetry_message.subject, telemetry_message.channel) != topic:
        raise ForgedTelemetryError("sent under another topic")
    body = domain(KIND, topics.genesis, _MESSAGE.encode(telemetry_message))
    if not verify_ed25519(telemetry_message.provider_key, body, message.signature):
        raise ForgedTelemetryError("wrong signature")
    return telemetry_message
