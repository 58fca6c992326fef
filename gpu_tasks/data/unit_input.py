"""What a customer seals for the racers of a unit, or for who works on a task.

The salt is random and never leaves the sealed input. It keeps the hashes that do go on chain, of the input and of
the output, from being guessed for short texts. The reply key is the customer's X25519 key: the output is sealed to it,
and it stands here so that the chain never links it to an account.
"""

from __future__ import annotations

from typing import Annotated

from gpu_tasks.batches.requests import BATCH_BYTES_MAX
from gpu_tasks.batches.requests import REQUEST_BYTES_MAX as BATCHED_BYTES_MAX
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U8, Bounded, DecodeError, Fixed, codec, struct

VERSION = 1
REQUEST_BYTES_MAX = 256 * 1024
OUTPUT_BYTES_MAX = 256 * 1024
INPUT_BYTES_MAX = BATCH_BYTES_MAX
"""Of the requests of a unit together."""


@struct
class UnitInput:
    """A workload's request, salted; or the requests of a batch (`gpu_tasks.batches.requests`)."""

    version: U8
    salt: Annotated[bytes, Fixed(32)]
    reply_key: Annotated[bytes, Fixed(32)]
    request: Annotated[bytes, Bounded(INPUT_BYTES_MAX)]


_INPUT = codec(UnitInput)
_FRAME_BYTES = 256
"""More than stands around the requests of an input, and around each of them."""


def content_max(requests: int) -> int:
    """How many bytes the input of a unit may have that says on the chain how many requests it has.

    Whoever fetches it knows so before that what it can cost: a stranger pays for one request, and sends no sixteen MiB.
    """
    if requests == 1:
        return REQUEST_BYTES_MAX + _FRAME_BYTES
    return min(BATCH_BYTES_MAX, requests * (BATCHED_BYTES_MAX + 4)) + _FRAME_BYTES


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
