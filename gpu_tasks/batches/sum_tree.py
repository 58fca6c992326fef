"""The tree over the leaves of a batch: every node has a hash, and the token sums of all leaves below it.

    leaf(i)  = H(domain ‖ 0 ‖ i ‖ in ‖ out ‖ digest)
    inner    = H(domain ‖ 1 ‖ left ‖ in(left) ‖ out(left) ‖ right ‖ in(right) ‖ out(right))
    root     = H(domain ‖ 2 ‖ count ‖ in ‖ out ‖ top)       i and count are u32, tokens u64, little-endian
    claim(i) = H(domain ‖ 3 ‖ leaf(i) ‖ in ‖ out)           the answer about a leaf that opinions give

The shape is that of `runtime.cryptography.merkle`: a node without a neighbour moves up unchanged, and the count fixes
every position. The totals under the root alone decide the payment of a batch.

A path shows a leaf's node and not its digest. A provider that has computed the leaf can compare it (`opens`). Any other
reader learns nothing to copy.

Invariants: a path holds only if its sums are those of the root. In a tree whose inner sums are not those of its leaves,
some leaves have no path. `holds` costs a hash for each level, for any input.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Annotated

from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.requests import REQUESTS_MAX
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U32, U64, Bounded, codec, struct
from runtime.encoding.types import Hash

PATH_MAX = (REQUESTS_MAX - 1).bit_length()
_SUBTREE_LEVEL = PATH_MAX // 2
SUBTREE_LEAVES = 1 << _SUBTREE_LEVEL
"""Two steps lead from a root to a leaf, each over at most this many nodes: 1 of 64 subtrees, then 1 of its 64 leaves.
"""
_DOMAIN = b"batch\0\0\0"
# A prefix for each kind of node: otherwise an inner node could pass for a leaf (RFC 6962, section 2.1).
_LEAF, _INNER, _ROOT, _CLAIM = (_DOMAIN + bytes([kind]) for kind in range(4))
_TOKENS_MAX = 2**64 - 1


@struct
class Totals:
    """The values under a root: the number of requests, their tokens, and the hash of the highest node."""

    requests: U32
    tokens_in: U64
    tokens_out: U64
    top: Hash


@struct
class TreeNode:
    """The hash of a node, and the tokens of all leaves below it."""

    hash: Hash
    tokens_in: U64
    tokens_out: U64


@struct
class LeafPath:
    """Leaf `index` with its tokens, without its digest, and its siblings on the way up, lowest first."""

    index: U32
    tokens_in: U32
    tokens_out: U32
    node: Hash
    siblings: Annotated[tuple[TreeNode, ...], Bounded(PATH_MAX)]


LEAF_PATH = codec(LeafPath)


def batch_root(totals: Totals) -> bytes:
    """Return the name of a batch's result on chain: 32 bytes over its totals."""
    top = TreeNode(totals.top, totals.tokens_in, totals.tokens_out)
    return blake2_256(_ROOT + _u32(totals.requests) + _sum_bytes(top) + top.hash)


def totals_of(leaves: Sequence[Leaf]) -> Totals:
    """Return the totals of a batch with these leaves.

    Raise ValueError for no leaf, or more than `REQUESTS_MAX`.
    """
    top = _levels_of(leaves)[-1][0]
    return Totals(len(leaves), top.tokens_in, top.tokens_out, top.hash)


def leaf_path(leaves: Sequence[Leaf], index: int) -> LeafPath:
    """Return the path of leaf `index`. Raise ValueError if there is no such leaf."""
    return leaf_paths(leaves, (index,))[0]


def leaf_paths(leaves: Sequence[Leaf], indices: Sequence[int]) -> list[LeafPath]:
    """Return the paths of several leaves, which costs one tree. Raise ValueError for an index without a leaf."""
    for index in indices:
        if not 0 <= index < len(leaves):
            raise ValueError(f"no leaf {index} among {len(leaves)}")
    levels = _levels_of(leaves)
    return [_path_of(levels, index) for index in indices]


def holds(totals: Totals, path: LeafPath) -> bool:
    """Return True if the leaf is in a tree with these totals, and every sum on its path is right.

    Take the totals of a root (`batch_root`): only the root binds the number of leaves.
    """
    # Any caller can send totals: the bound on requests bounds the loop below.
    if not 0 <= path.index < totals.requests <= REQUESTS_MAX:
        return False
    sides = tuple(_sides_of(totals.requests, path.index))
    if len(sides) != len(path.siblings):
        return False
    node = TreeNode(path.node, path.tokens_in, path.tokens_out)
    for is_left, sibling in zip(sides, path.siblings, strict=True):
        node = _inner_node(sibling, node) if is_left else _inner_node(node, sibling)
        # Sums are encoded in 64 bits: an overflow would raise in the hash, on bytes that any caller can send.
        if node.tokens_in > _TOKENS_MAX or node.tokens_out > _TOKENS_MAX:
            return False
    return node == TreeNode(totals.top, totals.tokens_in, totals.tokens_out)


def leaf_claim(index: int, leaf: Leaf) -> bytes:
    """Return the claim of a leaf: one hash over its node and the tokens that a tree must count for it."""
    return node_claim(_leaf_node(index, leaf))


def path_claim(path: LeafPath) -> bytes:
    """Return the claim in a path: equal to `leaf_claim` of the leaf if the path's tokens are right.

    A tree can count other tokens beside a node than the node's own hash covers. A comparison of nodes alone would
    accept a leaf with invented tokens.
    """
    return node_claim(TreeNode(path.node, path.tokens_in, path.tokens_out))


