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


def merkle_root(domain: bytes, items: Sequence[bytes]) -> bytes:
    """Return the 32-byte root of all items in order.

    Raise ValueError for no items, too many, or a domain that does not have 1 to 8 bytes.
    """
    return _rooted(domain, len(items), _levels(domain, items)[-1][0])


def merkle_path(domain: bytes, items: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """Return the neighbours of item `index` on its path up, lowest first.

    Raise ValueError for an index out of range.
    """
    return merkle_paths(domain, items, (index,))[0]


def merkle_paths(domain: bytes, items: Sequence[bytes], indices: Sequence[int]) -> list[tuple[bytes, ...]]:
    """Return the paths of some items, at the cost of one: the tree is computed once."""
    for index in indices:
        if not 0 <= index < len(items):
            raise ValueError(f"no item {index} among {len(items)}")
    levels = _levels(domain, items)[:-1]
    # A last node without a neighbour moves up unchanged: its path has nothing at that level.
    return [
        tuple(level[(index >> depth) ^ 1] for depth, level in enumerate(levels) if (index >> depth) ^ 1 < len(level))
        for index in indices
    ]


def is_member(domain: bytes, root: bytes, item_count: int, index: int, item: bytes, path: Sequence[bytes]) -> bool:
    """Return True if `item` is at `index` of the list of `item_count` items under `root`.

    It costs one hash for each level of the tree. A path of another length is refused before any hash.
    """
    # The length first: a sender must not make a verifier hash a path of any length.
    if not 0 <= index < item_count <= COUNT_MAX or len(path) != path_length(item_count, index):
        return False
    node, neighbours, last_index = _leaf(domain, index, item), iter(path), item_count - 1
    while last_index > 0:
        if index ^ 1 <= last_index:
            neighbour = next(neighbours)
            node = _inner(domain, neighbour, node) if index & 1 else _inner(domain, node, neighbour)
        index, last_index = index >> 1, last_index >> 1
    return _rooted(domain, item_count, node) == root


def path_length(item_count: int, index: int) -> int:
    """Return the number of neighbours of item `index` of `item_count` on its path up."""
    neighbour_count, last_index = 0, item_count - 1
    while last_index > 0:
        neighbour_count += index ^ 1 <= last_index
        index, last_index = index >> 1, last_index >> 1
    return neighbour_count


def _levels(domain: bytes, items: Sequence[bytes]) -> list[list[bytes]]:
    """Return all nodes from the leaves up. The last level is the top alone."""
    if not 1 <= len(items) <= COUNT_MAX:
        raise ValueError(f"a tree has 1 to {COUNT_MAX} items, not {len(items)}")
    levels = [[_leaf(domain, index, item) for index, item in enumerate(items)]]
    while len(levels[-1]) > 1:
        below = levels[-1]
        parent_nodes = [
            _inner(domain, below[position], below[position + 1]) for position in range(0, len(below) - 1, 2)
        ]
        levels.append(parent_nodes + below[2 * len(parent_nodes) :])
    return levels


def _leaf(domain: bytes, index: int, item: bytes) -> bytes:
    return blake2_256(_padded(domain) + _LEAF + _number(index) + item)


def _inner(domain: bytes, left_hash: bytes, right_hash: bytes) -> bytes:
    return blake2_256(_padded(domain) + _INNER + left_hash + right_hash)


def _rooted(domain: bytes, item_count: int, top: bytes) -> bytes:
    return blake2_256(_padded(domain) + _ROOT + _number(item_count) + top)


def _padded(domain: bytes) -> bytes:
    # A trailing zero byte would make two domains equal once padded.
    if not 1 <= len(domain) <= _DOMAIN_BYTES or domain[-1] == 0:
        raise ValueError(f"not a tree's domain: {domain!r}")
    return domain.ljust(_DOMAIN_BYTES, b"\0")


def _number(value: int) -> bytes:
    return value.to_bytes(4, "little")
