"""The trace of a run in segments: a root over the hashes of its states, and the form of a proof that one is wrong.

    s(0) --segment 0--> s(1) --segment 1--> ... --segment n-1--> s(n)

A provider states the root. With the hashes, any party can show one of them with a path. Two hashes and the right one
show that the trace is wrong at a segment.

Invariants: this module needs no workload, so the chain and the computing parties read the same form; `is_in_trace` and
`has_form` cost a few hashes for any input.
"""

from collections.abc import Sequence
from typing import Annotated

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.merkle import is_member, merkle_path, merkle_root
from runtime.encoding.codec import U32, Bounded, Fixed, codec, struct

SEGMENTS_MAX = 1_023
"""The most segments of a trace. A run then has at most 1,024 states, 32 KiB of hashes, and paths of 10 siblings."""
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
    """The claim that segment `index` leads from `before` to `right`, and not to `after` as the trace states."""

    index: U32
    before: TracedState
    after: TracedState
    right: Annotated[bytes, Fixed(32)]


FRAUD_PROOF = codec(TraceFraudProof)


def state_hash(state_bytes: bytes) -> bytes:
    """Return the 32-byte hash of a state."""
    return blake2_256(_STATE_DOMAIN + state_bytes)


def trace_root(state_digests: Sequence[bytes]) -> bytes:
    """Return the 32-byte root over the hashes of s(0) to s(n)."""
    return merkle_root(_TREE_DOMAIN, state_digests)


def traced_state(state_digests: Sequence[bytes], state_index: int) -> TracedState:
    """Return state `state_index` of a trace, with its path."""
    return TracedState(state_digests[state_index], merkle_path(_TREE_DOMAIN, state_digests, state_index))


def is_in_trace(root_hash: bytes, segments: int, state_index: int, shown_state: TracedState) -> bool:
    """Return True if the trace of `segments` segments under `root_hash` has this state at s(index)."""
    # A run of n segments has n + 1 states.
    return is_member(_TREE_DOMAIN, root_hash, segments + 1, state_index, shown_state.digest, shown_state.path)


def proof_of_fraud(state_digests: Sequence[bytes], segment_index: int, right_digest: bytes) -> TraceFraudProof:
    """Return the proof that the trace is wrong at segment `segment_index`, which leads to `right_digest`."""
    return TraceFraudProof(
        segment_index,
        traced_state(state_digests, segment_index),
        traced_state(state_digests, segment_index + 1),
        right_digest,
    )


def has_form(root_hash: bytes, segments: int, fraud_proof: TraceFraudProof) -> bool:
    """Return True if the proof is well-formed for this trace. A chain can check this without any state.

    It does not show that `right` is right: only an execution of the segment can.
    """
    return (
        fraud_proof.index < segments <= SEGMENTS_MAX
        # With the stated hash as the right one, the proof would show no fraud.
        and fraud_proof.right != fraud_proof.after.digest
        and is_in_trace(root_hash, segments, fraud_proof.index, fraud_proof.before)
        and is_in_trace(root_hash, segments, fraud_proof.index + 1, fraud_proof.after)
    )
