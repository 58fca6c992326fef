"""The root over the hashes of all rows of a chain, and the backends by name with their vectors.

Invariant: the root is over the hashes of the rows in their order. A few rows, their Merkle paths and the challenge
therefore suffice to check the root at those rows.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from gpu_tasks.workloads.backend_choice import ByDevice, chosen
from gpu_tasks.workloads.matmul_chain.arithmetic import ChainArithmetic, NumpyChain, ReferenceChain
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge, ChainShape, row_hash
from gpu_tasks.workloads.workload import NonConformingBackendError
from runtime.cryptography.merkle import merkle_root

ROW_DOMAIN = b"chainrow"
BYTES_AT_ONCE = 2**24
"""The numbers of a chain that are computed at once. They fit a device's fast memory, and each round is large enough to
use it."""

VECTORS = (
    ChainChallenge(bytes(32), ChainShape(1, 1, 1)),
    ChainChallenge(b"\x5a" * 32, ChainShape(7, 3, 9)),
    ChainChallenge(b"\xff" * 32, ChainShape(64, 5, 3)),
    ChainChallenge(bytes(range(32)), ChainShape(33, 40, 4)),
)
CONFORMANCE = "218cd2258a907fad43fa2f4cab34bff908472ee5844dd8cbf69c59aeba32750b"


def row_hashes(arithmetic: ChainArithmetic, challenge: ChainChallenge) -> list[bytes]:
    """Return the hash of each row of the end. A device keeps them, 32 bytes a row, until its claim is over."""
    # In parts, so that memory bounds no roll call: a row depends on no other row.
    at_once = max(1, BYTES_AT_ONCE // challenge.shape.size)
    return [
        digest
        for first in range(0, challenge.shape.rows, at_once)
        for digest in _hashes_of_rows(arithmetic, challenge, range(first, min(first + at_once, challenge.shape.rows)))
    ]


def rows_root(digests: Sequence[bytes]) -> bytes:
    """Return the root over the hashes of all rows, 32 bytes, which the device states."""
    return merkle_root(ROW_DOMAIN, digests)


def chain_arithmetic(backend_name: str) -> ChainArithmetic:
    """Return the backend `numpy`, `reference`, or `torch-` with a device, after its vectors passed.

    Raise LookupError for another name or an unusable device, ImportError without PyTorch, and NonConformingBackendError
    if this machine's results differ.
    """
    arithmetic = chosen(backend_name, _numpy, _reference, _torch)
    # A device with other bits would state rows that every checker refutes.
    if conformance(arithmetic) != CONFORMANCE:
        raise NonConformingBackendError("matmul-chain: roots differ from the vectors")
    return arithmetic


def conformance(arithmetic: ChainArithmetic) -> str:
    """Return the hash of the roots of all vectors, in hex."""
    joined_roots = b"".join(rows_root(row_hashes(arithmetic, challenge)) for challenge in VECTORS)
    return blake2b(joined_roots, digest_size=32).hexdigest()


def _hashes_of_rows(arithmetic: ChainArithmetic, challenge: ChainChallenge, rows: Sequence[int]) -> Iterator[bytes]:
    row_ends, row_size = arithmetic.ends(challenge, rows), challenge.shape.size
    return (row_hash(row_ends[row_start : row_start + row_size]) for row_start in range(0, len(row_ends), row_size))


def _numpy() -> ChainArithmetic:
    return NumpyChain()


def _reference() -> ChainArithmetic:
    return ReferenceChain()


def _torch() -> ByDevice[ChainArithmetic]:
    from gpu_tasks.workloads.matmul_chain.torch_chain import TorchChain  # noqa: PLC0415 (optional)

    return TorchChain
