"""Vectors: fixed work with a published hash. A backend with another hash must not serve.

Each operation runs on inputs drawn by SHAKE-256, which reach the limits of their ranges. Then the published model
answers three requests. Saturating int8 kernels, operands in TF32 or bfloat16, fused roots and other near misses of real
libraries all change one of these hashes.
"""

from hashlib import blake2b, shake_256

import numpy as np

from gpu_tasks.workloads.textgen_int8 import integer_ops as ops
from gpu_tasks.workloads.textgen_int8.decoding import generate, verify_output
from gpu_tasks.workloads.textgen_int8.integer_ops import Arithmetic, Ints
from gpu_tasks.workloads.textgen_int8.request import COMPLETIONS, CompletionRequest
from gpu_tasks.workloads.textgen_int8.transformer import Loaded
from gpu_tasks.workloads.workload import NonConformingBackendError

OPERATIONS = {
    "product": "415f02c4532614596629546854f0c9b0",
    "shares": "367c6fda7d63aaef280ce8b9b6ecb812",
    "root": "ae77e89b3fead657ceef70f293473510",
    "rescale": "4c5a33d653388e510c72c73245433337",
    "norm": "e05a4bc70975e6c7168477ba30d7bd9f",
    "gelu": "c7837c0c10542d5736f5446f339ba7e4",
    "probabilities": "4a2e3ad9a566a5013ea47da8ac63fba8",
}
REQUESTS = (
    CompletionRequest(b"def main(", 48, 0, bytes(32)),
    CompletionRequest(b"import os\n", 48, 800, b"\x01" * 32),
    CompletionRequest(b"", 16, 1500, b"\x02" * 32),
)


def drawn(label: str, shape: tuple[int, ...], low: int, high: int) -> Ints:
    """Return integers from `low` to `high`, every eighth at a limit, from SHAKE-256 of the label."""
    count = int(np.prod(shape))
    raw = np.frombuffer(shake_256(label.encode()).digest(8 * count), "<u8").copy()
    span = high - low + 1
    values = (raw % np.uint64(span)).astype(np.int64) + low
    values[::16], values[8::16] = low, high
    return values.reshape(shape)


def operation_results(backend: Arithmetic) -> dict[str, Ints]:
    """Return each operation's results on its vectors."""
    put = backend.put
    left, right = drawn("left", (2, 33, 2048), -127, 127), drawn("right", (2, 65, 2048), -63, 63)
    left[:, 0], left[:, 1], right[:, 0], right[:, 1] = 127, -127, 63, -63  # The largest sums
    left[:, 0, 0] = 126  # An odd one, so that a lost last bit shows
    # Operands of 14 bits, as in attention over values: TF32 (11 bits), bfloat16 and float16 would round them.
    shares, values = np.zeros((2, 33, 1024), dtype=np.int64), drawn("values", (2, 65, 1024), -127, 127)
    shares[..., ::128] = drawn("shares", (2, 33, 8), 0, (1 << 14) - 1)
    # Roots are most easily wrong next to a square.
    edges = np.arange(1, (1 << 26) - 1, 99_991, dtype=np.int64) ** 2
    squares = np.concatenate([edges - 1, edges, edges + 1, drawn("root", (999,), 0, (1 << 52) - 1)])
    sums = put(drawn("sums", (9, 64), -(1 << 23), 1 << 23))
    multipliers = put(drawn("multipliers", (64,), 0, (1 << 31) - 1))
    stream = put(drawn("stream", (5, 192), -ops.RESIDUAL_MAX, ops.RESIDUAL_MAX) >> 3)
    scores = put(drawn("scores", (2, 17, 17), -(1 << 20), 1 << 20))
    visible = put(np.tril(np.ones((17, 17), dtype=np.int64)))
    steps, exps = put(drawn("steps", (2, 1, 1), 1 << 8, 1 << 14)), put(ops.exp_table())
    table, index = put(drawn("table", (4096,), -127, 127)), put(drawn("index", (999,), -3000, 3000))
    results = {
        "product": backend.product(put(left), backend.operand(put(right))),
        "shares": backend.product(put(shares), backend.operand(put(values))),
        "root": backend.root(put(squares)),
        "rescale": ops.rescale(sums, multipliers),
        "norm": ops.norm(backend, stream, 2000),
        "gelu": ops.gelu(backend, index, table),
        "probabilities": ops.probabilities(backend, scores, steps, exps, visible),
    }
    return {name: backend.take(result) for name, result in results.items()}


def operation_hashes(backend: Arithmetic) -> dict[str, str]:
    """Return the hash of each operation's results."""
    results = operation_results(backend)
    return {name: _hash_of(result.astype("<i8").tobytes()) for name, result in results.items()}


def check_operations(backend: Arithmetic) -> None:
    """Raise NonConformingBackendError, which names the first operation with another hash."""
    for name, computed in operation_hashes(backend).items():
        if computed != OPERATIONS[name]:
            raise NonConformingBackendError(f"{backend.name}: {name} differs from its vector")


def completions(model: Loaded) -> bytes:
    """Return the hash of the model's answers to the fixed requests, 32 bytes. Each answer is verified too."""
    parts = []
    for request in REQUESTS:
        output = generate(model, request)
        if not verify_output(model, request, output).valid:
            raise NonConformingBackendError(f"{model.backend.name}: prefill differs from decoding")
        parts.append(len(output).to_bytes(2, "little") + output)
    return blake2b(b"".join(parts), digest_size=32).digest()


def check_completions(model: Loaded) -> bytes:
    """Return the hash of the completions. Raise NonConformingBackendError if it is not the published one."""
    digest = completions(model)
    if digest.hex() != COMPLETIONS:
        raise NonConformingBackendError(f"{model.backend.name}: completions differ from the vectors")
    return digest


def _hash_of(encoded: bytes) -> str:
    return blake2b(encoded, digest_size=16).hexdigest()
