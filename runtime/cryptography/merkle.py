"""A list under one root: a binary Merkle tree with a short membership path for each item.

    leaf(i)  = H(domain ‖ 0 ‖ i ‖ item)         inner = H(domain ‖ 1 ‖ left ‖ right)
    root     = H(domain ‖ 2 ‖ count ‖ top)      numbers are u32, little-endian

Invariant: a domain is padded to 8 bytes, so no two trees, and no leaf and inner node, hash the same bytes. A node
without a neighbour moves up unchanged. The count under the root fixes the shape, so an item has one position and one
path, and the list cannot be read as a longer or a shorter one.
"""

from collections.abc import Sequence

from runtime.cryptography.hashing import blake2_256

COUNT_MAX = 2**32 - 1
_DOMAIN_BYTES = 8
_LEAF, _INNER, _ROOT = b"\0", b"\1", b"\2"


def merkle_root(tree_domain: bytes, items: Sequence[bytes]) -> bytes:
    """Return the 32-byte root of all items in order.

    Raise ValueError for no items, too many, or a domain that does not have 1 to 8 bytes.
    """
    return _rooted(tree_domain, len(items), _levels(tree_domain, items)[-1][0])


def merkle_path(tree_domain: bytes, items: Sequence[bytes], item_index: int) -> tuple[bytes, ...]:
    """Return the neighbours of item `item_index` on its path up, lowest first.

    Raise ValueError for an index out of range.
    """
    return merkle_paths(tree_domain, items, (item_index,))[0]


def merkle_paths(tree_domain: bytes, items: Sequence[bytes], item_indices: Sequence[int]) -> list[tuple[bytes, ...]]:
    """Return the paths of some items, at the cost of one: the tree is computed once."""
    for item_index in item_indices:
        if not 0 <= item_index < len(items):
            raise ValueError(f"no item {item_index} among {len(items)}")
    tree_levels = _levels(tree_domain, items)[:-1]
    # A last node without a neighbour moves up unchanged: its path has nothing at that level.
    return [
        tuple(
            tree_level[(item_index >> depth) ^ 1]
            for depth, tree_level in enumerate(tree_levels)
            if (item_index >> depth) ^ 1 < len(tree_level)
        )
        for item_index in item_indices
    ]


def is_member(
    tree_domain: bytes, root: bytes, item_count: int, item_index: int, item: bytes, neighbour_path: Sequence[bytes]
) -> bool:
    """Return True if `item` is at `item_index` of the list of `item_count` items under `root`.

    It costs one hash for each level of the tree. A path of another length is refused before any hash.
    """
    # The length first: a sender must not make a verifier hash a path of any length.
    if not 0 <= item_index < item_count <= COUNT_MAX or len(neighbour_path) != path_length(item_count, item_index):
        return False
    path_node, neighbours, last_index = _leaf(tree_domain, item_index, item), iter(neighbour_path), item_count - 1
    while last_index > 0:
        if item_index ^ 1 <= last_index:
            neighbour = next(neighbours)
            path_node = (
                _inner(tree_domain, neighbour, path_node)
                if item_index & 1
                else _inner(tree_domain, path_node, neighbour)
            )
        item_index, last_index = item_index >> 1, last_index >> 1
    return _rooted(tree_domain, item_count, path_node) == root


def path_length(item_count: int, item_index: int) -> int:
    """Return the number of neighbours of item `item_index` of `item_count` on its path up."""
    neighbour_count, last_index = 0, item_count - 1
    while last_index > 0:
        neighbour_count += item_index ^ 1 <= last_index
        item_index, last_index = item_index >> 1, last_index >> 1
    return neighbour_count


def _levels(tree_domain: bytes, items: Sequence[bytes]) -> list[list[bytes]]:
    """Return all nodes from the leaves up. The last level is the top alone."""
    if not 1 <= len(items) <= COUNT_MAX:
        raise ValueError(f"a tree has 1 to {COUNT_MAX} items, not {len(items)}")
    tree_levels = [[_leaf(tree_domain, item_index, item) for item_index, item in enumerate(items)]]
    while len(tree_levels[-1]) > 1:
        level_below = tree_levels[-1]
        parent_nodes = [
            _inner(tree_domain, level_below[pair_index], level_below[pair_index + 1])
            for pair_index in range(0, len(level_below) - 1, 2)
        ]
        tree_levels.append(parent_nodes + level_below[2 * len(parent_nodes) :])
    return tree_levels


def _leaf(tree_domain: bytes, item_index: int, item: bytes) -> bytes:
    return blake2_256(_padded(tree_domain) + _LEAF + _number(item_index) + item)


def _inner(tree_domain: bytes, left_node: bytes, right_node: bytes) -> bytes:
    return blake2_256(_padded(tree_domain) + _INNER + left_node + right_node)


def _rooted(tree_domain: bytes, item_count: int, top_node: bytes) -> bytes:
    return blake2_256(_padded(tree_domain) + _ROOT + _number(item_count) + top_node)


def _padded(tree_domain: bytes) -> bytes:
    # A trailing zero byte would make two domains equal once padded.
    if not 1 <= len(tree_domain) <= _DOMAIN_BYTES or tree_domain[-1] == 0:
        raise ValueError(f"not a tree's domain: {tree_domain!r}")
    return tree_domain.ljust(_DOMAIN_BYTES, b"\0")


def _number(value: int) -> bytes:
    return value.to_bytes(4, "little")
