"""Each operation of every backend against plain Python integers, and at the limits of its range."""

from fractions import Fraction
from math import floor, isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_tasks.workloads.integer_transformer import arithmetic as ops
from gpu_tasks.workloads.integer_transformer.arithmetic import (
    Cached,
    Gain,
    Linear,
    PlainBackend,
    Scaled,
    TransformerBackend,
)
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from torch_here import skip_without

LIMIT = (1 << 52) - 1
"""Of operands: float64 holds a half beside them."""
BACKENDS = ("reference", "numpy", "torch-cpu", "torch-cuda:0")


@pytest.fixture(params=BACKENDS, scope="module")
def use(request: pytest.FixtureRequest) -> TransformerBackend:
    skip_without(request.param)
    return arithmetic(request.param)


def put(use: TransformerBackend, *values: Any) -> list[Any]:
    return [use.put(np.array(value, dtype=np.int64)) for value in values]


def taken(use: TransformerBackend, values: Any) -> Any:
    return use.take(values).tolist()


@st.composite
def shifted_values(draw: st.DrawFn) -> tuple[int, int]:
    """Return a value and a shift; a shift to the left stays below 2**52."""
    shift = draw(st.integers(-30, 160))
    most = LIMIT >> max(-shift, 0)
    return draw(st.one_of(st.integers(-most, most), st.sampled_from([most, -most, 0, 1, -1]))), shift


@given(shifted_values())
@example((LIMIT, 52))
@example((LIMIT, 53))
@example((LIMIT, 54))
@example((LIMIT, 0))
@example((-LIMIT, 0))
@example((-1, 160))
@example((1, 1))
@example((-1, 1))
@example((-(1 << 51), 52))
def test_shifts_round_down_and_half_up(use: TransformerBackend, case: tuple[int, int]) -> None:
    value, shift = case
    exact = Fraction(value) / Fraction(2) ** shift
    values, shifts = put(use, [value], [shift])
    assert taken(use, use.shifted(values, shifts)) == [floor(exact)]
    assert taken(use, use.rounded(values, shifts)) == [floor(exact + Fraction(1, 2))]


@given(
    value=st.integers(-(1 << 36) + 1, (1 << 36) - 1), mantissa=st.integers(1 << 15, (1 << 16) - 1),
    shift=st.integers(-18, 62), other=st.integers(-2, 80),
)  # fmt: skip
@example(value=127 << 29, mantissa=(1 << 16) - 1, shift=-18, other=18)
@example(value=-(127 << 29), mantissa=(1 << 16) - 1, shift=-18, other=19)
@example(value=127 << 29, mantissa=(1 << 16) - 1, shift=62, other=-10)
@example(value=3, mantissa=1 << 15, shift=8, other=8)
@example(value=-3, mantissa=1 << 15, shift=8, other=8)
def test_rescaling_rounds_once(use: TransformerBackend, value: int, mantissa: int, shift: int, other: int) -> None:
    if shift + other < 0:
        other = -shift
    exact = Fraction(value * mantissa) / Fraction(2) ** (shift + other)
    values, mantissas, shifts, others = put(use, [[value]], [mantissa], [shift], [[other]])
    assert taken(use, use.rescaled(values, mantissas, shifts, others)) == [[floor(exact + Fraction(1, 2))]]


