"""What a device decodes when it works on several texts at once: tokens a second by batch, and the same tokens.

Each text is decoded greedily behind a prompt of its own; the clock runs from the first step behind the prompts to the
logits of the last one on the CPU.
"""

import time
from collections.abc import Sequence

import numpy as np

from benchmarks.figures import Figures
from gpu_tasks.workloads.textgen_int8.backends import arithmetic
from gpu_tasks.workloads.textgen_int8.integer_ops import Ints
from gpu_tasks.workloads.textgen_int8.model import VOCABULARY, decode_model
from gpu_tasks.workloads.textgen_int8.request import model_file
from gpu_tasks.workloads.textgen_int8.transformer import Loaded, empty_cache, forward, load

BATCHES = (1, 8, 32, 128, 512)
PROMPT, STEPS = 32, 32
SEED = 2027


def batched(backends: Sequence[str], batches: Sequence[int] = BATCHES) -> tuple[dict[str, Figures], list[str]]:
    """Of each backend its rates by batch; and where tokens differ from the first backend's, as sentences."""
    models = {backend: load(arithmetic(backend), decode_model(model_file())) for backend in backends}
    rates: dict[str, Figures] = {backend: {} for backend in backends}
    wrong = []
    for batch in batches:
        prompts = np.random.default_rng(SEED + batch).integers(0, VOCABULARY - 1, (batch, PROMPT))
        first: Ints | None = None
        for backend, model in models.items():
            texts, seconds = _decoded(model, prompts)
            rates[backend][f"tokens_per_second_at_{batch}"] = round(batch * STEPS / seconds)
            if first is not None and not np.array_equal(first, texts):
                wrong.append(f"batch of {batch}: {backend} decodes other tokens than {backends[0]}")
            first = texts if first is None else first
    return rates, wrong


def _decoded(model: Loaded, prompts: Ints) -> tuple[Ints, float]:
    """The texts, and the seconds of their steps, at the second try: the first warms up."""
    _steps(model, prompts)
    return _steps(model, prompts)


def _steps(model: Loaded, prompts: Ints) -> tuple[Ints, float]:
    cache = empty_cache(model, len(prompts))
    last: Ints = forward(model, prompts, cache)[:, -1].argmax(axis=-1)
    texts, began = [last], time.perf_counter()
    for _ in range(STEPS):
        last = forward(model, last[:, None], cache)[:, -1].argmax(axis=-1)
        texts.append(last)
    return np.stack(texts, axis=1), time.perf_counter() - began
