"""Requests of `train-int8` for tests: small ones drawn by hypothesis, and learnable text."""

import email
from hashlib import shake_256
from pathlib import Path

from hypothesis import strategies as st

from gpu_tasks.workloads.train_int8.request import RATE_ONE, TrainingRequest

WORDS = (b"def ", b"return ", b"self", b".", b"(", b")\n", b"    ", b"\xff")


def text_of(seed: int, length: int) -> bytes:
    """Words in an order drawn from the seed."""
    drawn = shake_256(seed.to_bytes(4, "little")).digest(length)
    return b"".join(WORDS[byte % len(WORDS)] for byte in drawn)[:length]


SMALL = TrainingRequest(3, 4, 6, 1, 8, 11, 4, RATE_ONE // 2, bytes(range(32)), text_of(1, 1_500))
"""Three segments: of 4, 4 and 3 steps."""

small_requests = st.builds(
    TrainingRequest,
    context=st.integers(1, 5),
    width=st.integers(1, 6),
    hidden=st.integers(1, 9),
    layers=st.integers(1, 2),
    batch=st.sampled_from([1, 2, 4, 16]),
    steps=st.just(9),
    segment=st.integers(1, 9),
    rate=st.sampled_from([1, 1_000, RATE_ONE]),
    seed=st.binary(min_size=32, max_size=32),
    text=st.builds(text_of, st.integers(0, 99), st.integers(1_024, 1_200)),
)


def python_sources(most: int) -> bytes:
    """Modules of Python's own library, one after the other, as far as `most` bytes."""
    folder = Path(email.__file__).parent
    parts = (path.read_bytes() for path in sorted(folder.rglob("*.py")))
    return b"".join(parts)[:most]
