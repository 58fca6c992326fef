"""`train-int8` for programs: requests and limits, outputs and their checks, and conforming backends."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.traces.trace import SEGMENTS_MAX, state_hash, trace_root
from gpu_tasks.workloads.form import RequestError
from gpu_tasks.workloads.model_forms import form_named, open_workload
from gpu_tasks.workloads.stepwise import StepwiseWorkload, states
from gpu_tasks.workloads.train_int8 import conformance, request
from gpu_tasks.workloads.train_int8.arithmetic import ExactArithmetic, Integers, Tensor
from gpu_tasks.workloads.train_int8.backends import FloatArithmetic, arithmetic
from gpu_tasks.workloads.train_int8.form import TrainingForm
from gpu_tasks.workloads.train_int8.request import (
    OUTPUT,
    PARAMETERS_MAX,
    RATE_ONE,
    REQUEST,
    STEPS_MAX,
    TEXT_BYTES_MAX,
    TEXT_BYTES_MIN,
    TrainingOutput,
    TrainingRequest,
    cost_of,
    decode_request,
    matrices,
    parameters,
    step_cost,
)
from gpu_tasks.workloads.train_int8.service import IntegerTraining
from gpu_tasks.workloads.workload import NonConformingBackendError, OutputCheck, Workload
from runtime.encoding.codec import DecodeError
from torch_here import skip_without
from training_requests import SMALL, small_requests, text_of

UNIT_BYTES_MAX = 256 * 1024
"""Of a unit's request and of its output: `gpu_tasks/data/unit_input.py`."""
WORKLOAD = IntegerTraining(arithmetic("numpy"))
ASKED = REQUEST.encode(SMALL)
RIGHT = WORKLOAD.run(ASKED)
FORM = TrainingForm()
SEED = bytes(range(32))
TEXT = text_of(3, 2_000).replace(b"\xff", b"?").decode()


# ------------------------------------------------------------------------------------------------------------ requests


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"context": 0}, "context .*1 to 16, not 0"),
        ({"context": 17}, "context .*1 to 16, not 17"),
        ({"width": 0}, "width .*1 to 32, not 0"),
        ({"width": 33}, "width .*1 to 32, not 33"),
        ({"hidden": 0}, "hidden .*1 to 256, not 0"),
        ({"hidden": 257}, "hidden .*1 to 256, not 257"),
        ({"layers": 0}, "layers .*1 to 2, not 0"),
        ({"layers": 3}, "layers .*1 to 2, not 3"),
        ({"batch": 0}, "batch .*1 to 512, not 0"),
        ({"batch": 1_024}, "batch .*1 to 512, not 1024"),
        ({"batch": 48}, "batch .*power of two, not 48"),
        ({"steps": 0, "segment": 0}, "steps .*1 to 65536, not 0"),
        ({"steps": STEPS_MAX + 1, "segment": 1_000}, "steps .*1 to 65536, not 65537"),
        ({"segment": 0}, "segment .*1 to 11, not 0"),
        ({"segment": 12}, "segment .*1 to 11, not 12"),
        ({"steps": 1_024, "segment": 1}, "1023 segments; .*at least 2"),
        ({"rate": 0}, "rate .*1 to 65536, not 0"),
        ({"rate": RATE_ONE + 1}, "rate .*1 to 65536, not 65537"),
        ({"context": 16, "width": 32, "hidden": 256}, "205312 weights.* 98304"),
        ({"text": bytes(TEXT_BYTES_MIN - 1)}, "1024 to 245760 bytes, not 1023"),
    ],
)
def test_limits_are_named(change: dict[str, Any], why: str) -> None:
    data = REQUEST.encode(replace(SMALL, **change))
    for use in (WORKLOAD.run, WORKLOAD.begin, FORM.cost_asked, lambda bad: WORKLOAD.verify(bad, RIGHT)):
        with pytest.raises(DecodeError, match=why):
            use(data)


