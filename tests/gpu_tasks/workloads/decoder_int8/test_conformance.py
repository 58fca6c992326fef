"""The published vectors hold here, and backends with the faults of real libraries are refused."""

from typing import Any

import numpy as np
import pytest

from gpu_tasks.workloads.decoder_int8 import conformance
from gpu_tasks.workloads.decoder_int8.conformance import SHAPE, built_in_model, check_backend
from gpu_tasks.workloads.decoder_int8.model import decode_model, encode_tensors
from gpu_tasks.workloads.decoder_int8.transformer import load
from gpu_tasks.workloads.integer_arrays import BackendArray
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from gpu_tasks.workloads.integer_transformer.numpy_backend import FloatBackend
from gpu_tasks.workloads.workload import NonConformingBackendError
from torch_here import skip_without


@pytest.mark.parametrize("backend", ["reference", "numpy", "torch-cpu", "torch-cuda:0"])
def test_backends_conform(backend: str) -> None:
    skip_without(backend)
    check_backend(arithmetic(backend))


def test_the_built_in_model_passes_the_checks_of_a_file_and_varies() -> None:
    section = np.frombuffer(b"".join(encode_tensors(built_in_model())), dtype=np.uint8)
    assert decode_model(SHAPE, section).shape == SHAPE
    values = conformance.logits(load(FloatBackend(), built_in_model()), SHAPE.context)
    assert len(np.unique(values)) > 10_000
    assert 1 < values.std() / (1 << 16) < 20


def kept(values: BackendArray, bits: int) -> BackendArray:
    """Return float32 rounded to fewer bits of mantissa."""
    lost = 24 - bits
    raw = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((raw + np.uint32(1 << (lost - 1))) >> np.uint32(lost) << np.uint32(lost)).view(np.float32)


class OneProduct(FloatBackend):
    """Multiplies 16-bit integers as single operands, rounded to the bits of a GPU's fast mode."""

    bits = 11

    def product(self, scaled: BackendArray, operand: BackendArray) -> BackendArray:
        return np.matmul(kept(scaled, self.bits), operand.swapaxes(-1, -2)).astype(np.float64)


class Bfloat16(OneProduct):
    bits = 8


class Float32Sums(FloatBackend):
    """Does without limbs: operands are exact, and sums are not."""

    def product(self, scaled: BackendArray, operand: BackendArray) -> BackendArray:
        return np.matmul(scaled.astype(np.float32), operand.swapaxes(-1, -2)).astype(np.float64)


class Float32Mix(FloatBackend):
    def mix(self, shares: BackendArray, operand: BackendArray) -> BackendArray:
        return np.matmul(shares.astype(np.float32), operand).astype(np.float64)


class SaturatingInt32(FloatBackend):
    """Saturates sums at 32 bits."""

    def product(self, scaled: BackendArray, operand: BackendArray) -> BackendArray:
        return np.clip(super().product(scaled, operand), -(1 << 31), (1 << 31) - 1)


class FloatRoot(FloatBackend):
    def root(self, squares: BackendArray) -> BackendArray:
        return np.floor(np.sqrt(squares.astype(np.float32))).astype(np.float64)


class RoundedToEven(FloatBackend):
    def rounded(self, values: BackendArray, shift: BackendArray) -> BackendArray:
        return np.rint(values * np.ldexp(1.0, -np.asarray(shift).astype(np.int32)))


class RescaledToEven(FloatBackend):
    def rescaled(
        self, values: BackendArray, mantissas: BackendArray, shift: BackendArray, other_shift: BackendArray
    ) -> BackendArray:
        total = np.asarray(shift + other_shift).astype(np.int32)
        return np.rint(values * mantissas * np.ldexp(1.0, -total))


class RoundedTwice(FloatBackend):
    """Rounds after each of the two shifts."""

    def rescaled(
        self, values: BackendArray, mantissas: BackendArray, shift: BackendArray, other_shift: BackendArray
    ) -> BackendArray:
        return self.rounded(super().rescaled(values, mantissas, shift, 0), other_shift)


class ShiftedTowardsZero(FloatBackend):
    def shifted(self, values: BackendArray, shift: BackendArray) -> BackendArray:
        return np.trunc(values * np.ldexp(1.0, -np.asarray(shift).astype(np.int32)))


class ReciprocalQuotient(FloatBackend):
    """Multiplies by a reciprocal, as compilers do that allow inexact division."""

    def quotient(self, dividend: BackendArray, divisor: BackendArray) -> BackendArray:
        return np.floor(dividend * (1 / divisor))


class Float32Log(FloatBackend):
    def bit_length(self, values: BackendArray) -> BackendArray:
        return np.frexp(values.astype(np.float32))[1].astype(np.float64)


@pytest.mark.parametrize(
    ("broken", "operation"),
    [
        (OneProduct, "product"),
        (Bfloat16, "product"),
        (Float32Sums, "product"),
        (Float32Mix, "mix"),
        (SaturatingInt32, "product"),
        (FloatRoot, "root"),
        (RoundedToEven, "rounded"),
        (RescaledToEven, "rescaled"),
        (RoundedTwice, "rescaled"),
        (ShiftedTowardsZero, "shifted"),
        (ReciprocalQuotient, "quotient"),
        (Float32Log, "bit_length"),
    ],
)
def test_a_broken_backend_is_refused(broken: Any, operation: str) -> None:
    with pytest.raises(NonConformingBackendError, match=f"numpy: {operation} "):
        check_backend(broken())


def test_a_backend_that_combines_operations_wrongly_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "LOGITS", "00" * 16)
    with pytest.raises(NonConformingBackendError, match="prefill"):
        check_backend(FloatBackend())
