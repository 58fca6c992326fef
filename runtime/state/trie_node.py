"""Nodes of Substrate's base-16 Patricia trie, layout V1, and their bytes.

Format: the Polkadot specification, chapter "States and Transitions" (https://spec.polkadot.network/chap-state). A node
holds the nibbles that all keys below it share beyond its place (`partial`, written as hexadecimal digits), at most one
value, and up to 16 children. What always holds: a node never changes; a branch without a value has two children or
more, so one set of keys and values has one trie; a value longer than 32 bytes stands in the node as its hash.
"""

from itertools import compress
from operator import attrgetter
from typing import Final

from runtime.cryptography.hashing import HASH_BYTES, blake2_256

MAX_KEY_BYTES = 256
MAX_PARTIAL_NIBBLES = 2 * MAX_KEY_BYTES
MAX_INLINE_VALUE_BYTES = 32
CHILDREN = 16

EMPTY_NODE = b"\0"
NO_CHILDREN: Final[tuple["TrieNode | None", ...]] = (None,) * CHILDREN

# (first byte, bits left in it for the length of the partial key) of each kind of node, by _kind()
HEADERS = (
    (0b0100_0000, 6),  # leaf, value inline
    (0b0010_0000, 5),  # leaf, value hashed
    (0b1100_0000, 6),  # branch, value inline
    (0b0001_0000, 4),  # branch, value hashed
    (0b1000_0000, 6),  # branch without a value
)


class TrieNode:
    """A leaf (`children is None`) or a branch; `reference` is how its parent's bytes contain it.

    That is the SCALE byte string of the node's encoding when that is shorter than 32 bytes, else of its hash.
    """

    __slots__ = ("children", "partial", "reference", "value")

    def __init__(self, partial: str, value: bytes | None, children: "tuple[TrieNode | None, ...] | None") -> None:
        self.partial = partial
        self.value = value
        self.children = children
        encoded = encode(self)
        if len(encoded) >= HASH_BYTES:
            self.reference = b"\x80" + blake2_256(encoded)
        else:
            self.reference = bytes((len(encoded) << 2,)) + encoded


def encode(node: TrieNode) -> bytes:
    """Header and partial key, bitmap of the children, value, references of the children: in this order."""
    value = node.value
    partial = node.partial
    children = node.children
    even = partial if len(partial) % 2 == 0 else "0" + partial
    start = _HEADER_BYTES[_kind(value, children)][len(partial)] + bytes.fromhex(even)
    if children is None:
        return start + _encode_value(value)
    bitmap = sum(compress(_BITS, children)).to_bytes(2, "little")
    return b"".join((start, bitmap, _encode_value(value), *map(_REFERENCE, filter(None, children))))


def is_hashed(value: bytes) -> bool:
    """Whether a node holds the hash of `value` in its place."""
    return len(value) > MAX_INLINE_VALUE_BYTES


def _encode_value(value: bytes | None) -> bytes:
    if value is None:
        return b""
    if is_hashed(value):
        return blake2_256(value)
    return bytes((len(value) << 2,)) + value


def _kind(value: bytes | None, children: "tuple[TrieNode | None, ...] | None") -> int:
    if value is None:
        return 4
    return is_hashed(value) + (0 if children is None else 2)


def _header(first: int, bits: int, length: int) -> bytes:
    """The length as far as it fits below the top of the first byte, then bytes of 255 and one that is less."""
    top = (1 << bits) - 1
    if length < top:
        return bytes((first | length,))
    more, rest = divmod(length - top, 255)
    return bytes((first | top,)) + b"\xff" * more + bytes((rest,))


_HEADER_BYTES = tuple(
    tuple(_header(first, bits, length) for length in range(MAX_PARTIAL_NIBBLES + 1)) for first, bits in HEADERS
)
_BITS = tuple(1 << nibble for nibble in range(CHILDREN))
_REFERENCE = attrgetter("reference")


def may_lead_to(path: str, prefix: str, start: str) -> bool:
    """Whether below `path` there can be a key with the prefix that comes after `start`; all are hexadecimal digits."""
    return (path.startswith(prefix) or prefix.startswith(path)) and path >= start[: len(path)]
