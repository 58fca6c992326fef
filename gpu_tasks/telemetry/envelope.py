"""Who tells what, in which order: a signed message on a topic of its own.

    signed = SCALE(message, ed25519 signature of the provider key over domain("watch", genesis, message))

Always: the subject, the channel and a running number are under the signature, so that a broker can neither put a
message under another topic nor leave one out unnoticed; what concerns a customer's task is sealed to its reply key
(X25519), and whoever carries it learns only its length and when it was told.
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
"""Of the genesis hash, in a topic: a broker may carry several chains."""


@variant(0)
class TaskSubject:
    """A slot of a task: what is told of it is sealed to the customer."""

    task: Hash
    place: U8


@variant(1)
class DeviceSubject:
    """A device, for everybody."""

    device: Hash


@variant(2)
class ProviderSubject:
    """A provider, for everybody."""

    stash: AccountId


TelemetrySubject = Annotated[TaskSubject | DeviceSubject | ProviderSubject, Tagged("ogpu::TelemetrySubject")]


@named("ogpu::Channel")
class Channel(IntEnum):
    """What is told of a subject, each with numbers of its own."""

    STATUS = 0
    LOG = 1
    METRICS = 2


@struct
class TelemetryMessage:
    """A message, without its signature."""

    version: U8
    provider_key: Hash
    subject: TelemetrySubject
    channel: Channel
    session: U64
    """When the telling daemon began, in milliseconds since 1970: what a later one tells is newer."""
    number: U64
    """From 1 on, within a session, a subject and a channel, with none left out."""
    told_at_ms: U64
    dropped: U32
    """Notes of this channel that the provider threw away before this one, because the broker took none."""
    payload: Annotated[bytes, Bounded(PAYLOAD_BYTES_MAX)]
    """The note; of a task, sealed."""


@struct
class SignedTelemetry:
    """A message and its signature."""

    message: TelemetryMessage
    signature: Signature


_MESSAGE = codec(TelemetryMessage)
_SIGNED = codec(SignedTelemetry)


class ForgedTelemetryError(ValueError):
    """Bytes that no provider has told here; the text says why."""


@dataclass(frozen=True, slots=True)
class TelemetryTopics:
    """The topics of a chain."""

    genesis: bytes

    @property
    def base(self) -> str:
        """Before all of them."""
        return f"{ROOT}/{self.genesis.hex()[:CHAIN_DIGITS]}"

    def of(self, subject: TaskSubject | DeviceSubject | ProviderSubject, channel: Channel) -> str:
        """Where a subject's channel is told."""
        match subject:
            case TaskSubject():
                return f"{self.base}/tasks/{subject.task.hex()}/{subject.place}/{channel.name.lower()}"
            case DeviceSubject():
                return f"{self.base}/devices/{subject.device.hex()}/{channel.name.lower()}"
            case ProviderSubject():
                return f"{self.base}/providers/{subject.stash.hex()}/{channel.name.lower()}"

    def task(self, task: bytes) -> str:
        """A filter for everything about a task."""
        return f"{self.base}/tasks/{task.hex()}/+/+"


def payload_of(note: TelemetryNote, reader: bytes | None) -> bytes:
    """A note as it is carried: sealed to a reader, or for everybody; ValueError if it is too long."""
    plain = NOTE.encode(note)
    if len(plain) > NOTE_BYTES_MAX:
        raise ValueError(f"a note has at most {NOTE_BYTES_MAX:,} bytes")
    return plain if reader is None else seal_note(plain, reader)


def sign_message(message: TelemetryMessage, genesis: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """The bytes that go to the broker. `sign` is the provider key's."""
    return _SIGNED.encode(SignedTelemetry(message, sign(domain(KIND, genesis, _MESSAGE.encode(message)))))


def read_message(raw: bytes, topic: str, topics: TelemetryTopics) -> TelemetryMessage:
    """The message that came under a topic; ForgedTelemetryError unless it is signed, and belongs there."""
    if len(raw) > ENVELOPE_BYTES_MAX:
        raise ForgedTelemetryError(f"{len(raw):,} bytes are too many")
    try:
        signed = _SIGNED.decode(raw)
    except DecodeError as error:
        raise ForgedTelemetryError(f"it is no message: {error}") from None
    message = signed.message
    if message.version != VERSION:
        raise ForgedTelemetryError(f"version {message.version} is unknown")
    if topics.of(message.subject, message.channel) != topic:
        raise ForgedTelemetryError("it was told under another topic")
    body = domain(KIND, topics.genesis, _MESSAGE.encode(message))
    if not verify_ed25519(message.provider_key, body, signed.signature):
        raise ForgedTelemetryError("its signature is wrong")
    return message
