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

    def __init__(self, contents: Changes | None = None, top: TrieNode | None = None) -> None:
        """Create a trie from `contents`. Keys not in `contents` keep their values below the node `top`."""
        self._top = _applied(top, contents or {})
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
        depth = 0
        node = self._top
        while node is not None:
            partial = node.partial
            if not nibbles.startswith(partial, depth):
                return None
            depth += len(partial)
            if depth == nibble_count:
                return node.value
            children = node.children
            if children is None:
                return None
            node = children[_NIBBLE[nibbles[depth]]]
            depth += 1
        return None

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending.

        It walks only as far as the caller takes keys.
        """
        prefix_path, after_path = prefix.hex(), start.hex()
        waiting: list[tuple[str, TrieNode]] = [] if self._top is None else [("", self._top)]
        while waiting:
            path, node = waiting.pop()
            path += node.partial
            if not may_lead_to(path, prefix_path, after_path):
                continue
            below = [
                (f"{path}{nibble:x}", child) for nibble, child in enumerate(node.children or ()) if child is not None
            ]
            # Reversed, because the stack takes the last one first.
            waiting += reversed(below)
            if node.value is not None and path.startswith(prefix_path) and path > after_path:
                yield bytes.fromhex(path)

    def prove(self, keys: Iterable[bytes]) -> list[bytes]:
        """Return the encoded nodes that prove each key's value or its absence, as `state_getReadProof` does.

        Sorted, without repetition. Nodes inside their parent's bytes are not listed. A value that its node holds as a
        hash is.
        """
        passed: dict[bytes, TrieNode] = {}  # by reference: the upper ones are on every path, and are encoded once
        long_values: dict[bytes, None] = {}
        for key in keys:
            key_path = self._path(key)
            passed.update((node.reference, node) for node in key_path[1:] if node is not None)
            leaf_value = key_path[-1].value if key_path[-1] is not None else None
            if leaf_value is not None and is_hashed(leaf_value):
                long_values[leaf_value] = None
        top_bytes = EMPTY_NODE if self._top is None else encode(self._top)
        # A node of under 32 bytes is part of its parent's bytes and needs no entry.
        below = (encode(node) for reference, node in passed.items() if reference[0] == _HASH_PREFIX)
        return sorted({top_bytes, *below, *long_values})

    def _path(self, key: bytes) -> list[TrieNode | None]:
        """Return the nodes from the top towards a key. The last one is the key's node, or None if there is none."""
        nibbles = key.hex()
        depth = 0
        node = self._top
        passed: list[TrieNode | None] = []
        while node is not None:
            passed.append(node)
            depth += len(node.partial)
            if not nibbles.startswith(node.partial, depth - len(node.partial)):
                break
            if depth == len(nibbles):
                return passed
            node = None if node.children is None else node.children[_NIBBLE[nibbles[depth]]]
            depth += 1
        return [*passed, None]


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


def _applied(top: TrieNode | None, changes: Changes) -> TrieNode | None:
    if not changes:
        return top
    batch = _Batch(changes)
    return _update(top, batch, 0, len(batch.paths), 0)


def _update(  # deterministic: no deeper than two nibbles for each byte of the longest key
    node: TrieNode | None, batch: _Batch, start: int, end: int, depth: int
) -> TrieNode | None:
    """Return the subtree at `depth` after the changes `start` to `end`, one at least, all below it.

    The recursion is as deep as the trie, at most two levels for each byte of the longest key.
    """
    first_path, last_path = batch.paths[start], batch.paths[end - 1]
    if end - start == 1 and (node is None or (node.children is None and first_path[depth:] == node.partial)):
        value = batch.values[start]
        return None if value is None else TrieNode(first_path[depth:], value, None)
    partial, value, children = _opened(node, first_path, last_path, depth)
    depth += len(partial)
    if len(first_path) == depth:
        value = batch.values[start]
        start += 1
    while start < end:
        child_digit, group_end = batch.paths[start][depth], start + 1
        while group_end < end and batch.paths[group_end][depth] == child_digit:
            group_end += 1
        nibble = _NIBBLE[child_digit]
        children[nibble] = _update(children[nibble], batch, start, group_end, depth + 1)
        start = group_end
    return _closed(partial, value, children)


def _opened(
    node: TrieNode | None, first_path: str, last_path: str, depth: int
) -> tuple[str, bytes | None, list[TrieNode | None]]:
    """Return partial key, value and children of a node above all changes from `first_path` to `last_path`.

    If the changes diverge from the node's partial key, that is a new branch with the shortened node as its only child.
    """
    if node is None:
        return (
            first_path[depth : depth + _common(first_path, last_path, depth)],
            None,
            list(NO_CHILDREN),
        )
    partial = node.partial
    if first_path.startswith(partial, depth) and last_path.startswith(partial, depth):
        return partial, node.value, list(node.children or NO_CHILDREN)
    padded_key = " " * depth + partial
    shared_depth = min(_common(first_path, padded_key, depth), _common(last_path, padded_key, depth))
    children = list(NO_CHILDREN)
    children[_NIBBLE[partial[shared_depth]]] = TrieNode(partial[shared_depth + 1 :], node.value, node.children)
    return partial[:shared_depth], None, children


def _closed(partial: str, value: bytes | None, children: list[TrieNode | None]) -> TrieNode | None:
    """Return the node in its only form: a leaf if it has no children, and no branch of one child and no value."""
    count = len(children) - children.count(None)
    if count == 0:
        return None if value is None else TrieNode(partial, value, None)
    if count == 1 and value is None:
        nibble, child = next((nibble, child) for nibble, child in enumerate(children) if child is not None)
        return TrieNode(partial + f"{nibble:x}" + child.partial, child.value, child.children)
    return TrieNode(partial, value, tuple(children))


def _common(left: str, right: str, start: int) -> int:
    """Return the number of equal digits from `start` on."""
    shorter_length = min(len(left), len(right))
    position = start
    while position < shorter_length and left[position] == right[position]:
        position += 1
    return position - start
