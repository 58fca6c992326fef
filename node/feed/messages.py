"""Frames between the node and its RPC process, shared by both sides.

Invariants:

* A frame is a u32 big-endian length and then one msgpack array `[kind, field, ...]`, at most `FRAME_LIMIT` bytes.
* A frame with an unknown kind, a wrong count of fields or a field of another type is a `FeedError`: the reader drops
  the link.
* The node sends first: `FeedHello`, the final state as `Snapshot` pages (the last one is marked), one `Reverse` for
  each recent final block (newest first), one `ImportedBlock` for each block above the final one (parents first), then
  `NodeStatus`, then live frames.
* Every request of the RPC process carries a number of its choice, and exactly one `RequestResult` or `Refused` answers
  it.

No I/O here: `Decoder` takes bytes and yields frames. `node.feed.server` (trio) and `node.feed.client` (asyncio) are the
two ends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar, TypeAlias

import msgpack

FRAME_LIMIT = 32 * 1024 * 1024  # a block with the changes of its state, or a page of a snapshot, fits
SNAPSHOT_PAGE_BYTES = 1024 * 1024  # keys and values in one page
SUBMIT_PER_SECOND = 20_000  # extrinsics that the RPC process may submit
REQUESTS_PER_SECOND = 500  # every other request; fewer where answers are expensive
REQUESTS_IN_FLIGHT = 1_024
SUBMIT_MANY_MAX = 512  # extrinsics in one frame
SUBMIT_BYTES_IN_FLIGHT = 8 * 1024 * 1024  # of extrinsics whose result the RPC process waits for
HANDOFFS_MAX = 16  # of at most 54 KiB each
LENGTH = struct.Struct(">I")

Value: TypeAlias = "bool | int | str | bytes | list[Value] | dict[str, Value] | None"


class FeedError(ValueError):
    """The other end sent bytes that are no frame of this protocol."""


# --- node -> RPC process


@dataclass(frozen=True, slots=True)
class FeedHello:
    """The identity of the chain and the node; always the first frame."""

    kind: ClassVar[int] = 0
    chain_name: str
    chain_id: str
    chain_type: str  # Development | Local | Live
    parameters: str  # the name of the chain's parameters in genesis.parameters
    genesis_hash: bytes
    properties: str  # JSON object: ss58Format, tokenDecimals, tokenSymbol
    spec_version: int
    node_name: str
    node_version: str
    is_validator: bool
    peer_id: str  # empty while the node has no network
    listen_addresses: list[str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A page of the state after the last final block, in key order; `header` is that block's sealed header."""

    kind: ClassVar[int] = 1
    header: bytes
    pairs: list[list[bytes]]  # [key, value]
    last: bool


@dataclass(frozen=True, slots=True)
class Reverse:
    """The changes that turn the state after final block `block_id` into its parent's; None: the key is absent there."""

    kind: ClassVar[int] = 2
    block_id: bytes
    header: bytes
    changes: list[list[bytes | None]]  # [key, value or None]


@dataclass(frozen=True, slots=True)
class ImportedBlock:
    """An imported block, valid, not final yet: its bytes and its changes to the parent's state."""

    kind: ClassVar[int] = 3
    block_id: bytes
    header: bytes
    extrinsics: list[bytes]
    changes: list[list[bytes | None]]  # [key, value or None], keys sorted


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The node's progress; sent after every change of a field.

    `accepted` is the best block; it is at least the final one.
    """

    kind: ClassVar[int] = 4
    accepted_id: bytes
    accepted_height: int
    final_id: bytes
    final_height: int
    highest_height: int  # of any block that a peer announced; the sync target
    is_syncing: bool
    peers: int
    ready: int
    future: int


@dataclass(frozen=True, slots=True)
class ExtrinsicStatus:
    """A new status: ready | future | broadcast | in_block | retracted | finalized | usurped | dropped | invalid."""

    kind: ClassVar[int] = 5
    extrinsic_hash: bytes
    status: str
    block_id: bytes | None  # for in_block, retracted, finalized; usurped: the hash of the replacement


@dataclass(frozen=True, slots=True)
class RequestResult:
    """The answer to request `request_id`."""

    kind: ClassVar[int] = 6
    request_id: int
    value: Value


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that failed; `code` is its JSON-RPC error (1010 invalid transaction, 1013 already known …)."""

    kind: ClassVar[int] = 7
    request_id: int
    code: int
    text: str
    data: str


