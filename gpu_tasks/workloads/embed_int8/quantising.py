"""A float model of the BERT class to a model of `embed-int8`: weights of 8 bits with one scale for each row.

Invariant: the result is a function of the source's bytes. Only operations with one correct result in IEEE arithmetic
are used (`+ - * / sqrt`, maxima, rounding), so every machine writes the same file, and its id can be published.
"""

from collections.abc import Callable

import numpy as np

from gpu_tasks.models.sources.source_model import SourceError, SourceModel
from gpu_tasks.workloads.embed_int8.config import POSITIONS_MAX, EncoderShape, check_shape
from gpu_tasks.workloads.embed_int8.model import (
    DOWN_EXPONENT_MIN,
    OUT_EXPONENT_MIN,
    EncoderLayer,
    EncoderModel,
    MatrixArrays,
    NormArrays,
)
from gpu_tasks.workloads.integer_transformer.arithmetic import EPSILON_BITS, STREAM_BITS, UNIT_BITS
from gpu_tasks.workloads.integer_transformer.rounding import Floats, eight_bit_rows, fixed_bias, gain_row
from gpu_tasks.workloads.integer_transformer.tables import exponential_table, normal_table
from runtime.encoding.codec import DecodeError


def quantised_encoder(
    source: SourceModel, progress: Callable[[int, int], object] = lambda _done, _all: None
) -> EncoderModel:
    """Return the integer model. Raise SourceError for a model that `embed-int8` cannot compute."""
    if source.architecture != "bert":
        raise SourceError("architecture", f"embed-int8 computes models of the BERT class, not {source.architecture}")
    config = source.config
    reader = _Reader(source)
    shape = EncoderShape(
        width=int(config["hidden_size"]), layers=int(config["num_hidden_layers"]),
        heads=int(config["num_attention_heads"]), inner=int(config["intermediate_size"]),
        positions=min(POSITIONS_MAX, int(config["max_position_embeddings"])),
        vocabulary=int(config["vocab_size"]),
        epsilon=round(float(config["layer_norm_eps"]) * (1 << EPSILON_BITS)),  # deterministic: one IEEE product
    )  # fmt: skip
    try:
        check_shape(shape)
    except DecodeError as error:
        raise SourceError("range", f"the model does not fit embed-int8: {error.args[0]}") from None
    positions = reader.floats("embeddings.position_embeddings.weight")[: shape.positions]
    # One text has the first token type throughout: its vector is the same for all positions.
    positions = positions + reader.floats("embeddings.token_type_embeddings.weight")[0]
    norm = reader.norm("embeddings.LayerNorm")
    layers: list[EncoderLayer] = []
    for number in range(shape.layers):
        layers.append(reader.layer(number, layers[-1].mlp_norm if layers else norm))
        progress(number + 1, shape.layers)
    return EncoderModel(
        shape, eight_bit_rows(reader.floats("embeddings.word_embeddings.weight"), 0),
        fixed_bias(positions, STREAM_BITS), norm, exponential_table(), normal_table(), tuple(layers),
    )  # fmt: skip


class _Reader:
    """Reads parts of a float model as integers."""

    def __init__(self, source: SourceModel) -> None:
        self._tensors = source.tensors

    def floats(self, name: str) -> Floats:
        return self._tensors[name].astype(np.float64)

    def norm(self, name: str) -> NormArrays:
        return NormArrays(gain_row(self.floats(f"{name}.weight")), fixed_bias(self.floats(f"{name}.bias"), STREAM_BITS))

    def layer(self, number: int, norm_before: NormArrays) -> EncoderLayer:
        prefix = f"encoder.layer.{number}"
        attention = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
        attention_norm = self.norm(f"{prefix}.attention.output.LayerNorm")
        return EncoderLayer(
            self._matrix(attention, UNIT_BITS, norm_before.check()),
            self._matrix([f"{prefix}.attention.output.dense"], STREAM_BITS, OUT_EXPONENT_MIN),
            attention_norm,
            self._matrix([f"{prefix}.intermediate.dense"], UNIT_BITS, attention_norm.check()),
            self._matrix([f"{prefix}.output.dense"], STREAM_BITS, DOWN_EXPONENT_MIN),
            self.norm(f"{prefix}.output.LayerNorm"),
        )

    def _matrix(self, names: list[str], unit_bits: int, exponent_min: int) -> MatrixArrays:
        weights = np.concatenate([self.floats(f"{name}.weight") for name in names])
        biases = np.concatenate([self.floats(f"{name}.bias") for name in names])
        return MatrixArrays(eight_bit_rows(weights, exponent_min), fixed_bias(biases, unit_bits))
