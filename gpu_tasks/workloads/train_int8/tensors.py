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
    training_request = decode_request(encoded_request)
    matrix_shapes = matrices(training_request)
    weight_count = sum(rows * columns for rows, columns in matrix_shapes)
    if len(state) != HEADER_BYTES + 8 * weight_count:
        raise DecodeError("a state of another length", len(state))
    stored_weights = struct.unpack_from(f"<{weight_count}i", state, HEADER_BYTES)
    named_tensors, tensor_start = [], 0
    for matrix_index, (rows, columns) in enumerate(matrix_shapes):
        weight_unit = OPERAND_UNIT if matrix_index else VECTOR_UNIT
        values = _rounded(stored_weights[tensor_start : tensor_start + rows * columns], weight_unit)
        tensor_start += rows * columns
        if matrix_index == 0:
            named_tensors.append(_tensor("embedding", (rows, columns), values))
            continue
        tensor_name = "output" if matrix_index == len(matrix_shapes) - 1 else f"hidden.{matrix_index}"
        bias_start = (rows - 1) * columns  # the last row is for the constant input
        named_tensors.append(_tensor(f"{tensor_name}.weight", (rows - 1, columns), values[:bias_start]))
        named_tensors.append(_tensor(f"{tensor_name}.bias", (columns,), values[bias_start:]))
    return tuple(named_tensors)


def _rounded(stored_weights: Sequence[int], weight_unit: int) -> list[float]:
    """Return weights as they multiply, halves rounded up."""
    shift = WEIGHT_UNIT - weight_unit
    half_unit = 1 << (shift - 1)
    return [((stored_weight + half_unit) >> shift) / (1 << weight_unit) for stored_weight in stored_weights]


def _tensor(tensor_name: str, tensor_shape: tuple[int, ...], values: Sequence[float]) -> ModelTensor:
    return ModelTensor(tensor_name, tensor_shape, struct.pack(f"<{len(values)}f", *values))
