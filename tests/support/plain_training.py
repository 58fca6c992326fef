"""A step of `train-int8` in plain Python integers, number by number: nothing here can overflow or round unseen.

Written from `docs/workloads/train-int8.md`, and shares with the workload the table of powers alone.
"""

from gpu_tasks.workloads.train_int8.arithmetic import powers_of_e

Matrix = list[list[int]]
POWERS = [int(power) for power in powers_of_e()]
WEIGHT_LIMIT, MOMENTUM_MAX, ERROR_MAX = 127 * 2**19, 2**31 - 1, 2**19 - 1


def rounded(value: int, bits: int) -> int:
    """Halves up."""
    return (value + ((1 << bits) >> 1)) // (1 << bits)


def clamped(value: int, low: int, high: int) -> int:
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
    """Of one window."""
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
    return [sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*matrix, strict=True)]


def errors_of(logits: list[int], came: int) -> list[int]:
    """Shares in units of 2**-15, less 1 for the byte that came."""
    below = [clamped(rounded(max(logits) - logit, 9), 0, 4095) for logit in logits]
    powers = [POWERS[entry] for entry in below]
    total = sum(powers)
    shares = [(power * 2**15 + total // 2) // total for power in powers]
    return [share - 2**15 * (byte == came) for byte, share in enumerate(shares)]
