"""The tree over the leaves of a batch: every node has the tokens of all leaves below it beside its hash.

    leaf(i)  = H(domain ‖ 0 ‖ i ‖ in ‖ out ‖ digest)
    inner    = H(domain ‖ 1 ‖ left ‖ in(left) ‖ out(left) ‖ right ‖ in(right) ‖ out(right))
    root     = H(domain ‖ 2 ‖ count ‖ in ‖ out ‖ top)       i and count are u32, tokens u64, little-endian
    claim(i) = H(domain ‖ 3 ‖ leaf(i) ‖ in ‖ out)           what is said of a leaf before the courts

Its shape is that of `runtime.cryptography.merkle`: a node without a neighbour goes up as it is, and the count fixes the
place of everything. A batch is paid by the totals under its root and by nothing else.

A path shows a leaf's node and not its digest: who has computed the leaf can see whether it is the same (`opens`), and
who has not learns nothing to copy.

Always: the sums of a path are those of the root, or it does not hold; a tree whose inner sums are not those of its
leaves has places for which there is no path. `holds` costs a hash for each level, whatever it is given.
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
"""Two steps lead from a root to a leaf, each over so many nodes at most: of 64 subtrees one, of its 64 leaves one."""
_DOMAIN = b"batch\0\0\0"
_LEAF, _INNER, _ROOT, _CLAIM = (_DOMAIN + bytes([kind]) for kind in range(4))
_TOKENS_MAX = 2**64 - 1


@struct
class Totals:
    """What a root commits to: how many requests, their tokens, and the hash of the highest node."""

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
    """Leaf `index` with its tokens, without its digest, and its neighbours on the way up, lowest first."""

    index: U32
    tokens_in: U32
    tokens_out: U32
    node: Hash
    siblings: Annotated[tuple[TreeNode, ...], Bounded(PATH_MAX)]


LEAF_PATH = codec(LeafPath)


def batch_root(totals: Totals) -> bytes:
    """The name of a batch's result on chain: 32 bytes over its totals."""
    node = TreeNode(totals.top, totals.tokens_in, totals.tokens_out)
    return blake2_256(_ROOT + _u32(totals.requests) + _sums(node) + node.hash)


def totals_of(leaves: Sequence[Leaf]) -> Totals:
    """The totals of a batch with these leaves; ValueError for none or more than `REQUESTS_MAX`."""
    top = _levels(leaves)[-1][0]
    return Totals(len(leaves), top.tokens_in, top.tokens_out, top.hash)


def leaf_path(leaves: Sequence[Leaf], index: int) -> LeafPath:
    """The path of leaf `index`; ValueError for an index that there is not."""
    return leaf_paths(leaves, (index,))[0]


def leaf_paths(leaves: Sequence[Leaf], indices: Sequence[int]) -> list[LeafPath]:
    """The paths of some leaves, for the price of one: the tree is made once."""
    for index in indices:
        if not 0 <= index < len(leaves):
            raise ValueError(f"no leaf {index} among {len(leaves)}")
    levels = _levels(leaves)
    return [_path(levels, index) for index in indices]


def holds(totals: Totals, path: LeafPath) -> bool:
    """Whether a tree with these totals has this leaf at its place, and every sum on the way up is right.

    The totals are those of a root (`batch_root`): the number of leaves is bound by it alone.
    """
    if not 0 <= path.index < totals.requests <= REQUESTS_MAX:
        return False
    sides = tuple(_sides(totals.requests, path.index))
    if len(sides) != len(path.siblings):
        return False
    node = TreeNode(path.node, path.tokens_in, path.tokens_out)
    for is_left, sibling in zip(sides, path.siblings, strict=True):
        node = _inner(sibling, node) if is_left else _inner(node, sibling)
        if node.tokens_in > _TOKENS_MAX or node.tokens_out > _TOKENS_MAX:
            return False
    return node == TreeNode(totals.top, totals.tokens_in, totals.tokens_out)


def leaf_claim(index: int, leaf: Leaf) -> bytes:
    """What is to be said of a leaf, as one hash: its node, and the tokens that a tree has to count for it."""
    return node_claim(_leaf(index, leaf))


def path_claim(path: LeafPath) -> bytes:
    """What a path says of its leaf: `leaf_claim` of the leaf, if that is right.

    A tree can count other tokens beside a node than the node's own hash is of: whoever compares nodes alone takes a
    leaf with invented tokens for a right one.
    """
    return node_claim(TreeNode(path.node, path.tokens_in, path.tokens_out))


