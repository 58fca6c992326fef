"""Requests and outputs as canonical SCALE bytes with limits. Needs no NumPy.

Invariant: a request within the limits is at most `SIZE_MAX ** 3 * ROUNDS_MAX` multiplications. That takes half a second
of one CPU in NumPy and a minute or two in the reference.
"""

from hashlib import blake2b
from typing import Annotated

from runtime.encoding.codec import U16, U32, U64, DecodeError, Fixed, codec, struct

WORKLOAD_ID = blake2b(b"ogpu/workload/matmul-hash/1", digest_size=32).digest()
MODEL_ID = bytes(32)
"""Zeros, because there is no model file."""

SEED_MAX = 2**64 - 1
SIZE_MAX = 128
ROUNDS_MAX = 256


@struct
class ChainRequest:
    """A request: draw two matrices of `size` rows from `seed`, and make `rounds` products."""

    seed: U64
    size: U16
    rounds: U16


@struct
class ChainOutput:
    """An output: the hash of the last matrix, and the number of products, so that the output alone shows its cost."""

    products: U32
    digest: Annotated[bytes, Fixed(32)]


REQUEST = codec(ChainRequest)
OUTPUT = codec(ChainOutput)
OUTPUT_BYTES = 36


def limits_broken(size: int, rounds: int) -> str | None:
    """Return the problem with a size and a number of rounds, or None."""
    if not 1 <= size <= SIZE_MAX:
        return f"a matrix has 1 to {SIZE_MAX} rows, not {size}"
    if not 1 <= rounds <= ROUNDS_MAX:
        return f"a chain has 1 to {ROUNDS_MAX} products, not {rounds}"
    return None


def decode_request(encoded: bytes) -> ChainRequest:
    """Return the request in `encoded_bytes`. Raise DecodeError unless it is canonical and within the limits."""
    request = REQUEST.decode(encoded)
    problem = limits_broken(request.size, request.rounds)
    if problem is not None:
        raise DecodeError(problem)
    return request
