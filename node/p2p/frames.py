"""The wire format between two nodes: length-prefixed msgpack frames of many small messages.

A frame is ``u32 big-endian length || msgpack [FRAME_VERSION, [[kind, payload], ...]]``. One frame carries everything
that is queued for a peer, because a frame costs nearly the same CPU with one message or with fifty.

Invariant: decoding raises `FrameError` only, allocates no more than the frame itself, and returns known shapes only.
Unknown kinds are counted separately, so that a newer peer is not punished like a broken one. Payloads are opaque bytes
(SCALE), bounded per kind.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import msgpack

FRAME_VERSION: Final = 1
LENGTH_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 2 * 1024 * 1024
"""The longest msgpack body of a frame: room for one full block."""
MAX_MESSAGES_PER_FRAME: Final = 1024
FRAME_OVERHEAD_BYTES: Final = 16
"""An upper bound of a frame's bytes beside its messages: version, list headers."""
MESSAGE_OVERHEAD_BYTES: Final = 12
"""An upper bound of a message's bytes beside its payload: pair header, kind, length of the payload."""
MAX_BLOCK_PAYLOAD_BYTES: Final = MAX_FRAME_BYTES - 1024
MAX_SMALL_PAYLOAD_BYTES: Final = 64 * 1024
MAX_KIND: Final = 255


class FrameError(Exception):
    """These bytes are no frame of this format; the peer that sent them is at fault."""


class FrameKind(IntEnum):
    """The kind of a message. The numbers are on the wire: never reuse one."""

    HELLO = 0
    GOODBYE = 1
    PING = 2
    PONG = 3
    PEERS = 4
    POLL_QUERY = 16
    CHITS = 17
    VOTE = 18
    CERT = 19
    GET_CERTS = 20
    BLOCK = 21
    EVIDENCE = 22
    STATUS = 23
    KEYS = 24
    TX = 32
    ATTESTATION = 33
    HEARTBEAT = 34
    GET_BLOCKS = 48
    BLOCKS = 49
    GET_HANDOFFS = 50
    HANDOFFS = 51


class MessageClass(IntEnum):
    """The order of service: a lower class is sent first and dropped last."""

    CONTROL = 0
    CONSENSUS = 1
    GOSSIP = 2
    SYNC = 3


TRANSPORT_KINDS: Final = frozenset(
    {FrameKind.HELLO, FrameKind.GOODBYE, FrameKind.PING, FrameKind.PONG, FrameKind.PEERS}
)
"""Kinds that the transport itself sends and answers; the caller never sees them."""

