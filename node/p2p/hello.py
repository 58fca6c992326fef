"""The first message in each direction: who speaks, for which chain, in which role; and the last one: why it ends.

Pure. The proof is opaque here: it is the caller's blob (a validator's session key signs its peer id), and the caller
judges it. What always holds: decoding raises nothing but `FrameError`.
"""

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Final

import msgpack

from node.p2p.frames import FrameError, unpacked

GENESIS_BYTES: Final = 32
MAX_PROOF_BYTES: Final = 1024
MAX_HELLO_BYTES: Final = 2048


class Role(IntEnum):
    """What a node claims to be; a claim to be a validator counts only when its proof convinces."""

    FULL = 0
    VALIDATOR = 1


class GoodbyeReason(IntEnum):
    """Why a node ends a connection, told in the last message."""

    SHUTDOWN = 0
    WRONG_CHAIN = 1
    DUPLICATE = 2
    BANNED = 3
    TOO_MANY_PEERS = 4
    SELF = 5
    REFUSED = 6
    MISBEHAVIOUR = 7


@dataclass(frozen=True, slots=True)
class Hello:
    """`listen_port` is 0 for a node that accepts no connections; the address is the one that its peer sees."""

    genesis: bytes
    role: Role
    listen_port: int
    proof: bytes


def encode_hello(hello: Hello) -> bytes:
    """Return the payload of a HELLO message."""
    packed: bytes = msgpack.packb([hello.genesis, int(hello.role), hello.listen_port, hello.proof])
    return packed


def decode_hello(payload: bytes) -> Hello:
    """Raise `FrameError`."""
    if len(payload) > MAX_HELLO_BYTES:
        raise FrameError("hello too long")
    match unpacked(payload, "a hello", list_max=len(fields(Hello)), bytes_max=MAX_PROOF_BYTES):
        case [bytes() as genesis, int() as role, int() as port, bytes() as proof] if (
            len(genesis) == GENESIS_BYTES
            and type(role) is int
            and role in (Role.FULL, Role.VALIDATOR)
            and type(port) is int
            and 0 <= port <= 0xFFFF
            and len(proof) <= MAX_PROOF_BYTES
        ):
            return Hello(genesis, Role(role), port, proof)
    raise FrameError("malformed hello")


def decode_reason(payload: bytes) -> GoodbyeReason:
    """Return the reason in a GOODBYE; one that this version does not know reads as `SHUTDOWN`."""
    known = len(payload) == 1 and payload[0] in GoodbyeReason.__members__.values()
    return GoodbyeReason(payload[0]) if known else GoodbyeReason.SHUTDOWN
