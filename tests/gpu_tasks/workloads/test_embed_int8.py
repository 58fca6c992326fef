"""`embed-int8`: the same bits on every backend and in every batch, near the float model, and bad input refused."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder_models import float_encoder_model
from float_encoder import FloatEncoder
from gpu_tasks.models.sources.source_model import SourceError
from gpu_tasks.workloads.embed_int8 import batching, conformance, transformer
from gpu_tasks.workloads.embed_int8.batching import embedded
from gpu_tasks.workloads.embed_int8.config import (
    EPSILON_MAX,
    HEAD_WIDTH_MAX,
    INNER_MAX,
    POSITIONS_A_PASS,
    POSITIONS_MAX,
    SHAPE,
    VOCABULARY_MAX,
    WIDTH_MAX,
    EncoderShape,
    decode_shape,
    pass_bytes,
)
from gpu_tasks.workloads.embed_int8.model import EncoderModel, check_model, decode_model, encode_tensors
from gpu_tasks.workloads.embed_int8.quantising import quantised_encoder
from gpu_tasks.workloads.embed_int8.request import EmbeddingRequest, decode_output
from gpu_tasks.workloads.embed_int8.transformer import load, vectors
from gpu_tasks.workloads.integer_transformer import arithmetic as ops
from gpu_tasks.workloads.integer_transformer.arithmetic import (
    CENTRED_MAX,
    NORMAL_ENTRIES,
    VALUE_MAX,
    Gain,
    PlainBackend,
)
from gpu_tasks.workloads.integer_transformer.numpy_backend import FloatBackend
from gpu_tasks.workloads.integer_transformer.rows import GAIN_MAX, GainRow
from gpu_tasks.workloads.integer_transformer.tables import normal_table
from gpu_tasks.workloads.workload import NonConformingBackendError
from runtime.encoding.codec import DecodeError

SOURCE = float_encoder_model()
MODEL = quantised_encoder(SOURCE)
ON_NUMPY, ON_REFERENCE = load(FloatBackend(), MODEL), load(PlainBackend(), MODEL)
TEXTS = st.lists(
    st.lists(st.integers(0, MODEL.shape.vocabulary - 1), min_size=1, max_size=MODEL.shape.positions),
    min_size=1,
    max_size=6,
)


def answers(model: transformer.LoadedEncoder, texts: list[list[int]]) -> list[bytes]:
    found = dict(embedded(model, [EmbeddingRequest(tuple(text)) for text in texts]))
    return [found[place] for place in range(len(texts))]


# ------------------------------------------------------------------------------------------------------ the same bits
@settings(deadline=None, max_examples=25)
@given(texts=TEXTS)
def test_numpy_gives_the_bits_of_the_reference_in_any_batch(texts: list[list[int]]) -> None:
    together = answers(ON_NUMPY, texts)
    assert together == answers(ON_REFERENCE, texts)
    assert together == [answers(ON_NUMPY, [text])[0] for text in texts]


@pytest.mark.parametrize(("positions", "scores"), [(1, 1), (7, 50), (512, 1000), (4096, 1 << 20)])
def test_no_limit_of_a_pass_changes_a_bit(positions: int, scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [[number % 90 for number in range(first, first + 5 * first + 1)] for first in range(8)]
    expected = answers(ON_NUMPY, texts)
    monkeypatch.setattr(batching, "POSITIONS_A_PASS", positions)
    monkeypatch.setattr(ON_NUMPY.backend, "scores_at_once", scores)
    assert answers(ON_NUMPY, texts) == expected


@given(lengths=st.lists(st.integers(1, 600), max_size=40))
def test_passes_hold_each_text_once_within_the_limit(lengths: list[int]) -> None:
    passes = list(batching._passes(lengths))
    assert sorted(place for places in passes for place in places) == list(range(len(lengths)))
    for places in passes:
        longest = max(lengths[place] for place in places)
        assert len(places) == 1 or len(places) * longest <= POSITIONS_A_PASS
    assert all(min(lengths[a] for a in one) >= max(lengths[b] for b in two) for one, two in pairwise(passes))


def test_the_memory_of_a_pass_is_that_of_its_positions() -> None:
    """A text that is longer than a pass has one alone."""
    usual = replace(MODEL.shape, positions=POSITIONS_A_PASS)
    assert pass_bytes(replace(usual, positions=1)) == pass_bytes(usual)
    assert pass_bytes(replace(usual, positions=8 * POSITIONS_A_PASS)) == 8 * pass_bytes(usual)


@pytest.mark.parametrize("padding", [0, 1, 95])
def test_the_padding_is_never_seen(padding: int) -> None:
    tokens = np.full((2, 30), padding)
    tokens[0, :5], tokens[1] = range(5), range(30)
    assert (
        vectors(ON_NUMPY, tokens, np.array([5, 30]))[0] == vectors(ON_NUMPY, tokens[:1, :5], np.array([5]))[0]
    ).all()


@pytest.mark.parametrize("backend", [FloatBackend(), PlainBackend()], ids=lambda backend: backend.name)
def test_backends_conform(backend: Any) -> None:
    check_model(conformance.small_model())
    assert conformance.answers_hash(backend).hex() == conformance.ANSWERS


class HalfLimbs(FloatBackend):
    """A backend whose operands lose bits, as in bfloat16."""

    def product(self, scaled: Any, operand: Any) -> Any:
        return super().product(np.floor(scaled / 256) * 256, operand)


class SingleRoots(FloatBackend):
    """A backend whose roots are float32."""

    def root(self, squares: Any) -> Any:
        return np.floor(np.sqrt(squares.astype(np.float32))).astype(np.float64)


class SeesPadding(FloatBackend):
    """A backend whose softmax gives hidden keys a share."""

    def entries(self, table: Any, places: Any) -> Any:
        return np.maximum(super().entries(table, places), 1 << 20)


@pytest.mark.parametrize("backend", [HalfLimbs(), SingleRoots(), SeesPadding()], ids=lambda kind: type(kind).__name__)
def test_a_backend_with_other_bits_is_refused(backend: Any) -> None:
    with pytest.raises(NonConformingBackendError):
        conformance.answers_hash(backend)


# ------------------------------------------------------------------------------------------------ near the float model
def test_vectors_are_near_those_of_the_float_model() -> None:
    encoder, draw = FloatEncoder(SOURCE), np.random.default_rng(3)
    for length in (1, 2, 17, MODEL.shape.positions):
        tokens = draw.integers(0, MODEL.shape.vocabulary, length).tolist()
        count, values = decode_output(answers(ON_NUMPY, [tokens])[0])
        assert count == length
        assert math.isclose(np.linalg.norm(values), 1, abs_tol=1e-3)
        assert np.dot(values, encoder.vector(tokens)) > 0.995


def test_the_table_of_the_normal_distribution_is_exact() -> None:
    places = (np.arange(NORMAL_ENTRIES) - NORMAL_ENTRIES // 2) / 4096
    exact = [65536 * math.erfc(-place / math.sqrt(2)) / 2 for place in places]
    table = normal_table()
    assert np.abs(table - exact).max() <= 0.5 + 1e-6
    assert (table[0], table[NORMAL_ENTRIES // 2], table[-1]) == (0, 1 << 15, 1 << 16)
    assert (np.diff(table) >= 0).all()


@pytest.mark.parametrize("backend", [FloatBackend(), PlainBackend()], ids=lambda backend: backend.name)
def test_gelu_is_near_the_exact_one(backend: Any) -> None:
    values = np.concatenate([np.arange(-(1 << 18), 1 << 18, 997), [-VALUE_MAX, VALUE_MAX, 0]])
    result = ops.gelu(backend, backend.put(values[:, None]), backend.put(normal_table()))
    found = (backend.take(result.integers) * 2.0 ** backend.take(result.exponent))[:, 0]
    x = values / (1 << 14)
    exact = np.array([value * math.erfc(-value / math.sqrt(2)) / 2 for value in x])
    assert (np.abs(found - exact) <= 2e-4 + np.abs(exact) * 2.0**-14).all()
    assert found[-3] == 0


@pytest.mark.parametrize("backend", [FloatBackend(), PlainBackend()], ids=lambda backend: backend.name)
@pytest.mark.parametrize(("size", "offset"), [(1.0, 0.0), (300.0, 0.0), (1.0, 100.0), (0.01, 0.0)])
def test_layer_norm_is_near_the_exact_one(backend: Any, size: float, offset: float) -> None:
    draw = np.random.default_rng(5)
    stream = np.round((draw.standard_normal((9, 384)) * size + offset) * 2**18).astype(np.int64)
    gain, bias = draw.integers(-GAIN_MAX, GAIN_MAX, 384), draw.integers(-(1 << 18), 1 << 18, 384)
    result = ops.layer_norm(backend, backend.put(stream), Gain(backend.put(gain), 14), backend.put(bias), 1)
    centred = stream - stream.mean(axis=-1, keepdims=True)
    exact = centred / centred.std(axis=-1, keepdims=True) * gain / (1 << 14) + bias / (1 << 18)
    found = backend.take(result) / (1 << 18)
    assert np.abs(found - exact).max() < 1e-3


EDGES = [-(1 << 50), -CENTRED_MAX, -1, 0, 1, CENTRED_MAX, 1 << 50]


@settings(deadline=None)
@given(
    stream=st.lists(st.sampled_from(EDGES) | st.integers(-(1 << 50), 1 << 50), min_size=1, max_size=8),
    width=st.sampled_from([1, 7, WIDTH_MAX]),
    gain=st.sampled_from([-GAIN_MAX, 1, GAIN_MAX]),
    exponent=st.sampled_from([0, 14, 62]),
    epsilon=st.sampled_from([0, 1, EPSILON_MAX]),
)
def test_layer_norm_has_the_same_bits_at_the_limits(
    stream: list[int], width: int, gain: int, exponent: int, epsilon: int
) -> None:
    row = np.resize(np.array(stream, dtype=np.int64), (1, width))
    results = []
    for backend in (FloatBackend(), PlainBackend()):
        gains = Gain(backend.put(np.full(width, gain)), exponent)
        bias = backend.put(np.full(width, VALUE_MAX))
        results.append(backend.take(ops.layer_norm(backend, backend.put(row), gains, bias, epsilon)))
    assert (results[0] == results[1]).all()
    assert np.abs(results[0]).max() <= CENTRED_MAX


def test_a_constant_row_has_only_the_bias() -> None:
    backend = FloatBackend()
    gain = Gain(backend.put(np.full(8, GAIN_MAX)), 14)
    bias = backend.put(np.arange(8))
    assert (ops.layer_norm(backend, backend.put(np.full((1, 8), 12345)), gain, bias, 1) == bias).all()


# --------------------------------------------------------------------------------------------------------- bad models
def test_a_model_survives_its_bytes() -> None:
    encoded = b"".join(encode_tensors(MODEL))
    read = decode_model(decode_shape(SHAPE.encode(MODEL.shape)), np.frombuffer(encoded, np.uint8))
    assert b"".join(encode_tensors(read)) == encoded
    assert quantised_encoder(SOURCE).shape == MODEL.shape
    assert b"".join(encode_tensors(quantised_encoder(SOURCE))) == encoded
    for wrong in (encoded[:-1], encoded + b"\0", b""):
        with pytest.raises(DecodeError):
            decode_model(MODEL.shape, np.frombuffer(wrong, np.uint8))


@pytest.mark.parametrize(
    "sizes",
    [
        {"width": 0}, {"width": WIDTH_MAX + 4}, {"width": 50}, {"layers": 0}, {"layers": 257}, {"heads": 0},
        {"heads": 257, "width": 257}, {"heads": 1, "width": HEAD_WIDTH_MAX + 1}, {"inner": 0}, {"inner": INNER_MAX + 1},
        {"positions": 0}, {"positions": POSITIONS_MAX + 1}, {"vocabulary": 0}, {"vocabulary": VOCABULARY_MAX + 1},
        {"epsilon": EPSILON_MAX + 1},
    ],
    ids=str,
)  # fmt: skip
def test_sizes_out_of_range_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(DecodeError):
        decode_shape(SHAPE.encode(replace(MODEL.shape, **sizes)))


def test_the_largest_sizes_are_read() -> None:
    shape = EncoderShape(WIDTH_MAX, 256, 256, INNER_MAX, POSITIONS_MAX, VOCABULARY_MAX, EPSILON_MAX)
    assert decode_shape(SHAPE.encode(shape)) == shape


def with_layer(**parts: Any) -> EncoderModel:
    return replace(MODEL, layers=(MODEL.layers[0], replace(MODEL.layers[1], **parts)))


def changed(array: Any, value: int) -> Any:
    result = array.copy()
    result.reshape(-1)[-1] = value
    return result


def gained(norm: Any, exponent: int) -> Any:
    return replace(norm, gain=GainRow(norm.gain.integers, np.array([exponent], dtype=np.int8)))


LAYER = MODEL.layers[1]
BAD_MODELS = {
    "word": replace(MODEL, words=replace(MODEL.words, integers=changed(MODEL.words.integers, -128))),
    "word exponent": replace(MODEL, words=replace(MODEL.words, exponents=changed(MODEL.words.exponents, -1))),
    "word mantissa": replace(MODEL, words=replace(MODEL.words, mantissas=changed(MODEL.words.mantissas, 1))),
    "position": replace(MODEL, positions=changed(MODEL.positions, VALUE_MAX + 1)),
    "gain": replace(MODEL, norm=replace(MODEL.norm, gain=GainRow(changed(MODEL.norm.gain.integers, -(1 << 15)),
                                                                 MODEL.norm.gain.exponent))),
    "gain exponent": replace(MODEL, norm=gained(MODEL.norm, -1)),
    "norm bias": replace(MODEL, norm=replace(MODEL.norm, bias=changed(MODEL.norm.bias, -VALUE_MAX - 1))),
    "peak share": replace(MODEL, exponentials=np.zeros_like(MODEL.exponentials)),
    "share of the padding": replace(MODEL, exponentials=changed(MODEL.exponentials, 1)),
    "negative share": replace(MODEL, exponentials=changed(MODEL.exponentials, -1)),
    "normal": replace(MODEL, normals=changed(MODEL.normals, (1 << 16) + 1)),
    "matrix bias": with_layer(up=replace(LAYER.up, bias=changed(LAYER.up.bias, VALUE_MAX + 1))),
    **{
        f"{name} exponent": with_layer(**{name: replace(matrix, rows=replace(
            matrix.rows, exponents=changed(matrix.rows.exponents, exponent)))})
        for name, matrix, exponent in (
            ("qkv", LAYER.qkv, 8), ("out", LAYER.out, 15), ("up", LAYER.up, 8), ("down", LAYER.down, 15),
        )
    },
    "large gain before rows": with_layer(
        attention_norm=gained(LAYER.attention_norm, 0),
        up=replace(LAYER.up, rows=replace(LAYER.up.rows, exponents=changed(LAYER.up.rows.exponents, 21))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_MODELS)
def test_values_that_could_overflow_are_refused(kind: str) -> None:
    check_model(MODEL)
    bad = BAD_MODELS[kind]
    with pytest.raises(DecodeError):
        decode_model(bad.shape, np.frombuffer(b"".join(encode_tensors(bad)), np.uint8))


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("embeddings.word_embeddings.weight", 1e9),
        ("embeddings.position_embeddings.weight", 1e4),
        ("embeddings.LayerNorm.weight", 1e6),
        ("encoder.layer.0.attention.output.LayerNorm.bias", 1e5),
        ("encoder.layer.1.attention.self.value.bias", 1e6),
        ("encoder.layer.1.intermediate.dense.weight", 1e8),
    ],
)
def test_float_models_beyond_the_integers_are_refused(name: str, factor: float) -> None:
    with pytest.raises(SourceError) as raised:
        quantised_encoder(float_encoder_model({name: SOURCE.tensors[name] * np.float32(factor)}))
    assert raised.value.code == "range"


def test_float_models_of_another_form_are_refused() -> None:
    with pytest.raises(SourceError) as raised:
        quantised_encoder(replace(SOURCE, architecture="llama"))
    assert raised.value.code == "architecture"
    with pytest.raises(SourceError) as raised:
        quantised_encoder(float_encoder_model(hidden_size=520, num_attention_heads=1))
    assert raised.value.code == "range"


def test_rows_of_zeros_and_extreme_weights_stay_exact() -> None:
    """A model at its limits: both backends agree, and nothing exceeds the vector's range."""
    zeros = {name: SOURCE.tensors[name] * np.float32(0) for name in SOURCE.tensors if "encoder.layer.0" in name}
    large = {
        name: SOURCE.tensors[name] * np.float32(50)
        for name in SOURCE.tensors
        if "encoder.layer.1" in name and name.endswith("dense.weight")
    }
    model = quantised_encoder(float_encoder_model(zeros | large))
    texts = [[5, 6, 7], [1] * 40]
    found = answers(load(FloatBackend(), model), texts)
    assert found == answers(load(PlainBackend(), model), texts)
