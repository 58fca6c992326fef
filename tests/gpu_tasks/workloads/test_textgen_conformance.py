"""The published vectors hold here, and backends with the faults of real libraries are refused."""

from typing import Any

import numpy as np
import pytest

from gpu_tasks.workloads.registry import open_workload
from gpu_tasks.workloads.textgen_int8 import conformance
from gpu_tasks.workloads.textgen_int8.backends import NumpyBackend
from gpu_tasks.workloads.textgen_int8.integer_ops import Array, Reference
from gpu_tasks.workloads.textgen_int8.model import encode_model
from gpu_tasks.workloads.textgen_int8.request import (
    COMPLETIONS,
    MODEL_ID,
    WORKLOAD_ID,
    CompletionRequest,
    encode_request,
    model_file,
)
from gpu_tasks.workloads.textgen_int8.service import TextGeneration
from gpu_tasks.workloads.workload import NonConformingBackendError
from textgen_models import small_model
from torch_here import skip_without


class RoundedOperands(NumpyBackend):
    """Rounds operands and keeps sums exact, as the matrix units of GPUs do in their fast modes."""

    kept_bits = 0

    def product(self, left: Array, right: Array) -> Array:
        return super().product(self._rounded(left), self._rounded(right))

    def _rounded(self, values: Array) -> Array:
        lost = 24 - self.kept_bits
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
        return ((bits + np.uint32(1 << (lost - 1))) >> np.uint32(lost) << np.uint32(lost)).view(np.float32)


class Tf32Operands(RoundedOperands):
    """Every weight and activation fits into 11 bits. The shares of attention do not."""

    kept_bits = 11


class Bfloat16Operands(RoundedOperands):
    """Every weight and activation fits into 8 bits, too."""

    kept_bits = 8


class Bfloat16Products(NumpyBackend):
    """Keeps 8 bits of each sum."""

    def product(self, left: Array, right: Array) -> Array:
        sums = super().product(left, right).astype(np.float32)
        return (sums.view(np.uint32) & 0xFFFF0000).view(np.float32).astype(np.int64)


class HalfSums(NumpyBackend):
    """Sums in float16, as some accelerators do."""

    def product(self, left: Array, right: Array) -> Array:
        sums = super().product(left, right)
        return np.clip(sums, -65504, 65504).astype(np.float16).astype(np.int64)


class LostLastBit(NumpyBackend):
    """Rounds the largest sums to even, as a mantissa with one bit too few would."""

    def product(self, left: Array, right: Array) -> Array:
        sums = super().product(left, right)
        return np.where(np.abs(sums) >= 1 << 23, sums & ~1, sums)


class FloatRoot(NumpyBackend):
    """Takes roots in float32 without correction."""

    def root(self, squares: Array) -> Array:
        return np.sqrt(squares.astype(np.float32)).astype(np.int64)


class WrappedClamp(Reference):
    """Wraps round in the conversion to 8 bits instead of saturating."""

    def clamp(self, values: Array, low: int, high: int) -> Array:
        return values.astype(np.int8).astype(np.int64) if high == 127 else super().clamp(values, low, high)


@pytest.mark.parametrize(
    ("broken", "operation"),
    [
        (Tf32Operands, "shares"),
        (Bfloat16Operands, "shares"),
        (Bfloat16Products, "product"),
        (HalfSums, "product"),
        (LostLastBit, "product"),
        (FloatRoot, "root"),
        (WrappedClamp, "norm"),
    ],
)
def test_a_broken_backend_is_refused(broken: Any, operation: str) -> None:
    with pytest.raises(NonConformingBackendError, match=operation):
        TextGeneration(broken(), encode_model(small_model()))


def test_a_model_that_answers_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a backend passed every single operation and still combined them wrongly."""
    monkeypatch.setattr(conformance, "COMPLETIONS", "00" * 32)
    with pytest.raises(NonConformingBackendError, match="completions"):
        open_workload("textgen-int8")


def test_decoding_that_differs_from_prefill_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = open_workload("textgen-int8")
    monkeypatch.setattr(conformance, "generate", lambda _, request: b"\0" * request.max_tokens)
    with pytest.raises(NonConformingBackendError, match="prefill"):
        workload.conformance()


@pytest.mark.parametrize("backend", ["numpy", "reference", "torch-cpu"])
def test_the_published_model_conforms(backend: str) -> None:
    skip_without(backend)
    workload = open_workload("textgen-int8", backend)
    assert workload.model_id.hex() == MODEL_ID
    assert workload.workload_id == WORKLOAD_ID
    assert workload.conformance().hex() == COMPLETIONS


def test_run_and_verify_through_the_interface() -> None:
    workload = open_workload("textgen-int8")
    request = encode_request(CompletionRequest(b"class A(", 12, 0, bytes(32)))
    output = workload.run(request)
    assert workload.verify(request, output).valid
    assert not workload.verify(request, output[:-1] + bytes([output[-1] ^ 1])).valid


def test_a_model_of_ones_own_runs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its conformance is that prefill and decoding agree, because there is no published answer."""
    own = TextGeneration(NumpyBackend(), encode_model(small_model()))
    monkeypatch.setattr(conformance, "REQUESTS", (CompletionRequest(b"a", 20, 500, bytes(32)),))
    assert len(own.conformance()) == 32
    assert own.model_id.hex() != MODEL_ID


@pytest.mark.parametrize("name", ["textgen-float", ""])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(LookupError, match="no workload"):
        open_workload(name)


def test_the_model_file_is_small() -> None:
    assert len(model_file()) < 4_000_000
