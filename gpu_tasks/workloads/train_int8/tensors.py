"""The trained model of a state as tensors of floats, without NumPy.

Floats hold the weights exactly as a step multiplies them: the vectors of bytes in units of 2^-5, the others in units of
2^-12. So the exported model computes what the trained one does, up to the rounding of activations.
"""

import struct
from collections.abc import Sequence

from gpu_tasks.workloads.form import ModelTensor
from gpu_tasks.workloads.train_int8.request import decode_request, matrices
from runtime.encoding.codec import DecodeError

HEADER_BYTES = 36
"""The request's hash and the steps done."""
WEIGHT_UNIT, VECTOR_UNIT, OPERAND_UNIT = 24, 5, 12
"""Negative powers of two: of stored weights, of the vectors of bytes and of other weights when they multiply."""


def model_tensors(encoded_request: bytes, state: bytes) -> tuple[ModelTensor, ...]:
    """Return the layers of a state's model, each bias apart; DecodeError if the state is not of this request's size."""
    request = decode_request(encoded_request)
    shapes = matrices(request)
    weight_count = sum(rows * columns for rows, columns in shapes)
    if len(state) != HEADER_BYTES + 8 * weight_count:
        raise DecodeError("a state of another length", len(state))
    weights = struct.unpack_from(f"<{weight_count}i", state, HEADER_BYTES)
    tensors, start = [], 0
    for index, (rows, columns) in enumerate(shapes):
        unit = OPERAND_UNIT if index else VECTOR_UNIT
        values = _rounded(weights[start : start + rows * columns], unit)
        start += rows * columns
        if index == 0:
            tensors.append(_tensor("embedding", (rows, columns), values))
            continue
        name = "output" if index == len(shapes) - 1 else f"hidden.{index}"
        bias_start = (rows - 1) * columns  # the last row is for the constant input
        tensors.append(_tensor(f"{name}.weight", (rows - 1, columns), values[:bias_start]))
        tensors.append(_tensor(f"{name}.bias", (columns,), values[bias_start:]))
    return tuple(tensors)


def _rounded(weights: Sequence[int], unit: int) -> list[float]:
    """Return weights as they multiply, halves rounded up."""
    shift = WEIGHT_UNIT - unit
    half = 1 << (shift - 1)
    return [((weight + half) >> shift) / (1 << unit) for weight in weights]


def _tensor(name: str, shape: tuple[int, ...], values: Sequence[float]) -> ModelTensor:
    return ModelTensor(name, shape, struct.pack(f"<{len(values)}f", *values))
