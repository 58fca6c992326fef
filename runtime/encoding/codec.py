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
        """Return the value that `encoded` encodes. Raise DecodeError if it is not exactly one encoding."""
        try:
            # Wires read single bytes without a bounds check (`runtime.encoding.scale`).
            value, end = self.decode_from(data, 0)
        except IndexError:
            raise DecodeError("end of input", len(data)) from None
        if end != len(data):
            raise DecodeError("bytes left over", end)
        return value

    def decode_prefix(self, encoded: bytes) -> tuple[T, int]:
        """Return the value at the start of `encoded` and its length. Raise DecodeError if there is none."""
        try:
            return self.decode_from(encoded, 0)
        except IndexError:
            raise DecodeError("end of input", len(encoded)) from None


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
        known_codec = self._known.get(annotation)
        if known_codec is None:
            known_codec = self._known[annotation] = self._derive(annotation)
        return known_codec

    def _derive(self, annotation: Any) -> Codec[Any]:
        origin = get_origin(annotation)
        if origin is Annotated:
            plain_type, *marks = get_args(annotation)
            return self._marked(plain_type, marks)
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

    def _marked(self, plain_type: Any, marks: list[Any]) -> Codec[Any]:
        # Named and TypeName change the description of the codec before them. They add no bytes.
        marked_codec: Codec[Any] | None = None
        for mark in marks:
            if isinstance(mark, Codec):
                marked_codec = mark
            elif isinstance(mark, Named) and marked_codec is not None:
                path = rust_path(mark.path)
                wrapped_shape = info.CompositeShape((info.FieldInfo(None, marked_codec.info, marked_codec.type_name),))
                marked_codec = Codec(*marked_codec.wire, TypeInfo(wrapped_shape, path), path[-1])
            elif isinstance(mark, TypeName) and marked_codec is not None:
                marked_codec = Codec(*marked_codec.wire, marked_codec.info, mark.text)
            elif isinstance(mark, UInt | Compact | Fixed | Bounded | Sorted | Tagged):
                marked_codec = self._shaped(plain_type, mark)
        return marked_codec or self.of(plain_type)

    def _shaped(self, plain_type: Any, mark: Any) -> Codec[Any]:
        match mark:
            case UInt(size) if plain_type is int:
                type_name = f"u{8 * size}"
                return Codec(*scale.uint(size), TypeInfo(info.PrimitiveShape(type_name)), type_name)
            case Compact(size) if plain_type is int:
                inner_info = TypeInfo(info.PrimitiveShape(f"u{8 * size}"))
                return Codec(*scale.compact(size), TypeInfo(info.CompactShape(inner_info)), f"Compact<u{8 * size}>")
            case Fixed(length) if plain_type is bytes:
                array_shape = info.ArrayShape(length, info.U8)
                return Codec(*scale.fixed_bytes(length), TypeInfo(array_shape), f"[u8; {length}]")
            case Bounded(limit) if plain_type is bytes:
                return Codec(*scale.bounded_bytes(limit), info.BYTES, "Vec<u8>")
            case Bounded(limit) if plain_type is str:
                return Codec(*scale.bounded_text(limit), info.STR, "Text")
            case Bounded(limit) if _is_list(plain_type):
                return self._vector(get_args(plain_type)[0], limit)
            case Sorted(limit) if _is_list(plain_type):
                return self._sorted(get_args(plain_type)[0], limit)
            case Tagged(path) if get_origin(plain_type) in (Union, UnionType) or is_dataclass(plain_type):
                return self._union(get_args(plain_type) or (plain_type,), path)
            case Tagged(path) if any(issubclass(variant, plain_type) for variant in self._variants):
                variants = (variant for variant in self._variants if issubclass(variant, plain_type))
                # By tag, so that metadata does not depend on the order of pallets.
                return self._union(tuple(sorted(variants, key=lambda variant: variant.__variant__)), path)
        raise TypeError(f"{mark} does not apply to {plain_type!r}")

    def _vector(self, item_type: Any, item_limit: int) -> Codec[Any]:
        item_codec = self.of(item_type)
        # For items without bytes, the length of the input would not bound the decoder's loop.
        if item_codec.info == info.UNIT:
            raise TypeError("a list of units has no bounded encoding")
        list_info = TypeInfo(info.SequenceShape(item_codec.info))
        return Codec(*scale.vector(item_codec.wire, item_limit), list_info, f"Vec<{item_codec.type_name}>")

    def _sorted(self, item_type: Any, item_limit: int) -> Codec[Any]:
        list_codec = self._vector(item_type, item_limit)
        inner_shape = info.CompositeShape((info.FieldInfo(None, list_codec.info, list_codec.type_name),))
        parts = get_args(item_type) if get_origin(item_type) is tuple else ()
        if len(parts) == 2:
            codec, value_codec = (self.of(part) for part in parts)
            sorted_wire = scale.ascending(list_codec.wire, lambda key_and_value: key_and_value[0])
            type_parameters = (("K", codec.info), ("V", value_codec.info))
            type_name = f"BTreeMap<{codec.type_name}, {value_codec.type_name}>"
            return Codec(*sorted_wire, TypeInfo(inner_shape, ("BTreeMap",), type_parameters), type_name)
        sorted_wire = scale.ascending(list_codec.wire, lambda member: member)
        member = self.of(item_type)
        set_info = TypeInfo(inner_shape, ("BTreeSet",), (("T", member.info),))
        return Codec(*sorted_wire, set_info, f"BTreeSet<{member.type_name}>")

    def _option(self, annotation: Any) -> Codec[Any]:
        some_types = [part for part in get_args(annotation) if part is not NoneType]
        if len(some_types) != 1 or len(get_args(annotation)) != 2:
            raise TypeError(f"{annotation!r}: a union of variants needs Tagged")
        some_codec = self.of(some_types[0])
        none_variant = info.VariantInfo("None", 0)
        some_variant = info.VariantInfo("Some", 1, (info.FieldInfo(None, some_codec.info, ""),))
        option_info = TypeInfo(info.VariantsShape((none_variant, some_variant)), ("Option",), (("T", some_codec.info),))
        return Codec(*scale.option(some_codec.wire), option_info, f"Option<{some_codec.type_name}>")

    def _tuple(self, parts: tuple[Any, ...]) -> Codec[Any]:
        # Bounds are part of types, so that input always bounds the work of decoding (ADR 11).
        if Ellipsis in parts:
            raise TypeError("a list needs a limit: Annotated[tuple[T, ...], Bounded(n)]")
        members = [self.of(part) for part in parts]
        member_wires = [(f"value[{index}]", member.wire) for index, member in enumerate(members)]
        tuple_wire = struct_wire(member_wires, lambda *values: values)
        type_name = f"({', '.join(member.type_name for member in members)})"
        return Codec(
            *tuple_wire,
            TypeInfo(info.TupleShape(tuple(member.info for member in members))),
            type_name,
        )

    def _struct(self, cls: type[Any], tag_prefix: bytes = b"") -> Codec[Any]:
        field_wires, field_infos = self._members(cls)
        path = rust_path(getattr(cls, "__rust_path__", cls.__name__))
        type_parameters = tuple(
            (name, self.of(parameter).info) for name, parameter in getattr(cls, "__rust_params__", ())
        )
        struct_info = TypeInfo(info.CompositeShape(field_infos), path, type_parameters, sentences(cls.__doc__))
        return Codec(*struct_wire(field_wires, cls, tag_prefix), struct_info, cls.__name__)

    def _members(self, cls: type[Any]) -> tuple[list[tuple[str, Wire]], tuple[info.FieldInfo, ...]]:
        annotations = get_type_hints(cls, include_extras=True)
        hides_names = getattr(cls, "__unnamed__", False)
        field_wires = []
        field_infos = []
        for class_field in fields(cls):
            member_codec = self.of(annotations[class_field.name])
            field_wires.append((f"value.{class_field.name}", member_codec.wire))
            # The underscore only avoids a Python keyword.
            field_name = None if hides_names else class_field.name.rstrip("_")
            field_infos.append(info.FieldInfo(field_name, member_codec.info, member_codec.type_name))
        return field_wires, tuple(field_infos)

    def alternative(self, cls: Any, tag_prefix: bytes = b"") -> tuple[Wire, info.VariantInfo]:
        """Return the wire and shape of a `@variant` class.

        It encodes `tag_prefix`, tag and fields, and decodes the fields.
        """
        tag = cls.__variant__
        if not 0 <= tag < ENUM_VARIANTS_MAX:
            raise TypeError(f"{cls!r}: tag {tag} is out of range")
        field_wires, field_infos = self._members(cls)
        variant = info.VariantInfo(cls.__variant_name__, tag, field_infos, sentences(cls.__doc__))
        return struct_wire(field_wires, cls, tag_prefix + bytes((tag,))), variant

    def _union(self, variants: tuple[Any, ...], path: str) -> Codec[Any]:
        wires_by_tag = {}
        variant_infos = []
        for cls in variants:
            wires_by_tag[cls.__variant__], variant = self.alternative(cls)
            variant_infos.append(variant)
        if len(wires_by_tag) != len(variants):
            raise TypeError(f"{path}: two variants have one tag")
        union_wire = scale.tagged(wires_by_tag, lambda variant_value: variant_value.__variant__)
        segments = rust_path(path)
        union_info = TypeInfo(info.VariantsShape(tuple(variant_infos)), segments)
        return Codec(*union_wire, union_info, segments[-1] if segments else "Enum")


def _is_list(plain_type: Any) -> bool:
    parts = get_args(plain_type)
    return get_origin(plain_type) is tuple and len(parts) == 2 and parts[1] is Ellipsis


def _fieldless(cls: type[IntEnum]) -> Codec[Any]:
    """Return the codec of an IntEnum: one byte, its value."""
    # A default argument binds each member. A plain closure would see only the last one.
    wires_by_value = {int(member): struct_wire([], lambda member=member: member, bytes([member])) for member in cls}
    variant_infos = tuple(info.VariantInfo(_camel(member.name), int(member)) for member in cls)
    path = rust_path(getattr(cls, "__rust_path__", own_path(cls)))
    enum_info = TypeInfo(info.VariantsShape(variant_infos), path, (), sentences(cls.__doc__))
    return Codec(*scale.tagged(wires_by_value, int), enum_info, cls.__name__)


def _camel(upper_name: str) -> str:
    """Return `ALL_GOOD` as `AllGood`. Other names stay as they are."""
    if not upper_name.isupper():
        return upper_name
    return "".join(part.capitalize() for part in upper_name.split("_"))  # deterministic: our own names


codec = Codecs().of
