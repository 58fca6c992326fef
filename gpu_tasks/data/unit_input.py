"""What a customer seals for the racers of a unit, or for who works on a task.

The salt is random and never leaves the sealed input. It keeps the hashes that do go on chain, of the input and of
the output, from being guessed for short texts. The reply key is the customer's X25519 key: the output is sealed to it,
and it stands here so that the chain never links it to an account.
"""

from __future__ import annotations

from typing import Annotated

from gpu_tasks.data.sealing import CONTENT_BYTES_MAX
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U8, Bounded, DecodeError, Fixed, codec, struct

VERSION = 1
REQUEST_BYTES_MAX = 256 * 1024
OUTPUT_BYTES_MAX = 256 * 1024
INPUT_BYTES_MAX = CONTENT_BYTES_MAX - 256
"""Of the requests of a unit together."""


@struct
class UnitInput:
    """A workload's request, salted; or the requests of a batch (`gpu_tasks.batches.requests`)."""

    version: U8
    salt: Annotated[bytes, Fixed(32)]
    reply_key: Annotated[bytes, Fixed(32)]
    request: Annotated[bytes, Bounded(INPUT_BYTES_MAX)]


_INPUT = codec(UnitInput)


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
