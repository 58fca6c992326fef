"""`matmul-hash` as a `Workload`: the chain on two backends, its vectors, and a check that computes again.

    X0, D = size x size matrices of 32-bit numbers, SHAKE-256 of the request's seed and size, row by row, X0 first
    X(k+1) = X(k) X(k) + D    modulo 2**32, `rounds` times
    output = rounds, blake2b-256 of the last X, row by row, little-endian

Invariant: arithmetic is modulo 2**32, so the order of sums does not matter and nothing is rounded. The chain squares
because `rounds` products with a constant could be folded into their logarithm. It adds D because products of random
matrices lose rank modulo 2 and end at zero.
"""

from collections.abc import Callable
from hashlib import blake2b, shake_256

import numpy as np

from gpu_tasks.workloads.matmul_hash.request import (
    MODEL_ID,
    OUTPUT,
    REQUEST,
    WORKLOAD_ID,
    ChainOutput,
    ChainRequest,
    decode_request,
)
from gpu_tasks.workloads.workload import NonConformingBackendError, OutputCheck, Workload

MatrixChain = Callable[[bytes, int, int], bytes]
"""Computes the last matrix from the random bytes of both matrices, a size and a number of rounds. Matrices are `<u4`,
by rows."""

VECTORS = (ChainRequest(0, 1, 1), ChainRequest(1, 2, 200), ChainRequest(2**64 - 1, 33, 9), ChainRequest(7, 64, 3))
CONFORMANCE = "3b6b14a28b933b2ad190a696847c5b0a9f083006610fd98f5007fa608cfdf9c0"
_DOMAIN = b"ogpu/matmul-hash/1"
_MASK = 2**32 - 1


def numpy_chain(drawn: bytes, size: int, rounds: int) -> bytes:
    """Compute in NumPy, whose integer loops multiply uint32 matrices modulo 2**32."""
    current, added = np.frombuffer(drawn, "<u4").reshape(2, size, size)
    for _ in range(rounds):
        current = current @ current + added
    return current.astype("<u4").tobytes()


def reference_chain(drawn: bytes, size: int, rounds: int) -> bytes:
    """Compute in plain Python integers: slow, and correct by inspection."""
    numbers = [int.from_bytes(drawn[start : start + 4], "little") for start in range(0, len(drawn), 4)]
    rows = [numbers[start : start + size] for start in range(0, len(numbers), size)]
    current, added = rows[:size], rows[size:]
    for _ in range(rounds):
        current = [_next_row(row, current, offsets) for row, offsets in zip(current, added, strict=True)]
    return b"".join(number.to_bytes(4, "little") for row in current for number in row)


def _next_row(row: list[int], matrix: list[list[int]], offsets: list[int]) -> list[int]:
    """Return a row of `matrix` times itself, plus the same row of D."""
    products = [sum(map(int.__mul__, row, column)) for column in zip(*matrix, strict=True)]
    return [(product + offset) & _MASK for product, offset in zip(products, offsets, strict=True)]


BACKENDS: dict[str, MatrixChain] = {"numpy": numpy_chain, "reference": reference_chain}


class MatmulHash(Workload):
    """`matmul-hash` ready to run. See `Workload` for the methods."""

    workload_id = WORKLOAD_ID
    model_id = MODEL_ID

    def __init__(self, chain: MatrixChain) -> None:
        """Take a chain from `BACKENDS`, or another."""
        self._chain = chain

    def run(self, request: bytes) -> bytes:
        """Return the encoded `ChainOutput`."""
        asked = decode_request(request)
        return OUTPUT.encode(ChainOutput(asked.rounds, blake2b(self._last(asked), digest_size=32).digest()))

    def verify(self, request: bytes, output: bytes) -> OutputCheck:
        """Compute again, since a chain has no shorter check. A hash does not show the wrong place of a matrix."""
        asked = decode_request(request)
        is_right = self.run(request) == output
        return OutputCheck(valid=is_right, recomputed=asked.rounds, first_wrong=None if is_right else 0)

    def trace(self, request: bytes, output: bytes, place: bytes) -> bytes:
        """Return the hash of one row of the last matrix."""
        asked = decode_request(request)
        row = int.from_bytes(place, "little") % asked.size
        last = self._last(asked)[4 * asked.size * row : 4 * asked.size * (row + 1)]
        return blake2b(_DOMAIN + row.to_bytes(4, "little") + last, digest_size=32).digest()

    def _last(self, asked: ChainRequest) -> bytes:
        """Return the last matrix of a chain."""
        label = _DOMAIN + asked.seed.to_bytes(8, "little") + asked.size.to_bytes(2, "little")
        drawn = shake_256(label).digest(2 * 4 * asked.size**2)
        return self._chain(drawn, asked.size, asked.rounds)

    def conformance(self) -> bytes:
        """Return the published hash of all outputs to the vectors."""
        outputs = b"".join(self.run(REQUEST.encode(vector)) for vector in VECTORS)
        result = blake2b(outputs, digest_size=32).digest()
        if result.hex() != CONFORMANCE:
            raise NonConformingBackendError("matmul-hash: outputs differ from the vectors")
        return result


def open_published(backend: str) -> MatmulHash:
    """Return the workload on a backend after its vectors passed. Raise errors as `WorkloadForm.open`."""
    if backend not in BACKENDS:
        raise LookupError(f"no backend {backend!r}; there are {', '.join(BACKENDS)}")
    workload = MatmulHash(BACKENDS[backend])
    workload.conformance()
    return workload
