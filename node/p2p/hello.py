"""The first message in each direction (sender, chain, role), and the last one (the reason for the end).

Pure. The proof is the caller's opaque blob (a validator's session key signs its peer id), and the caller judges it.
Invariant: decoding raises `FrameError` only.
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
    """A node's claimed role; a claim to be a validator counts only with a valid proof."""

    FULL = 0
    VALIDATOR = 1


class GoodbyeReason(IntEnum):
    """The reason for the end of a connection, in its last message."""

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
    """The first message; `listen_port` is 0 for a node that accepts no connections.

    The address is the one that the receiver sees.
    """

    genesis: bytes
    role: Role
    listen_port: int
    proof: bytes


def encode_hello(hello: Hello) -> bytes:
    """Return the payload of a HELLO message."""
    packed: bytes = msgpack.packb([hello.genesis, int(hello.role), hello.listen_port, hello.proof])
    return packed


def decode_hello(payload: bytes) -> Hello:
    """Return the hello in a payload. Raise `FrameError` if it is malformed."""
    if len(payload) > MAX_HELLO_BYTES:
        raise FrameError("hello too long")
    match unpacked(payload, "a hello", list_max=len(fields(Hello)), bytes_max=MAX_PROOF_BYTES):
        case [bytes() as genesis, int() as role_number, int() as listen_port, bytes() as proof] if (
            len(genesis) == GENESIS_BYTES
            # True is an int in Python, and equal to the role of a validator.
            and type(role_number) is int
            and role_number in (Role.FULL, Role.VALIDATOR)
            and type(listen_port) is int
            and 0 <= listen_port <= 0xFFFF
            and len(proof) <= MAX_PROOF_BYTES
        ):
            return Hello(genesis, Role(role_number), listen_port, proof)
    raise FrameError("malformed hello")


def decode_reason(payload: bytes) -> GoodbyeReason:
    """Return the reason in a GOODBYE; an unknown one reads as `SHUTDOWN`."""
    # A newer peer may give a reason that this version does not know.
    is_known = len(payload) == 1 and payload[0] in GoodbyeReason.__members__.values()
    return GoodbyeReason(payload[0]) if is_known else GoodbyeReason.SHUTDOWN
