"""Texts alone and in batches, read at once and in chunks: one hash for each way, by its name in `verdict`."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from gpu_tasks.workloads.textgen_int8.batching import generated
from gpu_tasks.workloads.textgen_int8.decoding import generate, input_tokens
from gpu_tasks.workloads.textgen_int8.transformer import Loaded, empty_cache, forward
from scripts.conformance import cases
from scripts.conformance.verdict import BATCHED, CHUNKED

ALONE = ""
"""The undisturbed way."""


def crowd_hashes(model: Loaded) -> dict[str, str]:
    """Return the hashes of a crowd's outputs: each text alone, and in changing batches of each size."""
    asked = cases.crowd()
    found = {ALONE: _hash(generate(model, each) for each in asked)}
    for size in cases.BATCHES:
        outputs = dict(generated(model, asked, size))
        found[f"{BATCHED}{size}"] = _hash(outputs[place] for place in range(len(asked)))
    return found


def logits_hashes(model: Loaded) -> dict[str, str]:
    """Return the hashes of all logits of two texts: read in one pass, and in chunks of each size."""
    texts = np.concatenate([input_tokens(text) for text in cases.read_texts()])
    length = texts.shape[1]

    def read(size: int) -> str:
        cache = empty_cache(model, len(texts))
        parts = [forward(model, texts[:, start : start + size], cache) for start in range(0, length, size)]
        return _hash([np.concatenate(parts, axis=1).astype("<i8").tobytes()])

    return {ALONE: read(length)} | {f"{CHUNKED}{size}": read(size) for size in cases.CHUNKS}


def _hash(parts: Iterable[bytes]) -> str:
    """Return the hash of all parts with their lengths."""
    return blake2b(b"".join(len(part).to_bytes(4, "little") + part for part in parts), digest_size=32).hexdigest()