# --- RPC process -> node


@dataclass(frozen=True, slots=True)
class Submit:
    """Take this extrinsic into the pool and report its statuses -> its 32-byte hash."""

    kind: ClassVar[int] = 16
    request_id: int
    extrinsic: bytes


@dataclass(frozen=True, slots=True)
class Prove:
    """Prove these keys in the state after that block -> list of trie nodes."""

    kind: ClassVar[int] = 17
    request_id: int
    block_id: bytes
    keys: list[bytes]


@dataclass(frozen=True, slots=True)
class Pending:
    """List the extrinsics in the pool, ready ones first in the order of a block -> list of bytes."""

    kind: ClassVar[int] = 18
    request_id: int


@dataclass(frozen=True, slots=True)
class ListPeers:
    """List the peers -> list of {"peerId": str, "roles": str, "bestHash": bytes, "bestNumber": int}."""

    kind: ClassVar[int] = 19
    request_id: int


@dataclass(frozen=True, slots=True)
class BlockAt:
    """Read any block that the node has -> [header, [extrinsics]], or None."""

    kind: ClassVar[int] = 20
    request_id: int
    block_id: bytes


@dataclass(frozen=True, slots=True)
class IdAt:
    """Read the id of the final block at a height -> the id, or None."""

    kind: ClassVar[int] = 21
    request_id: int
    height: int


@dataclass(frozen=True, slots=True)
class CertificateAt:
    """Find the lowest certified block at or above a height -> [block id, certificate, sealed header], or None."""

    kind: ClassVar[int] = 22
    request_id: int
    height: int


@dataclass(frozen=True, slots=True)
class HandoffsFrom:
    """Read the handoffs of `count` ended epochs from `epoch` on -> those known without a gap (`HANDOFFS_MAX`)."""

    kind: ClassVar[int] = 27
    request_id: int
    epoch: int
    count: int


@dataclass(frozen=True, slots=True)
class Inspect:
    """Read figures of the node: "consensus", "polls", "pool", "network" or "offences" -> a JSON-like value."""

    kind: ClassVar[int] = 23
    request_id: int
    topic: str


@dataclass(frozen=True, slots=True)
class SubmitAttestation:
    """Take this signed execution attestation for an author's next block, and gossip it -> its 32-byte id."""

    kind: ClassVar[int] = 24
    request_id: int
    attestation: bytes


@dataclass(frozen=True, slots=True)
class SubmitMany:
    """Take these extrinsics into the pool, in order -> for each its 32-byte hash, or [code, text, data].

    Their statuses are not reported.
    """

    kind: ClassVar[int] = 25
    request_id: int
    extrinsics: list[bytes]


@dataclass(frozen=True, slots=True)
class NextNonce:
    """Read the first unused nonce of the account from `nonce` on, in the pool or up to the tip -> int."""

    kind: ClassVar[int] = 26
    request_id: int
    account: bytes
    nonce: int


@dataclass(frozen=True, slots=True)
class RotateKeys:
    """Make and load new session and VRF keys -> [keys, proof that the account may register them], in SCALE."""

    kind: ClassVar[int] = 28
    request_id: int
    owner: bytes


