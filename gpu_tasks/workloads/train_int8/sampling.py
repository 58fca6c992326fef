"""A trained model continues a text, a byte at a time. The model comes as the tensors that `tensors.py` writes.

Invariant: a byte depends on the model, the text before it, the seed and its place alone, on every machine.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from gpu_tasks.workloads.form import ModelTensor
from gpu_tasks.workloads.train_int8.arithmetic import ExactArithmetic, Integers
from gpu_tasks.workloads.train_int8.request import CONTEXT_MAX, SYMBOLS, TrainingRequest
from gpu_tasks.workloads.train_int8.run import draw_bytes
from gpu_tasks.workloads.train_int8.tensors import OPERAND_UNIT, VECTOR_UNIT, WEIGHT_UNIT
from gpu_tasks.workloads.train_int8.training_step import WEIGHT_LIMIT, NextByteModel
from runtime.encoding.codec import DecodeError

_BEFORE_TEXT = b"\n"
"""Stands before a prompt that is shorter than the model's context."""


def continuation(
    backend: ExactArithmetic, tensors: Sequence[ModelTensor], prompt: bytes, length: int, seed: bytes
) -> bytes:
    """Return `length` bytes after a prompt, by inverse transform sampling. Raise DecodeError for another model."""
    weights = _weights(tensors)
    context = (len(weights[1]) - 1) // weights[0].shape[1]
    sizes = TrainingRequest(context, weights[0].shape[1], weights[1].shape[1], len(weights) - 2, 1, 1, 1, 1, seed, b"")
    model, placed = NextByteModel(backend, sizes), [backend.put(weight) for weight in weights]
    text = bytearray(prompt.rjust(context, _BEFORE_TEXT))
    for position in range(length):
        window = np.array([[*text[-context:], 0]], dtype=np.int64)
        sums = backend.take(model.powers(model.logits(placed, window)))[0].cumsum()
        drawn_point = int.from_bytes(draw_bytes(b"sample", seed, position, 8), "little") * int(sums[-1]) >> 64
        text.append(int(np.searchsorted(sums, drawn_point, side="right")))
    return bytes(text[len(text) - length :])


def _weights(tensors: Sequence[ModelTensor]) -> list[Integers]:
    """Return the matrices as a state holds them, each bias as the last row."""
    named = {tensor.name: tensor for tensor in tensors}
    vectors = _stored(named, "embedding", VECTOR_UNIT)
    layers = [f"hidden.{number}" for number in range(1, len(named) // 2)]
    matrices = [
        np.vstack([_stored(named, f"{name}.weight", OPERAND_UNIT), _stored(named, f"{name}.bias", OPERAND_UNIT)])
        for name in (*layers, "output")
    ]
    width, inputs = vectors.shape[1], len(matrices[0]) - 1
    follows = all(len(after) - 1 == before.shape[1] for before, after in pairwise(matrices))
    is_whole = len(vectors) == SYMBOLS == matrices[-1].shape[1] and follows and inputs % width == 0
    if not is_whole or not 1 <= inputs // width <= CONTEXT_MAX:
        raise DecodeError("the layers do not fit together")
    return [vectors, *matrices]


def _stored(named: Mapping[str, ModelTensor], name: str, unit: int) -> Integers:
    """Return a tensor as rows of weights in units of 2**-24."""
    tensor = named.get(name)
    if (
        tensor is None
        or not 1 <= len(tensor.shape) <= 2
        or 4 * math.prod(tensor.shape) != len(tensor.data)
        or not tensor.data
    ):
        raise DecodeError(f"no usable tensor {name}")
    values = np.frombuffer(tensor.data, "<f4").astype(np.float64) * (1 << unit)
    if not (np.abs(values) <= WEIGHT_LIMIT >> (WEIGHT_UNIT - unit)).all():
        raise DecodeError(f"a weight of {name} is out of range")
    return values.astype(np.int64).reshape(-1, tensor.shape[-1]) << (WEIGHT_UNIT - unit)
