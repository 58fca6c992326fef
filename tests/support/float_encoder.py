"""A plain forward pass of the BERT class in float64, beside which integer models are measured."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.models.sources.source_model import SourceModel

Floats = NDArray[np.float64]
_ERF = np.vectorize(math.erf, otypes=[np.float64])


class FloatEncoder:
    """A model with all its tensors in memory."""

    def __init__(self, model: SourceModel) -> None:
        self._tensors = {name: tensor.astype(np.float64) for name, tensor in model.tensors.items()}
        self._layers, self._heads = (
            int(model.config["num_hidden_layers"]),
            int(model.config["num_attention_heads"]),
        )
        self._epsilon = float(model.config["layer_norm_eps"])

    def vector(self, tokens: Sequence[int]) -> Floats:
        """Return the mean over the tokens of one text, divided by its length."""
        mean = self.stream(tokens).mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))

    def stream(self, tokens: Sequence[int]) -> Floats:
        """Return the last layer's values [tokens, width]."""
        embeddings = "embeddings.{}_embeddings.weight"
        stream = self._tensors[embeddings.format("word")][list(tokens)]
        stream = stream + self._tensors[embeddings.format("position")][: len(tokens)]
        stream = self._norm(stream + self._tensors[embeddings.format("token_type")][0], "embeddings.LayerNorm")
        for number in range(self._layers):
            layer = f"encoder.layer.{number}"
            mixed = self._linear(self._attention(stream, f"{layer}.attention.self"), f"{layer}.attention.output.dense")
            stream = self._norm(stream + mixed, f"{layer}.attention.output.LayerNorm")
            inner = self._linear(stream, f"{layer}.intermediate.dense")
            active = inner * (1 + _ERF(inner / math.sqrt(2))) / 2
            stream = self._norm(stream + self._linear(active, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
        return stream

    def _attention(self, stream: Floats, name: str) -> Floats:
        heads = [
            self._linear(stream, f"{name}.{part}").reshape(len(stream), self._heads, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        ]
        queries, keys, values = heads
        scores = queries @ keys.swapaxes(1, 2) / math.sqrt(queries.shape[-1])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = weights / weights.sum(axis=-1, keepdims=True) @ values
        return np.asarray(mixed.swapaxes(0, 1).reshape(stream.shape))

    def _norm(self, values: Floats, name: str) -> Floats:
        centred = values - values.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + self._epsilon)
        return np.asarray(centred / deviation * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"])

    def _linear(self, values: Floats, name: str) -> Floats:
        return np.asarray(values @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"])
