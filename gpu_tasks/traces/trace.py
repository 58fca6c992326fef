"""The trace of a run in segments: a root over the hashes of its states.

    s(0) --segment 0--> s(1) --segment 1--> ... --segment n-1--> s(n)

A provider states the root. A checker or a voter gets all hashes, and compares their root.

Invariant: this module needs no workload, so the chain and the computing parties read the same form.
"""

from collections.abc import Sequence

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.merkle import merkle_root

SEGMENTS_MAX = 1_023
"""The most segments of a trace. A run then has at most 1,024 states and 32 KiB of hashes."""
_TREE_DOMAIN = b"trace"
_STATE_DOMAIN = b"ogpu/state/1"


def state_hash(state_bytes: bytes) -> bytes:
    """Return the 32-byte hash of a state."""
    return blake2_256(_STATE_DOMAIN + state_bytes)


def trace_root(state_digests: Sequence[bytes]) -> bytes:
    """Return the 32-byte root over the hashes of s(0) to s(n)."""
    return merkle_root(_TREE_DOMAIN, state_digests)
