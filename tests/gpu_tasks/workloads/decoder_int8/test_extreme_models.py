"""No model that passes the checks reaches an integer that float64 cannot hold, and backends agree on all of them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from decoder_models import extreme_model, logits
from gpu_tasks.workloads.decoder_int8.config import DecoderShape
from gpu_tasks.workloads.decoder_int8.model import decode_model, encode_tensors
from gpu_tasks.workloads.decoder_int8.transformer import load
from gpu_tasks.workloads.integer_arrays import Integers
from gpu_tasks.workloads.integer_transformer.arithmetic import PlainBackend
from gpu_tasks.workloads.integer_transformer.numpy_backend import FloatBackend

FLOAT_MAX = 1 << 53
ROUNDED_MAX = 1 << 52
"""Above, float64 has no halves."""


class Bounded(np.ndarray):
    """int64 that raises OverflowError for any result of 2**53 or more."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(value) for value in inputs]
        if "out" in options:
            options["out"] = tuple(np.asarray(out) for out in options["out"])
        result = getattr(ufunc, method)(*plain, **options)
        if ufunc in {np.add, np.subtract, np.multiply, np.matmul, np.left_shift}:
            floats = [value.astype(np.float64) for value in plain]
            if ufunc is np.left_shift:
                sizes = np.ldexp(floats[0], plain[1].astype(np.int32))
            else:
                options.pop("out", None)
                sizes = getattr(ufunc, method)(*floats, **(options | {"dtype": np.float64}))
            if np.size(sizes) and np.abs(sizes).max() >= FLOAT_MAX:
                raise OverflowError(ufunc.__name__)
        return np.asarray(result).view(Bounded)


class BoundedReference(PlainBackend):
    """The reference, with a watch on every integer."""

    def put(self, values: Integers) -> Any:
        return super().put(values).view(Bounded)

    def operand(self, values: Integers) -> Any:
        return super().operand(values).view(Bounded)

    def numbers(self, shape: tuple[int, ...]) -> Any:
        return super().numbers(shape).view(Bounded)

    def operands(self, shape: tuple[int, ...]) -> Any:
        return super().operands(shape).view(Bounded)

    def rounded(self, values: Any, shift: Any) -> Any:
        """Unlike the reference, keep the half of a shift by many bits out of the watch: no float holds it."""
        if np.abs(np.asarray(values)).max() >= ROUNDED_MAX:
            raise OverflowError("rounded")
        result = super().rounded(np.asarray(values), np.asarray(shift)).view(Bounded)
        if np.abs(np.asarray(result)).max() >= ROUNDED_MAX:
            raise OverflowError("rounded")
        return result

    def quotient(self, dividend: Any, divisor: Any) -> Any:
        if np.abs(np.asarray(dividend)).max() >= ROUNDED_MAX or np.asarray(divisor).min() < 1:
            raise OverflowError("quotient")
        return super().quotient(dividend, divisor)

    def root(self, squares: Any) -> Any:
        if np.asarray(squares).max() >= ROUNDED_MAX or np.asarray(squares).min() < 0:
            raise OverflowError("root")
        return super().root(np.asarray(squares)).view(Bounded)


SHAPES = (
    DecoderShape(8, 2, 4, 2, 4, 6, 16, 16, 0, True, True, True, ()),
    DecoderShape(16, 2, 2, 1, 8, 12, 16, 16, 1 << 30, False, False, False, ()),
    DecoderShape(1, 2, 1, 1, 2, 1, 16, 3, 1, True, False, False, ()),
)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), shape=st.sampled_from(SHAPES))
@example(seed=0, shape=SHAPES[0])
def test_backends_agree_on_extreme_models(seed: int, shape: DecoderShape) -> None:
    model = extreme_model(shape, seed)
    section = np.frombuffer(b"".join(encode_tensors(model)), dtype=np.uint8)
    checked = decode_model(shape, section)
    tokens = np.random.default_rng(seed).integers(0, shape.vocabulary, (2, shape.context))
    expected = logits(load(BoundedReference(), checked), tokens)
    assert np.array_equal(logits(load(FloatBackend(), checked), tokens), expected)


def test_the_watch_sees_an_overflow() -> None:
    large: Any = BoundedReference().put(np.array([1 << 52]))
    for ufunc, other in ((np.add, large), (np.multiply, 2), (np.left_shift, 1), (np.subtract, -large)):
        with pytest.raises(OverflowError):
            ufunc(large, other)