def node_claim(leaf: TreeNode) -> bytes:
    """The claim of a leaf by its node."""
    return blake2_256(_CLAIM + leaf.hash + _sums(leaf))


def opens(path: LeafPath, digest: bytes) -> bool:
    """Whether the leaf of this path has this digest: whether somebody who computed it found the same."""
    return _leaf(path.index, Leaf(path.tokens_in, path.tokens_out, digest)).hash == path.node


def before(totals: Totals, path: LeafPath) -> tuple[int, int]:
    """The tokens in and out of all leaves before that of a path which holds; ValueError for one of another length."""
    sides = _sides(totals.requests, path.index)
    left = [sibling for is_left, sibling in zip(sides, path.siblings, strict=True) if is_left]
    return sum(sibling.tokens_in for sibling in left), sum(sibling.tokens_out for sibling in left)


def subtree_count(requests: int) -> int:
    """How many subtrees of `SUBTREE_LEAVES` leaves a tree has; the last may have fewer."""
    return -(-requests // SUBTREE_LEAVES)


def leaves_below(requests: int, subtree: int) -> int:
    """How many leaves subtree number `subtree` has."""
    return min(SUBTREE_LEAVES, requests - subtree * SUBTREE_LEAVES)


def subtrees_of(leaves: Sequence[Leaf]) -> tuple[TreeNode, ...]:
    """The nodes of a tree above `SUBTREE_LEAVES` leaves each."""
    levels = _levels(leaves)
    return tuple(levels[min(_SUBTREE_LEVEL, len(levels) - 1)])


def nodes_below(leaves: Sequence[Leaf], subtree: int) -> tuple[TreeNode, ...]:
    """The nodes of the leaves of one subtree."""
    first = subtree * SUBTREE_LEAVES
    return tuple(_leaf(index, leaf) for index, leaf in enumerate(leaves[first : first + SUBTREE_LEAVES], first))


def combined(nodes: Sequence[TreeNode]) -> TreeNode | None:
    """The node above all of these; None for none, or sums above 64 bits. Costs a hash for each node but one."""
    level = list(nodes)
    while len(level) > 1:
        level = _above(level)
        if any(node.tokens_in > _TOKENS_MAX or node.tokens_out > _TOKENS_MAX for node in level):
            return None
    return level[0] if level else None


def first_difference(leaves: Sequence[Leaf], others: Sequence[Leaf]) -> int | None:
    """The first place where two lists differ, which may be behind the end of one; None where they are equal."""
    pairs = enumerate(zip_longest(leaves, others))
    return next((index for index, (leaf, other) in pairs if leaf != other), None)


def _path(levels: list[list[TreeNode]], index: int) -> LeafPath:
    siblings = tuple(
        level[(index >> depth) ^ 1] for depth, level in enumerate(levels) if (index >> depth) ^ 1 < len(level)
    )
    leaf = levels[0][index]
    return LeafPath(index, leaf.tokens_in, leaf.tokens_out, leaf.hash, siblings)


def _levels(leaves: Sequence[Leaf]) -> list[list[TreeNode]]:
    """All nodes from the leaves up; the last level is the top alone."""
    if not 1 <= len(leaves) <= REQUESTS_MAX:
        raise ValueError(f"a batch has 1 to {REQUESTS_MAX} leaves, not {len(leaves)}")
    levels = [[_leaf(index, leaf) for index, leaf in enumerate(leaves)]]
    while len(levels[-1]) > 1:
        levels.append(_above(levels[-1]))
    return levels


def _above(below: list[TreeNode]) -> list[TreeNode]:
    pairs = [_inner(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)]
    return pairs + below[2 * len(pairs) :]


def _sides(count: int, index: int) -> Iterator[bool]:
    """For each neighbour of leaf `index` of `count` on the way up, whether it stands on the left."""
    last = count - 1
    while last > 0:
        if index ^ 1 <= last:
            yield bool(index & 1)
        index, last = index >> 1, last >> 1


def _leaf(index: int, leaf: Leaf) -> TreeNode:
    tokens = _u64(leaf.tokens_in) + _u64(leaf.tokens_out)
    return TreeNode(blake2_256(_LEAF + _u32(index) + tokens + leaf.digest), leaf.tokens_in, leaf.tokens_out)


def _inner(left: TreeNode, right: TreeNode) -> TreeNode:
    hash_ = blake2_256(_INNER + left.hash + _sums(left) + right.hash + _sums(right))
    return TreeNode(hash_, left.tokens_in + right.tokens_in, left.tokens_out + right.tokens_out)


def _sums(node: TreeNode) -> bytes:
    return _u64(node.tokens_in) + _u64(node.tokens_out)


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")