def test_a_text_beyond_the_limit_is_no_request() -> None:
    data = REQUEST.encode(replace(SMALL, text=bytes(TEXT_BYTES_MAX)))
    decode_request(data)
    length = (TEXT_BYTES_MAX << 2 | 2).to_bytes(4, "little")
    assert length in data
    longer = data.replace(length, (TEXT_BYTES_MAX + 1 << 2 | 2).to_bytes(4, "little")) + b"\0"
    with pytest.raises(DecodeError):
        decode_request(longer)


@given(data=st.binary(max_size=200))
def test_bytes_are_a_request_in_one_way_or_not_at_all(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        assert REQUEST.encode(decode_request(data)) == data
    for bad in (ASKED[: len(data)], ASKED + data + b"\0"):
        with pytest.raises(DecodeError):
            decode_request(bad)


@given(asked=small_requests)
def test_a_request_has_one_encoding(asked: TrainingRequest) -> None:
    assert decode_request(REQUEST.encode(asked)) == asked


def test_the_largest_request_and_its_output_fit_a_unit() -> None:
    asked = replace(SMALL, text=bytes(TEXT_BYTES_MAX))
    assert len(REQUEST.encode(asked)) < UNIT_BYTES_MAX - 128, "with what a unit's input adds"
    output = TrainingOutput(2**32 - 1, 2**32 - 1, (bytes(32),) * (SEGMENTS_MAX + 1), bytes(2 * PARAMETERS_MAX))
    assert len(OUTPUT.encode(output)) < UNIT_BYTES_MAX


def test_costs_grow_with_the_work() -> None:
    ordinary = replace(SMALL, context=8, width=16, hidden=128, batch=64, steps=1_000)
    assert (parameters(ordinary), step_cost(ordinary), cost_of(ordinary)) == (53_632, 1, 1_000)
    assert matrices(ordinary) == ((256, 16), (129, 128), (129, 256))
    assert matrices(replace(ordinary, layers=2)) == ((256, 16), (129, 128), (129, 128), (129, 256))
    assert step_cost(replace(ordinary, batch=512)) == 5
    assert step_cost(replace(ordinary, context=10, width=24, hidden=180)) == 2


# ------------------------------------------------------------------------------------------------------- run and check


def test_an_output_says_what_it_cost_how_good_it_is_and_every_state() -> None:
    run = WORKLOAD.begin(ASKED)
    whole, output = list(states(run)), OUTPUT.decode(RIGHT)
    assert output.cost == FORM.cost(RIGHT) == FORM.cost_asked(ASKED) == SMALL.steps
    assert output.milli_bits == run.metric(whole[-1])
    assert output.digests == tuple(map(state_hash, whole))
    assert output.model == run.model(whole[-1])
    assert FORM.show_output(RIGHT).endswith(f" bits a byte, trace 0x{trace_root(output.digests).hex()}")


def test_a_model_is_the_weights_as_they_multiply() -> None:
    """The owner of the output can guess with it: the vectors first, of 8 bits."""
    model = np.frombuffer(OUTPUT.decode(RIGHT).model, "<i2")
    assert len(model) == parameters(SMALL)
    assert np.abs(model[: 256 * SMALL.width]).max() <= 127
    assert np.abs(model).max() > 127


def test_the_right_output_is_valid() -> None:
    assert WORKLOAD.verify(ASKED, RIGHT) == OutputCheck(True, SMALL.steps, None)


def test_a_check_ends_at_the_first_state_that_is_wrong() -> None:
    output = OUTPUT.decode(RIGHT)
    for wrong, done in enumerate((0, 4, 8, 11)):
        digests = (*output.digests[:wrong], bytes(32), *output.digests[wrong + 1 :])
        found = WORKLOAD.verify(ASKED, OUTPUT.encode(replace(output, digests=digests)))
        assert found == OutputCheck(False, done, wrong)
    shorter = OUTPUT.encode(replace(output, digests=output.digests[:-1]))
    assert WORKLOAD.verify(ASKED, shorter) == OutputCheck(False, 11, 3)


@pytest.mark.parametrize(
    "change", [{"cost": 12}, {"milli_bits": 1}, {"model": b""}, {"digests": (*OUTPUT.decode(RIGHT).digests, bytes(32))}]
)
def test_what_follows_the_states_is_checked_too(change: dict[str, Any]) -> None:
    false = OUTPUT.encode(replace(OUTPUT.decode(RIGHT), **change))
    assert WORKLOAD.verify(ASKED, false) == OutputCheck(False, 11, 4)


@given(place=st.integers(0, len(RIGHT) - 1), bit=st.integers(0, 7))
def test_no_bit_of_an_output_may_change(place: int, bit: int) -> None:
    changed = RIGHT[:place] + bytes([RIGHT[place] ^ 1 << bit]) + RIGHT[place + 1 :]
    assert not WORKLOAD.verify(ASKED, changed).valid


@pytest.mark.parametrize("output", [b"", RIGHT[:-1], RIGHT + b"\0"])
def test_bytes_that_are_no_output(output: bytes) -> None:
    assert WORKLOAD.verify(ASKED, output) == OutputCheck(False, 0, 0)
    assert FORM.show_output(output) == "0x" + output.hex()
    assert FORM.cost(output) == 0


def test_an_output_without_a_state_is_shown_as_it_is() -> None:
    output = OUTPUT.encode(TrainingOutput(1, 2, (), b""))
    assert FORM.show_output(output) == "0x" + output.hex()


def reference() -> IntegerTraining:
    return IntegerTraining(arithmetic("reference"))


def test_it_is_both_kinds_of_workload() -> None:
    whole: Workload = WORKLOAD
    stepwise: StepwiseWorkload = WORKLOAD
    assert whole.workload_id == stepwise.workload_id == request.WORKLOAD_ID


# ------------------------------------------------------------------------------------------------------- conformance


class SinglePrecision(FloatArithmetic):
    """Uses float32 in place of float64: it rounds values over 2**24."""

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        return np.matmul(left.astype(np.float32), right.astype(np.float32)).astype(np.int64)


class LostLastBits(FloatArithmetic):
    """A float64 built from fewer bits, as on some accelerators: exact up to 2**40."""

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        sums = super().product(left, right)
        return np.where(np.abs(sums) < 2**40, sums, sums >> 1 << 1)


class Truncating(FloatArithmetic):
    """Rounds towards zero where the specification rounds down."""

    def put(self, values: Integers) -> Tensor:
        return super().put(values).view(TruncatedShifts)


class TruncatedShifts(np.ndarray):
    def __rshift__(self, bits: Any) -> Any:
        return np.where(np.asarray(self) < 0, -(-np.asarray(self) >> bits), np.asarray(self) >> bits)


class NoLimit(FloatArithmetic):
    """Clamps values below a limit, and lets larger ones pass."""

    def clamp(self, values: Tensor, low: int, high: int) -> Tensor:
        return np.maximum(values, low) if low < 0 else super().clamp(values, low, high)


class NoEnd(FloatArithmetic):
    """As `NoLimit`, for values that only grow."""

    def clamp(self, values: Tensor, low: int, high: int) -> Tensor:
        return super().clamp(values, low, high) if low < 0 else np.maximum(values, low)


class ForgottenPlace(FloatArithmetic):
    """Rows for one place overwrite each other, as an unsynchronised kernel would do."""

    def sums_by_place(self, rows: Tensor, places: Tensor, count: int) -> Tensor:
        sums = np.zeros((count, rows.shape[1]), dtype=np.int64)
        sums[places] += rows
        return sums


class ColumnByColumn(FloatArithmetic):
    """Counts the entries of a matrix down its columns."""

    def entries(self, arrays: Sequence[Tensor], places: Sequence[int]) -> Tensor:
        return super().entries([array.T for array in arrays], places)


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        (SinglePrecision(), "product differs from its vector"),
        (LostLastBits(), "product differs from its vector"),
        (Truncating(), "limits differs from its vector"),
        (ForgottenPlace(), "limits differs from its vector"),
        (NoLimit(), "a weight or momentum"),
        (NoEnd(), "out of bounds"),
        (ColumnByColumn(), "tiny trails differs from its vector"),
    ],
)
def test_a_broken_backend_is_refused(broken: ExactArithmetic, named: str) -> None:
    with pytest.raises(NonConformingBackendError, match=f"train-int8: numpy: .*{named}"):
        IntegerTraining(broken).conformance()


