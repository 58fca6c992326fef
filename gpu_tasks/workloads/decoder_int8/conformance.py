"""A built-in model, drawn by SHAKE-256, whose logits have a published hash. A backend with another must not serve.

It needs no model file, so every machine can run it. A prefill and decoding token by token must both give the hash.
"""

from decimal import Decimal  # deterministic: powers of two alone
from functools import cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.workloads.decoder_int8.config import DecoderShape
from gpu_tasks.workloads.decoder_int8.model import DecoderModel, LayerArrays
from gpu_tasks.workloads.decoder_int8.transformer import KeyValueCache, LoadedDecoder, forward, load, logits_of
from gpu_tasks.workloads.integer_arrays import Integers
from gpu_tasks.workloads.integer_transformer.arithmetic import TransformerBackend
from gpu_tasks.workloads.integer_transformer.conformance import check_operations, drawn
from gpu_tasks.workloads.integer_transformer.rows import GainRow, Rows
from gpu_tasks.workloads.integer_transformer.tables import exponential_table, rotary_tables, sigmoid_table
from gpu_tasks.workloads.workload import NonConformingBackendError

LOGITS = "dd5448f676f4a598205bfdd8fef893f6"
SHAPE = DecoderShape(48, 2, 6, 2, 16, 80, 40, 97, 10_995_116, True, True, True, (0,))
TEXTS = drawn("conformance texts", (3, SHAPE.context), 0, SHAPE.vocabulary - 1)
EXPONENT = 24
"""With it, a row about keeps the size of its input."""


@cache
def built_in_model() -> DecoderModel:
    """Return the model: every part of a layer is in use, and the logits have the usual size."""
    s, attended = SHAPE, SHAPE.heads * SHAPE.head_width
    rows = attended + 2 * s.key_heads * s.head_width
    angles = [Decimal(1) / (1 << pair) for pair in range(s.head_width // 2)]
    cosines, sines = rotary_tables(s.context, angles)
    layers = tuple(
        LayerArrays(
            _gain(f"attention {n}", s.width), _rows(f"qkv {n}", rows, s.width, EXPONENT),
            _bias(f"qkv {n}", rows, 1 << 13), _gain(f"query {n}", s.head_width),
            _gain(f"key {n}", s.head_width), _rows(f"out {n}", s.width, attended, EXPONENT),
            _bias(f"out {n}", s.width, 1 << 16), _gain(f"mlp {n}", s.width),
            _rows(f"gate up {n}", 2 * s.hidden, s.width, EXPONENT - 1), _rows(f"down {n}", s.width, s.hidden, EXPONENT),
        )
        for n in range(s.layers)
    )  # fmt: skip
    return DecoderModel(
        s, _rows("embeddings", s.vocabulary, s.width, EXPONENT - 2), cosines, sines, exponential_table(),
        sigmoid_table(), layers, _gain("final", s.width), _rows("head", s.vocabulary, s.width, EXPONENT - 2),
    )  # fmt: skip


def _rows(label: str, rows: int, columns: int, exponent: int) -> Rows:
    mantissas = drawn(f"{label} mantissas", (rows,), 1 << 15, (1 << 16) - 1)
    integers = drawn(f"{label} integers", (rows, columns), -127, 127)
    return Rows(integers.astype(np.int8), mantissas.astype(np.uint16), np.full(rows, exponent, dtype=np.int8))


def _gain(label: str, channels: int) -> GainRow:
    integers = drawn(f"{label} gain", (channels,), 1 << 13, (1 << 15) - 1)
    return GainRow(integers.astype(np.int16), np.array([14], dtype=np.int8))


def _bias(label: str, rows: int, limit: int) -> NDArray[np.int32]:
    return drawn(f"{label} bias", (rows,), -limit, limit).astype(np.int32)


def logits(model: LoadedDecoder, step: int) -> Integers:
    """Return the logits of the texts, read `step` tokens at a time."""
    space, parts = KeyValueCache(model, *TEXTS.shape), []
    for start in range(0, TEXTS.shape[1], step):
        stream = forward(model, TEXTS[:, start : start + step], space, np.full(len(TEXTS), start))
        parts.append(logits_of(model, stream))
    return np.concatenate(parts, axis=1)


def check_backend(backend: TransformerBackend) -> None:
    """Raise NonConformingBackendError unless each operation and the built-in model give the published hashes."""
    check_operations(backend)
    model = load(backend, built_in_model())
    for name, step in (("prefill", TEXTS.shape[1]), ("decoding", 1)):
        if logits_hash(logits(model, step)) != LOGITS:
            raise NonConformingBackendError(f"{backend.name}: {name} of the built-in model differs from its vector")


def logits_hash(values: Integers) -> str:
    """Return the hash of logits."""
    return blake2b(values.astype("<i8").tobytes(), digest_size=16).hexdigest()