ToRpc: TypeAlias = (
    FeedHello | Snapshot | Reverse | ImportedBlock | NodeStatus | ExtrinsicStatus | RequestResult | Refused
)
Request: TypeAlias = (
    Submit | SubmitMany | Prove | Pending | ListPeers | BlockAt | IdAt | CertificateAt | HandoffsFrom | Inspect
    | SubmitAttestation | NextNonce | RotateKeys
)  # fmt: skip
Frame: TypeAlias = ToRpc | Request

FRAMES: tuple[type[Frame], ...] = (
    FeedHello, Snapshot, Reverse, ImportedBlock, NodeStatus, ExtrinsicStatus, RequestResult, Refused,
    Submit, Prove, Pending, ListPeers, BlockAt, IdAt, CertificateAt, HandoffsFrom, Inspect, SubmitAttestation,
    SubmitMany, NextNonce, RotateKeys,
)  # fmt: skip
_NONE = type(None)
_SHAPES: dict[str, tuple[type, ...]] = {
    "bytes": (bytes,),
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "bytes | None": (bytes, _NONE),
    "Value": (_NONE, bool, int, str, bytes, list, dict),
}
_BY_KIND: dict[int, type[Frame]] = {cls.kind: cls for cls in FRAMES}
_FIELDS: dict[int, tuple[tuple[str, tuple[type, ...]], ...]] = {
    cls.kind: tuple((field.name, _SHAPES.get(str(field.type), (list,))) for field in fields(cls)) for cls in FRAMES
}


def submitted(request: Request) -> list[bytes]:
    """Return the extrinsics that a request submits."""
    if isinstance(request, SubmitMany):
        return request.extrinsics
    return [request.extrinsic] if isinstance(request, Submit) else []


def pack(frame: Frame) -> bytes:
    """Return the bytes of one frame, length first. Raise `FeedError` if it is longer than `FRAME_LIMIT`."""
    packed: bytes = msgpack.packb([frame.kind, *(getattr(frame, name) for name, _ in _FIELDS[frame.kind])])
    if len(packed) > FRAME_LIMIT:
        raise FeedError(f"a {type(frame).__name__} frame of {len(packed):,} bytes is over the limit of {FRAME_LIMIT:,}")
    return LENGTH.pack(len(packed)) + packed


def unpack(packed: bytes) -> Frame:
    """Return the frame in `packed` (without its length). Raise `FeedError` if it is no frame of this protocol."""
    try:
        # Extension types are never sent: without the limit, msgpack would allocate for any length that they claim.
        values = msgpack.unpackb(packed, max_ext_len=0, strict_map_key=True)
    except (ValueError, msgpack.UnpackException) as error:
        raise FeedError(f"not msgpack: {error}") from error
    if not isinstance(values, list) or not values or type(values[0]) is not int or values[0] not in _BY_KIND:
        raise FeedError("a frame is an array that begins with a known kind")
    shapes = _FIELDS[values[0]]
    if len(values) != 1 + len(shapes):
        raise FeedError(f"frame kind {values[0]} has {len(shapes)} fields, not {len(values) - 1}")
    for (name, allowed), value in zip(shapes, values[1:], strict=True):
        # An exact type, because a bool is an int in Python and would pass `isinstance`.
        if type(value) not in allowed:
            raise FeedError(f"{_BY_KIND[values[0]].__name__}.{name} cannot be a {type(value).__name__}")
    return _BY_KIND[values[0]](*values[1:])


class Decoder:
    """A decoder from a stream of bytes to frames. `FRAME_LIMIT` and the size of one read bound its memory."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Add `data` and yield every complete frame. Raise `FeedError` if a frame is too long or malformed."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= LENGTH.size:
            (body_bytes,) = LENGTH.unpack_from(self._buffer, start)
            if body_bytes > FRAME_LIMIT:
                raise FeedError(f"a frame of {body_bytes:,} bytes is over the limit of {FRAME_LIMIT:,}")
            end = start + LENGTH.size + body_bytes
            if len(self._buffer) < end:
                break
            yield unpack(bytes(self._buffer[start + LENGTH.size : end]))
            start = end
        del self._buffer[:start]
