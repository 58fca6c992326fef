"""Model files with one wrong value, size or byte are refused, and no shape makes an array before its bytes exist."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder_models import extreme_model
from gpu_tasks.workloads.decoder_int8 import config as limits
from gpu_tasks.workloads.decoder_int8.config import SHAPE, DecoderShape, decode_shape
from gpu_tasks.workloads.decoder_int8.model import DecoderModel, decode_model, encode_tensors
from gpu_tasks.workloads.integer_transformer.arithmetic import VALUE_MAX
from runtime.encoding.codec import DecodeError

SMALL = DecoderShape(8, 2, 4, 2, 4, 6, 16, 16, 11, True, True, True, (1, 2))
MODEL = extreme_model(SMALL, 3)


def section(model: DecoderModel = MODEL) -> np.ndarray:
    return np.frombuffer(b"".join(encode_tensors(model)), dtype=np.uint8)


def test_a_model_survives_its_encoding() -> None:
    decoded = decode_model(decode_shape(SHAPE.encode(SMALL)), section())
    assert np.array_equal(section(decoded), section())
    assert decoded.shape == SMALL


@pytest.mark.parametrize("offset", range(8))
def test_a_section_may_lie_at_any_offset(offset: int) -> None:
    """As a memory map of a model file."""
    moved = np.concatenate([np.zeros(offset, dtype=np.uint8), section()])[offset:]
    assert np.array_equal(section(decode_model(SMALL, moved)), section())


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("width", (0, limits.WIDTH_MAX + 1)),
        ("layers", (0, limits.LAYERS_MAX + 1)),
        ("heads", (0, 3, limits.HEADS_MAX + 2)),
        ("key_heads", (0, 3, 8)),
        ("head_width", (0, 3, limits.HEAD_WIDTH_MAX + 2)),
        ("hidden", (0, (1 << 14) + 1)),
        ("context", (0, limits.CONTEXT_MAX + 1)),
        ("vocabulary", (0, limits.VOCABULARY_MAX + 1)),
        ("epsilon", (limits.EPSILON_MAX + 1,)),
        ("end_tokens", ((16,), (0, 99))),
    ],
)
def test_shapes_out_of_range_are_refused(field: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(DecodeError):
            decode_shape(SHAPE.encode(replace(SMALL, **{field: value})))


def test_heads_of_more_than_the_columns_of_a_sum_are_refused() -> None:
    decode_shape(SHAPE.encode(replace(SMALL, heads=64, head_width=256)))
    with pytest.raises(DecodeError):
        decode_shape(SHAPE.encode(replace(SMALL, heads=66, head_width=256)))


def test_a_context_beyond_the_memory_for_keys_and_values_is_refused() -> None:
    wide = replace(SMALL, layers=256, heads=256, key_heads=256, head_width=48)
    assert limits.cache_bytes(wide) << 8 == limits.CACHE_BYTES
    decode_shape(SHAPE.encode(replace(wide, context=256)))
    with pytest.raises(DecodeError):
        decode_shape(SHAPE.encode(replace(wide, context=257)))


@pytest.mark.parametrize("damage", [lambda encoded: encoded + b"\0", lambda encoded: encoded[:-1], lambda _: b""])
def test_a_config_of_another_length_is_refused(damage: Any) -> None:
    with pytest.raises(DecodeError):
        decode_shape(damage(SHAPE.encode(SMALL)))


def test_more_end_tokens_than_the_limit_are_refused() -> None:
    encoded = SHAPE.encode(replace(SMALL, end_tokens=(1,) * limits.END_TOKENS_MAX))
    decode_shape(encoded)
    with pytest.raises(DecodeError):
        decode_shape(encoded[:-65] + bytes([17 * 4]) + encoded[-64:] + encoded[-4:])


def test_every_shorter_and_every_longer_section_is_refused() -> None:
    whole = section()
    array_ends = np.cumsum([array.nbytes for array in MODEL.arrays()])
    for end in {0, 1, *(array_ends - 1), *array_ends[:-1]}:
        with pytest.raises(DecodeError):
            decode_model(SMALL, whole[:end])
    with pytest.raises(DecodeError):
        decode_model(SMALL, np.append(whole, np.uint8(0)))


def test_the_largest_shape_makes_no_array_of_a_short_section() -> None:
    largest = DecoderShape(
        limits.WIDTH_MAX, limits.LAYERS_MAX, 64, 1, 256, 1 << 14, limits.CONTEXT_MAX, limits.VOCABULARY_MAX, 0, True,
        True, True, (),
    )  # fmt: skip
    short, shape = section(), decode_shape(SHAPE.encode(largest))
    tracemalloc.start()
    with pytest.raises(DecodeError):
        decode_model(shape, short)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def out_of_range() -> Iterator[tuple[str, str, int]]:
    """Yield the path of an array and a value beyond one of its limits."""
    least = {"qkv": 22, "gate_up": 22, "out": 15, "down": 17, "head": 24, "embeddings": 4}
    gains = {"qkv": "layers.1.attention_gain", "gate_up": "layers.1.mlp_gain", "head": "final_gain"}
    for name, exponent in least.items():
        path = name if name in {"head", "embeddings"} else f"layers.1.{name}"
        yield f"{path}.integers", "", -128
        yield f"{path}.mantissas", "", (1 << 15) - 1
        yield f"{path}.mantissas", "", 0
        yield f"{path}.exponents", "", 63
        # The least exponent of a matrix behind a norm is lower by the exponent of the norm's gain.
        yield f"{path}.exponents", gains.get(name, ""), exponent - 1
    for name in ("layers.1.attention_gain", "layers.1.mlp_gain", "layers.1.query_gain", "layers.1.key_gain"):
        yield f"{name}.integers", "", -(1 << 15)
        yield f"{name}.exponent", "", -1
        yield f"{name}.exponent", "", 63
    for name in ("layers.1.qkv_bias", "layers.1.out_bias"):
        yield name, "", VALUE_MAX + 1
        yield name, "", -VALUE_MAX - 1
    for name in ("cosines", "sines"):
        yield name, "", (1 << 14) + 1
        yield name, "", -(1 << 14) - 1
    for name, high in (("exponentials", 1 << 24), ("sigmoids", 1 << 16)):
        yield name, "", high + 1
        yield name, "", -1


def array_at(model: DecoderModel, path: str) -> np.ndarray:
    found: Any = model
    for part in path.split("."):
        found = found[int(part)] if part.isdigit() else getattr(found, part)
    assert isinstance(found, np.ndarray)
    return found


@pytest.mark.parametrize(("path", "gain", "value"), [*out_of_range()])
def test_a_value_out_of_range_is_refused(path: str, gain: str, value: int) -> None:
    """The last place of an array, and the first."""
    for place in (0, -1):
        decoded = decode_model(SMALL, section().copy())
        if gain:
            value -= int(array_at(decoded, f"{gain}.exponent")[0])
        array = array_at(decoded, path)
        was = array.reshape(-1)[place]
        array.reshape(-1)[place] = value
        with pytest.raises(DecodeError):
            decode_model(SMALL, section(decoded))
        array.reshape(-1)[place] = was
        decode_model(SMALL, section(decoded))
        if gain:
            break


@pytest.mark.parametrize(("place", "value"), [(0, 0), (0, (1 << 24) - 1), (-1, 1)])
def test_the_ends_of_the_exponentials_are_fixed(place: int, value: int) -> None:
    """The first divides, and the last is the share of keys that a token must not see."""
    decoded = decode_model(SMALL, section().copy())
    decoded.exponentials[place] = value
    with pytest.raises(DecodeError):
        decode_model(SMALL, section(decoded))


@given(st.binary(max_size=64))
def test_any_bytes_are_a_shape_or_refused(encoded: bytes) -> None:
    try:
        shape = decode_shape(encoded)
    except DecodeError:
        return
    assert SHAPE.encode(shape) == encoded
