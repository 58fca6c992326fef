"""What is computed on every backend: seeds and shapes of each workload, with the edges of what may be asked.

Always: the same on every machine; no case takes the reference more than a second or two.
"""

from hashlib import shake_256
from itertools import product

from gpu_tasks.workloads.matmul_hash.request import ROUNDS_MAX, SEED_MAX, SIZE_MAX, ChainRequest
from gpu_tasks.workloads.textgen_int8.request import TEMPERATURE_MAX, CompletionRequest, context_length
from gpu_tasks.workloads.train_int8.request import RATE_ONE, TrainingRequest

MILESTONES = 4
"""A run goes on from each of them but the last, which is its end; one of fewer segments from every state."""
SEEDS = (bytes(32), b"\x5a" * 32, b"\xff" * 32)
WORDS = (b"def ", b"return ", b"self", b".", b"(", b")\n", b"    ", b"\xff\x00", b"if ", b"else:\n")
SHAPES = {
    "least": {"context": 1, "width": 1, "hidden": 1, "layers": 1, "batch": 1, "steps": 9, "segment": 1, "rate": 1},
    "tiny": {"context": 3, "width": 5, "hidden": 7, "layers": 2, "batch": 4, "steps": 30, "segment": 7},
    "ordinary": {"context": 8, "width": 16, "hidden": 128, "layers": 1, "batch": 64, "steps": 30, "segment": 4},
    "deep": {"context": 4, "width": 16, "hidden": 96, "layers": 2, "batch": 32, "steps": 20, "segment": 3},
    "wide": {"context": 16, "width": 16, "hidden": 96, "layers": 1, "batch": 512, "steps": 6, "segment": 2},
}
PLAIN_SHAPES = ("least", "tiny")
"""What plain Python integers compute in seconds."""


def text_of(seed: bytes) -> bytes:
    """Words in an order drawn from the seed, and some of all bytes."""
    raw = shake_256(b"conformance/text" + seed).digest(1_000)
    return b"".join(WORDS[byte % len(WORDS)] for byte in raw) + raw[:500]


def training() -> dict[str, TrainingRequest]:
    """Every shape with every seed."""
    return {
        f"{shape} {seed[0]:02x}": TrainingRequest(
            **{"rate": RATE_ONE // (1 + number), **SHAPES[shape]}, seed=seed, text=text_of(seed)
        )
        for shape, (number, seed) in product(SHAPES, enumerate(SEEDS))
    }


def plain_training() -> dict[str, TrainingRequest]:
    """Those that are small enough for plain integers."""
    return {name: asked for name, asked in training().items() if name.split()[0] in PLAIN_SHAPES}


def completions() -> dict[str, CompletionRequest]:
    """The shortest, the longest prompt, and some between."""
    context = context_length()
    return {
        "nothing": CompletionRequest(b"", 1, 0, bytes(32)),
        "long prompt": CompletionRequest(b"\xff" * (context - 1), 1, 1, SEEDS[1]),
        "greedy": CompletionRequest(b"def main(argv):\n    ", 40, 0, SEEDS[0]),
        "warm": CompletionRequest(b"class Shape:\n", 40, 800, SEEDS[1]),
        "hot": CompletionRequest(b"import ", 24, TEMPERATURE_MAX, SEEDS[2]),
    }


def chains() -> dict[str, ChainRequest]:
    """The least, the most rounds, odd sizes, and the largest matrices."""
    return {
        "least": ChainRequest(0, 1, 1),
        "long": ChainRequest(1, 5, ROUNDS_MAX),
        "odd": ChainRequest(SEED_MAX, 33, 12),
        "ordinary": ChainRequest(7, 64, 4),
        "large": ChainRequest(11, SIZE_MAX, 1),
    }
