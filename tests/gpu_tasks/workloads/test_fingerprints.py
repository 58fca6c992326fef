"""Fingerprints of all workloads: equal on every backend, for every partition, and other ones for other computations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder_models import drawn_source
from encoder_models import write_encoder
from gpu_tasks.workloads import model_forms
from gpu_tasks.workloads.decoder_int8 import decoding
from gpu_tasks.workloads.decoder_int8.quantising import quantised_decoder
from gpu_tasks.workloads.decoder_int8.request import OUTPUT, REQUEST, GenerationRequest
from gpu_tasks.workloads.decoder_int8.service import DecoderWorkload
from gpu_tasks.workloads.decoder_int8.transformer import load
from gpu_tasks.workloads.embed_int8.request import REQUEST as EMBEDDING_REQUEST
from gpu_tasks.workloads.embed_int8.request import EmbeddingRequest
from gpu_tasks.workloads.embed_int8.service import open_model
from gpu_tasks.workloads.fingerprints import (
    FINGERPRINT_BYTES,
    TRAIL_BYTES,
    first_trail,
    trail_after,
    trail_fingerprint,
)
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from gpu_tasks.workloads.render_tile.service import TileRun
from gpu_tasks.workloads.sampling import fingerprint, sampled_places, step_bytes
from gpu_tasks.workloads.stepwise import SegmentedRun, states, stepwise, trailed_segments
from gpu_tasks.workloads.train_int8.backends import FloatArithmetic
from gpu_tasks.workloads.train_int8.run import TrainingRun
from gpu_tasks.workloads.workload import Workload
from runtime.encoding.codec import DecodeError
from torch_here import skip_without
from training_requests import SMALL
from workload_samples import SAMPLES

SEED, OTHER_SEED = bytes(range(32)), bytes(32)
TEXT = GenerationRequest((1, 2, 3, 4), 8, 700, 1000, SEED, (), has_logprobs=True)
MODEL = quantised_decoder(drawn_source())
OPTIONS = {"train-int8": {"width": "4", "hidden": "6", "batch": "4", "context": "3", "segment": "2"}}
COSTS = {"decoder-int8:ogpu-bytes": 2, "train-int8": 5, "matmul-hash": 5, "render-tile": 10_000_000}
STEPWISE = ("train-int8", "render-tile")


def decoder(backend: str = "numpy") -> DecoderWorkload:
    return DecoderWorkload(load(arithmetic(backend), MODEL), bytes(32))


def sample_request(name: str, text: str = "") -> bytes:
    return model_forms.form_named(name).encode(text or SAMPLES[name], COSTS[name], OPTIONS.get(name, {}), SEED)


@pytest.fixture(scope="module")
def encoder_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny.ogpu-model"
    write_encoder(path)
    return path


def opened(name: str, backend: str, encoder_path: Path) -> Workload:
    if name == "decoder-int8":
        return decoder(backend)
    return open_model(backend, encoder_path) if name == "embed-int8" else model_forms.form_named(name).open(backend)


def request_of(name: str) -> bytes:
    if name == "decoder-int8":
        return REQUEST.encode(TEXT)
    if name == "embed-int8":
        return EMBEDDING_REQUEST.encode(EmbeddingRequest((2, 9, 8, 3)))
    return sample_request(name)


NAMES = (*SAMPLES, "decoder-int8", "embed-int8")


@pytest.mark.parametrize("name", NAMES)
def test_backends_agree_and_seeds_differ(name: str, encoder_path: Path) -> None:
    fast, slow = (opened(name, backend, encoder_path) for backend in ("numpy", "reference"))
    request = request_of(name)
    output = fast.run(request)
    found = [fast.fingerprint(request, output, seed) for seed in (SEED, OTHER_SEED)]
    assert [slow.fingerprint(request, output, seed) for seed in (SEED, OTHER_SEED)] == found
    assert found[0] != found[1]
    assert {len(each) for each in found} == {FINGERPRINT_BYTES}
    check = fast.check(request, output, SEED)
    assert check.output_check == fast.verify(request, output)
    assert check.fingerprint == found[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_output_has_no_fingerprint(name: str, encoder_path: Path) -> None:
    workload, request = opened(name, "numpy", encoder_path), request_of(name)
    output = workload.run(request)
    wrong = output[:-1] + bytes([output[-1] ^ 1])
    check = workload.check(request, wrong, SEED)
    assert (check.output_check, check.fingerprint) == (workload.verify(request, wrong), None)
    assert not check.output_check.valid
    with pytest.raises(DecodeError):
        workload.check(b"", output, SEED)
    with pytest.raises(DecodeError):
        workload.fingerprint(b"", output, SEED)


# --------------------------------------------------------------------------------------------------------- the places


def test_places_are_those_of_more_rows_and_of_one_layer() -> None:
    many = sampled_places(SEED, 3, 2_000, 576)
    assert (sampled_places(SEED, 3, 7, 576) == many[:7]).all()
    assert (many.min(), many.max()) == (0, 575)
    assert not (sampled_places(SEED, 4, 2_000, 576) == many).all()
    assert np.bincount(many, minlength=576).max() < 20
    assert sampled_places(SEED, 0, 0, 5).shape == (0,)


def test_a_fingerprint_covers_every_sample_and_its_seed() -> None:
    samples = [np.arange(5, dtype=np.int64), np.arange(3, dtype=np.int64)]
    found = fingerprint(SEED, samples)
    assert fingerprint(SEED, [samples[0], samples[1][::-1]]) != found
    assert fingerprint(SEED, [samples[0][::-1], samples[1]]) != found
    assert fingerprint(OTHER_SEED, samples) != found


# ---------------------------------------------------------------------------------------------------- language models


@pytest.mark.parametrize("part", [1, 3, 64])
def test_parts_of_a_prefill_give_one_fingerprint(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    request, workload = REQUEST.encode(TEXT), decoder()
    output = workload.run(request)
    expected = workload.fingerprint(request, output, SEED)
    monkeypatch.setattr(decoding, "READ_MAX", part)
    assert workload.fingerprint(request, output, SEED) == expected
    assert workload.check(request, output, SEED).fingerprint == expected


def test_fewer_layers_or_another_rounding_give_another_fingerprint() -> None:
    request = REQUEST.encode(replace(TEXT, temperature_milli=0, has_logprobs=False))
    output = decoder().run(request)
    expected = decoder().fingerprint(request, output, SEED)
    shorter = replace(MODEL, shape=replace(MODEL.shape, layers=1), layers=MODEL.layers[:1])
    head = MODEL.layers[-1]
    coarse = replace(head, down=replace(head.down, integers=head.down.integers & ~np.int8(15)))
    rounded = replace(MODEL, layers=(*MODEL.layers[:-1], coarse))
    for lie in (shorter, rounded):
        liar = DecoderWorkload(load(arithmetic("numpy"), lie), bytes(32))
        assert liar.fingerprint(request, output, SEED) != expected
    cut = replace(OUTPUT.decode(output), tokens=OUTPUT.decode(output).tokens[:-1])
    assert decoder().fingerprint(request, OUTPUT.encode(cut), SEED) != expected


# -------------------------------------------------------------------------------------------------------- runs in steps


@pytest.mark.parametrize("backend", ["reference", "torch-cpu", "torch-cuda:0"])
@pytest.mark.parametrize("name", STEPWISE)
def test_each_segment_has_one_trail_on_every_backend(name: str, backend: str) -> None:
    skip_without(backend)
    run, other = (run_of(name, each) for each in ("numpy", backend))
    found = list(trailed_segments(run))
    assert list(trailed_segments(other)) == found
    assert [state for state, _ in found] == list(states(run))[1:]
    trails = [trail for _, trail in found]
    assert len(set(trails)) == len(trails) == run.segments
    assert {len(trail) for trail in trails} == {TRAIL_BYTES}


@pytest.mark.parametrize("name", STEPWISE)
@settings(max_examples=20)
@given(cuts=st.lists(st.integers(0, 100), max_size=5))
def test_any_partition_of_the_steps_gives_one_state_and_one_trail(name: str, cuts: list[int]) -> None:
    run = run_of(name)
    steps, start = run.boundary(run.segments), run.initial_state()
    state, trail, done = start, first_trail(start), 0
    for end in [*sorted(steps * percent // 100 for percent in cuts), steps]:
        state, trail = run.trailed(state, end - done, trail)
        done = end
    assert (state, trail) == run.trailed(start, steps, first_trail(start))
    assert state == run.advance(start, steps)


def test_a_training_step_on_other_windows_gives_other_trails_from_there_on(monkeypatch: pytest.MonkeyPatch) -> None:
    run = TrainingRun(FloatArithmetic(), SMALL)
    right = list(trailed_segments(run))
    windows_of = run._windows_of
    monkeypatch.setattr(run, "_windows_of", lambda step: windows_of(0 if step == SMALL.segment else step))
    wrong = list(trailed_segments(run))
    assert wrong[0] == right[0]
    assert not {trail for _, trail in wrong[1:]} & {trail for _, trail in right}


@pytest.mark.parametrize("colour", range(3))
def test_a_pixel_of_other_light_gives_its_row_another_trail(colour: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least unit of light is in no picture."""
    run = cast(TileRun, run_of("render-tile"))
    right = list(trailed_segments(run))
    sums = run.sums
    monkeypatch.setattr(run, "sums", lambda pixels: sums(pixels) + np.outer(pixels == 4, np.arange(3) == colour))
    wrong = list(trailed_segments(run))
    assert wrong[0][0] == right[0][0]
    assert wrong[0][1] != right[0][1]
    assert wrong[1:] == right[1:]


