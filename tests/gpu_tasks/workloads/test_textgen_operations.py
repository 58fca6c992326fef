"""Single steps of the integer arithmetic against plain Python, and the sampler's distribution."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.workloads.textgen_int8 import decoding
from gpu_tasks.workloads.textgen_int8 import integer_ops as ops
from gpu_tasks.workloads.textgen_int8.backends import NumpyBackend
from gpu_tasks.workloads.textgen_int8.decoding import next_token, uniform
from gpu_tasks.workloads.textgen_int8.integer_ops import Arithmetic, Reference

BACKENDS = [Reference(), NumpyBackend()]
both = pytest.mark.parametrize("use", BACKENDS, ids=lambda use: use.name)


@both
@given(squares=st.lists(st.integers(0, (1 << 52) - 1), min_size=1, max_size=20))
def test_root_is_the_floor(use: Arithmetic, squares: list[int]) -> None:
    assert use.root(np.array(squares)).tolist() == [math.isqrt(n) for n in squares]


@both
@pytest.mark.parametrize("root", [1, 2, 3, 94906265, (1 << 26) - 1])
def test_root_at_the_edge_of_a_square(use: Arithmetic, root: int) -> None:
    if (root + 1) ** 2 >= 1 << 52:
        root = (1 << 26) - 1
    square = root * root
    assert use.root(np.array([square - 1, square, square + 1])).tolist() == [root - 1, root, root]


@both
def test_product_at_its_largest_sums_is_exact(use: Arithmetic) -> None:
    left = np.full((1, 2048), 127)
    left[0, 0] = 126
    right = np.stack([np.full(2048, 63), np.full(2048, -63)])
    assert use.product(left, use.operand(right)).tolist() == [[16386048 - 63, 63 - 16386048]]


@pytest.mark.parametrize(
    ("value", "multiplier", "expected"),
    [(5, 1 << 24, 5), (1, 1 << 23, 1), (-1, 1 << 23, 0), (-3, 1 << 23, -1), (3, 1, 0), (7, (1 << 31) - 1, 896)],
)
def test_rescale_rounds_halves_up(value: int, multiplier: int, expected: int) -> None:
    assert ops.rescale(np.array([value]), np.array([multiplier])).tolist() == [expected]


@both
@given(stream=st.lists(st.integers(-ops.RESIDUAL_MAX, ops.RESIDUAL_MAX), min_size=1, max_size=40))
def test_norm_is_what_it_says(use: Arithmetic, stream: list[int]) -> None:
    root = math.isqrt(sum(n * n for n in stream)) + 1
    expected = [max(-127, min(127, (n * 320 + root // 2) // root)) for n in stream]
    assert ops.norm(use, np.array(stream), 320).tolist() == expected


def test_exp_table_is_the_exponential() -> None:
    table = ops.exp_table()
    assert table[0] == 1 << 24
    assert table[-1] == 0
    exact = np.exp(-np.arange(1023) / 64) * (1 << 24)
    assert np.abs(table[:-1] - exact).max() < 0.51


@both
def test_probabilities_see_what_is_visible(use: Arithmetic) -> None:
    scores = np.array([[[0, 10**6, 10**6], [0, 0, 10**6]]])
    visible = np.array([[1, 0, 0], [1, 1, 0]])
    shares = ops.probabilities(use, scores, np.array([[[1 << 20]]]), ops.exp_table(), visible)
    assert shares.tolist() == [[[1 << 14, 0, 0], [1 << 13, 1 << 13, 0]]]


def test_add_saturates() -> None:
    top = np.array([ops.RESIDUAL_MAX, -ops.RESIDUAL_MAX])
    assert ops.add(Reference(), top, np.array([1 << 30, -(1 << 30)])).tolist() == top.tolist()


def test_greedy_takes_the_lowest_of_equals() -> None:
    logits = np.zeros(257, dtype=np.int64)
    logits[[9, 200]] = 5
    assert next_token(logits, 0, bytes(32), 0) == 9


@pytest.mark.parametrize("temperature", [500, 1000, 2000])
def test_drawn_tokens_have_the_softmax_distribution(temperature: int) -> None:
    """4,000 draws: a share of p is within 5 standard deviations for this seed, which is fixed."""
    logits = np.full(257, -(1 << 20), dtype=np.int64)
    logits[:4] = np.array([0, -700, -1400, -3000])
    draws = [next_token(logits, temperature, b"\x03" * 32, i) for i in range(4000)]
    weights = np.exp(logits[:4] / 1024 * 1000 / temperature)
    for token, share in enumerate(weights / weights.sum()):
        assert abs(draws.count(token) / 4000 - share) < 5 * math.sqrt(share * (1 - share) / 4000)
    assert max(draws) < 4


@given(
    logits=st.lists(st.integers(-20_000, 20_000), min_size=257, max_size=257),
    temperature=st.integers(1, 10_000),
    bits=st.integers(0, (1 << 64) - 1),
)
def test_a_draw_is_what_it_says(logits: list[int], temperature: int, bits: int) -> None:
    """Against plain Python. The logits are close, so that many tokens have weight."""
    table, seed = ops.exp_table().tolist(), bits.to_bytes(32, "little")
    steps = [((max(logits) - logit) * 1000 // temperature + 8) // 16 for logit in logits]
    weights = [table[min(step, 1023)] for step in steps]
    point = uniform(seed, 3) * sum(weights) >> 64
    expected = next(i for i in range(257) if sum(weights[: i + 1]) > point)
    assert next_token(np.array(logits), temperature, seed, 3) == expected


@pytest.mark.parametrize(("bits", "token"), [(0, 4), ((1 << 63) - 1, 4), (1 << 63, 7), ((1 << 64) - 1, 7)])
def test_a_draw_on_the_border_goes_up(monkeypatch: pytest.MonkeyPatch, bits: int, token: int) -> None:
    """Tokens 4 and 7 share the weight. A token without any is never drawn, not even the first."""
    monkeypatch.setattr(decoding, "uniform", lambda *_: bits)
    logits = np.full(257, -(1 << 20))
    logits[[4, 7]] = 0
    assert next_token(logits, 1000, bytes(32), 0) == token


def test_draws_depend_on_seed_and_position() -> None:
    assert len({uniform(bytes([seed]) * 32, i) for seed in range(8) for i in range(8)}) == 64
