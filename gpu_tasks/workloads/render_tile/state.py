"""A state of a run as bytes: whose it is, how far it is, the pixels that are done; no NumPy.

    blake2b-256 of the request ‖ rows done: u32 ‖ red, green, blue of their pixels, row by row     little-endian

Always: one state is bytes in one way, of a length that the request and the rows fix.
"""

from hashlib import blake2b

from gpu_tasks.workloads.render_tile.request import PIXEL_BYTES, AskedTile
from runtime.encoding.codec import DecodeError

DIGEST_BYTES = 32
HEADER_BYTES = DIGEST_BYTES + 4


def request_digest(request: bytes) -> bytes:
    """What the states of a request's run begin with."""
    return blake2b(request, digest_size=DIGEST_BYTES).digest()


def encode_state(digest: bytes, rows: int, pixels: bytes) -> bytes:
    """The state of the run that `digest` stands for, of so many rows."""
    return digest + rows.to_bytes(4, "little") + pixels


def decode_state(asked: AskedTile, digest: bytes, state: bytes) -> tuple[int, bytes]:
    """The rows that are done, and their pixels; DecodeError unless it is a state of this request."""
    if state[:DIGEST_BYTES] != digest or len(state) < HEADER_BYTES:
        raise DecodeError("a state of another request")
    rows = int.from_bytes(state[DIGEST_BYTES:HEADER_BYTES], "little")
    if rows > asked.tile.rows:
        raise DecodeError("more rows than there are", DIGEST_BYTES)
    if len(state) != HEADER_BYTES + PIXEL_BYTES * rows * asked.tile.columns:
        raise DecodeError("a state of another length", len(state))
    return rows, state[HEADER_BYTES:]
