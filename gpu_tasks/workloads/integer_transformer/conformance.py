"""Vectors: fixed work with a published hash. A backend with another hash must not serve.

Each operation runs on inputs drawn by SHAKE-256, which reach the limits of their ranges. Operands in TF32 or bfloat16,
saturating int8 kernels, fused or reordered roundings and roots in float32 all change one of these hashes.
"""

from hashlib import blake2b, shake_256
from typing import Any

import numpy as np

from gpu_tasks.workloads.integer_arrays import BackendArray, Integers
from gpu_tasks.workloads.integer_transformer import arithmetic as ops
from gpu_tasks.workloads.integer_transformer.arithmetic import Cached, Gain, Linear, TransformerBackend
from gpu_tasks.workloads.integer_transformer.tables import exponential_table, sigmoid_table
from gpu_tasks.workloads.workload import NonConformingBackendError

OPERATIONS = {
    "product": "257709d8f37b4c5a0034cdbc863ec05c",
    "mix": "48e39fbd2736c5aee2ce451e86bfb3a9",
    "root": "ae77e89b3fead657ceef70f293473510",
    "quotient": "3424286fc6ff8b23303bf65d62dea21d",
    "shifted": "222024af67c12182bfbfa92ad2a5a2db",
    "rounded": "6220051c093b867285c51eba358fadb2",
    "rescaled": "06b26b8f1bffc763219aa9a5ca9b8415",
    "bit_length": "4cbe24dfd1b457ac8883529218b2833b",
    "norm": "e601a7195db60f14e6daa8d6cf3b85dc",
    "linear": "99bca2012fa142ef59a639a9f73ab3e9",
    "silu": "7ab471863f60a52aad214dfdbad07775",
    "rotated": "3cfaa6eea5b611f1ebd2f9041e7663ce",
    "eight_bits": "697942f8279d9ad7467e7be268c43e57",
    "attention": "54c5aae9002f87187051b05f17870d65",
}
COLUMNS, KEYS, WIDTH = 2305, 1100, 576


def drawn(label: str, shape: tuple[int, ...], low: int, high: int) -> Integers:
    """Return integers from `low` to `high`, every eighth at a limit, from SHAKE-256 of the label."""
    count = int(np.prod(shape))
    raw = np.frombuffer(shake_256(label.encode()).digest(8 * count), "<u8").copy()
    span = high - low + 1
    values = (raw % np.uint64(span)).astype(np.int64) + low
    values[::16], values[8::16] = low, high
    return values.reshape(shape)


