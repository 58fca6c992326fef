"""The trace of a run in segments: a root over the hashes of its states, and the form of a proof that one is wrong.

    s(0) --segment 0--> s(1) --segment 1--> ... --segment n-1--> s(n)

A provider states the root. Whoever holds the hashes can show any of them with a path, and that the trace is wrong at a
segment with two of them and the hash that is right.

Always: what is here needs no workload, so that the chain and those who compute read the same form; `is_in_trace` and
`has_form` are a few hashes each, whatever they are given.
"""

from collections.abc import Sequence
from typing import Annotated

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.merkle import is_member, merkle_path, merkle_root
from runtime.encoding.codec import U32, Bounded, Fixed, codec, struct

SEGMENTS_MAX = 1_023
"""So that a run has at most 1,024 states, their hashes 32 KiB, and a path in its trace 10 neighbours."""
PATH_MAX = SEGMENTS_MAX.bit_length()
_TREE_DOMAIN = b"trace"
_STATE_DOMAIN = b"ogpu/state/1"


@struct
class TracedState:
    """The hash of a state, and its path to the root of a trace."""

    digest: Annotated[bytes, Fixed(32)]
    path: Annotated[tuple[Annotated[bytes, Fixed(32)], ...], Bounded(PATH_MAX)]


@struct
class TraceFraudProof:
    """Segment `index` does not lead from `before` to `after`, as the trace has it, but to `right`."""

    index: U32
    before: TracedState
    after: TracedState
    right: Annotated[bytes, Fixed(32)]


FRAUD_PROOF = codec(TraceFraudProof)


def state_hash(state: bytes) -> bytes:
    """32 bytes that stand for a state in a trace."""
    return blake2_256(_STATE_DOMAIN + state)


def trace_root(digests: Sequence[bytes]) -> bytes:
    """32 bytes over the hashes of s(0) to s(n)."""
    return merkle_root(_TREE_DOMAIN, digests)


def traced_state(digests: Sequence[bytes], index: int) -> TracedState:
    """State `index` of a trace, with its path."""
    return TracedState(digests[index], merkle_path(_TREE_DOMAIN, digests, index))


def is_in_trace(root: bytes, segments: int, index: int, state: TracedState) -> bool:
    """Whether the trace of `segments` segments under `root` has this state at s(index)."""
    return is_member(_TREE_DOMAIN, root, segments + 1, index, state.digest, state.path)


def proof_of_fraud(digests: Sequence[bytes], index: int, right: bytes) -> TraceFraudProof:
    """The proof that the trace of these hashes is wrong at segment `index`, which leads to `right`."""
    return TraceFraudProof(index, traced_state(digests, index), traced_state(digests, index + 1), right)


def has_form(root: bytes, segments: int, proof: TraceFraudProof) -> bool:
    """Whether a proof speaks of this trace and says something of it: what a chain can see without any state."""
    return (
        proof.index < segments <= SEGMENTS_MAX
        and proof.right != proof.after.digest
        and is_in_trace(root, segments, proof.index, proof.before)
        and is_in_trace(root, segments, proof.index + 1, proof.after)
    )
