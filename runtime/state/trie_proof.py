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

    def __init__(self, root: bytes, proof: Iterable[bytes]) -> None:
        """Index the proof's nodes. Raise InvalidProof if it is too long."""
        self._root = root
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
            child = node.children[int(nibbles[depth], 16)] if node.children else None
            if child is None:
                return None
            encoded = self._encoding(child)
            depth += 1

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending, none left out."""
        wanted, after = prefix.hex(), start.hex()
        waiting: list[tuple[str, bytes]] = [("", self._root)]
        while waiting:
            path, reference = waiting.pop()
            if not may_lead_to(path, wanted, after):
                continue
            encoded = self._encoding(reference)
            if encoded == EMPTY_NODE:
                return
            node = self._node(encoded)
            path += node.partial
            if not may_lead_to(path, wanted, after):
                continue
            below = [(f"{path}{nibble:x}", child) for nibble, child in enumerate(node.children) if child is not None]
            # Reversed, because the stack takes the last one first.
            waiting += reversed(below)
            if node.value is not None and path.startswith(wanted) and path > after:
                yield _whole_bytes(path)

    def _encoding(self, reference: bytes) -> bytes:
        return reference if len(reference) < HASH_BYTES else _find_long(self._nodes, reference, self._root)

    def _node(self, encoded: bytes) -> _Decoded:
        known = self._known.get(encoded)
        if known is None:
            known = self._known[encoded] = _decode(encoded)
        return known


def verify_proof(root: bytes, proof: Iterable[bytes], key: bytes) -> bytes | None:
    """Return the value of `key` under the state root, None if the proof shows that there is none.

    Raise InvalidProof if it shows neither.
    """
    return ProvedState(root, proof).get(key)


def _whole_bytes(path: str) -> bytes:
    if len(path) % 2:
        raise InvalidProof("state key with half a byte")
    return bytes.fromhex(path)


def _by_hash(proof: Iterable[bytes]) -> dict[bytes, bytes]:
    nodes: dict[bytes, bytes] = {}
    size = 0
    for count, node in enumerate(proof, start=1):
        size += len(node)
        # Counted while reading, because an untrusted node chooses the size of the proof.
        if count > MAX_PROOF_NODES or size > MAX_PROOF_BYTES:
            raise InvalidProof(f"proof above {MAX_PROOF_NODES} nodes or {MAX_PROOF_BYTES} bytes")
        # The hash is computed here and never taken from the sender.
        nodes[blake2_256(node)] = node
    return nodes


def _find(nodes: dict[bytes, bytes], digest: bytes) -> bytes:
    if digest not in nodes:
        raise InvalidProof(f"incomplete proof: no entry with the hash {digest.hex()}")
    return nodes[digest]


def _find_long(nodes: dict[bytes, bytes], digest: bytes, root: bytes) -> bytes:
    found = _find(nodes, digest)
    if len(found) < HASH_BYTES and digest != root:
        raise InvalidProof("node below 32 bytes outside its parent")
    return found


def _value(nodes: dict[bytes, bytes], node: _Decoded) -> bytes | None:
    if node.value is None or not node.value_is_hash:
        return node.value
    value = _find(nodes, node.value)
    if not is_hashed(value):
        raise InvalidProof("value of at most 32 bytes outside its node")
    return value


def _decode(data: bytes) -> _Decoded:
    """Return the parts of an encoded node. Raise InvalidProof unless it is the only encoding of a possible node."""
    cursor = _Cursor(data)
    kind, length = _read_header(cursor)
    partial = _read_partial(cursor, length)
    is_leaf = kind in (_LEAF_INLINE, _LEAF_HASHED)
    bitmap = 0 if is_leaf else int.from_bytes(cursor.take(2), "little")
    value = _read_value(cursor, kind)
    children: list[bytes | None] = []
    if not is_leaf:
        children = [_read_child(cursor) if bitmap >> nibble & 1 else None for nibble in range(CHILDREN)]
    cursor.finish()
    children_min = 1 if value is not None else 2
    # A trie has one form for its contents, which never contains a branch with a single child and no value.
    if not is_leaf and bitmap.bit_count() < children_min:
        raise InvalidProof("trie branch with too few children")
    return _Decoded(partial, value, kind in (_LEAF_HASHED, _BRANCH_HASHED), children)


class _Cursor:
    """A position in the bytes of a node."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        taken = self.data[self.position : self.position + count]
        if len(taken) != count:
            raise InvalidProof("truncated trie node")
        self.position += count
        return taken

    def finish(self) -> None:
        if self.position != len(self.data):
            raise InvalidProof("bytes after the end of a trie node")


def _read_header(cursor: _Cursor) -> tuple[int, int]:
    """Return the kind of the node (an index of HEADERS) and the number of nibbles in its partial key."""
    first = cursor.take(1)[0]
    for kind, (marker, bits) in enumerate(HEADERS):
        if first >> bits == marker >> bits:
            return kind, _read_length(cursor, first, bits)
    raise InvalidProof("not a trie node")


def _read_length(cursor: _Cursor, first: int, bits: int) -> int:
    top = (1 << bits) - 1
    length = first & top
    more = 255 if length == top else 0
    while more == 255:
        more = cursor.take(1)[0]
        length += more
        # Inside the loop, so that a crafted length ends after a few bytes.
        if length > MAX_PARTIAL_NIBBLES:
            raise InvalidProof("partial key too long")
    return length


def _read_partial(cursor: _Cursor, length: int) -> str:
    digits = cursor.take((length + 1) // 2).hex()
    if length % 2 == 1:
        if digits[0] != "0":
            raise InvalidProof("partial key with nonzero padding")
        return digits[1:]
    return digits


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
    byte = cursor.take(1)[0]
    if byte & 3 or byte >> 2 > limit:
        raise InvalidProof("invalid length of a trie node's value or child")
    return byte >> 2