@given(st.integers(-LIMIT, LIMIT), st.integers(1, LIMIT), st.integers(-1, 1))
@example(LIMIT, 1, 0)
@example(-LIMIT, LIMIT, 0)
@example(-1, LIMIT, 0)
@example(LIMIT, LIMIT - 1, 0)
@example((1 << 51) - 1, 1 << 25, 0)
def test_quotient_is_the_floor(use: TransformerBackend, dividend: int, divisor: int, beside: int) -> None:
    """Also beside a multiple of the divisor, where a rounded quotient is most easily wrong."""
    for number in (dividend, dividend // divisor * divisor + beside):
        if abs(number) <= LIMIT:
            assert taken(use, use.quotient(*put(use, [number], [divisor]))) == [number // divisor]


@given(st.integers(0, LIMIT))
@example(LIMIT)
def test_root_and_bit_length_are_exact(use: TransformerBackend, number: int) -> None:
    near = isqrt(number) ** 2
    numbers = [n for n in (number, near - 1, near, near + 1) if n >= 0]
    assert taken(use, use.root(*put(use, numbers))) == [isqrt(n) for n in numbers]
    assert taken(use, use.bit_length(*put(use, numbers))) == [n.bit_length() for n in numbers]


@pytest.mark.parametrize("bits", [*range(54)])
def test_bit_length_beside_powers_of_two(use: TransformerBackend, bits: int) -> None:
    numbers = [n for n in ((1 << bits) - 1, 1 << bits, (1 << bits) + 1) if n < 1 << 53]
    assert taken(use, use.bit_length(*put(use, numbers))) == [n.bit_length() for n in numbers]


@pytest.mark.parametrize("root", [1, 2, 3, 1 << 13, (1 << 25) + 1, (1 << 26) - 1])
def test_root_beside_a_square(use: TransformerBackend, root: int) -> None:
    numbers = [root * root - 1, root * root, root * root + 2 * root]
    assert taken(use, use.root(*put(use, numbers))) == [root - 1, root, root]


@pytest.mark.parametrize("columns", [1, 255, 256, 1023, 1024, 1025, 1536, 2049, 1 << 14])
def test_product_is_exact(use: TransformerBackend, columns: int) -> None:
    """At the largest sums of both limbs, with odd ones, and with values drawn."""
    draw = np.random.default_rng(columns)
    scaled = np.stack([np.full(columns, value) for value in (1 << 15, -(1 << 15), 32639, -32640, 32512 + 127)])
    scaled[:, 0] -= np.sign(scaled[:, 0])
    scaled = np.concatenate([scaled, draw.integers(-(1 << 15), (1 << 15) + 1, (3, columns))])
    weights = np.stack([np.full(columns, 127), np.full(columns, -127), draw.integers(-127, 128, columns)])
    got = use.product(use.put(scaled), use.operand(weights.astype(np.int8)))
    assert use.take(got).tolist() == (scaled @ weights.T).tolist()


@pytest.mark.parametrize("keys", [1, 511, 512, 513, 1100, 8192])
def test_mix_is_exact(use: TransformerBackend, keys: int) -> None:
    draw = np.random.default_rng(keys)
    shares = np.stack([np.full(keys, 65535), np.full(keys, 65280), np.full(keys, 255), draw.integers(0, 65536, keys)])
    shares[0, 0] = 65534
    values = np.stack([np.full(keys, 127), np.full(keys, -127), draw.integers(-127, 128, keys)], axis=1)
    assert use.take(use.mix(use.put(shares), use.operand(values))).tolist() == (shares @ values).tolist()


def test_products_of_many_texts_are_the_products_of_each(use: TransformerBackend) -> None:
    draw = np.random.default_rng(3)
    scaled, keys = draw.integers(-(1 << 15), 1 << 15, (2, 3, 5, 8)), draw.integers(-127, 128, (2, 3, 7, 8))
    got = use.take(use.product(use.put(scaled), use.operand(keys)))
    assert np.array_equal(got, scaled @ keys.swapaxes(-1, -2))
    shares = draw.integers(0, 1 << 16, (2, 3, 5, 7))
    assert np.array_equal(use.take(use.mix(use.put(shares), use.operand(keys))), shares @ keys)


def test_reductions_and_indexing(use: TransformerBackend) -> None:
    rows = [[-(1 << 44), 3, 7], [5, -2, 0]]
    (values,) = put(use, rows)
    assert taken(use, use.largest(values)) == [[1 << 44], [5]]
    assert taken(use, use.peak(values)) == [[7], [5]]
    assert taken(use, use.total(values)) == [[10 - (1 << 44)], [3]]
    assert taken(use, use.clamp(values, -2, 5)) == [[-2, 3, 5], [5, -2, 0]]
    assert taken(use, use.joined(values, values)) == [row * 2 for row in rows]
    table, places = put(use, [10, 20, 30], [[2, 0], [1, 1]])
    assert taken(use, use.entries(table, places)) == [[30, 10], [20, 20]]
    stored = use.operands((2, 3))
    stored[use.indices(np.array([[0], [1]])), use.indices(np.array([[1, 2], [0, 0]]))] = use.stored(places)
    assert taken(use, stored) == [[0, 2, 0], [1, 0, 0]]
    assert taken(use, use.numbers((1, 2))) == [[0, 0]]


# The combined operations, at the limits of the sizes and values that a checked model can have.

WIDTH = 8192
KEYS = 8192


def streams(count: int, limit: int) -> Any:
    """Return rows of limits, zeros, small and drawn values, and one value among zeros."""
    draw = np.random.default_rng(count)
    alone = np.zeros(count, dtype=np.int64)
    alone[-1] = -1
    outlier = draw.integers(-1000, 1000, count)
    outlier[0] = limit
    return np.stack([
        np.full(count, limit), np.full(count, -limit), np.zeros(count, dtype=np.int64), alone, outlier,
        draw.integers(-limit, limit + 1, count), draw.integers(-3, 4, count), np.full(count, (1 << 15) - 1),
    ])  # fmt: skip


def same(use: TransformerBackend, compute: Any) -> Any:
    """Return a result, which must be the reference's bit for bit."""
    plain = PlainBackend()

    def parts(backend: TransformerBackend) -> list[Any]:
        result = compute(backend)
        parts = vars(result).values() if isinstance(result, Scaled | Cached) else [result]
        return [backend.take(part) for part in parts]

    got, expected = parts(use), parts(plain)
    for one, other in zip(got, expected, strict=True):
        assert np.array_equal(one, other)
    return expected


@pytest.mark.parametrize("width", [1, 2, 576, WIDTH])
@pytest.mark.parametrize("epsilon", [0, 10_995_116, 1 << 30])
def test_norm_at_its_limits(use: TransformerBackend, width: int, epsilon: int) -> None:
    gain = np.random.default_rng(width).choice([-32767, 0, 1, 32767], width)
    for gains, exponent in ((gain, 15), (np.full(width, 32767), 0), (np.zeros(width), 62)):
        integers, exponents = same(
            use,
            lambda backend, gains=gains, exponent=exponent: ops.norm(
                backend, backend.put(streams(width, ops.STREAM_MAX)), Gain(backend.put(gains), exponent), epsilon
            ),
        )
        assert np.abs(integers).max() <= 1 << 15
        assert exponents.max() <= 8 - exponent, "a row's least exponent is checked against this"


def test_norm_is_the_root_mean_square() -> None:
    """Within the 15 bits of its result."""
    stream, gain = streams(576, 1 << 30), np.random.default_rng(1).integers(1, 32768, 576)
    got = ops.norm(PlainBackend(), stream, Gain(gain, 14), 10_995_116)
    floats = stream / 2**18
    exact = floats / np.sqrt((floats**2).mean(axis=-1, keepdims=True) + 1e-5) * gain / 2**14
    assert np.abs(got.integers * 2.0**got.exponent - exact).max() <= np.abs(exact).max() * 2**-14


@pytest.mark.parametrize("exponent", [-18, -3, 8])
@pytest.mark.parametrize("bias", [None, ops.VALUE_MAX])
def test_linear_at_its_limits(use: TransformerBackend, exponent: int, bias: int | None) -> None:
    columns = 1 << 14
    x = np.stack([np.full(columns, 1 << 15), np.full(columns, -(1 << 15)), np.arange(columns)])
    weights = np.stack([np.full(columns, 127), np.full(columns, -127), np.arange(columns) % 255 - 127])

    def compute(backend: TransformerBackend) -> Any:
        matrix = Linear(
            backend.operand(weights), backend.put(np.full(3, 65535)), backend.put(np.array([18 + exponent, 40, 62])),
            None if bias is None else backend.put(np.full(3, bias)),
        )  # fmt: skip
        scaled = Scaled(backend.put(x), backend.put(np.full((3, 1), exponent)))
        return ops.linear(backend, scaled, matrix, ops.STREAM_BITS, ops.STREAM_MAX)

    (result,) = same(use, compute)
    assert result[0, 0] == ops.STREAM_MAX
    assert result[1, 0] == -ops.STREAM_MAX


@pytest.mark.parametrize("unit_bits", [ops.UNIT_BITS, ops.STREAM_BITS])
def test_scaling_keeps_fifteen_bits(use: TransformerBackend, unit_bits: int) -> None:
    values = streams(64, ops.STREAM_MAX)
    integers, exponents = same(use, lambda backend: ops.scaled(backend, backend.put(values), unit_bits))
    assert np.abs(integers).max() <= 1 << 15
    assert (np.abs(integers * 2.0 ** (exponents + unit_bits) - values) <= 2.0 ** (exponents + unit_bits - 1)).all()


def test_activations_stay_below_the_exponents_that_the_rows_are_checked_against() -> None:
    mixed = ops.scaled(PlainBackend(), np.array([[ops.VALUE_MAX], [-ops.VALUE_MAX]]), ops.UNIT_BITS)
    assert mixed.exponent.max() <= -3
    gates = np.array([[ops.VALUE_MAX], [-ops.VALUE_MAX]])
    active = ops.silu_product(PlainBackend(), gates, gates, np.full(ops.SIGMOID_ENTRIES, 1 << ops.SIGMOID_BITS))
    assert active.exponent.max() <= -1


def test_silu_at_its_limits(use: TransformerBackend) -> None:
    gates = streams(64, ops.VALUE_MAX)
    sigmoids = np.full(ops.SIGMOID_ENTRIES, 1 << ops.SIGMOID_BITS)
    for ups in (gates, -gates, gates[::-1].copy()):
        same(
            use,
            lambda backend, ups=ups: ops.silu_product(
                backend, backend.put(gates), backend.put(ups), backend.put(sigmoids)
            ),
        )


@pytest.mark.parametrize("factor", [ops.VALUE_FACTOR, ops.key_factor(2), ops.key_factor(256)])
def test_eight_bits_at_their_limits(use: TransformerBackend, factor: int) -> None:
    values = streams(64, 2 * ops.VALUE_MAX)
    integers, mantissas, exponents = same(use, lambda backend: ops.eight_bits(backend, backend.put(values), factor))
    assert np.abs(integers).max() == 127
    assert ((mantissas >= 1 << 15) & (mantissas < 1 << 16)).all()
    scales = mantissas * 2.0**exponents * 127 * ops.VALUE_FACTOR / factor
    assert (np.abs(integers * (scales / 127)[:, None] - values) <= scales[:, None] / 254 * 1.01 + 1).all()


def test_rotation_at_its_limits(use: TransformerBackend) -> None:
    values, turns = streams(64, ops.VALUE_MAX), np.array([1 << 14, -(1 << 14)] * 16)
    (rotated,) = same(
        use, lambda backend: ops.rotated(backend, backend.put(values), backend.put(turns), backend.put(turns[::-1]))
    )
    assert np.abs(rotated).max() <= 2 * ops.VALUE_MAX, "eight_bits takes no more"


@pytest.mark.parametrize(("head_width", "size"), [(2, 2 * ops.VALUE_MAX), (64, 1 << 15), (256, 2 * ops.VALUE_MAX)])
@pytest.mark.parametrize("keys", [1, 700, KEYS])
def test_attention_at_its_limits(use: TransformerBackend, head_width: int, size: int, keys: int) -> None:
    draw = np.random.default_rng(head_width)
    table = draw.integers(0, 1 << 24, ops.EXP_ENTRIES)
    table[:9], table[-1] = 1 << 24, 0
    queries = draw.choice([-size, size, 0, 1], (1, 3, head_width))
    key_values = draw.choice([-size, size, 0, 1], (1, keys, head_width))
    values = draw.choice([-ops.VALUE_MAX, ops.VALUE_MAX, 0, 1], (1, keys, head_width))
    key_values[:, -1], values[:, 0], queries[:, 0] = size, ops.VALUE_MAX, size
    hidden = np.zeros((1, 3, keys), dtype=np.int64)
    hidden[:, 1:, 1:] = draw.integers(0, 2, (1, 2, keys - 1))

    def compute(backend: TransformerBackend) -> Any:
        def cached(rows: Any, factor: int) -> Cached:
            new = ops.eight_bits(backend, backend.put(rows), factor)
            return Cached(backend.operand(new.integers), new.mantissas, new.exponents)

        return ops.attention(
            backend, ops.scaled(backend, backend.put(queries), ops.UNIT_BITS),
            cached(key_values, ops.key_factor(head_width)), cached(values, ops.VALUE_FACTOR), backend.put(hidden),
            backend.put(table),
        )  # fmt: skip

    (mixed,) = same(use, compute)
    assert np.abs(mixed).max() <= ops.VALUE_MAX * 1.01


def test_a_hidden_key_has_no_influence(use: TransformerBackend) -> None:
    """Not even with the largest score, against the smallest of the others."""
    size, table = 2 * ops.VALUE_MAX, np.full(ops.EXP_ENTRIES, 1 << 24)
    table[-1] = 0
    queries = ops.scaled(use, use.put(np.full((1, 1, 256), size)), ops.UNIT_BITS)
    keys = np.stack([np.full(256, -size), np.full(256, size)])[None]
    cached = ops.eight_bits(use, use.put(keys), ops.key_factor(256))
    cached = Cached(use.operand(cached.integers), cached.mantissas, cached.exponents)
    results = []
    for other in (5, ops.VALUE_MAX):
        values = np.stack([np.full(256, 1000), np.full(256, other)])[None]
        mixed = ops.eight_bits(use, use.put(values), ops.VALUE_FACTOR)
        mixed = Cached(use.operand(mixed.integers), mixed.mantissas, mixed.exponents)
        hidden = use.put(np.array([[[0, 1]]]))
        results.append(taken(use, ops.attention(use, queries, cached, mixed, hidden, use.put(table))))
    assert results[0] == results[1]
    assert abs(results[0][0][0][0] - 1000) <= 1


def test_the_stream_saturates(use: TransformerBackend) -> None:
    top, update = put(use, [ops.STREAM_MAX, -ops.STREAM_MAX, 1], [ops.STREAM_MAX, -1, 2])
    assert taken(use, ops.added(use, top, update)) == [ops.STREAM_MAX, -ops.STREAM_MAX, 3]


@pytest.mark.parametrize("head_width", [2, 64, 96, 128, 256])
def test_key_factor_is_the_softmax_scale(head_width: int) -> None:
    exact = 2**24 * 1.4426950408889634 / head_width**0.5 / 127
    assert abs(ops.key_factor(head_width) - exact) <= 1
