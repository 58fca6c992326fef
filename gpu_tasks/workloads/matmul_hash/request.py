"""What is asked and answered, as canonical SCALE bytes with limits; needs no NumPy.

Always: a request within the limits is at most `SIZE_MAX ** 3 * ROUNDS_MAX` multiplications, half a second of one CPU in
NumPy and a minute or two in the reference.
"""

from hashlib import blake2b
from typing import Annotated

from runtime.encoding.codec import U16, U32, U64, DecodeError, Fixed, codec, struct

WORKLOAD_ID = blake2b(b"ogpu/workload/matmul-hash/1", digest_size=32).digest()
MODEL_ID = bytes(32)
"""There is no model file."""

SEED_MAX = 2**64 - 1
SIZE_MAX = 128
ROUNDS_MAX = 256


@struct
class ChainRequest:
    """Draw two matrices of `size` rows from `seed`, and make `rounds` products."""

    seed: U64
    size: U16
    rounds: U16


@struct
class ChainOutput:
    """What was done, so that whoever has the output alone knows what it cost, and what came out."""

    products: U32
    digest: Annotated[bytes, Fixed(32)]


REQUEST = codec(ChainRequest)
OUTPUT = codec(ChainOutput)
OUTPUT_BYTES = 36


def limits_broken(size: int, rounds: int) -> str | None:
    """What is wrong with a size and a number of rounds; None if nothing is."""
    if not 1 <= size <= SIZE_MAX:
        return f"a matrix has 1 to {SIZE_MAX} rows, not {size}"
    if not 1 <= rounds <= ROUNDS_MAX:
        return f"a chain has 1 to {ROUNDS_MAX} products, not {rounds}"
    return None


def decode_request(data: bytes) -> ChainRequest:
    """The request in `data`; DecodeError unless it is canonical and within the limits."""
    request = REQUEST.decode(data)
    broken = limits_broken(request.size, request.rounds)
    if broken is not None:
        raise DecodeError(broken)
    return request
