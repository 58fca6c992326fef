"""The authenticated state: an immutable map of keys to values with a `root` that commits to the whole map.

`updated` makes a new trie that shares every untouched node with the old one, so the states of competing blocks exist
side by side, and dropping one is free. It visits each touched node once for a whole batch of changes, and hashes it
then. Invariant: equal contents give equal roots, after any order of changes.
"""

from collections.abc import Iterable, Iterator

from runtime.cryptography.hashing import blake2_256
from runtime.state.overlay import Changes
from runtime.state.trie_node import (
    EMPTY_NODE,
    MAX_KEY_BYTES,
    NO_CHILDREN,
    TrieNode,
    encode,
    is_hashed,
    may_lead_to,
)

_NIBBLE = {digit: value for value, digit in enumerate("0123456789abcdef")}


class Trie:
    """A set of keys and values (None is no value, an empty value is one). `root` is 32 bytes."""

    __slots__ = ("_top", "root")

    def __init__(self, contents: Changes | None = None, top_node: TrieNode | None = None) -> None:
        """Create a trie from `contents`. Keys not in `contents` keep their values below the node `top_node`."""
        self._top = _applied(top_node, contents or {})
        self.root = blake2_256(EMPTY_NODE if self._top is None else encode(self._top))

    def updated(self, changes: Changes) -> "Trie":
        """Return the trie after writing each key's value, or removing the key if the value is None.

        It takes about 10 us for each changed key among 100,000. Raise ValueError for a key of more than 256 bytes.
        """
        return Trie(changes, self._top)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        # Not by `_path`, for speed: a node reads every account that a block touches here, and a transfer touches two.
        nibbles = key.hex()
        nibble_count = len(nibbles)
        nibble_depth = 0
        trie_node = self._top
        while trie_node is not None:
            partial = trie_node.partial
            if not nibbles.startswith(partial, nibble_depth):
                return None
            nibble_depth += len(partial)
            if nibble_depth == nibble_count:
                return trie_node.value
            children = trie_node.children
            if children is None:
                return None
            trie_node = children[_NIBBLE[nibbles[nibble_depth]]]
            nibble_depth += 1
        return None

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending.

        It walks only as far as the caller takes keys.
        """
        prefix_path, after_path = prefix.hex(), start.hex()
        waiting_nodes: list[tuple[str, TrieNode]] = [] if self._top is None else [("", self._top)]
        while waiting_nodes:
            node_path, trie_node = waiting_nodes.pop()
            node_path += trie_node.partial
            if not may_lead_to(node_path, prefix_path, after_path):
                continue
            children_below = [
                (f"{node_path}{child_nibble:x}", child_node)
                for child_nibble, child_node in enumerate(trie_node.children or ())
                if child_node is not None
            ]
            # Reversed, because the stack takes the last one first.
            waiting_nodes += reversed(children_below)
            if trie_node.value is not None and node_path.startswith(prefix_path) and node_path > after_path:
                yield bytes.fromhex(node_path)

    def prove(self, keys: Iterable[bytes]) -> list[bytes]:
        """Return the encoded nodes that prove each key's value or its absence, as `state_getReadProof` does.

        Sorted, without repetition. Nodes inside their parent's bytes are not listed. A value that its node holds as a
        hash is.
        """
        passed_nodes: dict[bytes, TrieNode] = {}  # by reference: the upper ones are on every path, and are encoded once
        long_values: dict[bytes, None] = {}
        for proved_key in keys:
            key_path = self._path(proved_key)
            passed_nodes.update((trie_node.reference, trie_node) for trie_node in key_path[1:] if trie_node is not None)
            leaf_value = key_path[-1].value if key_path[-1] is not None else None
            if leaf_value is not None and is_hashed(leaf_value):
                long_values[leaf_value] = None
        top_bytes = EMPTY_NODE if self._top is None else encode(self._top)
        # A node of under 32 bytes is part of its parent's bytes and needs no entry.
        nodes_below = (
            encode(trie_node) for reference, trie_node in passed_nodes.items() if reference[0] == _HASH_PREFIX
        )
        return sorted({top_bytes, *nodes_below, *long_values})

    def _path(self, storage_key: bytes) -> list[TrieNode | None]:
        """Return the nodes from the top towards a key. The last one is the key's node, or None if there is none."""
        nibbles = storage_key.hex()
        nibble_depth = 0
        trie_node = self._top
        passed_nodes: list[TrieNode | None] = []
        while trie_node is not None:
            passed_nodes.append(trie_node)
            nibble_depth += len(trie_node.partial)
            if not nibbles.startswith(trie_node.partial, nibble_depth - len(trie_node.partial)):
                break
            if nibble_depth == len(nibbles):
                return passed_nodes
            trie_node = None if trie_node.children is None else trie_node.children[_NIBBLE[nibbles[nibble_depth]]]
            nibble_depth += 1
        return [*passed_nodes, None]


