"""Float models to integer models: they compute the same function, within the 8 bits of their weights."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from decoder_models import CONFIG, VARIANTS, drawn_source, logits, source_of
from error_codes import raises_code
from gpu_tasks.models.sources.configs import FREQUENCY_FACTORS
from gpu_tasks.models.sources.source_model import SourceError, SourceModel
from gpu_tasks.workloads.decoder_int8.config import SHAPE, decode_shape
from gpu_tasks.workloads.decoder_int8.float_decoder import FloatDecoder
from gpu_tasks.workloads.decoder_int8.model import decode_model, encode_tensors
from gpu_tasks.workloads.decoder_int8.quantising import quantised_decoder
from gpu_tasks.workloads.decoder_int8.transformer import load
from gpu_tasks.workloads.integer_transformer.numpy_backend import FloatBackend

LENGTH = 48
TOKENS = np.random.default_rng(3).integers(0, 64, LENGTH)
TOLERANCE = 0.04
"""Of the divergence from the float model, in nats a token: 8 bits over 32 channels average little away."""


def integer_log_probabilities(source: SourceModel) -> Any:
    exact = logits(load(FloatBackend(), quantised_decoder(source)), TOKENS[None])[0] / 65536 * np.log(2)
    exact -= exact.max(axis=-1, keepdims=True)
    return exact - np.log(np.exp(exact).sum(axis=-1, keepdims=True))


def divergence(source: SourceModel, tensors: Any = None) -> float:
    """Return the mean divergence of the integer model's distribution from the float model's, in nats a token."""
    floats = FloatDecoder(source, tensors).log_probabilities(TOKENS.tolist())
    return float((np.exp(floats) * (floats - integer_log_probabilities(source))).sum(axis=-1).mean())


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_function_stays_the_same(variant: str, seed: int) -> None:
    assert 0 <= divergence(drawn_source(seed, **VARIANTS[variant])) < TOLERANCE


def test_scaled_positions_stay_the_same() -> None:
    source = drawn_source(1, rope_scaling={"rope_type": "linear", "factor": 4.0})
    tensors = dict(source.tensors)
    tensors[FREQUENCY_FACTORS] = np.geomspace(1, 4, 4).astype(np.float32)
    assert divergence(source_of(tensors, source.config)) < TOLERANCE


@pytest.mark.parametrize("factor", [0.0, -1.0, 1e-30, 1e-3])
def test_a_factor_that_speeds_positions_up_is_refused(factor: float) -> None:
    """A GGUF file may hold any: with these, the tables overflowed or divided by zero."""
    source = drawn_source(1, rope_scaling={"rope_type": "linear", "factor": 4.0})
    factors = {FREQUENCY_FACTORS: np.array([1, 1, 1, factor], dtype=np.float32)}
    with raises_code(SourceError, "rope_scaling"):
        quantised_decoder(source_of(dict(source.tensors) | factors, source.config))


@pytest.mark.parametrize(
    "change", [{"rms_norm_eps": 1.0}, {"intermediate_size": 1 << 16}, {"hidden_size": 1 << 17}, {"vocab_size": 1 << 20}]
)
def test_a_size_beyond_its_field_is_refused(change: dict[str, float]) -> None:
    source = drawn_source(1)
    with raises_code(SourceError, "range"):
        quantised_decoder(replace(source, config={**source.config, **change}))


def interleaved(weights: Any, heads: int) -> Any:
    """Return rows in GGUF's rotary order."""
    return weights.reshape(heads, 2, -1, weights.shape[1]).swapaxes(1, 2).reshape(weights.shape)


def changed(tensors: Any, name: str, change: Any) -> Any:
    return tensors | {key: change(value) for key, value in tensors.items() if name in key}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("q_proj", lambda weights: interleaved(weights, 4)),
        ("k_proj", lambda weights: interleaved(weights, 2)),
        ("self_attn.q_proj", lambda weights: weights[::-1]),
        ("v_proj", lambda weights: weights[::-1]),
        ("gate_proj", lambda weights: weights * 0.5),
        ("input_layernorm", lambda gain: gain[::-1]),
    ],
)
def test_a_wrong_layout_fails_the_tolerance(name: str, change: Any) -> None:
    source = drawn_source(1)
    assert divergence(source, changed(dict(source.tensors), name, change)) > 5 * TOLERANCE