def operation_results(backend: TransformerBackend) -> dict[str, BackendArray | tuple[BackendArray, ...]]:
    """Return each operation's results on its vectors."""
    put = backend.put
    scaled, weights = drawn("scaled", (9, COLUMNS), -(1 << 15), 1 << 15), drawn("weights", (17, COLUMNS), -127, 127)
    scaled[0], scaled[1], weights[0], weights[1] = 1 << 15, -(1 << 15), 127, -127  # The largest sums
    scaled[0, 0] -= 1  # An odd one, so that a lost last bit shows
    shares, values = drawn("shares", (2, 5, KEYS), 0, (1 << 16) - 1), drawn("values", (2, KEYS, 16), -127, 127)
    shares[:, 0], values[:, :, 0], shares[0, 0, 0] = (1 << 16) - 1, 127, (1 << 16) - 2
    # Roots and quotients are most easily wrong next to a square, and next to a multiple.
    edges = np.arange(1, (1 << 26) - 1, 99_991, dtype=np.int64) ** 2
    squares = np.concatenate([edges - 1, edges, edges + 1, drawn("root", (999,), 0, (1 << 52) - 1)])
    divisors = drawn("divisors", (999,), 1, 1 << 26)
    multiples = divisors * drawn("multiples", (999,), -(1 << 25), 1 << 25)
    sums, shifts = drawn("sums", (9, 64), 1 - (1 << 36), (1 << 36) - 1), drawn("shifts", (9, 64), 0, 70)
    # Halves: a rounding to even, or of a product that lost its last bit, shows here.
    halves = drawn("halves", (9, 64), -(1 << 30), 1 << 30) * 2 + 1
    mantissas, exponents = drawn("mantissas", (64,), 1 << 15, (1 << 16) - 1), drawn("exponents", (64,), 0, 44)
    stream = drawn("stream", (6, WIDTH), -ops.STREAM_MAX, ops.STREAM_MAX) >> np.array(
        [[0], [9], [20], [30], [40], [45]]
    )
    gain = Gain(put(drawn("gain", (WIDTH,), -32767, 32767)), 14)
    gates = drawn("gates", (4, 256), -ops.VALUE_MAX, ops.VALUE_MAX) >> np.array([[0], [6], [9], [12]])
    ups = drawn("ups", (4, 256), -ops.VALUE_MAX, ops.VALUE_MAX)
    heads = drawn("heads", (3, 2, 64), -ops.VALUE_MAX, ops.VALUE_MAX) >> np.array(
        [[[0], [5]], [[11], [13]], [[8], [26]]]
    )
    cosines, sines = drawn("cosines", (32,), -(1 << 14), 1 << 14), drawn("sines", (32,), -(1 << 14), 1 << 14)
    matrix = Linear(
        backend.operand(weights[:, :WIDTH]), put(mantissas[:17]), put(exponents[:17] + 26),
        put(drawn("bias", (17,), -ops.VALUE_MAX, ops.VALUE_MAX)),
    )  # fmt: skip
    normed = ops.norm(backend, put(stream), gain, 10_995_116)
    return {
        "product": backend.product(put(scaled), backend.operand(weights)),
        "mix": backend.mix(put(shares), backend.operand(values)),
        "root": backend.root(put(squares)),
        "quotient": (
            backend.quotient(put(multiples - 1), put(divisors)), backend.quotient(put(multiples), put(divisors)),
            backend.quotient(put(multiples + 1), put(divisors)),
        ),
        "shifted": backend.shifted(put(sums), put(shifts)),
        "rounded": (backend.rounded(put(sums), put(shifts)), backend.rounded(put(halves), put(np.array([[1]])))),
        "rescaled": (
            backend.rescaled(put(sums), put(mantissas), put(exponents), put(drawn("others", (9, 1), 0, 20))),
            backend.rescaled(put(halves), put(mantissas), put(exponents), put(np.array([[1]]))),
        ),
        "bit_length": backend.bit_length(put(np.concatenate([squares, np.array([0, 1, (1 << 53) - 1])]))),
        "norm": (normed.integers, normed.exponent),
        "linear": ops.linear(backend, normed, matrix, ops.STREAM_BITS, ops.STREAM_MAX),
        "silu": _parts(ops.silu_product(backend, put(gates), put(ups), put(sigmoid_table()))),
        "rotated": ops.rotated(backend, put(heads), put(cosines), put(sines)),
        "eight_bits": _parts(ops.eight_bits(backend, put(heads), ops.VALUE_FACTOR)),
        "attention": _attention(backend),
    }  # fmt: skip


def _attention(backend: TransformerBackend) -> BackendArray:
    """Return the mixes of queries that see many keys, most of them with a share."""
    queries = ops.scaled(backend, backend.put(drawn("queries", (2, 9, 64), -30_000, 30_000)), ops.UNIT_BITS)
    keys, values = (
        ops.eight_bits(backend, backend.put(drawn(name, (2, KEYS, 64), -30_000, 30_000)), factor)
        for name, factor in (("keys", ops.key_factor(64)), ("mixed", ops.VALUE_FACTOR))
    )
    hidden = np.tile(np.arange(KEYS) > np.arange(0, KEYS, KEYS // 9)[:9, None], (2, 1, 1)).astype(np.int64)
    keys, values = (Cached(backend.operand(part.integers), part.mantissas, part.exponents) for part in (keys, values))
    return ops.attention(backend, queries, keys, values, backend.put(hidden), backend.put(exponential_table()))


def _parts(result: Any) -> tuple[BackendArray, ...]:
    return tuple(vars(result).values())


def operation_hashes(backend: TransformerBackend) -> dict[str, str]:
    """Return the hash of each operation's results."""
    hashes = {}
    for name, result in operation_results(backend).items():
        taken: list[Integers] = [backend.take(part) for part in (result if isinstance(result, tuple) else (result,))]
        encoded = b"".join(part.astype("<i8").tobytes() for part in taken)
        hashes[name] = blake2b(encoded, digest_size=16).hexdigest()
    return hashes


def check_operations(backend: TransformerBackend) -> None:
    """Raise NonConformingBackendError, which names the first operation with another hash."""
    for name, computed in operation_hashes(backend).items():
        if computed != OPERATIONS[name]:
            raise NonConformingBackendError(f"{backend.name}: {name} differs from its vector")
