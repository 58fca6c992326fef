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


def uint(byte_size: int) -> Wire:
    """Return the wire of an unsigned little-endian integer of `byte_size` bytes."""

    def encode(value: int) -> bytes:
        return value.to_bytes(byte_size, "little")

    def decode(encoded: bytes, start_offset: int) -> tuple[int, int]:
        end_offset = start_offset + byte_size
        if end_offset > len(encoded):
            raise DecodeError("end of input", len(encoded))
        return int.from_bytes(encoded[start_offset:end_offset], "little"), end_offset

    to_bytes = f"({{value}}).to_bytes({byte_size}, 'little')"
    # Python's `struct` module has no integers of 16 or 32 bytes: those are unpacked as bytes and converted.
    if byte_size in _NATIVE:
        SPANS[decode] = Span(_NATIVE[byte_size], to_bytes)
    else:
        SPANS[decode] = Span(f"{byte_size}s", to_bytes, "from_bytes({value}, 'little')")
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
    byte_size = (value.bit_length() + 7) // 8
    return ((byte_size - 4) << 2 | 3).to_bytes(1, "little") + value.to_bytes(byte_size, "little")


def decode_compact(encoded: bytes, start_offset: int) -> tuple[int, int]:
    """Return the integer and its end. Any form longer than the shortest is refused."""
    first_byte = encoded[start_offset]
    size_mode = first_byte & 3
    if size_mode == 0:
        return first_byte >> 2, start_offset + 1
    if size_mode == 1:
        end_offset = start_offset + 2
        least_value = _ONE_BYTE_MAX
        value = (first_byte | encoded[start_offset + 1] << 8) >> 2
    elif size_mode == 2:
        end_offset = start_offset + 4
        least_value = _TWO_BYTE_MAX
        value = int.from_bytes(encoded[start_offset:end_offset], "little") >> 2
    else:
        byte_size = (first_byte >> 2) + 4
        end_offset = start_offset + 1 + byte_size
        least_value = max(_FOUR_BYTE_MAX, 1 << 8 * (byte_size - 1))
        value = int.from_bytes(encoded[start_offset + 1 : end_offset], "little")
    if end_offset > len(encoded):
        raise DecodeError("end of input", len(encoded))
    # No signature covers an extrinsic's length prefix: with a second form anyone could give an extrinsic a second hash.
    if value < least_value:
        raise DecodeError("compact integer not in its shortest form", start_offset)
    return value, end_offset


def compact(byte_size: int) -> Wire:
    """Return the wire of a compact integer of at most `byte_size` bytes."""
    value_limit = 1 << 8 * byte_size

    def encode(value: int) -> bytes:
        if value >= value_limit:
            raise EncodeError(f"{value} does not fit u{8 * byte_size}")
        return encode_compact(value)

    def decode(encoded: bytes, start_offset: int) -> tuple[int, int]:
        first_byte = encoded[start_offset]
        if first_byte & 3 == 0:  # the common case, without a second call
            return first_byte >> 2, start_offset + 1
        value, end_offset = decode_compact(encoded, start_offset)
        if value >= value_limit:
            raise DecodeError(f"integer exceeds u{8 * byte_size}", start_offset)
        return value, end_offset

    return encode, decode


def boolean() -> Wire:
    """Return the wire of a boolean: one byte, 0 or 1."""

    def decode(encoded: bytes, start_offset: int) -> tuple[bool, int]:
        bool_byte = encoded[start_offset]
        # Any other byte for True would give one value two encodings.
        if bool_byte > 1:
            raise DecodeError("boolean other than 0 and 1", start_offset)
        return bool_byte == 1, start_offset + 1

    return (lambda value: b"\1" if value else b"\0"), decode


def fixed_bytes(byte_length: int) -> Wire:
    """Return the wire of exactly `byte_length` bytes, without prefix."""

    def encode(value: bytes) -> bytes:
        if len(value) != byte_length:
            raise EncodeError(f"expected {byte_length} bytes, got {len(value)}")
        return value

    def decode(encoded: bytes, start_offset: int) -> tuple[bytes, int]:
        end_offset = start_offset + byte_length
        if end_offset > len(encoded):
            raise DecodeError("end of input", len(encoded))
        return encoded[start_offset:end_offset], end_offset

    SPANS[decode] = Span(f"{byte_length}s", "")
    return encode, decode


