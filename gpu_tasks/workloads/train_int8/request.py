"""The service, its requests and its outputs as canonical SCALE bytes with limits. Needs no NumPy.

Invariant: a request within the limits overflows nothing (`training_step.py` gives the bound of each operation). Its
states fit a blob, and its output fits a unit's output. Costs are counted in steps of ordinary size. A larger step
counts as several, so that no customer buys large steps at the price of small ones.
"""

from hashlib import blake2b
from typing import Annotated

from gpu_tasks.traces.trace import SEGMENTS_MAX
from runtime.encoding.codec import U8, U16, U32, Bounded, DecodeError, Fixed, codec, struct

WORKLOAD_ID = blake2b(b"ogpu/workload/train-int8/1", digest_size=32).digest()
MODEL_ID = bytes(32)
"""Zeros, because there is no model file: the first weights come from the request's seed."""

CONTEXT_MAX = 16
WIDTH_MAX = 32
HIDDEN_MAX = 256
LAYERS_MAX = 2
BATCH_MAX = 512
STEPS_MAX = 65_536
RATE_ONE = 1 << 16
"""The unit of the learning rate, and its greatest value."""
TEXT_BYTES_MIN = 1_024
"""Every text then has windows to learn from and windows that are held out."""
TEXT_BYTES_MAX = 240 * 1024
PARAMETERS_MAX = 98_304
"""A state, 8 bytes per weight, then fits a blob of a mebibyte, and a model, 2 bytes per weight, an output of 256 KiB.
"""
DIGEST_BYTES, WEIGHT_BYTES, FRAME_BYTES = 32, 2, 16
"""Parts of an output: each state's digest, each weight of the model, and at most all the bytes around them."""
STEP_WORK = 1 << 24
WINDOW_WORK, WEIGHT_WORK = 1 << 16, 1 << 7
"""`STEP_WORK` is the work of an ordinary step. `WINDOW_WORK` and `WEIGHT_WORK` are the measured extra work of a window
and a weight beside their product."""
SYMBOLS = 256


@struct
class TrainingRequest:
    """A request: train a model of `text` for `steps` steps, to guess a byte from the `context` bytes before it."""

    context: U8
    width: U8  # Of the vector that stands for a byte
    hidden: U16  # Values of a hidden layer
    layers: U8  # Hidden layers
    batch: U16  # Windows of a step: a power of two
    steps: U32
    segment: U32  # Steps between two states of the trace; the last segment may be shorter
    rate: U32  # Learning rate at the first step, in units of 2**-16; it falls linearly to zero
    seed: Annotated[bytes, Fixed(32)]
    text: Annotated[bytes, Bounded(TEXT_BYTES_MAX)]


@struct
class TrainingOutput:
    """An output: the cost, the model's quality on held-out text, the hashes of all states, and the model."""

    cost: U32
    milli_bits: U32  # Per byte
    digests: Annotated[tuple[Annotated[bytes, Fixed(DIGEST_BYTES)], ...], Bounded(SEGMENTS_MAX + 1)]
    model: Annotated[bytes, Bounded(WEIGHT_BYTES * PARAMETERS_MAX)]


REQUEST = codec(TrainingRequest)
OUTPUT = codec(TrainingOutput)


def matrices(request: TrainingRequest) -> tuple[tuple[int, int], ...]:
    """Return rows and columns of all weights: one vector for each byte, hidden layers, the output layer.

    In every matrix except the vectors, the last row belongs to the constant input: it is the bias.
    """
    columns_below = request.context * request.width
    shapes = [(SYMBOLS, request.width)]
    for columns in (*[request.hidden] * request.layers, SYMBOLS):
        shapes.append((columns_below + 1, columns))
        columns_below = columns
    return tuple(shapes)


def parameters(request: TrainingRequest) -> int:
    """Return the number of weights."""
    return sum(rows * columns for rows, columns in matrices(request))


def step_cost(request: TrainingRequest) -> int:
    """Return the cost of one step: at least 1."""
    weights = parameters(request)
    return -(-(request.batch * (weights + WINDOW_WORK) + weights * WEIGHT_WORK) // STEP_WORK)


def cost_of(request: TrainingRequest) -> int:
    """Return the cost of the whole run."""
    return request.steps * step_cost(request)


def segments(request: TrainingRequest) -> int:
    """Return the number of segments of the run."""
    return -(-request.steps // request.segment)


def limits_broken(request: TrainingRequest) -> str | None:
    """Return the problem with a request, or None."""
    ranges = (
        ("context", request.context, CONTEXT_MAX),
        ("width", request.width, WIDTH_MAX),
        ("hidden", request.hidden, HIDDEN_MAX),
        ("layers", request.layers, LAYERS_MAX),
        ("batch", request.batch, BATCH_MAX),
        ("steps", request.steps, STEPS_MAX),
        ("segment", request.segment, request.steps),
        ("rate", request.rate, RATE_ONE),
    )
    for name, number, greatest in ranges:
        if not 1 <= number <= greatest:
            return f"{name} must be 1 to {greatest}, not {number}"
    if request.batch & (request.batch - 1):
        return f"batch must be a power of two, not {request.batch}"
    if segments(request) > SEGMENTS_MAX:
        least = -(-request.steps // SEGMENTS_MAX)
        text = f"{request.steps} steps in segments of {request.segment} make more than {SEGMENTS_MAX} segments"
        return f"{text}; set the option segment to at least {least}"
    if parameters(request) > PARAMETERS_MAX:
        return f"these sizes make {parameters(request)} weights, of at most {PARAMETERS_MAX}"
    if not TEXT_BYTES_MIN <= len(request.text) <= TEXT_BYTES_MAX:
        return f"a text must have {TEXT_BYTES_MIN} to {TEXT_BYTES_MAX} bytes, not {len(request.text)}"
    return None


def decode_request(encoded: bytes) -> TrainingRequest:
    """Return the request in `encoded_bytes`. Raise DecodeError unless it is canonical and within the limits."""
    request = REQUEST.decode(encoded)
    problem = limits_broken(request)
    if problem is not None:
        raise DecodeError(problem)
    return request