_CLASS_OF_KIND: Final[dict[FrameKind, MessageClass]] = {
    **dict.fromkeys(TRANSPORT_KINDS, MessageClass.CONTROL),
    **dict.fromkeys(
        (
            FrameKind.POLL_QUERY,
            FrameKind.CHITS,
            FrameKind.VOTE,
            FrameKind.CERT,
            FrameKind.GET_CERTS,
            FrameKind.BLOCK,
            FrameKind.STATUS,
            FrameKind.KEYS,
        ),
        MessageClass.CONSENSUS,
    ),
    FrameKind.TX: MessageClass.GOSSIP,
    FrameKind.ATTESTATION: MessageClass.GOSSIP,
    FrameKind.HEARTBEAT: MessageClass.GOSSIP,
    FrameKind.EVIDENCE: MessageClass.GOSSIP,
    FrameKind.GET_BLOCKS: MessageClass.SYNC,
    FrameKind.BLOCKS: MessageClass.SYNC,
    FrameKind.GET_HANDOFFS: MessageClass.SYNC,
    FrameKind.HANDOFFS: MessageClass.SYNC,
}
_BLOCK_SIZED: Final = frozenset({FrameKind.BLOCK, FrameKind.BLOCKS, FrameKind.HANDOFFS})


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame: its messages in order, and the number of messages of unknown kinds."""

    messages: tuple[tuple[FrameKind, bytes], ...]
    unknown_kinds: int


def class_of(kind: FrameKind) -> MessageClass:
    """Return the class in which `kind` is queued and served."""
    return _CLASS_OF_KIND[kind]


def max_payload_bytes(kind: FrameKind) -> int:
    """Return the longest payload that a message of `kind` may carry, in bytes."""
    return MAX_BLOCK_PAYLOAD_BYTES if kind in _BLOCK_SIZED else MAX_SMALL_PAYLOAD_BYTES


def encode_frame(messages: Iterable[tuple[FrameKind, bytes]]) -> bytes:
    """Return one frame with its length prefix. Raise `ValueError` if the caller broke a limit (our own bug)."""
    listed_messages = [[int(kind), payload] for kind, payload in messages]
    body: bytes = msgpack.packb([FRAME_VERSION, listed_messages], use_bin_type=True)
    if len(listed_messages) > MAX_MESSAGES_PER_FRAME or len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {len(listed_messages)} messages and {len(body)} bytes exceeds the limits")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def decode_frame(body: bytes) -> Frame:
    """Return the messages in `body`, a frame without its length prefix. Raise `FrameError` if it is malformed."""
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError("frame too long")
    version_and_messages = unpacked(body, "a frame", list_max=MAX_MESSAGES_PER_FRAME, bytes_max=MAX_BLOCK_PAYLOAD_BYTES)
    if not isinstance(version_and_messages, list) or len(version_and_messages) != 2:
        raise FrameError("a frame is a list of two")
    frame_version, listed_messages = version_and_messages
    # `type is int`, here and below: True is an int in Python too, and equal to 1.
    if type(frame_version) is not int or frame_version != FRAME_VERSION:
        raise FrameError("frame version not supported")
    if not isinstance(listed_messages, list):
        raise FrameError("messages are a list")
    decoded_messages = [_decode_message(raw) for raw in listed_messages]
    known_messages = tuple(message for message in decoded_messages if message is not None)
    return Frame(known_messages, len(decoded_messages) - len(known_messages))


def unpacked(
    packed_bytes: bytes, expected_form: str, *, list_max: int, bytes_max: int = 0, text_max: int = 0
) -> object:
    """Return decoded msgpack of lists, strings, numbers, within bounds. Raise `FrameError`, naming `expected_form`."""
    try:
        decoded_value: object = msgpack.unpackb(
            packed_bytes,
            # Peers send lists, bytes and short texts only. msgpack allocates for announced sizes, so each has its
            # bound.
            raw=False,
            max_str_len=text_max,
            max_map_len=0,
            max_ext_len=0,
            max_array_len=list_max,
            max_bin_len=bytes_max,
        )
    except (ValueError, TypeError, OverflowError, msgpack.exceptions.UnpackException) as error:
        raise FrameError(f"not {expected_form}: {error}") from error
    return decoded_value


def _decode_message(raw: object) -> tuple[FrameKind, bytes] | None:
    if not isinstance(raw, list) or len(raw) != 2:
        raise FrameError("a message is a list of two")
    kind_number, payload = raw
    if type(kind_number) is not int or not 0 <= kind_number <= MAX_KIND or not isinstance(payload, bytes):
        raise FrameError("a message is [kind, bytes]")
    kind = _KIND_BY_NUMBER.get(kind_number)
    # A newer version's kind is no fault of the peer.
    if kind is None:
        return None
    if len(payload) > max_payload_bytes(kind):
        raise FrameError(f"payload of {kind.name} too long")
    return kind, payload


_KIND_BY_NUMBER: Final[dict[int, FrameKind]] = {int(kind): kind for kind in FrameKind}


class FrameReader:
    """A cutter of a byte stream into frame bodies; it refuses a bad length before it buffers the frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frame bodies that `data` completes. Raise `FrameError` if a length is impossible."""
        self._buffer += data
        bodies: list[bytes] = []
        start = 0
        while len(self._buffer) - start >= LENGTH_BYTES:
            body_bytes = int.from_bytes(self._buffer[start : start + LENGTH_BYTES], "big")
            # 0 is impossible too, since each frame holds its version.
            if not 0 < body_bytes <= MAX_FRAME_BYTES:
                raise FrameError(f"frame length {body_bytes} out of range")
            end = start + LENGTH_BYTES + body_bytes
            if len(self._buffer) < end:
                break
            bodies.append(bytes(self._buffer[start + LENGTH_BYTES : end]))
            start = end
        del self._buffer[:start]
        return bodies

    @property
    def buffered_bytes(self) -> int:
        """The bytes of the incomplete frame."""
        return len(self._buffer)