_HASH_PREFIX = 32 << 2  # the first byte of a reference to a hash: its SCALE length


class _Batch:
    """Changes in key order, the keys as hexadecimal digits. The functions below take a range of them."""

    __slots__ = ("paths", "values")

    def __init__(self, changes: Changes) -> None:
        ordered_changes = sorted(changes.items())
        if any(len(key) > MAX_KEY_BYTES for key, _ in ordered_changes):
            raise ValueError(f"a key of the state has at most {MAX_KEY_BYTES} bytes")
        self.paths = [key.hex() for key, _ in ordered_changes]
        self.values = [value for _, value in ordered_changes]


def _applied(top_node: TrieNode | None, changes: Changes) -> TrieNode | None:
    if not changes:
        return top_node
    change_batch = _Batch(changes)
    return _update(top_node, change_batch, 0, len(change_batch.paths), 0)


def _update(  # deterministic: no deeper than two nibbles for each byte of the longest key
    trie_node: TrieNode | None, change_batch: _Batch, batch_start: int, batch_end: int, nibble_depth: int
) -> TrieNode | None:
    """Return the subtree at `nibble_depth` after the changes `batch_start` to `batch_end`, one at least, all below it.

    The recursion is as deep as the trie, at most two levels for each byte of the longest key.
    """
    first_path, last_path = change_batch.paths[batch_start], change_batch.paths[batch_end - 1]
    if batch_end - batch_start == 1 and (
        trie_node is None or (trie_node.children is None and first_path[nibble_depth:] == trie_node.partial)
    ):
        value = change_batch.values[batch_start]
        return None if value is None else TrieNode(first_path[nibble_depth:], value, None)
    partial_key, value, children = _opened(trie_node, first_path, last_path, nibble_depth)
    nibble_depth += len(partial_key)
    if len(first_path) == nibble_depth:
        value = change_batch.values[batch_start]
        batch_start += 1
    while batch_start < batch_end:
        child_digit, group_end = change_batch.paths[batch_start][nibble_depth], batch_start + 1
        while group_end < batch_end and change_batch.paths[group_end][nibble_depth] == child_digit:
            group_end += 1
        child_nibble = _NIBBLE[child_digit]
        children[child_nibble] = _update(children[child_nibble], change_batch, batch_start, group_end, nibble_depth + 1)
        batch_start = group_end
    return _closed(partial_key, value, children)


def _opened(
    trie_node: TrieNode | None, first_path: str, last_path: str, nibble_depth: int
) -> tuple[str, bytes | None, list[TrieNode | None]]:
    """Return partial key, value and children of a node above all changes from `first_path` to `last_path`.

    If the changes diverge from the node's partial key, that is a new branch with the shortened node as its only child.
    """
    if trie_node is None:
        return (
            first_path[nibble_depth : nibble_depth + _common(first_path, last_path, nibble_depth)],
            None,
            list(NO_CHILDREN),
        )
    partial_key = trie_node.partial
    if first_path.startswith(partial_key, nibble_depth) and last_path.startswith(partial_key, nibble_depth):
        return partial_key, trie_node.value, list(trie_node.children or NO_CHILDREN)
    padded_key = " " * nibble_depth + partial_key
    shared_depth = min(_common(first_path, padded_key, nibble_depth), _common(last_path, padded_key, nibble_depth))
    children = list(NO_CHILDREN)
    children[_NIBBLE[partial_key[shared_depth]]] = TrieNode(
        partial_key[shared_depth + 1 :], trie_node.value, trie_node.children
    )
    return partial_key[:shared_depth], None, children


def _closed(partial_key: str, value: bytes | None, children: list[TrieNode | None]) -> TrieNode | None:
    """Return the node in its only form: a leaf if it has no children, and no branch of one child and no value."""
    child_count = len(children) - children.count(None)
    if child_count == 0:
        return None if value is None else TrieNode(partial_key, value, None)
    if child_count == 1 and value is None:
        child_nibble, only_child = next(
            (child_nibble, only_child) for child_nibble, only_child in enumerate(children) if only_child is not None
        )
        return TrieNode(partial_key + f"{child_nibble:x}" + only_child.partial, only_child.value, only_child.children)
    return TrieNode(partial_key, value, tuple(children))


def _common(left_path: str, right_path: str, start_position: int) -> int:
    """Return the number of equal digits from `start_position` on."""
    shorter_length = min(len(left_path), len(right_path))
    position = start_position
    while position < shorter_length and left_path[position] == right_path[position]:
        position += 1
    return position - start_position