def bounded_bytes(length_limit: int) -> Wire:
    """Return the wire of length-prefixed bytes, at most `length_limit`."""

    def encode(value: bytes) -> bytes:
        if len(value) > length_limit:
            raise EncodeError(f"{len(value)} bytes, limit {length_limit}")
        return encode_compact(len(value)) + value

    def decode(encoded: bytes, start_offset: int) -> tuple[bytes, int]:
        byte_length, content_offset = decode_compact(encoded, start_offset)
        # Before any byte is copied, because the sender chooses the length.
        if byte_length > length_limit:
            raise DecodeError(f"longer than {length_limit} bytes", start_offset)
        end_offset = content_offset + byte_length
        if end_offset > len(encoded):
            raise DecodeError("end of input", len(encoded))
        return encoded[content_offset:end_offset], end_offset

    return encode, decode


def bounded_text(length_limit: int) -> Wire:
    """Return the wire of length-prefixed UTF-8, at most `length_limit` bytes."""
    encode_bytes, decode_bytes = bounded_bytes(length_limit)

    def decode(encoded: bytes, start_offset: int) -> tuple[str, int]:
        text_bytes, end_offset = decode_bytes(encoded, start_offset)
        try:
            return text_bytes.decode("utf-8"), end_offset
        except UnicodeDecodeError:
            raise DecodeError("text not UTF-8", start_offset) from None

    return (lambda value: encode_bytes(value.encode("utf-8"))), decode


def vector(item_wire: Wire, item_limit: int) -> Wire:
    """Return the wire of a length-prefixed list of at most `item_limit` items, as a tuple."""
    encode_item, decode_item = item_wire

    def encode(list_items: tuple[Any, ...]) -> bytes:
        if len(list_items) > item_limit:
            raise EncodeError(f"{len(list_items)} items, limit {item_limit}")
        return encode_compact(len(list_items)) + b"".join([encode_item(list_item) for list_item in list_items])

    def decode(encoded: bytes, start_offset: int) -> tuple[tuple[Any, ...], int]:
        item_count, item_offset = decode_compact(encoded, start_offset)
        # Before the loop, because the sender chooses the count.
        if item_count > item_limit:
            raise DecodeError(f"more than {item_limit} items", start_offset)
        list_items = []
        for _ in range(item_count):  # an item has at least one byte, so the input bounds the loop
            list_item, item_offset = decode_item(encoded, item_offset)
            list_items.append(list_item)
        return tuple(list_items), item_offset

    return encode, decode


def ascending(list_wire: Wire, key_of: Callable[[Any], Any]) -> Wire:
    """Return the wire of a list with strictly ascending keys: the only order of a BTreeSet or BTreeMap."""
    encode_items, decode_items = list_wire

    def is_ascending(list_items: tuple[Any, ...]) -> bool:
        item_keys = [key_of(list_item) for list_item in list_items]
        # Strictly: an equal pair would be a duplicate in a set or map.
        return all(key_before < next_key for key_before, next_key in pairwise(item_keys))

    def encode(list_items: tuple[Any, ...]) -> bytes:
        if not is_ascending(list_items):
            raise EncodeError("keys not strictly ascending")
        return encode_items(list_items)

    def decode(encoded: bytes, start_offset: int) -> tuple[tuple[Any, ...], int]:
        list_items, end_offset = decode_items(encoded, start_offset)
        if not is_ascending(list_items):
            raise DecodeError("keys not strictly ascending", start_offset)
        return list_items, end_offset

    return encode, decode


def option(some_wire: Wire) -> Wire:
    """Return the wire of an option: 0, or 1 and the value."""
    encode_some, decode_some = some_wire

    def decode(encoded: bytes, start_offset: int) -> tuple[Any, int]:
        option_tag = encoded[start_offset]
        if option_tag == 0:
            return None, start_offset + 1
        if option_tag == 1:
            return decode_some(encoded, start_offset + 1)
        raise DecodeError("option tag other than 0 and 1", start_offset)

    return (lambda value: b"\0" if value is None else b"\1" + encode_some(value)), decode


def result(error_wire: Wire) -> Wire:
    """Return the wire of `Result<(), E>`, with None for Ok: an option's bytes, under another name in metadata."""
    return option(error_wire)


def tagged(wires_by_tag: dict[int, Wire], tag_of: Callable[[Any], int]) -> Wire:
    """Return the wire of a tag byte and its variant. The encoders of `wires_by_tag` write the tag themselves."""
    encoders = {variant_tag: variant_wire[0] for variant_tag, variant_wire in wires_by_tag.items()}
    # One place for every byte, so that decoding needs no bounds check.
    decoders: list[Decode | None] = [None] * 256
    for variant_tag, (_, decode_variant) in wires_by_tag.items():
        decoders[variant_tag] = decode_variant

    def encode(value: Any) -> bytes:
        return encoders[tag_of(value)](value)

    def decode(encoded: bytes, start_offset: int) -> tuple[Any, int]:
        decode_variant = decoders[encoded[start_offset]]
        if decode_variant is None:
            raise DecodeError("unknown variant", start_offset)
        return decode_variant(encoded, start_offset + 1)

    return encode, decode
