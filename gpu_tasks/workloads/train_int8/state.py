"""A state of training as bytes: its request, the completed steps, weights, momenta.

    blake2b-256 of the request ‖ steps done: u32 ‖ weights, matrix by matrix: i32 ‖ momenta likewise     little-endian

Invariant: each state has one encoding, of a length that the request fixes. A decoded state, from any source, is within
the limits that the bounds of `training_step.py` assume.
"""

from dataclasses import dataclass

import numpy as np

from gpu_tasks.workloads.train_int8.arithmetic import Integers
from gpu_tasks.workloads.train_int8.request import TrainingRequest, matrices, parameters
from gpu_tasks.workloads.train_int8.training_step import MOMENTUM_MAX, WEIGHT_LIMIT
from runtime.encoding.codec import DecodeError

DIGEST_BYTES = 32
_HEADER_BYTES = DIGEST_BYTES + 4


@dataclass(frozen=True)
class TrainingState:
    """Completed steps, and int64 matrices in the order of `matrices`."""

    done: int
    weights: list[Integers]
    momenta: list[Integers]


def state_bytes(request: TrainingRequest) -> int:
    """Return the length of a state of this request."""
    return _HEADER_BYTES + 8 * parameters(request)


def encode_state(request_hash: bytes, state: TrainingState) -> bytes:
    """Return the bytes of a state of the request with this hash."""
    arrays = (array.astype("<i4").tobytes() for array in (*state.weights, *state.momenta))
    return b"".join([request_hash, state.done.to_bytes(4, "little"), *arrays])


def decode_state(request: TrainingRequest, request_hash: bytes, encoded_state: bytes) -> TrainingState:
    """Return a decoded state. Raise DecodeError for a state of another request, or with numbers beyond the limits."""
    if len(encoded_state) != state_bytes(request):
        raise DecodeError(f"the state has another length than {state_bytes(request)} bytes", len(encoded_state))
    # The hash of the request keeps a provider from passing off a state of another run.
    if encoded_state[:DIGEST_BYTES] != request_hash:
        raise DecodeError("the state belongs to another request")
    steps_done = int.from_bytes(encoded_state[DIGEST_BYTES:_HEADER_BYTES], "little")
    if steps_done > request.steps:
        raise DecodeError(f"the state has {steps_done} steps, and the request {request.steps}", DIGEST_BYTES)
    values = np.frombuffer(encoded_state, "<i4", offset=_HEADER_BYTES).astype(np.int64).reshape(2, -1)
    for half, limit in zip(values, (WEIGHT_LIMIT, MOMENTUM_MAX), strict=True):
        # The bounds that keep every sum of a step below 2**53 hold only for states within these limits.
        if half.min() < -limit or half.max() > limit:
            raise DecodeError(f"a weight or momentum of the state is beyond {limit}", _HEADER_BYTES)
    shapes = matrices(request)
    ends = np.cumsum([rows * columns for rows, columns in shapes])[:-1]
    weights, momenta = (
        [part.reshape(shape) for part, shape in zip(np.split(half, ends), shapes, strict=True)] for half in values
    )
    return TrainingState(steps_done, weights, momenta)
