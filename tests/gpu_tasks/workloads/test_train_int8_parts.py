"""The parts of a run: draws, held-out text, states as bytes, and the metric; and its success at learning."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.workloads.stepwise import states
from gpu_tasks.workloads.train_int8.arithmetic import POWER_ENTRIES, powers_of_e, round_shift
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.request import (
    CONTEXT_MAX,
    PARAMETERS_MAX,
    TEXT_BYTES_MAX,
    TEXT_BYTES_MIN,
    TrainingRequest,
    matrices,
    parameters,
)
from gpu_tasks.workloads.train_int8.run import (
    BLOCK,
    HELD_OUT_ONE_IN,
    SAMPLE_MAX,
    TrainingRun,
    first_weights,
    log2,
    milli_bits,
    window_ends,
    windows_of_step,
)
from gpu_tasks.workloads.train_int8.state import state_bytes
from gpu_tasks.workloads.train_int8.training_step import MOMENTUM_MAX, WEIGHT_LIMIT
from runtime.encoding.codec import DecodeError
from training_requests import SMALL, python_sources

RUN = TrainingRun(arithmetic("numpy"), SMALL)
FIRST = RUN.initial_state()


# --------------------------------------------------------------------------------------------------------------- learns


def test_it_learns_what_was_held_out() -> None:
    """Well below the entropy of single bytes, on text that it never saw."""
    text = python_sources(150_000)
    counts = Counter(text)
    order_zero = -sum(count * math.log2(count / len(text)) for count in counts.values()) / len(text)
    asked = TrainingRequest(8, 16, 128, 1, 64, 300, 300, 1 << 14, b"\x07" * 32, text)
    run = TrainingRun(arithmetic("numpy"), asked)
    first, last = states(run)
    assert run.metric(first) == 8_000, "even guesses: eight bits a byte"
    assert run.metric(last) < 0.7 * 1_000 * order_zero


# ------------------------------------------------------------------------------------------------------------ held out


@given(length=st.integers(TEXT_BYTES_MIN, 6_000), context=st.integers(1, CONTEXT_MAX))
def test_no_byte_that_is_held_out_is_seen_in_training(length: int, context: int) -> None:
    drawable, sample = window_ends(length, context)
    held = {place for place in range(length) if place // BLOCK % HELD_OUT_ONE_IN == HELD_OUT_ONE_IN - 1}
    seen = {place for end in drawable.tolist() for place in range(end - context, end + 1)}
    assert seen.isdisjoint(held)
    assert all(set(range(end - context, end + 1)) <= held for end in sample.tolist())
    assert len(drawable) > 0
    assert 0 < len(sample) <= SAMPLE_MAX
    assert 0 <= length - len(held) - len(seen) <= context, "and at most an end too short for a window is left out"


def test_the_sample_of_a_long_text_is_spread_over_it() -> None:
    _, sample = window_ends(TEXT_BYTES_MAX, CONTEXT_MAX)
    assert len(sample) == SAMPLE_MAX == len(set(sample.tolist()))
    assert np.diff(sample).max() < 2 * TEXT_BYTES_MAX // SAMPLE_MAX + BLOCK * HELD_OUT_ONE_IN


# --------------------------------------------------------------------------------------------------------------- draws


def test_windows_are_drawn_from_seed_and_step_alone() -> None:
    ends = np.arange(1_000, dtype=np.int64)
    drawn = [windows_of_step(SMALL, ends, step).tolist() for step in range(200)]
    assert len({tuple(windows) for windows in drawn}) == 200
    assert windows_of_step(replace(SMALL, rate=5, steps=100), ends, 7).tolist() == drawn[7]
    assert windows_of_step(replace(SMALL, seed=bytes(32)), ends, 7).tolist() != drawn[7]
    assert len({end for windows in drawn for end in windows}) > 700, "of 1,000 after 1,600 draws"


def test_first_weights_are_even_around_nothing_and_within_the_limit() -> None:
    asked = replace(SMALL, context=8, width=16, hidden=128, layers=2)
    weights = first_weights(asked)
    assert [weight.shape for weight in weights] == list(matrices(asked))
    for index, (weight, variance) in enumerate(zip(weights[:-1], (1, 2 / 129, 2 / 129), strict=True)):
        assert np.abs(weight).max() <= WEIGHT_LIMIT, index
        assert abs((weight / 2**24).std() / math.sqrt(variance) - 1) < 0.05, index
        assert abs((weight / 2**24).mean()) < 0.05 * math.sqrt(variance), index
    assert not weights[-1].any()


@pytest.mark.parametrize("inputs", [1, 2, 513])
def test_no_first_weight_is_beyond_the_limit(inputs: int) -> None:
    assert math.isqrt((3 * 2 << 48) // (inputs + 1)) <= WEIGHT_LIMIT


# -------------------------------------------------------------------------------------------------------------- states


def test_a_state_has_eight_bytes_for_a_weight() -> None:
    assert len(FIRST) == state_bytes(SMALL) == 36 + 8 * parameters(SMALL)
    assert 36 + 8 * PARAMETERS_MAX < 2**20, "a blob holds the largest"


def changed(place: int, value: int) -> bytes:
    return FIRST[:place] + value.to_bytes(4, "little", signed=True) + FIRST[place + 4 :]


MOMENTA_AT = 36 + 4 * parameters(SMALL)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "another length"),
        (FIRST[:-1], "another length"),
        (FIRST + b"\0", "another length"),
        (b"\0" + FIRST[1:], "another request"),
        (changed(32, SMALL.steps + 1), f"{SMALL.steps + 1} steps"),
        (changed(36, WEIGHT_LIMIT + 1), "beyond"),
        (changed(MOMENTA_AT - 4, -WEIGHT_LIMIT - 1), "beyond"),
        (changed(MOMENTA_AT, -MOMENTUM_MAX - 1), "beyond"),
        (changed(len(FIRST) - 4, -MOMENTUM_MAX - 1), "beyond"),
        (TrainingRun(arithmetic("numpy"), replace(SMALL, rate=1)).initial_state(), "another request"),
    ],
)
def test_bytes_that_are_no_state(data: bytes, why: str) -> None:
    for use in (RUN.steps_done, RUN.metric, RUN.model, lambda state: RUN.advance(state, 1)):
        with pytest.raises(DecodeError, match=why):
            use(data)


@pytest.mark.parametrize(
    ("place", "value"),
    [(32, SMALL.steps), (36, WEIGHT_LIMIT), (MOMENTA_AT - 4, -WEIGHT_LIMIT), (MOMENTA_AT, -MOMENTUM_MAX)],
)
def test_states_at_the_limits_are_states(place: int, value: int) -> None:
    assert RUN.advance(changed(place, value), 0) == changed(place, value)


# -------------------------------------------------------------------------------------------------------------- metric


@given(st.lists(st.integers(1, 2**32), min_size=1, max_size=50))
def test_logarithms_are_right_in_all_places(numbers: list[int]) -> None:
    found = log2(np.array(numbers, dtype=np.int64)).tolist()
    for number, place in zip(numbers, found, strict=True):
        exact = math.log2(number) * 2**16
        assert exact - 2 < place < exact + 0.01, "each squaring cuts off less than a last bit"
    assert log2(np.array([2**bits for bits in range(33)])).tolist() == [bits << 16 for bits in range(33)]


def test_the_metric_by_hand() -> None:
    """A half, a quarter, and nothing at all, which counts as one part of 2**24."""
    rows = np.zeros((3, 256), dtype=np.int64)
    rows[0, :2] = 2**24
    rows[1, :4] = 2**24
    rows[2, 0] = 2**24
    assert milli_bits(rows, np.array([0, 3, 9])) == 9_000
    assert milli_bits(rows[:1], np.array([1])) == 1_000
    assert milli_bits(np.array([[3, 1] + 254 * [0]]), np.array([0])) == 415, "log2(4/3) is 0.41504"


def test_powers_of_e() -> None:
    powers = powers_of_e().tolist()
    assert powers[0] == 2**24
    assert powers[-1] == 0
    assert all(abs(powers[i] - 2**24 * math.exp(-i / 256)) < 0.5001 for i in range(POWER_ENTRIES - 1))


@given(st.integers(-(2**46), 2**46), st.integers(0, 20))
def test_halves_are_rounded_up(value: int, bits: int) -> None:
    assert round_shift(value, bits) == math.floor(Fraction(value, 2**bits) + Fraction(1, 2))
