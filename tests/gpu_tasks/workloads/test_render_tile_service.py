"""`render-tile` for programs: outputs and their checks, runs in steps, conforming backends, and the form."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tasks.traces.trace import state_hash, trace_root
from gpu_tasks.workloads.form import RequestError
from gpu_tasks.workloads.model_forms import form_named, open_workload
from gpu_tasks.workloads.render_tile import conformance
from gpu_tasks.workloads.render_tile.array_arithmetic import NumpyArrays
from gpu_tasks.workloads.render_tile.backends import VectorBackend, backend_named
from gpu_tasks.workloads.render_tile.form import TileForm
from gpu_tasks.workloads.render_tile.reference import pixel_bytes
from gpu_tasks.workloads.render_tile.request import COST_MAX, OUTPUT, REQUEST, decode_request, request_of
from gpu_tasks.workloads.render_tile.scene_text import read_text
from gpu_tasks.workloads.render_tile.service import TileRendering, TileRun
from gpu_tasks.workloads.stepwise import states, stepwise
from gpu_tasks.workloads.workload import NonConformingBackendError, OutputCheck
from render_scenes import SMALL, scene_texts
from runtime.encoding.codec import DecodeError
from torch_here import skip_without

FORM = TileForm()
WORKLOAD = TileRendering(backend_named("numpy"))
TILE = "tile 2 1 9 7"
ASKED = FORM.encode(SMALL + TILE, COST_MAX, {"segment": "2"}, bytes(32))
RIGHT = WORKLOAD.run(ASKED)
PIXELS = 63


def with_pixels(change: Callable[[bytearray], None]) -> bytes:
    """Return the right output with other pixels."""
    output = OUTPUT.decode(RIGHT)
    pixels = bytearray(output.pixels)
    change(pixels)
    return OUTPUT.encode(replace(output, pixels=bytes(pixels)))


def flipped(place: int) -> bytes:
    def flip(pixels: bytearray) -> None:
        pixels[place] ^= 1

    return with_pixels(flip)


# ------------------------------------------------------------------------------------------------------- run and check


def test_an_output_says_what_it_cost_and_which_part_of_which_picture_it_is() -> None:
    output, asked = OUTPUT.decode(RIGHT), decode_request(ASKED)
    assert output.cost == asked.cost == FORM.cost(RIGHT) == FORM.cost_asked(ASKED) == 1
    assert (output.left, output.top, output.columns, output.rows) == (2, 1, 9, 7)
    assert output.picture == asked.picture
    assert output.pixels == b"".join(pixel_bytes(asked.scene, *asked.place(index)) for index in range(PIXELS))


@settings(max_examples=30)
@given(text=scene_texts(), data=st.data())
def test_a_pixel_that_is_computed_alone_is_that_of_the_tile(text: str, data: st.DataObject) -> None:
    request = FORM.encode(text, COST_MAX, {}, bytes(32))
    asked, pixels = decode_request(request), OUTPUT.decode(WORKLOAD.run(request)).pixels
    index = data.draw(st.integers(0, asked.pixels - 1))
    alone = TileRun(backend_named("numpy"), asked, request).pixels(np.array([index]))
    assert alone == pixels[3 * index : 3 * index + 3] == pixel_bytes(asked.scene, *asked.place(index))


def test_the_right_output_is_valid() -> None:
    assert WORKLOAD.verify(ASKED, RIGHT) == OutputCheck(valid=True, recomputed=PIXELS, first_wrong=None)


@given(place=st.integers(0, 3 * PIXELS - 1))
def test_one_bit_of_one_pixel_is_found(place: int) -> None:
    assert WORKLOAD.verify(ASKED, flipped(place)) == OutputCheck(False, PIXELS, place // 3)


def test_a_lie_all_over_is_found_at_once_and_one_pixel_of_many_is_found() -> None:
    request = FORM.encode(SMALL.replace("12 9", "64 64"), COST_MAX, {}, bytes(32))
    output = OUTPUT.decode(WORKLOAD.run(request))
    one = OUTPUT.encode(replace(output, pixels=output.pixels[:-1] + bytes([output.pixels[-1] ^ 1])))
    assert WORKLOAD.verify(request, one).first_wrong == 64 * 64 - 1
    assert WORKLOAD.verify(request, OUTPUT.encode(output)).recomputed == 64 * 64
    lie = OUTPUT.encode(replace(output, pixels=bytes(byte ^ 1 for byte in output.pixels)))
    found = WORKLOAD.verify(request, lie)
    assert (found.valid, found.recomputed) == (False, 256)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        RIGHT[:-1],
        RIGHT + b"\0",
        OUTPUT.encode(replace(OUTPUT.decode(RIGHT), cost=2)),
        OUTPUT.encode(replace(OUTPUT.decode(RIGHT), picture=bytes(32))),
        OUTPUT.encode(replace(OUTPUT.decode(RIGHT), left=3)),
        OUTPUT.encode(replace(OUTPUT.decode(RIGHT), columns=7, rows=9)),
        OUTPUT.encode(replace(OUTPUT.decode(RIGHT), pixels=OUTPUT.decode(RIGHT).pixels[3:])),
    ],
)
def test_what_is_no_output_of_the_request_is_refused_without_work(bad: bytes) -> None:
    nothing = OutputCheck(valid=False, recomputed=0, first_wrong=0)
    assert WORKLOAD.verify(ASKED, bad) == WORKLOAD.spot_check(ASKED, bad, b"seed", 9) == nothing


def test_drawn_pixels_alone_are_checked_for_their_share_of_the_work() -> None:
    assert WORKLOAD.spot_check(ASKED, RIGHT, b"seed", 9) == OutputCheck(True, 9, None)
    assert WORKLOAD.spot_check(ASKED, RIGHT, b"seed", 1_000) == OutputCheck(True, PIXELS, None)
    lie = flipped(3 * 20)
    caught = [not WORKLOAD.spot_check(ASKED, lie, bytes([seed]), 9).valid for seed in range(64)]
    assert 2 <= sum(caught) <= 20, "one in seven sees the one pixel that is wrong"
    wrong = next(check for seed in range(64) if not (check := WORKLOAD.spot_check(ASKED, lie, bytes([seed]), 9)).valid)
    assert (wrong.recomputed, wrong.first_wrong) == (9, 20)


# ------------------------------------------------------------------------------------------------------------ in steps


def test_a_run_goes_row_by_row_to_the_pixels_of_the_output() -> None:
    run = WORKLOAD.begin(ASKED)
    whole = list(states(run))
    assert run.segments == FORM.segments(ASKED) == 4
    assert [run.steps_done(state) for state in whole] == [0, 2, 4, 6, 7]
    assert [run.metric(state) for state in whole] == [63, 45, 27, 9, 0]
    assert whole[-1][36:] == OUTPUT.decode(RIGHT).pixels
    root = trace_root([state_hash(state) for state in whole]).hex()
    assert root == "85f879fbd7cab2006d648a8a4c2e2c73f62c502782ea589c39d9b5ae55a07502", (
        "golden: a change of one bit is another workload, with another id"
    )


@settings(max_examples=30)
@given(text=scene_texts(), segment=st.integers(1, 5))
def test_a_run_that_goes_on_from_any_state_has_the_same_root(text: str, segment: int) -> None:
    request = FORM.encode(text, COST_MAX, {"segment": str(segment)}, bytes(32))
    whole = list(states(WORKLOAD.begin(request)))
    for index, state in enumerate(whole):
        assert list(states(WORKLOAD.begin(request), state)) == whole[index:]
    run = WORKLOAD.begin(request)
    assert run.advance(whole[0], decode_request(request).tile.rows) == whole[-1]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda _: b"", "a state of another request"),
        (lambda state: state[:34], "a state of another request"),
        (lambda state: bytes(32) + state[32:], "a state of another request"),
        (lambda state: state[:32] + b"\x08\0\0\0" + state[36:], "more rows than"),
        (lambda state: state[:32] + b"\x03\0\0\0" + state[36:], "a state of another length"),
        (lambda state: state + b"\0", "a state of another length"),
        (lambda state: state[:-1], "a state of another length"),
    ],
)
def test_bytes_that_are_no_state_are_refused(spoil: Callable[[bytes], bytes], why: str) -> None:
    run = WORKLOAD.begin(ASKED)
    state = run.advance(run.initial_state(), 2)
    for use in (run.steps_done, run.metric, lambda bad: run.advance(bad, 1)):
        with pytest.raises(DecodeError, match=why):
            use(spoil(state))


@pytest.mark.parametrize("steps", [-1, 6])
def test_steps_beyond_the_tile_are_refused(steps: int) -> None:
    run = WORKLOAD.begin(ASKED)
    with pytest.raises(ValueError, match=f"{steps} .* 2 of 7"):
        run.advance(run.advance(run.initial_state(), 2), steps)


# ------------------------------------------------------------------------------------------------------------ backends


@pytest.mark.parametrize("backend", ["numpy", "reference", "torch-cpu", "torch-cuda:0"])
def test_every_backend_conforms_and_gives_the_same_output(backend: str) -> None:
    skip_without(backend)
    workload = open_workload("render-tile", backend)
    assert workload.conformance().hex() == "9f4f4f59d2f62cbfb68c05dcba0a5f09eab8f9ca91f2e2a5bd99d3684842cbab"
    assert workload.run(ASKED) == RIGHT
    assert stepwise(workload).begin(ASKED).initial_state() == WORKLOAD.begin(ASKED).initial_state()


class RootsInFloat32(NumpyArrays):
    def root(self, squares: Any) -> Any:
        return np.sqrt(squares.astype(np.float32)).astype(np.int64)


class RootsNotPutRight(NumpyArrays):
    def root(self, squares: Any) -> Any:
        return np.sqrt(squares.astype(np.float64)).astype(np.int64)


class RootsPutRightUpwardsOnly(NumpyArrays):
    def root(self, squares: Any) -> Any:
        found = np.sqrt(squares.astype(np.float64)).astype(np.int64)
        return found + ((found + 1) * (found + 1) <= squares)


class Truncated(np.ndarray[Any, Any]):
    """Divides as C does: towards zero."""

    def __floordiv__(self, other: Any) -> Any:
        return (np.sign(self) * np.sign(other) * (abs(np.asarray(self)) // abs(np.asarray(other)))).view(Truncated)


class TowardsZero(NumpyArrays):
    def put(self, values: Any) -> Any:
        return super().put(values).view(Truncated)


class Half(NumpyArrays):
    """Uses integers of 32 bits."""

    def put(self, values: Any) -> Any:
        return np.asarray(values).astype(np.int32)


@pytest.mark.parametrize(
    ("use", "missed"),
    [
        (RootsInFloat32, "roots"),
        (RootsNotPutRight, "roots"),
        (RootsPutRightUpwardsOnly, "roots"),
        (TowardsZero, "quotients"),
        (Half, ""),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_a_backend_that_is_off_is_refused(use: type[NumpyArrays], missed: str) -> None:
    with pytest.raises(NonConformingBackendError, match=f"render-tile: numpy: {missed}"):
        TileRendering(VectorBackend(use())).conformance()


@pytest.mark.parametrize("name", conformance.HASHES)
def test_each_vector_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(conformance.HASHES, name, "00" * 32)
    with pytest.raises(NonConformingBackendError, match=f"numpy: {name} differs"):
        WORKLOAD.conformance()


# ------------------------------------------------------------------------------------------------------------ the form


def test_a_text_is_its_tile_or_the_whole_picture() -> None:
    assert FORM.encode(SMALL, 1, {}, b"") == REQUEST.encode(request_of(read_text(SMALL), 1))
    whole = REQUEST.decode(FORM.encode(SMALL, 1, {}, b"seed"))
    assert (whole.left, whole.top, whole.columns, whole.rows, whole.segment) == (0, 0, 12, 9, 1)
    assert REQUEST.decode(FORM.encode(SMALL, 1, {"segment": "500"}, b"")).segment == 9
    assert REQUEST.decode(ASKED).scene == whole.scene


@pytest.mark.parametrize(
    ("text", "options", "cost_max", "why"),
    [
        ("picture 12 9\ncone", {}, 9, "line 2: 'cone' is"),
        (SMALL + "tile 12 0 1 1", {}, 9, "tile 12 0 1 1 .*12 by 9"),
        (SMALL, {"segment": "0"}, 9, "segment .*not '0'"),
        (SMALL, {"segment": "two"}, 9, "segment .*not 'two'"),
        (SMALL, {"segment": "99999"}, 9, "at least 1, not '99999'"),
        (SMALL, {"segment": "²"}, 9, "at least 1, not '²'"),
        (SMALL, {"colour": "red"}, 9, "option 'colour' .*: segment"),
        (SMALL.replace("12 9", "200 200"), {}, 99, "103 bundles, more than 99"),
    ],
)
def test_what_is_no_request_is_said(text: str, options: dict[str, str], cost_max: int, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        FORM.encode(text, cost_max, options, bytes(32))


def test_what_is_shown() -> None:
    assert form_named("render-tile").show_request(ASKED) == (
        "picture 12 9; samples 3; bounces 4; seed 5; camera 0 1.2 -4 0 0.7 0 1.3; sky #6f… (tile 2 1 9 7, 4 objects)"
    )
    picture = OUTPUT.decode(RIGHT).picture.hex()
    assert FORM.show_output(RIGHT) == f"tile 2 1 9 7 of picture 0x{picture}, 189 bytes"
    assert (FORM.show_output(b"\1\2"), FORM.cost(b"\1\2")) == ("0x0102", 0)
