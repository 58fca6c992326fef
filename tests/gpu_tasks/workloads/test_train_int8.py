"""Training in integers: the same states on every backend, from any state on, and one flipped bit is found."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpu_tasks.traces.trace import state_hash, trace_root
from gpu_tasks.workloads.stepwise import states
from gpu_tasks.workloads.train_int8.arithmetic import ExactArithmetic, IntegerArithmetic, Integers
from gpu_tasks.workloads.train_int8.backends import FloatArithmetic, arithmetic
from gpu_tasks.workloads.train_int8.request import RATE_ONE, REQUEST, TrainingRequest
from gpu_tasks.workloads.train_int8.run import TrainingRun, windows_of_step
from gpu_tasks.workloads.train_int8.state import TrainingState, decode_state, encode_state
from gpu_tasks.workloads.train_int8.training_step import MOMENTUM_MAX, WEIGHT_LIMIT, MovingWeights, NextByteModel
from scripts.conformance.plain_training import plain_step
from torch_here import skip_without
from training_requests import SMALL, small_requests, text_of


def torch_on(backend: str) -> ExactArithmetic:
    """Skip the test without PyTorch or the device."""
    skip_without(backend)
    return arithmetic(backend)


def extreme(asked: TrainingRequest, number: int) -> MovingWeights:
    """Return weights and momenta at their limits, with random signs."""
    draw = np.random.default_rng(number)
    start = [np.asarray(w) for w in decode(asked, TrainingRun(IntegerArithmetic(), asked).initial_state()).weights]

    def signs(shape: tuple[int, ...]) -> Integers:
        return draw.choice(np.array([-1, 1, 1], dtype=np.int64), shape)

    return MovingWeights(
        [signs(w.shape) * WEIGHT_LIMIT for w in start],
        [signs(w.shape) * MOMENTUM_MAX for w in start],
    )


def decode(asked: TrainingRequest, state: bytes) -> TrainingState:
    return decode_state(asked, state[:32], state)


# ------------------------------------------------------------------------------------------------------ the same bits


@given(asked=small_requests)
def test_numpy_gives_the_states_of_the_reference(asked: TrainingRequest) -> None:
    reference, fast = TrainingRun(IntegerArithmetic(), asked), TrainingRun(FloatArithmetic(), asked)
    whole = list(states(reference))
    assert list(states(fast)) == whole
    assert fast.metric(whole[-1]) == reference.metric(whole[-1])
    assert len(set(whole)) == len(whole), "a run in which nothing changes compares nothing"


@pytest.mark.parametrize("backend", ["torch-cpu", "torch-cuda:0"])
@settings(max_examples=20)
@given(asked=small_requests)
def test_torch_gives_the_states_of_the_reference(backend: str, asked: TrainingRequest) -> None:
    reference, run = TrainingRun(IntegerArithmetic(), asked), TrainingRun(torch_on(backend), asked)
    last = list(states(reference))[-1]
    assert list(states(run))[-1] == last
    assert run.metric(last) == reference.metric(last)


@settings(max_examples=20)
@given(asked=small_requests)
def test_a_step_is_what_plain_integers_say(asked: TrainingRequest) -> None:
    run = TrainingRun(FloatArithmetic(), asked)
    state = run.initial_state()
    weights, momenta = ([matrix.tolist() for matrix in half] for half in (decode(asked, state).weights,) * 2)
    momenta = [[[0] * len(row) for row in matrix] for matrix in momenta]
    for index in range(3):
        ends = windows_of_step(asked, run.drawable, index)
        windows = [asked.text[end - asked.context : end + 1] for end in ends]
        plain_step(weights, momenta, windows, asked.rate * (asked.steps - index) // asked.steps)
    found = decode(asked, run.advance(state, 3))
    assert [matrix.tolist() for matrix in found.weights] == weights
    assert [matrix.tolist() for matrix in found.momenta] == momenta


@pytest.mark.parametrize("layers", [1, 2])
def test_a_step_from_the_limits_is_what_plain_integers_say(layers: int) -> None:
    """A false state may contain anything that `decode_state` accepts."""
    asked = replace(SMALL, layers=layers, rate=RATE_ONE, context=4, width=8, hidden=20, batch=16)
    windows = [asked.text[end - asked.context : end + 1] for end in range(100, 100 + asked.batch)]
    for number in range(5):
        parameters = extreme(asked, number)
        weights, momenta = ([m.tolist() for m in half] for half in (parameters.weights, parameters.momenta))
        NextByteModel(FloatArithmetic(), asked).step(
            parameters, np.array([list(w) for w in windows], dtype=np.int64), 0
        )
        plain_step(weights, momenta, windows, asked.rate)
        assert [m.tolist() for m in parameters.weights] == weights
        assert [m.tolist() for m in parameters.momenta] == momenta


class Watching(IntegerArithmetic):
    """The reference, which records the greatest magnitude of sums of products, and of clamped values."""

    def __init__(self) -> None:
        self.sums = self.clamped = 0

    def product(self, left: Integers, right: Integers) -> Integers:
        self.sums = max(self.sums, int((np.abs(left) @ np.abs(right)).max()))
        return np.asarray(super().product(left, right))

    def clamp(self, values: Integers, low: int, high: int) -> Integers:
        self.clamped = max(self.clamped, int(np.abs(values).max()))
        return np.asarray(super().clamp(values, low, high))


@pytest.mark.parametrize(
    "sizes",
    [
        {"context": 16, "width": 16, "hidden": 128, "layers": 1},
        {"context": 4, "width": 16, "hidden": 128, "layers": 2},
        {"context": 1, "width": 32, "hidden": 256, "layers": 1},
    ],
)
def test_the_greatest_values_stay_within_the_bounds(sizes: dict[str, Any]) -> None:
    """At the largest batch, from a state at its limits, on text of one repeated byte."""
    asked = replace(SMALL, **sizes, batch=512, rate=RATE_ONE, text=b"a" * 2_000)
    for number in range(2):
        parameters, watching = extreme(asked, number), Watching()
        if number:  # all of one sign: the largest sums there are
            parameters = MovingWeights([np.abs(w) for w in parameters.weights], [np.abs(m) for m in parameters.momenta])
        windows = np.full((asked.batch, asked.context + 1), ord("a"), dtype=np.int64)
        NextByteModel(watching, asked).step(parameters, windows, 0)
        assert 2**24 < watching.sums < 2**42, "beyond float32, within float64"
        assert watching.clamped < 2**48


# ----------------------------------------------------------------------------------------------------- from any state


@given(asked=small_requests, data=st.data())
def test_from_any_state_on_any_backend_the_run_ends_in_the_same_root(
    asked: TrainingRequest, data: st.DataObject
) -> None:
    run = TrainingRun(FloatArithmetic(), asked)
    whole = list(states(run))
    index = data.draw(st.integers(0, run.segments))
    resumed = list(states(TrainingRun(FloatArithmetic(), asked), whole[index]))
    assert trace_root([*map(state_hash, whole[:index]), *map(state_hash, resumed)]) == trace_root(
        list(map(state_hash, whole))
    )
    steps = data.draw(st.integers(0, asked.steps))
    between = run.advance(whole[0], steps)
    assert run.steps_done(between) == steps
    assert run.advance(between, asked.steps - steps) == whole[-1]


@given(asked=small_requests, data=st.data())
def test_one_bit_of_one_weight_of_one_step_is_found_in_its_segment_alone(
    asked: TrainingRequest, data: st.DataObject
) -> None:
    run = TrainingRun(FloatArithmetic(), asked)
    honest = list(states(run))
    step = data.draw(st.integers(1, asked.steps))
    wrong = next(at for at in range(1, run.segments + 1) if run.boundary(at) >= step)
    lie = flipped(asked, run.advance(honest[0], step), data.draw(st.integers(0, 2**32)))
    lies = [*honest[:wrong], *states(run, run.advance(lie, run.boundary(wrong) - step))]
    assume(lies != honest)  # a last bit may be rounded away by the steps after it: then nothing false is stated
    digests = [state_hash(state) for state in lies]
    assert trace_root(digests) != trace_root([state_hash(state) for state in honest])
    found = [at for at in range(run.segments) if lies[at + 1] != segment_after(run, at, lies[at])]
    assert found == [wrong - 1]


def segment_after(run: TrainingRun, index: int, state: bytes) -> bytes:
    return run.advance(state, run.boundary(index + 1) - run.boundary(index))


def flipped(asked: TrainingRequest, state: bytes, chance: int) -> bytes:
    """Return the state with the last bit of one weight flipped. One at its upper limit becomes one less."""
    values = decode(asked, state)
    matrix = values.weights[chance % len(values.weights)].reshape(-1)
    place = chance % len(matrix)
    matrix[place] = WEIGHT_LIMIT - 1 if matrix[place] == WEIGHT_LIMIT else matrix[place] ^ 1
    return encode_state(state[:32], values)


def test_a_skipped_step_is_found() -> None:
    run = TrainingRun(FloatArithmetic(), SMALL)
    honest = list(states(run))
    skipped = bytearray(run.advance(honest[0], 3))
    skipped[32:36] = (4).to_bytes(4, "little")
    assert run.steps_done(bytes(skipped)) == run.steps_done(honest[1])
    assert segment_after(run, 0, honest[0]) == honest[1] != bytes(skipped)


def test_every_part_of_a_request_changes_the_run() -> None:
    changes = (
        {"context": 4}, {"width": 5}, {"hidden": 7}, {"layers": 2}, {"batch": 16}, {"steps": 12}, {"segment": 5},
        {"rate": 5}, {"seed": bytes(32)}, {"text": text_of(2, 1_500)},
    )  # fmt: skip
    lasts = {list(states(TrainingRun(FloatArithmetic(), replace(SMALL, **change))))[-1] for change in ({}, *changes)}
    assert len(lasts) == len(changes) + 1


def test_beyond_the_end_there_is_nothing() -> None:
    run = TrainingRun(FloatArithmetic(), SMALL)
    state = run.initial_state()
    for steps in (-1, SMALL.steps + 1):
        with pytest.raises(ValueError, match=f"{steps} .* 0 of 11"):
            run.advance(state, steps)
    assert run.advance(state, 0) == state


def test_a_request_decodes_to_the_run_that_was_asked() -> None:
    assert REQUEST.decode(REQUEST.encode(SMALL)) == SMALL
