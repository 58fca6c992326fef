"""A process that checks signatures in batches, so that the node's own loop never waits for one.

Frames on stdin and stdout: a u32 big-endian length, then msgpack. In: a list of [scheme, public key, message,
signature]. Out: one byte for each, 1 for a valid one. The process ends with its stdin, so it never outlives its node.
"""

from __future__ import annotations

import signal
import struct
import sys
from typing import BinaryIO

import msgpack

from runtime.cryptography.signatures import Scheme, verify

LENGTH = struct.Struct(">I")


def verdicts(batch: bytes) -> bytes:
    """Return the answer to one batch: one byte for each signature."""
    return bytes(
        verify(Scheme(scheme), key, message, signature) for scheme, key, message, signature in msgpack.unpackb(batch)
    )


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer batches until `source` ends."""
    while len(header := source.read(LENGTH.size)) == LENGTH.size:
        (length,) = LENGTH.unpack(header)
        answer = verdicts(source.read(length))
        sink.write(LENGTH.pack(len(answer)) + answer)
        sink.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the node, which then closes our stdin
    serve(sys.stdin.buffer, sys.stdout.buffer)