@pytest.mark.parametrize("name", STEPWISE)
def test_a_trail_needs_a_state_of_the_run_with_steps_left(name: str) -> None:
    run = run_of(name)
    state, trail = run.initial_state(), bytes(TRAIL_BYTES)
    with pytest.raises(DecodeError):
        run.trailed(b"no state", 1, trail)
    with pytest.raises(ValueError, match=r"\d+ (steps|rows) after 0 of \d+"):
        run.trailed(state, run.boundary(run.segments) + 1, trail)


def test_a_trail_starts_with_the_state_and_covers_each_row_in_its_order() -> None:
    rows = np.arange(6, dtype=np.int64).reshape(3, 2)
    trail = first_trail(b"state")
    assert trail != first_trail(b"State")
    found = trail_after(trail, step_bytes(rows))
    assert found == trail_after(trail_after(trail, step_bytes(rows[:1])), step_bytes(rows[1:]))
    assert trail_after(trail, []) == trail
    changed = (rows[:2], rows[::-1], rows[:, ::-1], rows + (rows == 5), rows.reshape(2, 3))
    assert found not in [trail_after(trail, step_bytes(each)) for each in changed]
    assert found != trail_after(first_trail(b"State"), step_bytes(rows))


def test_a_fingerprint_covers_all_trails_their_order_and_the_seed() -> None:
    trails = [bytes([number]) * TRAIL_BYTES for number in range(3)]
    found = trail_fingerprint(SEED, trails)
    assert len(found) == FINGERPRINT_BYTES
    assert found not in [trail_fingerprint(SEED, each) for each in (trails[:2], trails[1:], trails[::-1], [])]
    assert found != trail_fingerprint(OTHER_SEED, trails)


def run_of(name: str, backend: str = "numpy") -> SegmentedRun:
    return stepwise(model_forms.form_named(name).open(backend)).begin(sample_request(name))