def node_claim(node: TreeNode) -> bytes:
    """Return the claim of a leaf, given its node."""
    return blake2_256(_CLAIM + node.hash + _sum_bytes(node))


def opens(path: LeafPath, leaf_digest: bytes) -> bool:
    """Return True if the leaf of this path has this digest, so that an independent computation agrees with it."""
    return _leaf_node(path.index, Leaf(path.tokens_in, path.tokens_out, leaf_digest)).hash == path.node


def before(totals: Totals, path: LeafPath) -> tuple[int, int]:
    """Return the tokens in and out of all leaves before the leaf of a path that holds.

    Raise ValueError if the path has another length than the tree's.
    """
    sides = _sides_of(totals.requests, path.index)
    left_siblings = [sibling for is_left, sibling in zip(sides, path.siblings, strict=True) if is_left]
    return sum(sibling.tokens_in for sibling in left_siblings), sum(sibling.tokens_out for sibling in left_siblings)


def subtree_count(requests: int) -> int:
    """Return the number of subtrees of `SUBTREE_LEAVES` leaves. The last one may have fewer leaves."""
    return -(-requests // SUBTREE_LEAVES)


def leaves_below(requests: int, subtree_number: int) -> int:
    """Return the number of leaves of subtree number `subtree_number`."""
    return min(SUBTREE_LEAVES, requests - subtree_number * SUBTREE_LEAVES)


def subtrees_of(leaves: Sequence[Leaf]) -> tuple[TreeNode, ...]:
    """Return the nodes of a tree above `SUBTREE_LEAVES` leaves each."""
    levels = _levels_of(leaves)
    return tuple(levels[min(_SUBTREE_LEVEL, len(levels) - 1)])


def nodes_below(leaves: Sequence[Leaf], subtree_number: int) -> tuple[TreeNode, ...]:
    """Return the nodes of the leaves of one subtree."""
    start = subtree_number * SUBTREE_LEAVES
    return tuple(_leaf_node(index, leaf) for index, leaf in enumerate(leaves[start : start + SUBTREE_LEAVES], start))


def combined(tree_nodes: Sequence[TreeNode]) -> TreeNode | None:
    """Return the node above all of these, at the cost of a hash for each node but one.

    Return None for no nodes, or if a sum exceeds 64 bits.
    """
    nodes = list(tree_nodes)
    while len(nodes) > 1:
        nodes = _level_above(nodes)
        if any(level_node.tokens_in > _TOKENS_MAX or level_node.tokens_out > _TOKENS_MAX for level_node in nodes):
            return None
    return nodes[0] if nodes else None


def first_difference(leaves: Sequence[Leaf], others: Sequence[Leaf]) -> int | None:
    """Return the first index at which two lists differ, or None if they are equal.

    If one list is a prefix of the other, this is the length of the shorter one.
    """
    numbered_pairs = enumerate(zip_longest(leaves, others))
    return next((index for index, (leaf, other) in numbered_pairs if leaf != other), None)


def _path_of(levels: list[list[TreeNode]], index: int) -> LeafPath:
    siblings = tuple(
        nodes[(index >> depth) ^ 1] for depth, nodes in enumerate(levels) if (index >> depth) ^ 1 < len(nodes)
    )
    node = levels[0][index]
    return LeafPath(index, node.tokens_in, node.tokens_out, node.hash, siblings)


def _levels_of(leaves: Sequence[Leaf]) -> list[list[TreeNode]]:
    """Return all nodes by level, leaves first. The last level is the top alone."""
    if not 1 <= len(leaves) <= REQUESTS_MAX:
        raise ValueError(f"a batch has 1 to {REQUESTS_MAX} leaves, not {len(leaves)}")
    levels = [[_leaf_node(index, leaf) for index, leaf in enumerate(leaves)]]
    while len(levels[-1]) > 1:
        levels.append(_level_above(levels[-1]))
    return levels


def _level_above(below: list[TreeNode]) -> list[TreeNode]:
    above = [_inner_node(below[pair_start], below[pair_start + 1]) for pair_start in range(0, len(below) - 1, 2)]
    return above + below[2 * len(above) :]


def _sides_of(leaf_count: int, index: int) -> Iterator[bool]:
    """Yield, for each sibling of leaf `index` on the way up, whether the sibling is on the left."""
    last_index = leaf_count - 1
    while last_index > 0:
        if index ^ 1 <= last_index:
            yield bool(index & 1)
        index, last_index = index >> 1, last_index >> 1


def _leaf_node(index: int, leaf: Leaf) -> TreeNode:
    token_bytes = _u64(leaf.tokens_in) + _u64(leaf.tokens_out)
    return TreeNode(blake2_256(_LEAF + _u32(index) + token_bytes + leaf.digest), leaf.tokens_in, leaf.tokens_out)


def _inner_node(left: TreeNode, right: TreeNode) -> TreeNode:
    # The sums are hashed too, so no path can show other tokens for an inner node.
    node_hash = blake2_256(_INNER + left.hash + _sum_bytes(left) + right.hash + _sum_bytes(right))
    return TreeNode(node_hash, left.tokens_in + right.tokens_in, left.tokens_out + right.tokens_out)


def _sum_bytes(node: TreeNode) -> bytes:
    return _u64(node.tokens_in) + _u64(node.tokens_out)


def _u32(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _u64(number: int) -> bytes:
    return number.to_bytes(8, "little")
