"""Vectors: fixed work with a published hash. A backend with another hash must not serve.

A small model answers texts of several lengths, side by side and one by one. Its integers are drawn by SHAKE-256 over
their whole ranges, and its sums are longer than one product of any backend. Operands or sums in TF32, bfloat16 or
float16, saturating kernels and fused roots all change the hash.
"""

from collections.abc import Iterator
from functools import cache
from hashlib import blake2b, shake_256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.workloads.embed_int8.batching import embedded
from gpu_tasks.workloads.embed_int8.config import EncoderShape
from gpu_tasks.workloads.embed_int8.model import EncoderLayer, EncoderModel, MatrixArrays, NormArrays
from gpu_tasks.workloads.embed_int8.request import EmbeddingRequest
from gpu_tasks.workloads.embed_int8.transformer import load
from gpu_tasks.workloads.integer_arrays import Integers
from gpu_tasks.workloads.integer_transformer.arithmetic import TransformerBackend
from gpu_tasks.workloads.integer_transformer.rows import GAIN_MAX, GainRow, Rows
from gpu_tasks.workloads.integer_transformer.tables import exponential_table, normal_table
from gpu_tasks.workloads.workload import NonConformingBackendError

SHAPE = EncoderShape(width=64, layers=2, heads=2, inner=1100, positions=600, vocabulary=97, epsilon=1)
LENGTHS = (1, 2, 7, 40, 41, 64, 530)
"""Of the fixed texts. The last is longer than one product over keys."""
ANSWERS = "ea35388826ba52e0fb4e8f419003b443e0ae227eccd7e470862363ba51b62f2c"
"""The hash of the answers to the fixed texts."""


def answers_hash(backend: TransformerBackend) -> bytes:
    """Return the hash of the fixed answers. Raise NonConformingBackendError if it is not the published one."""
    model = load(backend, small_model())
    requests = tuple(_requests())
    together = dict(embedded(model, requests))
    for place, request in enumerate(requests[:-1]):
        ((_, alone),) = embedded(model, [request])
        if alone != together[place]:
            raise NonConformingBackendError(f"{backend.name}: a text alone differs from the text in a batch")
    answers = b"".join(together[place] for place in range(len(requests)))
    digest = blake2b(answers, digest_size=32).digest()
    if digest.hex() != ANSWERS:
        raise NonConformingBackendError(f"{backend.name}: vectors of embed-int8 differ from the published ones")
    return digest


@cache
def small_model() -> EncoderModel:
    """Return the model of the vectors."""
    draws = _Draws(b"ogpu/embed-int8/vectors/1")
    s = SHAPE
    return EncoderModel(
        s, draws.rows(s.vocabulary, s.width, 23), draws.integers((s.positions, s.width), 1 << 16).astype(np.int32),
        draws.norm(s.width), exponential_table(), normal_table(),
        tuple(
            EncoderLayer(
                draws.matrix(3 * s.width, s.width, 25, 1 << 12), draws.matrix(s.width, s.width, 25, 1 << 16),
                draws.norm(s.width), draws.matrix(s.inner, s.width, 25, 1 << 12),
                draws.matrix(s.width, s.inner, 27, 1 << 16), draws.norm(s.width),
            )
            for _ in range(s.layers)
        ),
    )  # fmt: skip


def _requests() -> Iterator[EmbeddingRequest]:
    draws = _Draws(b"ogpu/embed-int8/texts/1")
    for length in LENGTHS:
        tokens = np.abs(draws.integers((length,), SHAPE.vocabulary - 1))
        yield EmbeddingRequest(tuple(int(token) for token in tokens))


class _Draws:
    """Integers from SHAKE-256, of a label and a counter."""

    def __init__(self, label: bytes) -> None:
        self._label = label
        self._count = 0

    def integers(self, shape: tuple[int, ...], limit: int) -> Integers:
        """Return integers from -limit to limit."""
        self._count += 1
        label = self._label + self._count.to_bytes(4, "little")
        drawn = np.frombuffer(shake_256(label).digest(8 * int(np.prod(shape))), "<u8")
        return ((drawn % np.uint64(2 * limit + 1)).astype(np.int64) - limit).reshape(shape)

    def rows(self, rows: int, columns: int, exponent: int) -> Rows:
        """Return a matrix. Its exponents are around `exponent`."""
        mantissas: NDArray[Any] = (self.integers((rows,), 1 << 14) + (3 << 14)).clip(1 << 15, (1 << 16) - 1)
        exponents = self.integers((rows,), 1) + exponent
        return Rows(
            self.integers((rows, columns), 127).astype(np.int8), mantissas.astype(np.uint16), exponents.astype(np.int8)
        )

    def matrix(self, rows: int, columns: int, exponent: int, bias_max: int) -> MatrixArrays:
        """Return a matrix with a bias."""
        return MatrixArrays(self.rows(rows, columns, exponent), self.integers((rows,), bias_max).astype(np.int32))

    def norm(self, channels: int) -> NormArrays:
        """Return a norm with gains from -2 to 2."""
        gain = GainRow(self.integers((channels,), GAIN_MAX).astype(np.int16), np.array([14], dtype=np.int8))
        return NormArrays(gain, self.integers((channels,), 1 << 17).astype(np.int32))
