"""The tree over the leaves of a batch: every node has a hash, and the token sums of all leaves below it.

    leaf(i)  = H(domain ‖ 0 ‖ i ‖ in ‖ out ‖ digest)
    inner    = H(domain ‖ 1 ‖ left ‖ in(left) ‖ out(left) ‖ right ‖ in(right) ‖ out(right))
    root     = H(domain ‖ 2 ‖ count ‖ in ‖ out ‖ top)       i and count are u32, tokens u64, little-endian
    claim(i) = H(domain ‖ 3 ‖ leaf(i) ‖ in ‖ out)           the answer about a leaf that voters give

The shape is that of `runtime.cryptography.merkle`: a node without a neighbour moves up unchanged, and the count fixes
every position. The totals under the root alone decide the payment of a batch. A provider delivers all leaves to whoever
checks it, so sums that no leaves have cannot be delivered.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.requests import REQUESTS_MAX
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U32, U64, struct
from runtime.encoding.types import Hash

_DOMAIN = b"batch\0\0\0"
# A prefix for each kind of node: otherwise an inner node could pass for a leaf (RFC 6962, section 2.1).
_LEAF, _INNER, _ROOT, _CLAIM = (_DOMAIN + bytes([kind]) for kind in range(4))


@struct
class Totals:
    """The values under a root: the number of requests, their tokens, and the hash of the highest node."""

    requests: U32
    tokens_in: U64
    tokens_out: U64
    top: Hash


class _Node(NamedTuple):
    """The hash of a node, and the tokens of all leaves below it."""

    hash: bytes
    tokens_in: int
    tokens_out: int


def batch_root(totals: Totals) -> bytes:
    """Return the name of a batch's result on chain: 32 bytes over its totals."""
    top = _Node(totals.top, totals.tokens_in, totals.tokens_out)
    return blake2_256(_ROOT + _u32(totals.requests) + _sum_bytes(top) + top.hash)


def totals_of(leaves: Sequence[Leaf]) -> Totals:
    """Return the totals of a batch with these leaves.

    Raise ValueError for no leaf, or more than `REQUESTS_MAX`.
    """
    if not 1 <= len(leaves) <= REQUESTS_MAX:
        raise ValueError(f"a batch has 1 to {REQUESTS_MAX} leaves, not {len(leaves)}")
    nodes = [_leaf_node(index, leaf) for index, leaf in enumerate(leaves)]
    while len(nodes) > 1:
        nodes = _level_above(nodes)
    top = nodes[0]
    return Totals(len(leaves), top.tokens_in, top.tokens_out, top.hash)


def leaf_claim(index: int, leaf: Leaf) -> bytes:
    """Return the claim of a leaf: one hash over its node and its tokens."""
    node = _leaf_node(index, leaf)
    return blake2_256(_CLAIM + node.hash + _sum_bytes(node))


def _level_above(below: list[_Node]) -> list[_Node]:
    above = [_inner_node(below[pair_start], below[pair_start + 1]) for pair_start in range(0, len(below) - 1, 2)]
    return above + below[2 * len(above) :]


def _leaf_node(index: int, leaf: Leaf) -> _Node:
    token_bytes = _u64(leaf.tokens_in) + _u64(leaf.tokens_out)
    return _Node(blake2_256(_LEAF + _u32(index) + token_bytes + leaf.digest), leaf.tokens_in, leaf.tokens_out)


def _inner_node(left: _Node, right: _Node) -> _Node:
    node_hash = blake2_256(_INNER + left.hash + _sum_bytes(left) + right.hash + _sum_bytes(right))
    return _Node(node_hash, left.tokens_in + right.tokens_in, left.tokens_out + right.tokens_out)


def _sum_bytes(node: _Node) -> bytes:
    return _u64(node.tokens_in) + _u64(node.tokens_out)


def _u32(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _u64(number: int) -> bytes:
    return number.to_bytes(8, "little")
