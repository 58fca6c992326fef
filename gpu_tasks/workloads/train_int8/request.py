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


def matrices(asked: TrainingRequest) -> tuple[tuple[int, int], ...]:
    """Return rows and columns of all weights: one vector for each byte, hidden layers, the output layer.

    In every matrix except the vectors, the last row belongs to the constant input: it is the bias.
    """
    below = asked.context * asked.width
    shapes = [(SYMBOLS, asked.width)]
    for columns in (*[asked.hidden] * asked.layers, SYMBOLS):
        shapes.append((below + 1, columns))
        below = columns
    return tuple(shapes)


def parameters(asked: TrainingRequest) -> int:
    """Return the number of weights."""
    return sum(rows * columns for rows, columns in matrices(asked))


def step_cost(asked: TrainingRequest) -> int:
    """Return the cost of one step: at least 1."""
    weights = parameters(asked)
    return -(-(asked.batch * (weights + WINDOW_WORK) + weights * WEIGHT_WORK) // STEP_WORK)


def cost_of(asked: TrainingRequest) -> int:
    """Return the cost of the whole run."""
    return asked.steps * step_cost(asked)


def segments(asked: TrainingRequest) -> int:
    """Return the number of segments of the run."""
    return -(-asked.steps // asked.segment)


def limits_broken(asked: TrainingRequest) -> str | None:
    """Return the problem with a request, or None."""
    ranges = (
        ("context", asked.context, CONTEXT_MAX),
        ("width", asked.width, WIDTH_MAX),
        ("hidden", asked.hidden, HIDDEN_MAX),
        ("layers", asked.layers, LAYERS_MAX),
        ("batch", asked.batch, BATCH_MAX),
        ("steps", asked.steps, STEPS_MAX),
        ("segment", asked.segment, asked.steps),
        ("rate", asked.rate, RATE_ONE),
    )
    for name, value, greatest in ranges:
        if not 1 <= value <= greatest:
            return f"{name} must be 1 to {greatest}, not {value}"
    if asked.batch & (asked.batch - 1):
        return f"batch must be a power of two, not {asked.batch}"
    if segments(asked) > SEGMENTS_MAX:
        least = -(-asked.steps // SEGMENTS_MAX)
        whole = f"{asked.steps} steps in segments of {asked.segment} make more than {SEGMENTS_MAX} segments"
        return f"{whole}; set the option segment to at least {least}"
    if parameters(asked) > PARAMETERS_MAX:
        return f"these sizes make {parameters(asked)} weights, of at most {PARAMETERS_MAX}"
    if not TEXT_BYTES_MIN <= len(asked.text) <= TEXT_BYTES_MAX:
        return f"a text must have {TEXT_BYTES_MIN} to {TEXT_BYTES_MAX} bytes, not {len(asked.text)}"
    return None


def decode_request(data: bytes) -> TrainingRequest:
    """Return the request in `data`. Raise DecodeError unless it is canonical and within the limits."""
    asked = REQUEST.decode(data)
    broken = limits_broken(asked)
    if broken is not None:
        raise DecodeError(broken)
    return asked
