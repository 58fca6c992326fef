"""A seed and the shape of the work, with limits, and what that work counts; needs no NumPy.

Always: a product in a chain within the limits stays below 2**24, so float32 holds it; a shape counts the same work on
every device.
"""

from hashlib import blake2b
from typing import Annotated

from runtime.encoding.codec import U16, U32, DecodeError, Fixed, codec, struct

CHAIN_ID = blake2b(b"ogpu/workload/matmul-chain/1", digest_size=32).digest()
SIZE_MAX = 2_048
"""128 * 63 * 2048 is below 2**24: the greatest sum of products."""
ROUNDS_MAX = 4_096
ROWS_MAX = 2**24


@struct
class ChainShape:
    """`rows` vectors of `size` numbers go through one matrix `rounds` times."""

    size: U16
    rows: U32
    rounds: U16


@struct
class ChainChallenge:
    """What one device computes in one roll call."""

    seed: Annotated[bytes, Fixed(32)]
    shape: ChainShape


CHALLENGE = codec(ChainChallenge)


def shape_broken(shape: ChainShape) -> str | None:
    """What is wrong with a shape; None if nothing is."""
    bounds = (("size", shape.size, SIZE_MAX), ("rows", shape.rows, ROWS_MAX), ("rounds", shape.rounds, ROUNDS_MAX))
    for name, value, most in bounds:
        if not 1 <= value <= most:
            return f"{name} of a chain is 1 to {most}, not {value}"
    return None


def operations(shape: ChainShape) -> int:
    """Multiplications and additions of the whole work: 2 n^2 m T."""
    return 2 * shape.size**2 * shape.rows * shape.rounds


def decode_challenge(data: bytes) -> ChainChallenge:
    """The challenge in `data`; DecodeError unless it is canonical and within the limits."""
    asked = CHALLENGE.decode(data)
    broken = shape_broken(asked.shape)
    if broken is not None:
        raise DecodeError(broken)
    return asked
