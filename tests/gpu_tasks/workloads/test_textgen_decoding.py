"""Requests and model files from strangers: decoded strictly, within limits, or refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.workloads.textgen_int8.backends import NumpyBackend
from gpu_tasks.workloads.textgen_int8.model import MAGIC, Model, decode_model, encode_model, model_id
from gpu_tasks.workloads.textgen_int8.request import CompletionRequest, decode_request, encode_request
from gpu_tasks.workloads.textgen_int8.service import TextGeneration
from runtime.encoding.codec import DecodeError
from textgen_models import small_model

GOOD = CompletionRequest(b"abc", 10, 800, b"\x01" * 32)
FILE = encode_model(small_model())


def test_a_request_has_one_form() -> None:
    data = encode_request(GOOD)
    assert data == bytes([3 << 2]) + b"abc" + (10).to_bytes(2, "little") + (800).to_bytes(2, "little") + b"\x01" * 32
    assert decode_request(data, 48) == GOOD


@pytest.mark.parametrize(
    "data",
    [
        b"",
        encode_request(GOOD)[:-1],
        encode_request(GOOD) + b"\0",
        b"\x0d\0" + encode_request(GOOD)[1:],  # length in a longer form than needed
        encode_request(replace(GOOD, max_tokens=0)),
        encode_request(replace(GOOD, max_tokens=46)),
        encode_request(replace(GOOD, prompt=b"x" * 48)),
        encode_request(replace(GOOD, temperature_milli=10_001)),
        bytes([2, 0, 1, 0]) + bytes(16384 + 36),  # prompt above its limit
    ],
    ids=["empty", "cut", "longer", "uncanonical", "nothing", "context", "prompt", "hot", "huge"],
)
def test_a_bad_request_is_refused(data: bytes) -> None:
    workload = TextGeneration(NumpyBackend(), FILE)
    with pytest.raises(DecodeError):
        workload.run(data)
    with pytest.raises(DecodeError):
        workload.verify(data, b"")


@given(st.binary(max_size=80))
def test_any_bytes_are_a_request_or_a_decode_error(data: bytes) -> None:
    try:
        request = decode_request(data, 256)
    except DecodeError:
        return
    assert encode_request(request) == data


def test_a_model_file_comes_back() -> None:
    model = decode_model(FILE)
    assert encode_model(model) == FILE
    assert np.array_equal(model.layers[1].down, small_model().layers[1].down)
    assert model_id(FILE) != model_id(FILE[:-1] + bytes([FILE[-1] ^ 1]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        MAGIC,
        FILE[:-1],
        FILE + b"\0",
        b"X" + FILE[1:],
        MAGIC + b"\xff\xff" * 5 + FILE[18:],
        MAGIC + bytes(10) + FILE[18:],
        MAGIC + np.array([32, 2, 3, 64, 48], "<u2").tobytes() + FILE[18:],
        bytes(65 << 20),
    ],
    ids=["empty", "magic", "cut", "longer", "other", "large", "zero", "heads", "huge"],
)
def test_a_bad_model_file_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_model(data)


def bad_layer(**fields: np.ndarray) -> Model:
    model = small_model()
    return replace(model, layers=(model.layers[0], replace(model.layers[1], **fields)))


@pytest.mark.parametrize(
    "model",
    [
        bad_layer(qkv=np.full((96, 32), 64, np.int8)),
        bad_layer(down=np.full((32, 64), -128, np.int8)),
        bad_layer(gelu=np.full(4096, -128, np.int8)),
        bad_layer(gains=np.array([0, 1], np.int32)),
        bad_layer(gains=np.array([1, (1 << 20) + 1], np.int32)),
        bad_layer(out_multipliers=np.full(32, -1, np.int32)),
        replace(small_model(), final_gain=np.array([0], np.int32)),
        replace(small_model(), head=np.full((257, 32), -64, np.int8)),
        replace(small_model(), head_multipliers=np.full(257, -1, np.int32)),
    ],
)
def test_values_that_could_overflow_are_refused(model: Model) -> None:
    with pytest.raises(DecodeError, match="out of range"):
        decode_model(encode_model(model))
