"""A plain float32 forward pass of the Llama family, beside which integer models are measured.

No answer of the market depends on it: its bits differ between processors.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.models.sources.configs import FREQUENCY_FACTORS
from gpu_tasks.models.sources.source_model import SourceModel
from gpu_tasks.workloads.decoder_int8.config import LOGIT_ROWS

SingleFloats = NDArray[np.float32]


class FloatDecoder:
    """A float model. Each tensor is read when it is needed, so no more than one is in memory."""

    def __init__(self, source: SourceModel, tensors: Mapping[str, SingleFloats] | None = None) -> None:
        """`tensors`: others than the model's own, to measure changed weights."""
        self._config = config = source.config
        self._tensors = source.tensors if tensors is None else tensors
        self._layers = int(config["num_hidden_layers"])
        self._heads, self._groups = int(config["num_attention_heads"]), int(config["num_key_value_heads"])
        self._head_dim = int(config["head_dim"])

    def stream(self, tokens: Sequence[int], progress: Callable[[], object] = lambda: None) -> SingleFloats:
        """Return the final stream [tokens, width] of one sequence. `progress` is called after each layer."""
        stream = self._tensors["model.embed_tokens.weight"][list(tokens)]
        turns = self._turns(len(tokens))
        for number in range(self._layers):
            layer = f"model.layers.{number}"
            normed = self._norm(stream, f"{layer}.input_layernorm")
            stream = stream + self._attention(f"{layer}.self_attn", normed, turns)
            normed = self._norm(stream, f"{layer}.post_attention_layernorm")
            gate = self._linear(normed, f"{layer}.mlp.gate_proj")
            active = gate / (1 + np.exp(-gate)) * self._linear(normed, f"{layer}.mlp.up_proj")
            stream = stream + self._linear(active, f"{layer}.mlp.down_proj")
            progress()
        return stream

    def logits(self, stream: SingleFloats) -> Iterator[SingleFloats]:
        """Yield the logits [positions, vocabulary] of a final stream, LOGIT_ROWS positions at a time."""
        head = self._tensors[f"{'model.embed_tokens' if self._config['tie_word_embeddings'] else 'lm_head'}.weight"]
        normed = self._norm(stream, "model.norm")
        for start in range(0, len(normed), LOGIT_ROWS):
            yield normed[start : start + LOGIT_ROWS] @ head.T

    def log_probabilities(self, tokens: Sequence[int]) -> NDArray[np.float64]:
        """Return `log_probabilities` behind each token of one sequence."""
        return np.concatenate([log_probabilities(part) for part in self.logits(self.stream(tokens))])

    def _attention(self, layer: str, normed: SingleFloats, turns: tuple[SingleFloats, SingleFloats]) -> SingleFloats:
        count = len(normed)
        queries = self._linear(normed, f"{layer}.q_proj").reshape(count, self._heads, self._head_dim)
        keys = self._linear(normed, f"{layer}.k_proj").reshape(count, self._groups, self._head_dim)
        values = self._linear(normed, f"{layer}.v_proj").reshape(count, self._groups, self._head_dim)
        if self._config["qk_norm"]:
            queries, keys = self._norm(queries, f"{layer}.q_norm"), self._norm(keys, f"{layer}.k_norm")
        queries, keys = _rotated(queries, *turns), _rotated(keys, *turns)
        future = np.triu(np.full((count, count), -np.inf, dtype=np.float32), 1)
        attended = np.empty_like(queries)
        for head in range(self._heads):
            group = head * self._groups // self._heads
            scores = queries[:, head] @ keys[:, group].T / np.float32(np.sqrt(self._head_dim)) + future
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            attended[:, head] = weights / weights.sum(axis=-1, keepdims=True) @ values[:, group]
        return self._linear(attended.reshape(count, -1), f"{layer}.o_proj")

    def _norm(self, values: SingleFloats, name: str) -> SingleFloats:
        # In float32 the square of a large outlier is infinity, and all channels would become zero.
        mean_square = np.mean(np.square(values, dtype=np.float64), axis=-1, keepdims=True)
        scale = np.sqrt(mean_square + float(self._config["rms_norm_eps"]))
        return np.asarray((values / scale).astype(np.float32) * self._tensors[f"{name}.weight"])

    def _linear(self, values: SingleFloats, name: str) -> SingleFloats:
        product = values @ self._tensors[f"{name}.weight"].T
        bias = self._tensors.get(f"{name}.bias")
        return product if bias is None else product + bias

    def _turns(self, count: int) -> tuple[SingleFloats, SingleFloats]:
        """Return the cosines and sines [tokens, 1, head_dim / 2] of the rotary angles."""
        half = self._head_dim // 2
        frequencies = float(self._config["rope_theta"]) ** (-np.arange(half) / half)
        frequencies = frequencies / self._tensors.get(FREQUENCY_FACTORS, np.ones(half, dtype=np.float32))
        angles = np.outer(np.arange(count), frequencies)[:, None]
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def log_probabilities(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Return the natural logarithms of the next token's probabilities [positions, vocabulary]."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _rotated(values: SingleFloats, cosines: SingleFloats, sines: SingleFloats) -> SingleFloats:
    """Rotate the halves of each head [tokens, heads, head_dim] against each other."""
    first, second = np.split(values, 2, axis=-1)
    return np.concatenate([first * cosines - second * sines, second * cosines + first * sines], axis=-1)