@pytest.mark.parametrize("backend", ["numpy", "reference", "torch-cpu", "torch-cuda:0"])
def test_the_vectors_hold(backend: str) -> None:
    skip_without(backend)
    published = "70271713d5773bc48ce64c77c40bf80d3baca40d11c1897d39a36fae6e415e90"
    assert open_workload("train-int8", backend).conformance().hex() == published


def test_a_vector_is_missed_by_another_text(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = conformance.REQUESTS
    monkeypatch.setattr(conformance, "REQUESTS", (first, replace(second, text=second.text + b"!")))
    with pytest.raises(NonConformingBackendError, match="ordinary state differs"):
        open_workload("train-int8")


# ---------------------------------------------------------------------------------------------------------- the form


def test_a_line_is_a_text_and_what_may_be_paid_for_are_steps() -> None:
    asked = REQUEST.decode(FORM.encode(TEXT, 1_000, {}, SEED))
    assert asked == TrainingRequest(8, 16, 128, 1, 64, 1_000, 20, 16_384, SEED, TEXT.encode())
    options = {"context": "4", "width": "8", "hidden": "32", "layers": "2", "batch": "16", "rate": "99", "segment": "7"}
    asked = REQUEST.decode(FORM.encode(TEXT, 30, options, SEED))
    assert asked == TrainingRequest(4, 8, 32, 2, 16, 30, 7, 99, SEED, TEXT.encode())


def test_large_steps_are_fewer() -> None:
    asked = REQUEST.decode(FORM.encode(TEXT, 1_003, {"batch": "512"}, SEED))
    assert asked.steps == 200
    assert FORM.cost_asked(REQUEST.encode(asked)) == 1_000


def test_a_segment_is_no_longer_than_the_run() -> None:
    assert REQUEST.decode(FORM.encode(TEXT, 12, {}, SEED)).segment == 12


@pytest.mark.parametrize(
    ("text", "cost_max", "options", "why"),
    [
        ("short", 9, {}, "1024 to 245760 bytes, not 5"),
        ("ü" * 511, 9, {}, "1024 to 245760 bytes, not 1022"),
        (TEXT, 0, {}, "costs 1, more than 0;"),
        (TEXT, 3, {"batch": "512"}, "costs 5, more than 3;"),
        (TEXT, STEPS_MAX + 1, {"segment": "100"}, "steps .*1 to 65536, not 65537"),
        (TEXT, 2_000, {"segment": "1"}, "2000 steps .* 1023 segments"),
        (TEXT, 9, {"batch": "48"}, "batch .*power of two, not 48"),
        (TEXT, 9, {"hidden": "0"}, "hidden .*1 to 256, not 0"),
        (TEXT, 9, {"hidden": "-1"}, "hidden .*not '-1'"),
        (TEXT, 9, {"rate": "0.1"}, "rate .*not '0.1'"),
        (TEXT, 9, {"rate": "٣"}, "rate .*not '٣'"),
        (TEXT, 9, {"rate": "9" * 5_000}, "rate .*not '9999"),
        (TEXT, 9, {"segment": "0"}, "segment .*1 to 9, not 0"),
        (TEXT, 9, {"steps": "5"}, "option 'steps'"),
    ],
)
def test_lines_that_are_no_training(text: str, cost_max: int, options: dict[str, str], why: str) -> None:
    with pytest.raises(RequestError, match=why):
        FORM.encode(text, cost_max, options, SEED)


def test_a_request_is_shown_by_how_it_begins() -> None:
    shown = form_named("train-int8").show_request(FORM.encode(TEXT, 12, {}, SEED))
    assert shown == f"{TEXT[:80]} (2000 bytes, 12 steps)"
