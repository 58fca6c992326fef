"""The runtime's description of itself, derived from its declarations: Substrate metadata, versions 14 and 15.

Clients derive everything from it: storage keys, calls, the signed payload, the decoding of events. Well-known types
keep the paths of the Rust SDK, because clients recognise them by path. Ours begin with `ogpu`.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, get_args

from runtime.blocks.era import ERA
from runtime.blocks.extrinsic import MODE, MULTI_SIGNATURE
from runtime.encoding import type_info as info
from runtime.encoding.codec import codec
from runtime.encoding.type_info import TypeInfo, pallet_path, rust_path, sentences
from runtime.encoding.types import CompactBalance, Hash, MultiAddress
from runtime.frame.api import ApiMethod, Apis
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Runtime, constant_value
from runtime.frame.storage import StorageItem
from runtime.interface import metadata_schema as schema

VERSIONS = (14, 15)
LATEST_OPAQUE = 14
"""The version that `state_getMetadata` returns: some clients read nothing newer."""
EXTRINSIC_VERSION = 4
CRATE = "ogpu_runtime"
_FRAME = "frame_system::extensions"


class PortableRegistry:
    """Types in the order of their first mention. The number of a type is its position."""

    def __init__(self, outer: Mapping[str, TypeInfo]) -> None:
        """Start without types. `outer` resolves the names of `Reference` shapes. Such types may contain each other."""
        self._outer = outer
        self._ids: dict[TypeInfo, int] = {}
        self._entries: list[schema.TypeEntry | None] = []

    def number(self, type_info: TypeInfo) -> int:  # deterministic: as deep as our own declarations
        """Return the number of a type, after adding it and all types it contains to the registry."""
        # A reference stands for a type that contains itself, such as a call inside a call.
        if isinstance(type_info.shape, info.ReferenceShape):
            type_info = self._outer[type_info.shape.name]
        known_number = self._ids.get(type_info)
        if known_number is not None:
            return known_number
        type_number = self._ids[type_info] = len(self._entries)
        self._entries.append(None)  # reserved before descending, so that a type may contain itself
        type_parameters = []
        for name, parameter in type_info.params:
            type_parameters.append(schema.TypeParameter(name, None if parameter is None else self.number(parameter)))
        definition = self._definition(type_info.shape)
        self._entries[type_number] = schema.TypeEntry(
            type_number, type_info.path, tuple(type_parameters), definition, type_info.docs
        )
        return type_number

    def entries(self) -> tuple[schema.TypeEntry, ...]:
        """Return every type, by number."""
        return tuple(entry for entry in self._entries if entry is not None)

    def _definition(self, type_shape: info.Shape) -> schema.TypeDef:
        match type_shape:
            case info.CompositeShape(fields):
                return schema.CompositeDef(self._fields(fields))
            case info.VariantsShape(variants):
                return schema.VariantDef(tuple(self._variant(variant) for variant in variants))
            case info.SequenceShape(of):
                return schema.SequenceDef(self.number(of))
            case info.ArrayShape(length, of):
                return schema.ArrayDef(length, self.number(of))
            case info.TupleShape(parts):
                return schema.TupleDef(tuple(self.number(part) for part in parts))
            case info.PrimitiveShape(name):
                return schema.PrimitiveDef(schema.PrimitiveName[name])
            case info.CompactShape(of):
                return schema.CompactDef(self.number(of))
            case info.ReferenceShape(name):
                raise TypeError(f"{name}: a reference to a reference")

    def _fields(self, field_infos: tuple[info.FieldInfo, ...]) -> tuple[schema.FieldShape, ...]:
        return tuple(
            schema.FieldShape(field.name, self.number(field.type), field.type_name or None, field.docs)
            for field in field_infos
        )

    def _variant(self, variant: info.VariantInfo) -> schema.VariantShape:
        return schema.VariantShape(variant.name, self._fields(variant.fields), variant.index, variant.docs)


@lru_cache(maxsize=16)
def metadata(apis: Apis, version: int) -> bytes:
    """Return the encoded metadata with its prefix. Raise KeyError for a version that is not offered."""
    description = {14: _Description.v14, 15: _Description.v15}[version](_Description(apis))
    return schema.MAGIC + bytes((version,)) + description


class _Description:
    """One description under construction. Types get their numbers on first mention."""

    def __init__(self, apis: Apis) -> None:
        self.apis = apis
        self.runtime = apis.runtime
        self.outer = _outer_types(self.runtime)
        self.registry = PortableRegistry(self.outer)

    def v14(self) -> bytes:
        """Return version 14: everything but runtime APIs."""
        pallet_entries = tuple(self._pallet(pallet) for pallet in self.runtime.pallets)
        extrinsic = schema.ExtrinsicV14(self._outer("UncheckedExtrinsic"), EXTRINSIC_VERSION, self._extensions)
        runtime_number = self._outer("Runtime")
        return schema.METADATA_V14.encode(
            schema.MetadataV14(self.registry.entries(), pallet_entries, extrinsic, runtime_number)
        )

    def v15(self) -> bytes:
        """Return version 15: runtime APIs too."""
        pallet_entries = [
            schema.PalletV15(self._pallet(pallet), sentences(pallet.__doc__)) for pallet in self.runtime.pallets
        ]
        # No field of version 15 names this type, but async-substrate-interface looks for it.
        self._outer("UncheckedExtrinsic")
        extrinsic = schema.ExtrinsicV15(
            EXTRINSIC_VERSION,
            self.registry.number(codec(MultiAddress).info),
            self._outer("RuntimeCall"),
            self.registry.number(MULTI_SIGNATURE.info),
            self._outer("Extra"),
            self._extensions,
        )
        outer_enums = schema.OuterEnums(
            self._outer("RuntimeCall"),
            self._outer("RuntimeEvent"),
            self._outer("RuntimeError"),
        )
        runtime_number = self._outer("Runtime")
        api_entries = tuple(self._api(family) for family in self.apis.families)
        type_entries = self.registry.entries()
        description = schema.MetadataV15(
            type_entries, tuple(pallet_entries), extrinsic, runtime_number, api_entries, outer_enums, ()
        )
        return schema.METADATA_V15.encode(description)

    def _outer(self, name: str) -> int:
        return self.registry.number(self.outer[name])

    @cached_property
    def _extensions(self) -> tuple[schema.ExtensionEntry, ...]:
        entries = []
        for name, extension, additional in _EXTENSIONS:
            sent_number = self.registry.number(extension)
            entries.append(schema.ExtensionEntry(name, sent_number, self.registry.number(additional)))
        return tuple(entries)

    def _pallet(self, pallet: type[Pallet]) -> schema.PalletV14:
        storage = None
        if self.runtime.items[pallet]:
            items = self.runtime.items[pallet].values()
            storage = schema.PalletStorage(pallet.__name__, tuple(self._entry(item) for item in items))
        calls_number = self._number(_call_type(self.runtime, pallet))
        events_number = self._number(_event_type(self.runtime, pallet))
        errors_number = self._number(_error_type(pallet))
        constants = self._constants(pallet)
        return schema.PalletV14(
            pallet.__name__,
            storage,
            calls_number,
            events_number,
            constants,
            errors_number,
            pallet.index,
        )

    def _number(self, type_info: TypeInfo | None) -> int | None:
        return None if type_info is None else self.registry.number(type_info)

    def _entry(self, item: StorageItem) -> schema.StorageEntry:
        value_number = self.registry.number(item.value_codec.info)
        kind: schema.PlainEntry | schema.MapEntry = schema.PlainEntry(value_number)
        if item.hashers:
            keys = [key_codec.info for key_codec in item.key_codecs]
            # The SDK describes several keys as one tuple with a hasher for each member.
            key_info = keys[0] if len(keys) == 1 else TypeInfo(info.TupleShape(tuple(keys)))
            hashers = tuple(hasher.number for hasher in item.hashers)
            kind = schema.MapEntry(hashers, self.registry.number(key_info), value_number)
        modifier = schema.Modifier.Optional if item.is_optional else schema.Modifier.Default
        return schema.StorageEntry(item.name, modifier, kind, item.default_bytes(), sentences(item.doc))

    def _constants(self, pallet: type[Pallet]) -> tuple[schema.ConstantEntry, ...]:
        constants = []
        annotations = pallet.hints()
        for attribute, constant in pallet.constants.items():
            (value_type,) = get_args(annotations[attribute])
            constant_codec = self.runtime.codecs.of(value_type)
            encoded_value = constant_codec.encode(constant_value(pallet, constant, self.runtime))
            number = self.registry.number(constant_codec.info)
            constants.append(schema.ConstantEntry(constant.name, number, encoded_value, sentences(constant.doc)))
        return tuple(constants)

    def _api(self, family: type[Any]) -> schema.ApiEntry:
        methods = tuple(self._method(method) for method in self.apis.methods.values() if method.api is family)
        return schema.ApiEntry(family.__name__, methods, sentences(family.__doc__))

    def _method(self, method: ApiMethod) -> schema.ApiMethodEntry:
        inputs = tuple(schema.ApiInput(name, self.registry.number(codec.info)) for name, codec in method.inputs)
        return schema.ApiMethodEntry(method.name, inputs, self.registry.number(method.output.info), method.docs)


def _outer_types(runtime: Runtime) -> dict[str, TypeInfo]:
    """Return the types that consist of all pallets, by the names that references use."""
    call_info = TypeInfo(info.ReferenceShape("RuntimeCall"))
    address_info = codec(MultiAddress).info
    signature_info = MULTI_SIGNATURE.info
    extra_info = TypeInfo(info.TupleShape(tuple(extension for _, extension, _ in _EXTENSIONS)))
    extrinsic_shape = info.CompositeShape((info.FieldInfo(None, info.BYTES, ""),))
    type_parameters = (
        ("Address", address_info),
        ("Call", call_info),
        ("Signature", signature_info),
        ("Extra", extra_info),
    )
    extrinsic_path = rust_path("sp_runtime::generic::unchecked_extrinsic::UncheckedExtrinsic")
    return {
        "RuntimeCall": _union("RuntimeCall", {pallet: _call_type(runtime, pallet) for pallet in runtime.pallets}),
        "RuntimeEvent": _union("RuntimeEvent", {pallet: _event_type(runtime, pallet) for pallet in runtime.pallets}),
        "RuntimeError": _union("RuntimeError", {pallet: _error_type(pallet) for pallet in runtime.pallets}),
        "Extra": extra_info,
        "UncheckedExtrinsic": TypeInfo(extrinsic_shape, extrinsic_path, type_parameters),
        "Runtime": TypeInfo(info.CompositeShape(()), (CRATE, "Runtime")),
    }


def _union(name: str, of_pallets: dict[type[Pallet], TypeInfo | None]) -> TypeInfo:
    variants = []
    for pallet, pallet_info in of_pallets.items():
        if pallet_info is None:
            continue
        pallet_field = info.FieldInfo(None, pallet_info, f"{pallet.__name__}{name}")
        variants.append(info.VariantInfo(pallet.__name__, pallet.index, (pallet_field,)))
    return TypeInfo(info.VariantsShape(tuple(variants)), (CRATE, name))


def _call_type(runtime: Runtime, pallet: type[Pallet]) -> TypeInfo | None:
    variants = tuple(method.variant(runtime.codecs) for method in pallet.methods)
    return _enum_of(pallet, "Call", variants, sentences(pallet.__doc__))


def _event_type(runtime: Runtime, pallet: type[Pallet]) -> TypeInfo | None:
    variants = tuple(runtime.codecs.alternative(event)[1] for event in pallet.events)
    return _enum_of(pallet, "Event", variants)


def _error_type(pallet: type[Pallet]) -> TypeInfo | None:
    variants = []
    for error in pallet.errors:
        # The number on chain, which may differ from the position in the list.
        error_number = error.value.detail[1]
        variants.append(info.VariantInfo(error.__name__, error_number, (), sentences(error.__doc__)))
    return _enum_of(pallet, "Error", tuple(variants))


def _enum_of(
    pallet: type[Pallet], name: str, variants: tuple[info.VariantInfo, ...], doc_lines: tuple[str, ...] = ()
) -> TypeInfo | None:
    """Return a pallet's enum with the SDK's parameter T, None if it has no variants."""
    if not variants:
        return None
    return TypeInfo(info.VariantsShape(variants), pallet_path(pallet.__name__, name), (("T", None),), doc_lines)


def _extension(path: str, *extension_fields: info.FieldInfo) -> TypeInfo:
    return TypeInfo(info.CompositeShape(extension_fields), rust_path(path))


_U32 = TypeInfo(info.PrimitiveShape("u32"))
_HASH = codec(Hash).info
_NO_METADATA_HASH = TypeInfo(
    info.VariantsShape(
        (
            info.VariantInfo("None", 0),
            info.VariantInfo("Some", 1, (info.FieldInfo(None, TypeInfo(info.ArrayShape(32, info.U8)), ""),)),
        )
    ),
    ("Option",),
    (("T", TypeInfo(info.ArrayShape(32, info.U8))),),
)
# In the order of the signed bytes, in which clients encode them.
_EXTENSIONS: tuple[tuple[str, TypeInfo, TypeInfo], ...] = (
    ("CheckNonZeroSender", _extension(f"{_FRAME}::check_non_zero_sender::CheckNonZeroSender"), info.UNIT),
    ("CheckSpecVersion", _extension(f"{_FRAME}::check_spec_version::CheckSpecVersion"), _U32),
    ("CheckTxVersion", _extension(f"{_FRAME}::check_tx_version::CheckTxVersion"), _U32),
    ("CheckGenesis", _extension(f"{_FRAME}::check_genesis::CheckGenesis"), _HASH),
    (
        "CheckMortality",
        _extension(f"{_FRAME}::check_mortality::CheckMortality", info.FieldInfo(None, ERA.info, "Era")),
        _HASH,
    ),
    (
        "CheckNonce",
        _extension(
            f"{_FRAME}::check_nonce::CheckNonce", info.FieldInfo(None, TypeInfo(info.CompactShape(_U32)), "T::Nonce")
        ),
        info.UNIT,
    ),
    ("CheckWeight", _extension(f"{_FRAME}::check_weight::CheckWeight"), info.UNIT),
    (
        "ChargeTransactionPayment",
        _extension(
            "pallet_transaction_payment::ChargeTransactionPayment",
            info.FieldInfo(None, codec(CompactBalance).info, "BalanceOf<T>"),
        ),
        info.UNIT,
    ),
    (
        "CheckMetadataHash",
        _extension("frame_metadata_hash_extension::CheckMetadataHash", info.FieldInfo("mode", MODE.info, "Mode")),
        _NO_METADATA_HASH,
    ),
)
