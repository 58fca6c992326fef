"""SCALE on the wire: the bytes of each shape, and the only bytes that decoding accepts.

Every function returns a pair (encode, decode): `encode(value) -> bytes` and `decode(data, start) -> (value, end)`.
Decoding is canonical: each value has one encoding, and any other form raises `DecodeError`. Reading a single byte past
the end raises `IndexError`, which `Codec.decode` turns into `DecodeError`. There is no recursion here. Format:
docs.substrate.io, "Type encoding (SCALE)". Callers set the limits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes, int], tuple[Any, int]]
Wire = tuple[Encode, Decode]

_ONE_BYTE_MAX = 1 << 6
_TWO_BYTE_MAX = 1 << 14
_FOUR_BYTE_MAX = 1 << 30
_NATIVE = {1: "B", 2: "H", 4: "I", 8: "Q"}


class DecodeError(ValueError):
    """Bytes that encode no value: `code` is the reason, `where` the offset."""

    def __init__(self, code: str, where: int = 0) -> None:
        """Create the error. `code` is a short constant phrase, `where` a byte offset into the decoded input."""
        super().__init__(code, where)
        self.code = code
        self.where = where

    def __str__(self) -> str:
        """Return `code at byte where`."""
        return f"{self.code} at byte {self.where}"


class EncodeError(ValueError):
    """A value that does not fit its declared type: a bug here, or in a caller of the builder."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of constant length: its format in the `struct` module, and source code for the remaining work.

    `encode` is an expression for the bytes of `{value}` (empty: the encoder must be called). `decode` is an expression
    for the value of the unpacked `{value}`.
    """

    format: str
    encode: str
    decode: str = "{value}"


SPANS: dict[Decode, Span] = {}
"""Decoders of parts of constant length. `struct_codec` writes such parts into one function."""


def uint(size: int) -> Wire:
    """Return the wire of an unsigned little-endian integer of `size` bytes."""

    def encode(value: int) -> bytes:
        return value.to_bytes(size, "little")

    def decode(encoded: bytes, start: int) -> tuple[int, int]:
        end = start + size
        if end > len(encoded):
            raise DecodeError("end of input", len(encoded))
        return int.from_bytes(encoded[start:end], "little"), end

    to_bytes = f"({{value}}).to_bytes({size}, 'little')"
    # Python's `struct` module has no integers of 16 or 32 bytes: those are unpacked as bytes and converted.
    if size in _NATIVE:
        SPANS[decode] = Span(_NATIVE[size], to_bytes)
    else:
        SPANS[decode] = Span(f"{size}s", to_bytes, "from_bytes({value}, 'little')")
    return encode, decode


def encode_compact(value: int) -> bytes:
    """Return the shortest of the four compact forms, for values up to 2**536 - 1."""
    if value < 0:
        raise EncodeError("a compact integer is not negative")
    if value < _ONE_BYTE_MAX:
        return (value << 2).to_bytes(1, "little")
    if value < _TWO_BYTE_MAX:
        return (value << 2 | 1).to_bytes(2, "little")
    if value < _FOUR_BYTE_MAX:
        return (value << 2 | 2).to_bytes(4, "little")
    size = (value.bit_length() + 7) // 8
    return ((size - 4) << 2 | 3).to_bytes(1, "little") + value.to_bytes(size, "little")


def decode_compact(encoded: bytes, start: int) -> tuple[int, int]:
    """Return the integer and its end. Any form longer than the shortest is refused."""
    first_byte = encoded[start]
    mode = first_byte & 3
    if mode == 0:
        return first_byte >> 2, start + 1
    if mode == 1:
        end = start + 2
        least = _ONE_BYTE_MAX
        value = (first_byte | encoded[start + 1] << 8) >> 2
    elif mode == 2:
        end = start + 4
        least = _TWO_BYTE_MAX
        value = int.from_bytes(encoded[start:end], "little") >> 2
    else:
        size = (first_byte >> 2) + 4
        end = start + 1 + size
        least = max(_FOUR_BYTE_MAX, 1 << 8 * (size - 1))
        value = int.from_bytes(encoded[start + 1 : end], "little")
    if end > len(encoded):
        raise DecodeError("end of input", len(encoded))
    # No signature covers an extrinsic's length prefix: with a second form anyone could give an extrinsic a second hash.
    if value < least:
        raise DecodeError("compact integer not in its shortest form", start)
    return value, end


def compact(size: int) -> Wire:
    """Return the wire of a compact integer of at most `size` bytes."""
    limit = 1 << 8 * size

    def encode(value: int) -> bytes:
        if value >= limit:
            raise EncodeError(f"{value} does not fit u{8 * size}")
        return encode_compact(value)

    def decode(encoded: bytes, start: int) -> tuple[int, int]:
        first_byte = encoded[start]
        if first_byte & 3 == 0:  # the common case, without a second call
            return first_byte >> 2, start + 1
        value, end = decode_compact(encoded, start)
        if value >= limit:
            raise DecodeError(f"integer exceeds u{8 * size}", start)
        return value, end

    return encode, decode


def boolean() -> Wire:
    """Return the wire of a boolean: one byte, 0 or 1."""

    def decode(encoded: bytes, start: int) -> tuple[bool, int]:
        byte = encoded[start]
        # Any other byte for True would give one value two encodings.
        if byte > 1:
            raise DecodeError("boolean other than 0 and 1", start)
        return byte == 1, start + 1

    return (lambda value: b"\1" if value else b"\0"), decode


def fixed_bytes(length: int) -> Wire:
    """Return the wire of exactly `length` bytes, without prefix."""

    def encode(value: bytes) -> bytes:
        if len(value) != length:
            raise EncodeError(f"expected {length} bytes, got {len(value)}")
        return value

    def decode(encoded: bytes, start: int) -> tuple[bytes, int]:
        end = start + length
        if end > len(encoded):
            raise DecodeError("end of input", len(encoded))
        return encoded[start:end], end

    SPANS[decode] = Span(f"{length}s", "")
    return encode, decode


def bounded_bytes(limit: int) -> Wire:
    """Return the wire of length-prefixed bytes, at most `limit`."""

    def encode(value: bytes) -> bytes:
        if len(value) > limit:
            raise EncodeError(f"{len(value)} bytes, limit {limit}")
        return encode_compact(len(value)) + value

    def decode(encoded: bytes, start: int) -> tuple[bytes, int]:
        length, begin = decode_compact(encoded, start)
        # Before any byte is copied, because the sender chooses the length.
        if length > limit:
            raise DecodeError(f"longer than {limit} bytes", start)
        end = begin + length
        if end > len(encoded):
            raise DecodeError("end of input", len(encoded))
        return encoded[begin:end], end

    return encode, decode


def bounded_text(limit: int) -> Wire:
    """Return the wire of length-prefixed UTF-8, at most `limit` bytes."""
    encode_bytes, decode_bytes = bounded_bytes(limit)

    def decode(encoded: bytes, start: int) -> tuple[str, int]:
        text_bytes, end = decode_bytes(encoded, start)
        try:
            return text_bytes.decode("utf-8"), end
        except UnicodeDecodeError:
            raise DecodeError("text not UTF-8", start) from None

    return (lambda value: encode_bytes(value.encode("utf-8"))), decode


def vector(item_wire: Wire, item_limit: int) -> Wire:
    """Return the wire of a length-prefixed list of at most `item_limit` items, as a tuple."""
    encode_item, decode_item = item_wire

    def encode(items: tuple[Any, ...]) -> bytes:
        if len(items) > item_limit:
            raise EncodeError(f"{len(items)} items, limit {item_limit}")
        return encode_compact(len(items)) + b"".join([encode_item(item) for item in items])

    def decode(encoded: bytes, start: int) -> tuple[tuple[Any, ...], int]:
        item_count, offset = decode_compact(encoded, start)
        # Before the loop, because the sender chooses the count.
        if item_count > item_limit:
            raise DecodeError(f"more than {item_limit} items", start)
        items = []
        for _ in range(item_count):  # an item has at least one byte, so the input bounds the loop
            item, offset = decode_item(encoded, offset)
            items.append(item)
        return tuple(items), offset

    return encode, decode


def ascending(list_wire: Wire, key_of: Callable[[Any], Any]) -> Wire:
    """Return the wire of a list with strictly ascending keys: the only order of a BTreeSet or BTreeMap."""
    encode_items, decode_items = list_wire

    def is_ascending(items: tuple[Any, ...]) -> bool:
        keys = [key_of(item) for item in items]
        # Strictly: an equal pair would be a duplicate in a set or map.
        return all(key_before < next_key for key_before, next_key in pairwise(keys))

    def encode(items: tuple[Any, ...]) -> bytes:
        if not is_ascending(items):
            raise EncodeError("keys not strictly ascending")
        return encode_items(items)

    def decode(encoded: bytes, start: int) -> tuple[tuple[Any, ...], int]:
        items, end = decode_items(encoded, start)
        if not is_ascending(items):
            raise DecodeError("keys not strictly ascending", start)
        return items, end

    return encode, decode


def option(some_wire: Wire) -> Wire:
    """Return the wire of an option: 0, or 1 and the value."""
    encode_some, decode_some = some_wire

    def decode(encoded: bytes, start: int) -> tuple[Any, int]:
        tag = encoded[start]
        if tag == 0:
            return None, start + 1
        if tag == 1:
            return decode_some(encoded, start + 1)
        raise DecodeError("option tag other than 0 and 1", start)

    return (lambda value: b"\0" if value is None else b"\1" + encode_some(value)), decode


def result(error_wire: Wire) -> Wire:
    """Return the wire of `Result<(), E>`, with None for Ok: an option's bytes, under another name in metadata."""
    return option(error_wire)


def tagged(wires_by_tag: dict[int, Wire], tag_of: Callable[[Any], int]) -> Wire:
    """Return the wire of a tag byte and its variant. The encoders of `wires_by_tag` write the tag themselves."""
    encoders = {tag: wire[0] for tag, wire in wires_by_tag.items()}
    # One place for every byte, so that decoding needs no bounds check.
    decoders: list[Decode | None] = [None] * 256
    for tag, (_, decode_variant) in wires_by_tag.items():
        decoders[tag] = decode_variant

    def encode(value: Any) -> bytes:
        return encoders[tag_of(value)](value)

    def decode(encoded: bytes, start: int) -> tuple[Any, int]:
        decode_variant = decoders[encoded[start]]
        if decode_variant is None:
            raise DecodeError("unknown variant", start)
        return decode_variant(encoded, start + 1)

    return encode, decode
