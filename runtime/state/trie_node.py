"""Nodes of Substrate's base-16 Patricia trie, layout V1, and their bytes.

Format: the Polkadot specification, chapter "States and Transitions" (https://spec.polkadot.network/chap-state). A node
holds the nibbles that all keys below it share from its depth on (`partial`, as hexadecimal digits), at most one value,
and up to 16 children. Invariant: a node never changes. A branch without a value has at least two children, so one set
of keys and values has exactly one trie. A node holds a value of more than 32 bytes as its hash.
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

# (first byte, its bits for the length of the partial key) of each kind of node, by _kind()
HEADERS = (
    (0b0100_0000, 6),  # leaf, value inline
    (0b0010_0000, 5),  # leaf, value hashed
    (0b1100_0000, 6),  # branch, value inline
    (0b0001_0000, 4),  # branch, value hashed
    (0b1000_0000, 6),  # branch without a value
)


class TrieNode:
    """A leaf (`children is None`) or a branch. `reference` is its form in the parent's bytes.

    That is the SCALE byte string of the node's encoding if shorter than 32 bytes, else of its hash.
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
    """Return a node's bytes: header and partial key, bitmap of the children, value, references of the children."""
    value = node.value
    partial = node.partial
    children = node.children
    even_nibbles = partial if len(partial) % 2 == 0 else "0" + partial
    header = _HEADER_BYTES[_kind(value, children)][len(partial)] + bytes.fromhex(even_nibbles)
    if children is None:
        return header + _encode_value(value)
    child_bitmap = sum(compress(_BITS, children)).to_bytes(2, "little")
    return b"".join((header, child_bitmap, _encode_value(value), *map(_REFERENCE, filter(None, children))))


def is_hashed(value: bytes) -> bool:
    """Return True if a node holds the hash of `value` in its place."""
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


def _header(first_byte: int, length_bits: int, nibble_count: int) -> bytes:
    """Return a header with a length in the low bits of the first byte.

    A longer one sets all these bits, and continues in bytes of 255 and a last smaller one.
    """
    greatest = (1 << length_bits) - 1
    if nibble_count < greatest:
        return bytes((first_byte | nibble_count,))
    full_bytes, remainder = divmod(nibble_count - greatest, 255)
    return bytes((first_byte | greatest,)) + b"\xff" * full_bytes + bytes((remainder,))


_HEADER_BYTES = tuple(
    tuple(_header(first, bits, length) for length in range(MAX_PARTIAL_NIBBLES + 1)) for first, bits in HEADERS
)
_BITS = tuple(1 << nibble for nibble in range(CHILDREN))
_REFERENCE = attrgetter("reference")


def may_lead_to(path: str, key_prefix: str, after_path: str) -> bool:
    """Return True if a key below a path can have the prefix and come after `after_path`. All are hexadecimal digits."""
    return (path.startswith(key_prefix) or key_prefix.startswith(path)) and path >= after_path[: len(path)]
