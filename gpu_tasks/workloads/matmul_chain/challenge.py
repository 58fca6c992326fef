"""The seed and the shape of the work, its number of operations, and the hashes of a row. Needs no NumPy.

Invariant: the pallet of roll calls takes no shape beyond these limits (`gpu_tasks/market/capacity/proofs.py`), so a sum
of products stays below 2**24 and float32 holds it. A shape counts the same work on every device.
"""

from hashlib import blake2b
from typing import Annotated

from gpu_tasks.workloads.fingerprints import FINGERPRINT_BYTES
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U16, U32, Fixed, codec, struct

SIZE_MAX = 2_048
"""128 * 63 * 2048, the greatest sum of products, is below 2**24."""
ROWS_MAX = 2**24


@struct
class ChainShape:
    """The shape: `rows` vectors of `size` numbers go through one matrix `rounds` times."""

    size: U16
    rows: U32
    rounds: U16


@struct
class ChainChallenge:
    """The work of one device in one roll call."""

    seed: Annotated[bytes, Fixed(32)]
    shape: ChainShape


CHALLENGE = codec(ChainChallenge)


def operations(shape: ChainShape) -> int:
    """Return the multiplications and additions of the whole work: 2 n^2 m T."""
    return 2 * shape.size**2 * shape.rows * shape.rounds


def row_hash(row_end: bytes) -> bytes:
    """Return the hash of a row's last values, 32 bytes: a leaf under the root of a proof."""
    return blake2_256(row_end)


def row_fingerprint(seed: bytes, row_end: bytes) -> bytes:
    """Return the 16 bytes that show a computation of the row: a delivery has only the row's hash."""
    return blake2b(b"ogpu/row-fingerprint" + seed + row_end, digest_size=FINGERPRINT_BYTES).digest()
