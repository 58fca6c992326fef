"""Vectors: fixed work with published hashes. A backend that differs in one must not serve.

* Products of operands at their limits, whose sums need more bits than float32 or an emulated float64 has.
* Steps from a state at its limits, in which every clamp applies to some value.
* Two runs, a tiny one and one of the ordinary size, with the trails of their segments.
"""

from hashlib import blake2b, shake_256

import numpy as np

from gpu_tasks.traces.trace import state_hash, trace_root
from gpu_tasks.workloads.stepwise import trailed_segments
from gpu_tasks.workloads.train_int8.arithmetic import ExactArithmetic, Integers
from gpu_tasks.workloads.train_int8.request import RATE_ONE, REQUEST, TrainingRequest, matrices
from gpu_tasks.workloads.train_int8.run import TrainingRun
from gpu_tasks.workloads.train_int8.state import DIGEST_BYTES, TrainingState, encode_state
from gpu_tasks.workloads.train_int8.training_step import ERROR_MAX, MOMENTUM_MAX, WEIGHT_LIMIT
from gpu_tasks.workloads.workload import NonConformingBackendError
from runtime.encoding.codec import DecodeError

HASHES = {
    "product": "f5b90e8375019843b480e7cb0db0c31b9cf655a6362f47a9ea2d8ed93441f616",
    "limits": "398126a322b18e5e4ea95b81f33f5a19d50aac6dacfd6b19fad35ebbfbd6bb15",
    "tiny state": "1c03977c548b831022db7a722f7cda2a0c63f66c9d7605f13cff0f3f2e4e74e4",
    "tiny trace": "6b84d746eaa9b3eab14c70a231cd534b773cb6329102ebd7ef53259273d79728",
    "tiny trails": "61a678599c018273fea26b6d695b172f716d2c5628c98e8a68230b1fe17acce8",
    "ordinary state": "ed7d92eb479037ea4cb3dd8bb2fe2bffaeec1c0457879eb3b1ea07375c5f50c2",
    "ordinary trace": "ef81b56e779c059d7981286a2e2ce1a11b3d7bf8a240c2b1eb40ad5cca5d836c",
    "ordinary trails": "bda587a733dcc8232f244ae3b7305d5717b61b45a24878518c9f67179df8ecdb",
}
"""For a run: the hash of the last state, the root of the trace, and the hash of the segments' trails."""
_WORDS = b"the cat sat on a mat and so did it all day\n".split(b" ")
_TEXT = b" ".join(_WORDS[byte % len(_WORDS)] for byte in shake_256(b"ogpu/train-int8/text").digest(1_000))
REQUESTS = (
    TrainingRequest(3, 5, 7, 2, 4, 40, 12, RATE_ONE, b"\x01" * 32, _TEXT[:1_024]),
    TrainingRequest(8, 16, 128, 1, 64, 12, 5, RATE_ONE // 4, b"\x02" * 32, _TEXT),
)


def product_hash(backend: ExactArithmetic) -> str:
    """Return the hash of a product with the greatest sums of a step."""
    operand_max = WEIGHT_LIMIT >> 12
    left, right = _drawn_matrix(b"left", (9, 513), ERROR_MAX), _drawn_matrix(b"right", (513, 17), operand_max)
    left[0], left[1], right[:, 0], right[:, 1] = ERROR_MAX, -ERROR_MAX, operand_max, -operand_max
    right[0, 0] -= 1  # An odd one, so that a lost last bit of the largest sum shows
    product = backend.take(backend.product(backend.operand(backend.put(left)), backend.operand(backend.put(right))))
    return blake2b(product.astype("<i8").tobytes(), digest_size=32).hexdigest()


def limits_hash(backend: ExactArithmetic, request: TrainingRequest) -> str:
    """Return the hash of the state three steps after one with weights and momenta at or near their limits."""
    run = TrainingRun(backend, request)
    digest = blake2b(REQUEST.encode(request), digest_size=DIGEST_BYTES).digest()
    halves = [
        [
            _drawn_matrix(b"%s %d" % (label, index), shape, 4 * most).clip(-most, most)
            for index, shape in enumerate(matrices(request))
        ]
        # Four times too large and then cut, so that most values stand at a limit.
        for label, most in ((b"weights", WEIGHT_LIMIT), (b"momenta", MOMENTUM_MAX))
    ]
    return state_hash(run.advance(encode_state(digest, TrainingState(0, *halves)), 3)).hex()


def run_hashes(backend: ExactArithmetic, request: TrainingRequest) -> tuple[str, str, str]:
    """Return the hash of the last state, the root of the trace, and the hash of the trails."""
    run = TrainingRun(backend, request)
    segments = list(trailed_segments(run))
    digests = [state_hash(run.initial_state()), *(state_hash(state) for state, _ in segments)]
    trails = blake2b(b"".join(trail for _, trail in segments), digest_size=32)
    return digests[-1].hex(), trace_root(digests).hex(), trails.hexdigest()


def check(backend: ExactArithmetic) -> bytes:
    """Return 32 bytes over all vectors. Raise NonConformingBackendError, which names the first wrong one."""
    try:
        hashes = all_hashes(backend)
    except (
        DecodeError,
        IndexError,
    ) as backend_error:  # a wrong backend makes values outside a state's or a table's range
        raise NonConformingBackendError(f"train-int8: {backend.name}: {backend_error}") from backend_error
    for name, computed in hashes.items():
        if computed != HASHES[name]:
            raise NonConformingBackendError(f"train-int8: {backend.name}: {name} differs from its vector: {computed}")
    return blake2b("".join(hashes.values()).encode(), digest_size=32).digest()


def all_hashes(backend: ExactArithmetic) -> dict[str, str]:
    """Return each vector as this backend computes it, to be published in `HASHES` when the computation changes."""
    tiny_run, ordinary = (run_hashes(backend, request) for request in REQUESTS)
    return {
        "product": product_hash(backend),
        "limits": limits_hash(backend, REQUESTS[0]),
        "tiny state": tiny_run[0],
        "tiny trace": tiny_run[1],
        "tiny trails": tiny_run[2],
        "ordinary state": ordinary[0],
        "ordinary trace": ordinary[1],
        "ordinary trails": ordinary[2],
    }


def _drawn_matrix(label: bytes, shape: tuple[int, int], most: int) -> Integers:
    """Return integers from `-greatest_value` to `greatest_value`, from SHAKE-256 of the label."""
    drawn = np.frombuffer(shake_256(b"ogpu/train-int8/" + label).digest(8 * shape[0] * shape[1]), "<u8")
    return ((drawn % np.uint64(2 * most + 1)).astype(np.int64) - most).reshape(shape)
