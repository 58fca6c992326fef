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
    top_node = TreeNode(totals.top, totals.tokens_in, totals.tokens_out)
    return blake2_256(_ROOT + _u32(totals.requests) + _sum_bytes(top_node) + top_node.hash)


def totals_of(leaves: Sequence[Leaf]) -> Totals:
    """Return the totals of a batch with these leaves.

    Raise ValueError for no leaf, or more than `REQUESTS_MAX`.
    """
    top_node = _levels_of(leaves)[-1][0]
    return Totals(len(leaves), top_node.tokens_in, top_node.tokens_out, top_node.hash)


def leaf_path(leaves: Sequence[Leaf], leaf_index: int) -> LeafPath:
    """Return the path of leaf `leaf_index`. Raise ValueError if there is no such leaf."""
    return leaf_paths(leaves, (leaf_index,))[0]


def leaf_paths(leaves: Sequence[Leaf], leaf_indices: Sequence[int]) -> list[LeafPath]:
    """Return the paths of several leaves, which costs one tree. Raise ValueError for an index without a leaf."""
    for leaf_index in leaf_indices:
        if not 0 <= leaf_index < len(leaves):
            raise ValueError(f"no leaf {leaf_index} among {len(leaves)}")
    tree_levels = _levels_of(leaves)
    return [_path_of(tree_levels, leaf_index) for leaf_index in leaf_indices]


def holds(totals: Totals, shown_path: LeafPath) -> bool:
    """Return True if the leaf is in a tree with these totals, and every sum on its path is right.

    Take the totals of a root (`batch_root`): only the root binds the number of leaves.
    """
    # Any caller can send totals: the bound on requests bounds the loop below.
    if not 0 <= shown_path.index < totals.requests <= REQUESTS_MAX:
        return False
    path_sides = tuple(_sides_of(totals.requests, shown_path.index))
    if len(path_sides) != len(shown_path.siblings):
        return False
    path_node = TreeNode(shown_path.node, shown_path.tokens_in, shown_path.tokens_out)
    for is_left, sibling in zip(path_sides, shown_path.siblings, strict=True):
        path_node = _inner_node(sibling, path_node) if is_left else _inner_node(path_node, sibling)
        # Sums are encoded in 64 bits: an overflow would raise in the hash, on bytes that any caller can send.
        if path_node.tokens_in > _TOKENS_MAX or path_node.tokens_out > _TOKENS_MAX:
            return False
    return path_node == TreeNode(totals.top, totals.tokens_in, totals.tokens_out)


def leaf_claim(leaf_index: int, leaf: Leaf) -> bytes:
    """Return the claim of a leaf: one hash over its node and the tokens that a tree must count for it."""
    return node_claim(_leaf_node(leaf_index, leaf))


def path_claim(shown_path: LeafPath) -> bytes:
    """Return the claim in a path: equal to `leaf_claim` of the leaf if the path's tokens are right.

    A tree can count other tokens beside a node than the node's own hash covers. A comparison of nodes alone would
    accept a leaf with invented tokens.
    """
    return node_claim(TreeNode(shown_path.node, shown_path.tokens_in, shown_path.tokens_out))


def node_claim(leaf_node: TreeNode) -> bytes:
    """Return the claim of a leaf, given its node."""
    return blake2_256(_CLAIM + leaf_node.hash + _sum_bytes(leaf_node))


def opens(shown_path: LeafPath, leaf_digest: bytes) -> bool:
    """Return True if the leaf of this path has this digest, so that an independent computation agrees with it."""
    return (
        _leaf_node(shown_path.index, Leaf(shown_path.tokens_in, shown_path.tokens_out, leaf_digest)).hash
        == shown_path.node
    )


def before(totals: Totals, shown_path: LeafPath) -> tuple[int, int]:
    """Return the tokens in and out of all leaves before the leaf of a path that holds.

    Raise ValueError if the path has another length than the tree's.
    """
    path_sides = _sides_of(totals.requests, shown_path.index)
    left_siblings = [sibling for is_left, sibling in zip(path_sides, shown_path.siblings, strict=True) if is_left]
    return sum(sibling.tokens_in for sibling in left_siblings), sum(sibling.tokens_out for sibling in left_siblings)


