"""A process that checks signatures in batches, so that the node's own loop never waits for one.

Frames on stdin and stdout: a u32 big-endian length, then msgpack. In: a list of [scheme, public key, message,
signature]. Out: one byte for each, 1 for a valid one. The process ends with its stdin, so it never outlives its node.
"""

from __future__ import annotations

import struct
import sys
from typing import BinaryIO

import msgpack

from runtime.cryptography.signatures import Scheme, verify

LENGTH = struct.Struct(">I")


def verdicts(packed_batch: bytes) -> bytes:
    """Return the answer to one batch: one byte for each signature."""
    return bytes(
        verify(Scheme(scheme_number), public, message, signature)
        for scheme_number, public, message, signature in msgpack.unpackb(packed_batch)
    )


def serve(request_stream: BinaryIO, answer_stream: BinaryIO) -> None:
    """Answer batches until `request_stream` ends."""
    while len(length_prefix := request_stream.read(LENGTH.size)) == LENGTH.size:
        (batch_length,) = LENGTH.unpack(length_prefix)
        verdict_bytes = verdicts(request_stream.read(batch_length))
        answer_stream.write(LENGTH.pack(len(verdict_bytes)) + verdict_bytes)
        answer_stream.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
