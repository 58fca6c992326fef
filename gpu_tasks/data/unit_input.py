"""What a customer seals for the racers of a unit, and how a result is named on chain.

The salt is random and never leaves the sealed input. It keeps the two hashes that do go on chain, of the input and of
the output, from being guessed for short texts. The reply key is the customer's X25519 key: the output is sealed to it,
and it stands here so that the chain never links it to an account.
"""

from __future__ import annotations

from typing import Annotated

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, Bounded, DecodeError, Fixed, codec, struct

VERSION = 1
REQUEST_BYTES_MAX = 256 * 1024
OUTPUT_BYTES_MAX = 256 * 1024


@struct
class UnitInput:
    """A workload's request, salted."""

    version: U8
    salt: Annotated[bytes, Fixed(32)]
    reply_key: Annotated[bytes, Fixed(32)]
    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]


@struct
class _Output:
    unit: Annotated[bytes, Fixed(32)]
    salt: Annotated[bytes, Fixed(32)]
    output: Annotated[bytes, Bounded(OUTPUT_BYTES_MAX)]


_INPUT = codec(UnitInput)
_OUTPUT = codec(_Output)


def encode_input(salt: bytes, reply_key: bytes, request: bytes) -> bytes:
    """The content of an input blob."""
    return _INPUT.encode(UnitInput(VERSION, salt, reply_key, request))


def decode_input(content: bytes) -> UnitInput:
    """The salted request; DecodeError if it is none."""
    value = _INPUT.decode(content)
    if value.version != VERSION:
        raise DecodeError(f"unit input version {value.version} is unknown")
    return value


def commitment_of(content: bytes) -> bytes:
    """What the chain keeps of an input, before it is sealed."""
    return blake2_256(content)


def output_root(genesis: bytes, unit: bytes, salt: bytes, output: bytes) -> bytes:
    """The name of a result: the same for everyone who computed the same output for this unit."""
    return blake2_256(domain(b"output", genesis, _OUTPUT.encode(_Output(unit, salt, output))))
