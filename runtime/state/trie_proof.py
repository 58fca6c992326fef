"""Reading a state from a proof: values and keys under a known root, from nodes sent by an untrusted node.

The proof is a set of encoded trie nodes, in any order, as `Trie.prove` and `state_getReadProof` return them. Invariant:
every node is found by its hash, so a proof can be incomplete or malformed, but never prove a wrong value.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runtime.cryptography.hashing import HASH_BYTES, blake2_256
from runtime.state.trie_node import (
    CHILDREN,
    EMPTY_NODE,
    HEADERS,
    MAX_INLINE_VALUE_BYTES,
    MAX_KEY_BYTES,
    MAX_PARTIAL_NIBBLES,
    is_hashed,
    may_lead_to,
)

MAX_PROOF_NODES = 100_000
MAX_PROOF_BYTES = 16 * 1024 * 1024

_LEAF_INLINE, _LEAF_HASHED, _BRANCH_INLINE, _BRANCH_HASHED, _BRANCH_EMPTY = range(5)


class InvalidProof(Exception):
    """The proof is incomplete for the query, or malformed.

    Not a DecodeError: a runtime API over a proof would take that for an answer, and return a wrong one.
    """


class _Decoded(NamedTuple):
    partial: str
    value: bytes | None
    value_is_hash: bool
    children: list[bytes | None]  # an encoded node of under 32 bytes, or the hash of a longer one


class ProvedState:
    """A `StateReader` over a proof. Each answer follows from the root. Otherwise a read raises InvalidProof.

    Nodes are decoded when an answer needs them, so one proof may serve many queries.
    """

    def __init__(self, state_root: bytes, proof: Iterable[bytes]) -> None:
        """Index the proof's nodes. Raise InvalidProof if it is too long."""
        self._root = state_root
        self._nodes = _by_hash(proof)
        self._known: dict[bytes, _Decoded] = {}

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value of `key`, None if the proof shows that there is none.

        Raise InvalidProof if the proof lacks a node on the path of `key`, or has one not in canonical form.
        """
        if len(key) > MAX_KEY_BYTES:
            raise InvalidProof(f"a key of the state has at most {MAX_KEY_BYTES} bytes")
        encoded = _find(self._nodes, self._root)
        if encoded == EMPTY_NODE:
            return None
        nibbles = key.hex()
        depth = 0
        while True:
            node = self._node(encoded)
            if not nibbles.startswith(node.partial, depth):
                return None
            depth += len(node.partial)
            if depth == len(nibbles):
                return _value(self._nodes, node)
            reference = node.children[int(nibbles[depth], 16)] if node.children else None
            if reference is None:
                return None
            encoded = self._encoding(reference)
            depth += 1

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending, none left out."""
        prefix_path, after_path = prefix.hex(), start.hex()
        waiting: list[tuple[str, bytes]] = [("", self._root)]
        while waiting:
            path, reference = waiting.pop()
            if not may_lead_to(path, prefix_path, after_path):
                continue
            encoded = self._encoding(reference)
            if encoded == EMPTY_NODE:
                return
            node = self._node(encoded)
            path += node.partial
            if not may_lead_to(path, prefix_path, after_path):
                continue
            below = [
                (f"{path}{nibble:x}", child_reference)
                for nibble, child_reference in enumerate(node.children)
                if child_reference is not None
            ]
            # Reversed, because the stack takes the last one first.
            waiting += reversed(below)
            if node.value is not None and path.startswith(prefix_path) and path > after_path:
                yield _whole_bytes(path)

    def _encoding(self, reference: bytes) -> bytes:
        return reference if len(reference) < HASH_BYTES else _find_long(self._nodes, reference, self._root)

    def _node(self, encoded: bytes) -> _Decoded:
        node = self._known.get(encoded)
        if node is None:
            node = self._known[encoded] = _decode(encoded)
        return node


def verify_proof(state_root: bytes, proof: Iterable[bytes], key: bytes) -> bytes | None:
    """Return the value of `key` under the state root, None if the proof shows that there is none.

    Raise InvalidProof if it shows neither.
    """
    return ProvedState(state_root, proof).get(key)


def _whole_bytes(key_digits: str) -> bytes:
    if len(key_digits) % 2:
        raise InvalidProof("state key with half a byte")
    return bytes.fromhex(key_digits)


def _by_hash(proof: Iterable[bytes]) -> dict[bytes, bytes]:
    nodes: dict[bytes, bytes] = {}
    count = 0
    for node_count, node_bytes in enumerate(proof, start=1):
        count += len(node_bytes)
        # Counted while reading, because an untrusted node chooses the size of the proof.
        if node_count > MAX_PROOF_NODES or count > MAX_PROOF_BYTES:
            raise InvalidProof(f"proof above {MAX_PROOF_NODES} nodes or {MAX_PROOF_BYTES} bytes")
        # The hash is computed here and never taken from the sender.
        nodes[blake2_256(node_bytes)] = node_bytes
    return nodes


