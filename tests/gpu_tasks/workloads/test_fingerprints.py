"""Fingerprints of all workloads: equal on every backend, for every partition, and other ones for other computations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

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
from gpu_tasks.workloads.fingerprints import FINGERPRINT_BYTES, fingerprint, sampled_places
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from gpu_tasks.workloads.stepwise import SegmentedRun, states, stepwise
from gpu_tasks.workloads.workload import Workload
from runtime.encoding.codec import DecodeError
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


@pytest.mark.parametrize("name", STEPWISE)
def test_each_segment_has_a_fingerprint_on_every_backend(name: str) -> None:
    runs = [
        stepwise(model_forms.form_named(name).open(kind)).begin(sample_request(name)) for kind in ("numpy", "reference")
    ]
    run = runs[0]
    boundary_states = list(states(run))[:3]
    found = [_segment_fingerprints(each, boundary_states) for each in runs]
    assert found[0] == found[1]
    assert len(set(found[0])) == len(found[0])
    with pytest.raises(DecodeError):
        run.fingerprint(b"no state", 1, SEED)
    with pytest.raises(ValueError, match=r"\d+ (steps|rows) after 0 of \d+"):
        run.fingerprint(boundary_states[0], run.boundary(run.segments) + 1, SEED)


def _segment_fingerprints(run: SegmentedRun, boundary_states: list[bytes]) -> list[bytes]:
    return [
        run.fingerprint(state, run.boundary(index + 1) - run.boundary(index), SEED)
        for index, state in enumerate(boundary_states)
        if index < run.segments
    ]