def subtree_count(requests: int) -> int:
    """Return the number of subtrees of `SUBTREE_LEAVES` leaves. The last one may have fewer leaves."""
    return -(-requests // SUBTREE_LEAVES)


def leaves_below(requests: int, subtree_number: int) -> int:
    """Return the number of leaves of subtree number `subtree_number`."""
    return min(SUBTREE_LEAVES, requests - subtree_number * SUBTREE_LEAVES)


def subtrees_of(leaves: Sequence[Leaf]) -> tuple[TreeNode, ...]:
    """Return the nodes of a tree above `SUBTREE_LEAVES` leaves each."""
    tree_levels = _levels_of(leaves)
    return tuple(tree_levels[min(_SUBTREE_LEVEL, len(tree_levels) - 1)])


def nodes_below(leaves: Sequence[Leaf], subtree_number: int) -> tuple[TreeNode, ...]:
    """Return the nodes of the leaves of one subtree."""
    first_index = subtree_number * SUBTREE_LEAVES
    return tuple(
        _leaf_node(leaf_index, leaf)
        for leaf_index, leaf in enumerate(leaves[first_index : first_index + SUBTREE_LEAVES], first_index)
    )


def combined(tree_nodes: Sequence[TreeNode]) -> TreeNode | None:
    """Return the node above all of these, at the cost of a hash for each node but one.

    Return None for no nodes, or if a sum exceeds 64 bits.
    """
    level_nodes = list(tree_nodes)
    while len(level_nodes) > 1:
        level_nodes = _level_above(level_nodes)
        if any(level_node.tokens_in > _TOKENS_MAX or level_node.tokens_out > _TOKENS_MAX for level_node in level_nodes):
            return None
    return level_nodes[0] if level_nodes else None


def first_difference(leaves: Sequence[Leaf], other_leaves: Sequence[Leaf]) -> int | None:
    """Return the first index at which two lists differ, or None if they are equal.

    If one list is a prefix of the other, this is the length of the shorter one.
    """
    numbered_pairs = enumerate(zip_longest(leaves, other_leaves))
    return next((leaf_index for leaf_index, (leaf, other_leaf) in numbered_pairs if leaf != other_leaf), None)


def _path_of(tree_levels: list[list[TreeNode]], leaf_index: int) -> LeafPath:
    siblings = tuple(
        level_nodes[(leaf_index >> depth) ^ 1]
        for depth, level_nodes in enumerate(tree_levels)
        if (leaf_index >> depth) ^ 1 < len(level_nodes)
    )
    leaf_node = tree_levels[0][leaf_index]
    return LeafPath(leaf_index, leaf_node.tokens_in, leaf_node.tokens_out, leaf_node.hash, siblings)


def _levels_of(leaves: Sequence[Leaf]) -> list[list[TreeNode]]:
    """Return all nodes by level, leaves first. The last level is the top alone."""
    if not 1 <= len(leaves) <= REQUESTS_MAX:
        raise ValueError(f"a batch has 1 to {REQUESTS_MAX} leaves, not {len(leaves)}")
    tree_levels = [[_leaf_node(leaf_index, leaf) for leaf_index, leaf in enumerate(leaves)]]
    while len(tree_levels[-1]) > 1:
        tree_levels.append(_level_above(tree_levels[-1]))
    return tree_levels


def _level_above(lower_nodes: list[TreeNode]) -> list[TreeNode]:
    upper_nodes = [
        _inner_node(lower_nodes[pair_start], lower_nodes[pair_start + 1])
        for pair_start in range(0, len(lower_nodes) - 1, 2)
    ]
    return upper_nodes + lower_nodes[2 * len(upper_nodes) :]


def _sides_of(leaf_count: int, leaf_index: int) -> Iterator[bool]:
    """Yield, for each sibling of leaf `leaf_index` on the way up, whether the sibling is on the left."""
    last_index = leaf_count - 1
    while last_index > 0:
        if leaf_index ^ 1 <= last_index:
            yield bool(leaf_index & 1)
        leaf_index, last_index = leaf_index >> 1, last_index >> 1


def _leaf_node(leaf_index: int, leaf: Leaf) -> TreeNode:
    token_bytes = _u64(leaf.tokens_in) + _u64(leaf.tokens_out)
    return TreeNode(blake2_256(_LEAF + _u32(leaf_index) + token_bytes + leaf.digest), leaf.tokens_in, leaf.tokens_out)


def _inner_node(left_node: TreeNode, right_node: TreeNode) -> TreeNode:
    # The sums are hashed too, so no path can show other tokens for an inner node.
    node_hash = blake2_256(_INNER + left_node.hash + _sum_bytes(left_node) + right_node.hash + _sum_bytes(right_node))
    return TreeNode(node_hash, left_node.tokens_in + right_node.tokens_in, left_node.tokens_out + right_node.tokens_out)


def _sum_bytes(tree_node: TreeNode) -> bytes:
    return _u64(tree_node.tokens_in) + _u64(tree_node.tokens_out)


def _u32(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _u64(number: int) -> bytes:
    return number.to_bytes(8, "little")