def _find(nodes: dict[bytes, bytes], node_hash: bytes) -> bytes:
    if node_hash not in nodes:
        raise InvalidProof(f"incomplete proof: no entry with the hash {node_hash.hex()}")
    return nodes[node_hash]


def _find_long(nodes: dict[bytes, bytes], node_hash: bytes, state_root: bytes) -> bytes:
    found_node = _find(nodes, node_hash)
    # A small node stands inside its parent: outside it would be a second form of one trie.
    if len(found_node) < HASH_BYTES and node_hash != state_root:
        raise InvalidProof("node below 32 bytes outside its parent")
    return found_node


def _value(nodes: dict[bytes, bytes], node: _Decoded) -> bytes | None:
    if node.value is None or not node.value_is_hash:
        return node.value
    hashed_value = _find(nodes, node.value)
    if not is_hashed(hashed_value):
        raise InvalidProof("value of at most 32 bytes outside its node")
    return hashed_value


def _decode(node_bytes: bytes) -> _Decoded:
    """Return the parts of an encoded node. Raise InvalidProof unless it is the only encoding of a possible node."""
    cursor = _Cursor(node_bytes)
    kind, nibble_count = _read_header(cursor)
    partial = _read_partial(cursor, nibble_count)
    is_leaf = kind in (_LEAF_INLINE, _LEAF_HASHED)
    child_bitmap = 0 if is_leaf else int.from_bytes(cursor.take(2), "little")
    value = _read_value(cursor, kind)
    children: list[bytes | None] = []
    if not is_leaf:
        children = [_read_child(cursor) if child_bitmap >> nibble & 1 else None for nibble in range(CHILDREN)]
    cursor.finish()
    children_min = 1 if value is not None else 2
    # A trie has one form for its contents, which never contains a branch with a single child and no value.
    if not is_leaf and child_bitmap.bit_count() < children_min:
        raise InvalidProof("trie branch with too few children")
    return _Decoded(partial, value, kind in (_LEAF_HASHED, _BRANCH_HASHED), children)


class _Cursor:
    """A position in the bytes of a node."""

    __slots__ = ("data", "position")

    def __init__(self, node_bytes: bytes) -> None:
        self.data = node_bytes
        self.position = 0

    def take(self, count: int) -> bytes:
        taken_bytes = self.data[self.position : self.position + count]
        if len(taken_bytes) != count:
            raise InvalidProof("truncated trie node")
        self.position += count
        return taken_bytes

    def finish(self) -> None:
        if self.position != len(self.data):
            raise InvalidProof("bytes after the end of a trie node")


def _read_header(cursor: _Cursor) -> tuple[int, int]:
    """Return the kind of the node (an index of HEADERS) and the number of nibbles in its partial key."""
    first_byte = cursor.take(1)[0]
    for kind, (marker, length_bits) in enumerate(HEADERS):
        if first_byte >> length_bits == marker >> length_bits:
            return kind, _read_length(cursor, first_byte, length_bits)
    raise InvalidProof("not a trie node")


def _read_length(cursor: _Cursor, first_byte: int, length_bits: int) -> int:
    greatest = (1 << length_bits) - 1
    nibble_count = first_byte & greatest
    next_byte = 255 if nibble_count == greatest else 0
    while next_byte == 255:
        next_byte = cursor.take(1)[0]
        nibble_count += next_byte
        # Inside the loop, so that a crafted length ends after a few bytes.
        if nibble_count > MAX_PARTIAL_NIBBLES:
            raise InvalidProof("partial key too long")
    return nibble_count


def _read_partial(cursor: _Cursor, nibble_count: int) -> str:
    hex_digits = cursor.take((nibble_count + 1) // 2).hex()
    if nibble_count % 2 == 1:
        if hex_digits[0] != "0":
            raise InvalidProof("partial key with nonzero padding")
        return hex_digits[1:]
    return hex_digits


def _read_value(cursor: _Cursor, kind: int) -> bytes | None:
    if kind == _BRANCH_EMPTY:
        return None
    if kind in (_LEAF_HASHED, _BRANCH_HASHED):
        return cursor.take(HASH_BYTES)
    return cursor.take(_read_short_length(cursor, MAX_INLINE_VALUE_BYTES))


def _read_child(cursor: _Cursor) -> bytes:
    return cursor.take(_read_short_length(cursor, HASH_BYTES))


def _read_short_length(cursor: _Cursor, limit: int) -> int:
    """Read a SCALE compact integer of one byte."""
    length_byte = cursor.take(1)[0]
    if length_byte & 3 or length_byte >> 2 > limit:
        raise InvalidProof("invalid length of a trie node's value or child")
    return length_byte >> 2
