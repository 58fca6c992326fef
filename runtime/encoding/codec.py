"""SCALE from annotations: a type's declaration is its encoding and its metadata.

`codec(annotation)` returns the `Codec` of a type declared with the marks of `encoding.marks`. This module exports the
marks too, so that one import suffices.

Invariant: encodings are canonical and bounded. A list needs a limit. A type cannot contain itself (the runtime provides
the outer call type, one codec for each level of nesting). Bytes left over after a value are an error.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from runtime.encoding import scale
from runtime.encoding import type_info as info
from runtime.encoding.marks import (
    U8,
    U16,
    U32,
    U64,
    U128,
    U256,
    Bounded,
    Compact,
    CompactU32,
    CompactU64,
    CompactU128,
    Fixed,
    Named,
    Sorted,
    Tagged,
    TypeName,
    UInt,
    named,
    own_path,
    struct,
    variant,
)
from runtime.encoding.scale import DecodeError, EncodeError, Wire
from runtime.encoding.struct_codec import struct_wire
from runtime.encoding.type_info import TypeInfo, rust_path, sentences

__all__ = [
    "U8",
    "U16",
    "U32",
    "U64",
    "U128",
    "U256",
    "Annotated",
    "Bounded",
    "Codec",
    "Codecs",
    "Compact",
    "CompactU32",
    "CompactU64",
    "CompactU128",
    "DecodeError",
    "EncodeError",
    "Fixed",
    "Named",
    "Sorted",
    "Tagged",
    "TypeName",
    "UInt",
    "codec",
    "named",
    "struct",
    "variant",
]

T = TypeVar("T")
ENUM_VARIANTS_MAX = 256


@dataclass(frozen=True, slots=True, eq=False)
class Codec(Generic[T]):
    """The encoding of one type, and its description in metadata."""

    encode: Callable[[T], bytes]
    decode_from: Callable[[bytes, int], tuple[T, int]]
    info: TypeInfo
    type_name: str

    @property
    def wire(self) -> Wire:
        """The bare pair of functions, to build larger codecs from."""
        return self.encode, self.decode_from

    def decode(self, data: bytes) -> T:
        """Return the value that `data` encodes. Raise DecodeError if it is not exactly one encoding."""
        try:
            # Wires read single bytes without a bounds check (`runtime.encoding.scale`).
            value, end = self.decode_from(data, 0)
        except IndexError:
            raise DecodeError("end of input", len(data)) from None
        if end != len(data):
            raise DecodeError("bytes left over", end)
        return value

    def decode_prefix(self, data: bytes) -> tuple[T, int]:
        """Return the value at the start of `data` and its length. Raise DecodeError if there is none."""
        try:
            return self.decode_from(data, 0)
        except IndexError:
            raise DecodeError("end of input", len(data)) from None


class Codecs:
    """The codecs of one runtime: annotations resolve by shape, except the given ones.

    `given` maps a class to its codec. The runtime passes its outer call and event types. `variants` are the
    alternatives that its pallets add to open unions: a class marked `Tagged` stands for its subclasses among them.
    """

    def __init__(self, given: Mapping[Any, Codec[Any]] | None = None, variants: Sequence[type[Any]] = ()) -> None:
        """Start with the codecs in `given`."""
        self._known: dict[Any, Codec[Any]] = dict(given or {})
        self._variants = tuple(variants)

    @overload
    def of(self, annotation: type[T]) -> Codec[T]: ...
    @overload
    def of(self, annotation: Any) -> Codec[Any]: ...
    def of(self, annotation: Any) -> Codec[Any]:  # deterministic: as deep as our own declarations
        """Return the codec of a type. Raise TypeError if its declaration has no bounded encoding."""
        known = self._known.get(annotation)
        if known is None:
            known = self._known[annotation] = self._derive(annotation)
        return known

    def _derive(self, annotation: Any) -> Codec[Any]:
        origin = get_origin(annotation)
        if origin is Annotated:
            plain, *marks = get_args(annotation)
            return self._marked(plain, marks)
        if origin in (Union, UnionType):
            return self._option(annotation)
        if origin is tuple:
            return self._tuple(get_args(annotation))
        if annotation is bool:
            return Codec(*scale.boolean(), info.BOOL, "bool")
        if annotation in (None, NoneType):
            return Codec(*struct_wire([], lambda: None), info.UNIT, "()")
        if isinstance(annotation, type) and issubclass(annotation, IntEnum):
            return _fieldless(annotation)
        if is_dataclass(annotation) and isinstance(annotation, type):
            return self._struct(annotation)
        raise TypeError(f"{annotation!r} has no bounded encoding")

    def _marked(self, plain: Any, marks: list[Any]) -> Codec[Any]:
        # Named and TypeName change the description of the codec before them. They add no bytes.
        made: Codec[Any] | None = None
        for mark in marks:
            if isinstance(mark, Codec):
                made = mark
            elif isinstance(mark, Named) and made is not None:
                path = rust_path(mark.path)
                wrapped = info.CompositeShape((info.FieldInfo(None, made.info, made.type_name),))
                made = Codec(*made.wire, TypeInfo(wrapped, path), path[-1])
            elif isinstance(mark, TypeName) and made is not None:
                made = Codec(*made.wire, made.info, mark.text)
            elif isinstance(mark, UInt | Compact | Fixed | Bounded | Sorted | Tagged):
                made = self._shaped(plain, mark)
        return made or self.of(plain)

    def _shaped(self, plain: Any, mark: Any) -> Codec[Any]:
        match mark:
            case UInt(size) if plain is int:
                name = f"u{8 * size}"
                return Codec(*scale.uint(size), TypeInfo(info.PrimitiveShape(name)), name)
            case Compact(size) if plain is int:
                inner = TypeInfo(info.PrimitiveShape(f"u{8 * size}"))
                return Codec(*scale.compact(size), TypeInfo(info.CompactShape(inner)), f"Compact<u{8 * size}>")
            case Fixed(length) if plain is bytes:
                shape = info.ArrayShape(length, info.U8)
                return Codec(*scale.fixed_bytes(length), TypeInfo(shape), f"[u8; {length}]")
            case Bounded(limit) if plain is bytes:
                return Codec(*scale.bounded_bytes(limit), info.BYTES, "Vec<u8>")
            case Bounded(limit) if plain is str:
                return Codec(*scale.bounded_text(limit), info.STR, "Text")
            case Bounded(limit) if _is_list(plain):
                return self._vector(get_args(plain)[0], limit)
            case Sorted(limit) if _is_list(plain):
                return self._sorted(get_args(plain)[0], limit)
            case Tagged(path) if get_origin(plain) in (Union, UnionType) or is_dataclass(plain):
                return self._union(get_args(plain) or (plain,), path)
            case Tagged(path) if any(issubclass(kind, plain) for kind in self._variants):
                kinds = (kind for kind in self._variants if issubclass(kind, plain))
                # By tag, so that metadata does not depend on the order of pallets.
                return self._union(tuple(sorted(kinds, key=lambda kind: kind.__variant__)), path)
        raise TypeError(f"{mark} does not apply to {plain!r}")

    def _vector(self, item: Any, limit: int) -> Codec[Any]:
        item_codec = self.of(item)
        # For items without bytes, the length of the input would not bound the decoder's loop.
        if item_codec.info == info.UNIT:
            raise TypeError("a list of units has no bounded encoding")
        shape = TypeInfo(info.SequenceShape(item_codec.info))
        return Codec(*scale.vector(item_codec.wire, limit), shape, f"Vec<{item_codec.type_name}>")

    def _sorted(self, item: Any, limit: int) -> Codec[Any]:
        listed = self._vector(item, limit)
        inner = info.CompositeShape((info.FieldInfo(None, listed.info, listed.type_name),))
        parts = get_args(item) if get_origin(item) is tuple else ()
        if len(parts) == 2:
            key, value = (self.of(part) for part in parts)
            wire = scale.ascending(listed.wire, lambda pair: pair[0])
            params = (("K", key.info), ("V", value.info))
            name = f"BTreeMap<{key.type_name}, {value.type_name}>"
            return Codec(*wire, TypeInfo(inner, ("BTreeMap",), params), name)
        wire = scale.ascending(listed.wire, lambda member: member)
        member = self.of(item)
        described = TypeInfo(inner, ("BTreeSet",), (("T", member.info),))
        return Codec(*wire, described, f"BTreeSet<{member.type_name}>")

    def _option(self, annotation: Any) -> Codec[Any]:
        rest = [part for part in get_args(annotation) if part is not NoneType]
        if len(rest) != 1 or len(get_args(annotation)) != 2:
            raise TypeError(f"{annotation!r}: a union of variants needs Tagged")
        some = self.of(rest[0])
        none_variant = info.VariantInfo("None", 0)
        some_variant = info.VariantInfo("Some", 1, (info.FieldInfo(None, some.info, ""),))
        shape = TypeInfo(info.VariantsShape((none_variant, some_variant)), ("Option",), (("T", some.info),))
        return Codec(*scale.option(some.wire), shape, f"Option<{some.type_name}>")

    def _tuple(self, parts: tuple[Any, ...]) -> Codec[Any]:
        # Bounds are part of types, so that input always bounds the work of decoding (ADR 11).
        if Ellipsis in parts:
            raise TypeError("a list needs a limit: Annotated[tuple[T, ...], Bounded(n)]")
        members = [self.of(part) for part in parts]
        wires = [(f"value[{number}]", member.wire) for number, member in enumerate(members)]
        wire = struct_wire(wires, lambda *values: values)
        name = f"({', '.join(member.type_name for member in members)})"
        return Codec(*wire, TypeInfo(info.TupleShape(tuple(member.info for member in members))), name)

    def _struct(self, cls: type[Any], prefix: bytes = b"") -> Codec[Any]:
        parts, members = self._members(cls)
        path = rust_path(getattr(cls, "__rust_path__", cls.__name__))
        params = tuple((name, self.of(parameter).info) for name, parameter in getattr(cls, "__rust_params__", ()))
        shape = TypeInfo(info.CompositeShape(members), path, params, sentences(cls.__doc__))
        return Codec(*struct_wire(parts, cls, prefix), shape, cls.__name__)

    def _members(self, cls: type[Any]) -> tuple[list[tuple[str, Wire]], tuple[info.FieldInfo, ...]]:
        hints = get_type_hints(cls, include_extras=True)
        hide = getattr(cls, "__unnamed__", False)
        parts = []
        members = []
        for member in fields(cls):
            member_codec = self.of(hints[member.name])
            parts.append((f"value.{member.name}", member_codec.wire))
            # The underscore only avoids a Python keyword.
            name = None if hide else member.name.rstrip("_")
            members.append(info.FieldInfo(name, member_codec.info, member_codec.type_name))
        return parts, tuple(members)

    def alternative(self, cls: Any, before: bytes = b"") -> tuple[Wire, info.VariantInfo]:
        """Return the wire and shape of a `@variant` class.

        It encodes `before`, tag and fields, and decodes the fields.
        """
        tag = cls.__variant__
        if not 0 <= tag < ENUM_VARIANTS_MAX:
            raise TypeError(f"{cls!r}: tag {tag} is out of range")
        parts, members = self._members(cls)
        shape = info.VariantInfo(cls.__variant_name__, tag, members, sentences(cls.__doc__))
        return struct_wire(parts, cls, before + bytes((tag,))), shape

    def _union(self, classes: tuple[Any, ...], path: str) -> Codec[Any]:
        wires = {}
        variants = []
        for cls in classes:
            wires[cls.__variant__], shape = self.alternative(cls)
            variants.append(shape)
        if len(wires) != len(classes):
            raise TypeError(f"{path}: two variants have one tag")
        wire = scale.tagged(wires, lambda value: value.__variant__)
        segments = rust_path(path)
        described = TypeInfo(info.VariantsShape(tuple(variants)), segments)
        return Codec(*wire, described, segments[-1] if segments else "Enum")


def _is_list(plain: Any) -> bool:
    parts = get_args(plain)
    return get_origin(plain) is tuple and len(parts) == 2 and parts[1] is Ellipsis


def _fieldless(cls: type[IntEnum]) -> Codec[Any]:
    """Return the codec of an IntEnum: one byte, its value."""
    # A default argument binds each member. A plain closure would see only the last one.
    wires = {int(member): struct_wire([], lambda member=member: member, bytes([member])) for member in cls}
    variants = tuple(info.VariantInfo(_camel(member.name), int(member)) for member in cls)
    path = rust_path(getattr(cls, "__rust_path__", own_path(cls)))
    shape = TypeInfo(info.VariantsShape(variants), path, (), sentences(cls.__doc__))
    return Codec(*scale.tagged(wires, int), shape, cls.__name__)


def _camel(name: str) -> str:
    """Return `ALL_GOOD` as `AllGood`. Other names stay as they are."""
    if not name.isupper():
        return name
    return "".join(part.capitalize() for part in name.split("_"))  # deterministic: our own names


codec = Codecs().of
