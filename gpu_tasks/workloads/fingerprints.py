"""Fingerprints of computations: a checker and a provider that computed the same item have the same one. Needs no NumPy.

* A computation as a whole: one integer of each row, at places drawn from a seed, under one hash (`sampling.py`). The
  places are unknown before the seed is, so nobody can keep a fingerprint from an earlier run.
* A run in steps: the trails of its segments under one hash, keyed with the seed. A trail starts with the hash of the
  state before its segment. Each step hashes integers of its computation into it. The provider keeps the trails of its
  run, and shows a fingerprint without computing again.

The hashed integers are in no output.

Invariant: a trail depends on the state before its segment and on the steps, for any partition of the steps.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from gpu_tasks.traces.trace import state_hash

FINGERPRINT_BYTES = 16
SEED_BYTES = 32
TRAIL_BYTES = 16
_FIRST, _STEP, _TRAILS = b"ogpu/trail/first", b"ogpu/trail/step", b"ogpu/trails"


def first_trail(state: bytes) -> bytes:
    """Return the trail before the first step after a state, 16 bytes."""
    return trail_from(state_hash(state))


def trail_from(state_digest: bytes) -> bytes:
    """Return the trail before the first step after the state with this hash."""
    return blake2b(state_digest, digest_size=TRAIL_BYTES, person=_FIRST).digest()


def trail_after(trail: bytes, steps: Iterable[bytes]) -> bytes:
    """Return the trail after some steps, from integers of each step's computation as bytes (`sampling.step_bytes`)."""
    for samples in steps:
        trail = blake2b(samples, digest_size=TRAIL_BYTES, key=trail, person=_STEP).digest()
    return trail


def trail_fingerprint(seed: bytes, trails: Sequence[bytes]) -> bytes:
    """Return the 16 bytes over the trails of an item's segments, in their order."""
    return blake2b(b"".join(trails), digest_size=FINGERPRINT_BYTES, key=seed, person=_TRAILS).digest()
