"""The content that a customer seals for the racers of a unit, or for the provider of a task.

The salt is random and never leaves the sealed input. The chain has hashes of the input and of the output; the salt
keeps short texts from being guessed by them. The reply key is the customer's X25519 key, to which the output is sealed.
It is in the input so that the chain never links it to an account.
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
"""The limit of a unit's requests together."""


@struct
class UnitInput:
    """A workload's request with a salt, or the requests of a batch (`gpu_tasks.batches.requests`)."""

    version: U8
    salt: Annotated[bytes, Fixed(32)]
    reply_key: Annotated[bytes, Fixed(32)]
    request: Annotated[bytes, Bounded(INPUT_BYTES_MAX)]


_INPUT = codec(UnitInput)
_FRAME_BYTES = 256
"""More than the encoding adds to the requests of an input, and to each of them."""


def content_max(requests: int) -> int:
    """Return the most bytes of a unit's input by its number of requests on the chain.

    A reader thus knows its cost before it fetches. A stranger who pays for one request cannot make it fetch sixteen
    MiB.
    """
    if requests == 1:
        return REQUEST_BYTES_MAX + _FRAME_BYTES
    # 4 bytes: the SCALE length of a request.
    return min(BATCH_BYTES_MAX, requests * (BATCHED_BYTES_MAX + 4)) + _FRAME_BYTES


def encode_input(salt: bytes, reply_key: bytes, request: bytes) -> bytes:
    """Return the content of an input blob."""
    return _INPUT.encode(UnitInput(VERSION, salt, reply_key, request))


def decode_input(content: bytes) -> UnitInput:
    """Return the salted request. Raise DecodeError for anything else."""
    unit_input = _INPUT.decode(content)
    if unit_input.version != VERSION:
        raise DecodeError(f"unit input of unknown version {unit_input.version}")
    return unit_input


def commitment_of(content: bytes) -> bytes:
    """Return the chain's commitment to an input, before it is sealed."""
    return blake2_256(content)
