"""The shapes of types, as data: all that a client needs to read an encoded value.

The codec attaches one `TypeInfo` to every encodable type. `runtime.interface.metadata` numbers them into the portable
registry. Nothing here encodes anything. Shapes follow the crate scale-info, so that every Substrate client understands
them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """One member of a composite or of a variant. Tuple-like members have no name."""

    name: str | None
    type: "TypeInfo"
    type_name: str
    docs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VariantInfo:
    """One alternative of an enumeration, with its tag on the wire."""

    name: str
    index: int
    fields: tuple[FieldInfo, ...] = ()
    docs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompositeShape:
    """A struct, or (one unnamed field) a new type around another."""

    fields: tuple[FieldInfo, ...]


@dataclass(frozen=True, slots=True)
class VariantsShape:
    """A tagged union."""

    variants: tuple[VariantInfo, ...]


@dataclass(frozen=True, slots=True)
class SequenceShape:
    """A length-prefixed list."""

    of: "TypeInfo"


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """A list of a fixed length, without prefix."""

    length: int
    of: "TypeInfo"


@dataclass(frozen=True, slots=True)
class TupleShape:
    """Values one after the other. The empty tuple is the unit type."""

    of: tuple["TypeInfo", ...]


@dataclass(frozen=True, slots=True)
class PrimitiveShape:
    """A type without parts: `bool`, `str`, `u8` to `u256`, `i8` to `i256`."""

    name: str


@dataclass(frozen=True, slots=True)
class CompactShape:
    """The variable-length form of an unsigned integer."""

    of: "TypeInfo"


@dataclass(frozen=True, slots=True)
class ReferenceShape:
    """A type declared later under this name: the outer call, event and error enums."""

    name: str


Shape = (
    CompositeShape
    | VariantsShape
    | SequenceShape
    | ArrayShape
    | TupleShape
    | PrimitiveShape
    | CompactShape
    | ReferenceShape
)


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """A shape with its Rust path (clients recognise well-known types by it) and documentation."""

    shape: Shape
    path: tuple[str, ...] = ()
    params: tuple[tuple[str, "TypeInfo | None"], ...] = ()
    docs: tuple[str, ...] = ()


def rust_path(path_text: str) -> tuple[str, ...]:
    """Return a path such as `"sp_core::crypto::AccountId32"` as the segments in metadata."""
    return tuple(path_text.split("::")) if path_text else ()


def pallet_path(pallet_name: str, name: str) -> tuple[str, ...]:
    """Return the path of a pallet's enum as the SDK's macros name it, such as `pallet_trust_stake::pallet::Call`."""
    snake_name = ""
    for letter in pallet_name:
        snake_name += f"_{letter.lower()}" if letter.isupper() else letter  # deterministic: ASCII
    # Clients look for the SDK's own crate under this path, though the pallet is listed as System.
    crate = "frame_system" if snake_name == "_system" else f"pallet{snake_name}"
    return (crate, "pallet", name)


def sentences(docstring: str | None) -> tuple[str, ...]:
    """Return a docstring as the lines in metadata."""
    # Metadata lists documentation line by line.
    doc_lines = [doc_line.strip() for doc_line in (docstring or "").strip().splitlines()]
    return tuple(doc_line for doc_line in doc_lines if doc_line)


UNIT = TypeInfo(TupleShape(()))
BOOL = TypeInfo(PrimitiveShape("bool"))
STR = TypeInfo(PrimitiveShape("str"))
U8 = TypeInfo(PrimitiveShape("u8"))
BYTES = TypeInfo(SequenceShape(U8))