def with_outliers(source: SourceModel, factor: float) -> SourceModel:
    """Return a model of the same function, with single channels of some matrices larger and others smaller by it."""
    tensors = {name: values.astype(np.float64) for name, values in source.tensors.items()}
    key_rows, group, width = 2 * 8, 2, 8
    for number in range(2):
        prefix = f"model.layers.{number}."
        for norm, parts, channel in (
            ("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), 5),
            ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj"), 9),
        ):
            tensors[f"{prefix}{norm}.weight"][channel] *= factor
            for part in parts:
                tensors[f"{prefix}{part}.weight"][:, channel] /= factor
        tensors[f"{prefix}mlp.up_proj.weight"][7] *= factor
        tensors[f"{prefix}mlp.down_proj.weight"][:, 7] /= factor
        tensors[f"{prefix}self_attn.v_proj.weight"][3] *= factor
        out = tensors[f"{prefix}self_attn.o_proj.weight"].reshape(-1, key_rows // width, group, width)
        out[:, 0, :, 3] /= factor
        for part, heads in (("q_proj", 4), ("k_proj", 2)):
            weights = tensors[f"{prefix}self_attn.{part}.weight"].reshape(2, heads // 2, 2, 4, -1)
            weights[0, :, :, 1] *= factor if part == "k_proj" else 1 / factor
    tensors["model.norm.weight"][2] *= factor
    tensors["lm_head.weight"][:, 2] /= factor
    return source_of({name: values.astype(np.float32) for name, values in tensors.items()}, source.config)


@pytest.mark.parametrize("factor", [1000.0, 0.001])
def test_outliers_between_matrices_cost_little(factor: float) -> None:
    """As real models have them. Rounding without the balance would lose every other channel."""
    source = drawn_source(1)
    planted = with_outliers(source, factor)
    plain = FloatDecoder(source).log_probabilities(TOKENS.tolist())
    assert np.abs(FloatDecoder(planted).log_probabilities(TOKENS.tolist()) - plain).max() < 0.01, (
        "the function is the same"
    )
    truth = TOKENS[1:], np.arange(LENGTH - 1)
    perplexity = np.exp(-integer_log_probabilities(planted)[truth[1], truth[0]].mean())
    assert abs(perplexity / np.exp(-plain[truth[1], truth[0]].mean()) - 1) < 0.05
    assert divergence(planted) < 2 * TOLERANCE


def test_the_model_passes_the_checks_of_its_file() -> None:
    for changes in VARIANTS.values():
        model = quantised_decoder(drawn_source(2, **changes))
        section = np.frombuffer(b"".join(encode_tensors(model)), dtype=np.uint8)
        assert decode_model(decode_shape(SHAPE.encode(model.shape)), section).shape == model.shape


def test_zeros_and_unused_channels_are_no_fault() -> None:
    source = drawn_source(1)
    tensors = {name: values.copy() for name, values in source.tensors.items()}
    tensors["model.layers.0.self_attn.v_proj.weight"][:] = 0
    tensors["model.layers.0.self_attn.k_proj.weight"][4] = 0
    tensors["model.layers.1.mlp.down_proj.weight"][:, 4] = 0
    tensors["model.layers.1.mlp.down_proj.weight"][7] = 0
    tensors["model.layers.1.mlp.up_proj.weight"][5] = 0
    tensors["model.layers.1.input_layernorm.weight"][6] = 0
    tensors["model.embed_tokens.weight"][9] = 0
    assert divergence(source_of(tensors, source.config)) < TOLERANCE


@pytest.mark.parametrize("part", ["", "norm.weight", "mlp", "self_attn"])
def test_a_matrix_of_zeros_is_no_weight_too_large(part: str) -> None:
    source = drawn_source(1)
    tensors = changed(dict(source.tensors), part, np.zeros_like)
    assert abs(divergence(source_of(tensors, source.config))) < TOLERANCE


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("mlp.gate_proj.weight", 1e6),
        ("self_attn.o_proj.weight", 1e9),
        ("embed_tokens.weight", 1e9),
        ("norm.weight", 1e9),
    ],
)
def test_values_that_do_not_fit_are_refused(name: str, size: float) -> None:
    source = drawn_source(1)
    tensors = changed(dict(source.tensors), name, lambda values: values * np.float32(size))
    with pytest.raises(SourceError) as refused:
        quantised_decoder(source_of(tensors, source.config))
    assert refused.value.code == "range"


def test_a_bias_in_the_mlp_has_no_place() -> None:
    with pytest.raises(SourceError) as refused:
        quantised_decoder(drawn_source(1, mlp_bias=True))
    assert refused.value.code == "architecture"


def test_a_shorter_context_is_the_same_model_of_shorter_tables() -> None:
    whole, short = (quantised_decoder(drawn_source(1, max_position_embeddings=context)) for context in (64, 16))
    assert short.shape.context == 16
    assert np.array_equal(short.cosines, whole.cosines[:16])
    assert whole.shape.context == CONFIG["max_position_embeddings"]
