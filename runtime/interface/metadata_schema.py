"""The shape of Substrate metadata, versions 14 and 15, as structs (crates frame-metadata and scale-info)."""

from enum import IntEnum
from typing import Annotated

from runtime.encoding.codec import U8, U32, Bounded, CompactU32, Sorted, Tagged, codec, struct, variant

MAGIC = b"meta"
# The codec requires bounds. Metadata stays far below these.
ITEMS_MAX = 1 << 16
BYTES_MAX = 1 << 24

Text = Annotated[str, Bounded(BYTES_MAX)]
Raw = Annotated[bytes, Bounded(BYTES_MAX)]
Docs = Annotated[tuple[Text, ...], Bounded(ITEMS_MAX)]
TypeId = CompactU32


@struct
class TypeParameter:
    """A generic parameter of a Rust type."""

    name: Text
    type: TypeId | None


@struct
class FieldShape:
    """A member of a composite or a variant."""

    name: Text | None
    type: TypeId
    type_name: Text | None
    docs: Docs


Fields = Annotated[tuple[FieldShape, ...], Bounded(ITEMS_MAX)]


@struct
class VariantShape:
    """An alternative of an enum."""

    name: Text
    fields: Fields
    index: U8
    docs: Docs


@variant(0)
class CompositeDef:
    """A struct."""

    fields: Fields


@variant(1)
class VariantDef:
    """An enum."""

    variants: Annotated[tuple[VariantShape, ...], Bounded(256)]


@variant(2)
class SequenceDef:
    """A list."""

    type: TypeId


@variant(3)
class ArrayDef:
    """A list of a fixed length."""

    length: U32
    type: TypeId


@variant(4)
class TupleDef:
    """A tuple."""

    types: Annotated[tuple[TypeId, ...], Bounded(256)]


class PrimitiveName(IntEnum):
    """Types without parts, by their numbers."""

    bool = 0
    char = 1
    str = 2
    u8 = 3
    u16 = 4
    u32 = 5
    u64 = 6
    u128 = 7
    u256 = 8


@variant(5)
class PrimitiveDef:
    """A type without parts."""

    name: PrimitiveName


@variant(6)
class CompactDef:
    """A compact integer."""

    type: TypeId


TypeDef = Annotated[
    CompositeDef | VariantDef | SequenceDef | ArrayDef | TupleDef | PrimitiveDef | CompactDef, Tagged("TypeDef")
]


@struct
class TypeEntry:
    """One numbered type of the registry."""

    id: TypeId
    path: Docs
    params: Annotated[tuple[TypeParameter, ...], Bounded(256)]
    definition: TypeDef
    docs: Docs


@variant(0)
class PlainEntry:
    """A storage value."""

    type: TypeId


@variant(1)
class MapEntry:
    """A storage map. Several hashers make the key a tuple."""

    hashers: Annotated[tuple[U8, ...], Bounded(16)]
    key: TypeId
    value: TypeId


class Modifier(IntEnum):
    """The result of reading an absent entry."""

    Optional = 0
    Default = 1


@struct
class StorageEntry:
    """One storage item."""

    name: Text
    modifier: Modifier
    type: Annotated[PlainEntry | MapEntry, Tagged("StorageEntryType")]
    default: Raw
    docs: Docs


@struct
class PalletStorage:
    """All storage items of a pallet."""

    prefix: Text
    entries: Annotated[tuple[StorageEntry, ...], Bounded(ITEMS_MAX)]


@struct
class ConstantEntry:
    """A parameter of the chain."""

    name: Text
    type: TypeId
    value: Raw
    docs: Docs


@struct
class PalletV14:
    """A pallet in version 14."""

    name: Text
    storage: PalletStorage | None
    calls: TypeId | None
    event: TypeId | None
    constants: Annotated[tuple[ConstantEntry, ...], Bounded(ITEMS_MAX)]
    error: TypeId | None
    index: U8


@struct
class PalletV15:
    """Version 15 adds documentation."""

    pallet: PalletV14
    docs: Docs


@struct
class ExtensionEntry:
    """A transaction extension: its fields in an extrinsic, and those that are only signed."""

    identifier: Text
    type: TypeId
    additional_signed: TypeId


Extensions = Annotated[tuple[ExtensionEntry, ...], Bounded(32)]


@struct
class ExtrinsicV14:
    """The form of extrinsics in version 14."""

    type: TypeId
    version: U8
    extensions: Extensions


@struct
class ExtrinsicV15:
    """The form of extrinsics in version 15."""

    version: U8
    address: TypeId
    call: TypeId
    signature: TypeId
    extra: TypeId
    extensions: Extensions


@struct
class ApiInput:
    """A parameter of a runtime API's method."""

    name: Text
    type: TypeId


@struct
class ApiMethodEntry:
    """A method of a runtime API."""

    name: Text
    inputs: Annotated[tuple[ApiInput, ...], Bounded(32)]
    output: TypeId
    docs: Docs


@struct
class ApiEntry:
    """A runtime API, reached by `state_call`."""

    name: Text
    methods: Annotated[tuple[ApiMethodEntry, ...], Bounded(256)]
    docs: Docs


@struct
class OuterEnums:
    """The types of any call, any event, any error."""

    call: TypeId
    event: TypeId
    error: TypeId


@struct
class CustomValue:
    """A value that a chain adds to its metadata."""

    type: TypeId
    value: Raw


Types = Annotated[tuple[TypeEntry, ...], Bounded(ITEMS_MAX)]


@struct
class MetadataV14:
    """The metadata in version 14."""

    types: Types
    pallets: Annotated[tuple[PalletV14, ...], Bounded(256)]
    extrinsic: ExtrinsicV14
    runtime: TypeId


@struct
class MetadataV15:
    """The metadata in version 15: version 14, runtime APIs and outer types."""

    types: Types
    pallets: Annotated[tuple[PalletV15, ...], Bounded(256)]
    extrinsic: ExtrinsicV15
    runtime: TypeId
    apis: Annotated[tuple[ApiEntry, ...], Bounded(256)]
    outer_enums: OuterEnums
    custom: Annotated[tuple[tuple[Text, CustomValue], ...], Sorted(256)]


METADATA_V14 = codec(MetadataV14)
METADATA_V15 = codec(MetadataV15)
