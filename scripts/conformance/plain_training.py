"""`train-int8` in plain Python integers, number by number, so that nothing can overflow or round unnoticed.

Written from `docs/workloads/train-int8.md`. Invariant: it shares the form of requests with the workload, and no
computation. It needs no NumPy.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b, shake_256
from math import isqrt

from gpu_tasks.workloads.train_int8.request import REQUEST, TrainingRequest, matrices

Matrix = list[list[int]]
WEIGHT_LIMIT, MOMENTUM_MAX, ERROR_MAX = 127 * 2**19, 2**31 - 1, 2**19 - 1
BLOCK, HELD_OUT_ONE_IN = 64, 16
_DOMAIN = b"ogpu/train-int8/1/"


def powers_of_e() -> list[int]:
    """Return e**(-i / 256) in units of 2**-24, for 4,096 entries, the last 0."""
    found, value = list[int](), 2**60
    for _ in range(4_095):
        found.append(rounded(value, 36))
        value = value * 1148426689630428644 // 2**60
    return [*found, 0]


def rounded(value: int, bits: int) -> int:
    """Return value / 2**bits, rounded with halves up."""
    return (value + ((1 << bits) >> 1)) // (1 << bits)


POWERS = powers_of_e()


def plain_states(asked: TrainingRequest) -> Iterator[bytes]:
    """Yield the states at all boundaries, as bytes."""
    weights = first_weights(asked)
    momenta = [[[0] * len(row) for row in matrix] for matrix in weights]
    ends = drawable(len(asked.text), asked.context)
    yield encoded(asked, 0, weights, momenta)
    for index in range(asked.steps):
        numbers = drawn(b"windows", asked.seed, index, asked.batch, 8)
        places = [ends[number % len(ends)] for number in numbers]
        windows = [asked.text[place - asked.context : place + 1] for place in places]
        plain_step(weights, momenta, windows, asked.rate * (asked.steps - index) // asked.steps)
        if (index + 1) % asked.segment == 0 or index + 1 == asked.steps:
            yield encoded(asked, index + 1, weights, momenta)


def first_weights(asked: TrainingRequest) -> list[Matrix]:
    """Return uniform weights, with variance 1 for vectors, 2 / inputs for hidden layers, and 0 for the output layer."""
    found = []
    for index, (rows, columns) in enumerate(matrices(asked)[:-1]):
        most = isqrt(3 * 2**48) if index == 0 else isqrt(3 * 2 * 2**48 // rows)
        numbers = [
            (number * (2 * most + 1) >> 32) - most for number in drawn(b"weights", asked.seed, index, rows * columns, 4)
        ]
        found.append([numbers[start : start + columns] for start in range(0, len(numbers), columns)])
    rows, columns = matrices(asked)[-1]
    return [*found, [[0] * columns for _ in range(rows)]]


def drawable(length: int, context: int) -> list[int]:
    """Return the ends of windows that touch no held-out block."""

    def is_held_out(place: int) -> bool:
        return place // BLOCK % HELD_OUT_ONE_IN == HELD_OUT_ONE_IN - 1

    return [end for end in range(context, length) if not is_held_out(end - context) and not is_held_out(end)]


def drawn(purpose: bytes, seed: bytes, number: int, count: int, width: int) -> list[int]:
    """Return `count` numbers of `width` bytes, little-endian."""
    raw = shake_256(_DOMAIN + purpose + seed + number.to_bytes(4, "little")).digest(count * width)
    return [int.from_bytes(raw[start : start + width], "little") for start in range(0, len(raw), width)]


def encoded(asked: TrainingRequest, done: int, weights: Sequence[Matrix], momenta: Sequence[Matrix]) -> bytes:
    """Return a state as bytes."""
    numbers = [number for matrix in (*weights, *momenta) for row in matrix for number in row]
    digest = blake2b(REQUEST.encode(asked), digest_size=32).digest()
    return b"".join(
        [digest, done.to_bytes(4, "little"), *(number.to_bytes(4, "little", signed=True) for number in numbers)]
    )


def clamped(value: int, low: int, high: int) -> int:
    """Return the value limited to [low, high]."""
    return min(max(value, low), high)


def plain_step(weights: list[Matrix], momenta: list[Matrix], windows: list[bytes], rate: int) -> None:
    """Change weights and momenta by one step on these windows, at this rate."""
    vectors = [[rounded(number, 19) for number in row] for row in weights[0]]
    layers = [[[rounded(number, 12) for number in row] for row in matrix] for matrix in weights[1:]]
    gradients = [[[0] * len(row) for row in matrix] for matrix in weights]
    for window in windows:
        add_gradients(gradients, vectors, layers, window)
    for place, gradient in enumerate(gradients):
        bits = len(windows).bit_length() - 1
        for i, row in enumerate(gradient):
            for j, number in enumerate(row):
                mean = rounded(number * 2 ** (4 if place else 9), bits)
                old = momenta[place][i][j]
                momentum = clamped(old - rounded(old, 3) + mean, -MOMENTUM_MAX, MOMENTUM_MAX)
                moved = weights[place][i][j] - rounded(rate * momentum, 16)
                momenta[place][i][j] = momentum
                weights[place][i][j] = clamped(moved, -WEIGHT_LIMIT, WEIGHT_LIMIT)


def add_gradients(gradients: list[Matrix], vectors: Matrix, layers: list[Matrix], window: bytes) -> None:
    """Add the gradients of one window."""
    inputs = [[number for byte in window[:-1] for number in vectors[byte]] + [32]]
    for matrix in layers[:-1]:
        inputs.append([clamped(rounded(value, 12), 0, 127) for value in times(inputs[-1], matrix)] + [32])
    errors = errors_of(times(inputs[-1], layers[-1]), window[-1])
    for place in range(len(layers) - 1, -1, -1):
        for i, value in enumerate(inputs[place]):
            for j, error in enumerate(errors):
                gradients[place + 1][i][j] += value * error
        sums = [sum(w * error for w, error in zip(row, errors, strict=True)) for row in layers[place][:-1]]
        errors = [clamped(rounded(value, 12), -ERROR_MAX, ERROR_MAX) for value in sums]
        if place > 0:
            errors = [e if 0 < v < 127 else 0 for e, v in zip(errors, inputs[place][:-1], strict=True)]
    width = len(vectors[0])
    for number, byte in enumerate(window[:-1]):
        for j in range(width):
            gradients[0][byte][j] += errors[number * width + j]


def times(row: list[int], matrix: Matrix) -> list[int]:
    """Return a row times a matrix."""
    return [sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*matrix, strict=True)]


def errors_of(logits: list[int], came: int) -> list[int]:
    """Return softmax shares in units of 2**-15, less 1 for the actual byte."""
    below = [clamped(rounded(max(logits) - logit, 9), 0, 4095) for logit in logits]
    powers = [POWERS[entry] for entry in below]
    total = sum(powers)
    shares = [(power * 2**15 + total // 2) // total for power in powers]
    return [share - 2**15 * (byte == came) for byte, share in enumerate(shares)]
