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
from gpu_tasks.workloads.sampling import fingerprint, sampled_places
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
    return b"".join(entry.to_bytes(4, "little") for row in current for entry in row)


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

    def run(self, encoded_request: bytes) -> bytes:
        """Return the encoded `ChainOutput`."""
        request = decode_request(encoded_request)
        last_matrix = self._chain(self._drawn(request), request.size, request.rounds)
        return OUTPUT.encode(ChainOutput(request.rounds, blake2b(last_matrix, digest_size=32).digest()))

    def verify(self, encoded_request: bytes, encoded_output: bytes) -> OutputCheck:
        """Compute again, since a chain has no shorter check. A hash does not show the wrong place of a matrix."""
        request = decode_request(encoded_request)
        is_right = self.run(encoded_request) == encoded_output
        return OutputCheck(valid=is_right, recomputed=request.rounds, first_wrong=None if is_right else 0)

    def fingerprint(self, encoded_request: bytes, encoded_output: bytes, seed: bytes) -> bytes:
        """Sample one entry of the matrix after each product."""
        request = decode_request(encoded_request)
        drawn = self._drawn(request)
        current, added = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
        entries = []
        for place in sampled_places(seed, 0, request.rounds, request.size**2):
            current = self._chain(current + added, request.size, 1)
            entries.append(int.from_bytes(current[4 * place : 4 * place + 4], "little"))
        return fingerprint(seed, [np.array(entries, dtype=np.int64)])

    def _drawn(self, request: ChainRequest) -> bytes:
        """Return the bytes of X0 and D."""
        seed_label = _DOMAIN + request.seed.to_bytes(8, "little") + request.size.to_bytes(2, "little")
        return shake_256(seed_label).digest(2 * 4 * request.size**2)

    def conformance(self) -> bytes:
        """Return the published hash of all outputs to the vectors."""
        outputs = b"".join(self.run(REQUEST.encode(request)) for request in VECTORS)
        vectors_hash = blake2b(outputs, digest_size=32).digest()
        if vectors_hash.hex() != CONFORMANCE:
            raise NonConformingBackendError("matmul-hash: outputs differ from the vectors")
        return vectors_hash


def open_published(backend_name: str) -> MatmulHash:
    """Return the workload on a backend after its vectors passed. Raise errors as `WorkloadForm.open`."""
    if backend_name not in BACKENDS:
        raise LookupError(f"no backend {backend_name!r}; there are {', '.join(BACKENDS)}")
    workload = MatmulHash(BACKENDS[backend_name])
    workload.conformance()
    return workload
