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
        for parameter_name, parameter in type_info.params:
            type_parameters.append(
                schema.TypeParameter(parameter_name, None if parameter is None else self.number(parameter))
            )
        definition = self._definition(type_info.shape)
        self._entries[type_number] = schema.TypeEntry(
            type_number, type_info.path, tuple(type_parameters), definition, type_info.docs
        )
        return type_number

    def entries(self) -> tuple[schema.TypeEntry, ...]:
        """Return every type, by number."""
        return tuple(type_entry for type_entry in self._entries if type_entry is not None)

    def _definition(self, type_shape: info.Shape) -> schema.TypeDef:
        match type_shape:
            case info.CompositeShape(fields):
                return schema.CompositeDef(self._fields(fields))
            case info.VariantsShape(variants):
                return schema.VariantDef(tuple(self._variant(variant_info) for variant_info in variants))
            case info.SequenceShape(of):
                return schema.SequenceDef(self.number(of))
            case info.ArrayShape(length, of):
                return schema.ArrayDef(length, self.number(of))
            case info.TupleShape(parts):
                return schema.TupleDef(tuple(self.number(part_info) for part_info in parts))
            case info.PrimitiveShape(name):
                return schema.PrimitiveDef(schema.PrimitiveName[name])
            case info.CompactShape(of):
                return schema.CompactDef(self.number(of))
            case info.ReferenceShape(name):
                raise TypeError(f"{name}: a reference to a reference")

    def _fields(self, field_infos: tuple[info.FieldInfo, ...]) -> tuple[schema.FieldShape, ...]:
        return tuple(
            schema.FieldShape(
                field_info.name, self.number(field_info.type), field_info.type_name or None, field_info.docs
            )
            for field_info in field_infos
        )

    def _variant(self, variant_info: info.VariantInfo) -> schema.VariantShape:
        return schema.VariantShape(
            variant_info.name, self._fields(variant_info.fields), variant_info.index, variant_info.docs
        )


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
        pallet_entries = tuple(self._pallet(pallet_class) for pallet_class in self.runtime.pallets)
        extrinsic = schema.ExtrinsicV14(self._outer("UncheckedExtrinsic"), EXTRINSIC_VERSION, self._extensions)
        runtime_number = self._outer("Runtime")
        return schema.METADATA_V14.encode(
            schema.MetadataV14(self.registry.entries(), pallet_entries, extrinsic, runtime_number)
        )

    def v15(self) -> bytes:
        """Return version 15: runtime APIs too."""
        pallet_entries = [
            schema.PalletV15(self._pallet(pallet_class), sentences(pallet_class.__doc__))
            for pallet_class in self.runtime.pallets
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
        api_entries = tuple(self._api(api_family) for api_family in self.apis.families)
        type_entries = self.registry.entries()
        description = schema.MetadataV15(
            type_entries, tuple(pallet_entries), extrinsic, runtime_number, api_entries, outer_enums, ()
        )
        return schema.METADATA_V15.encode(description)

    def _outer(self, outer_name: str) -> int:
        return self.registry.number(self.outer[outer_name])

    @cached_property
    def _extensions(self) -> tuple[schema.ExtensionEntry, ...]:
        extension_entries = []
        for extension_name, extension, additional in _EXTENSIONS:
            sent_number = self.registry.number(extension)
            extension_entries.append(
                schema.ExtensionEntry(extension_name, sent_number, self.registry.number(additional))
            )
        return tuple(extension_entries)

    def _pallet(self, pallet_class: type[Pallet]) -> schema.PalletV14:
        storage = None
        if self.runtime.items[pallet_class]:
            storage_items = self.runtime.items[pallet_class].values()
            storage = schema.PalletStorage(
                pallet_class.__name__, tuple(self._entry(storage_item) for storage_item in storage_items)
            )
        calls_number = self._number(_call_type(self.runtime, pallet_class))
        events_number = self._number(_event_type(self.runtime, pallet_class))
        errors_number = self._number(_error_type(pallet_class))
        constant_entries = self._constants(pallet_class)
        return schema.PalletV14(
            pallet_class.__name__,
            storage,
            calls_number,
            events_number,
            constant_entries,
            errors_number,
            pallet_class.index,
        )

    def _number(self, type_info: TypeInfo | None) -> int | None:
        return None if type_info is None else self.registry.number(type_info)

    def _entry(self, storage_item: StorageItem) -> schema.StorageEntry:
        value_number = self.registry.number(storage_item.value_codec.info)
        entry_kind: schema.PlainEntry | schema.MapEntry = schema.PlainEntry(value_number)
        if storage_item.hashers:
            key_infos = [key_codec.info for key_codec in storage_item.key_codecs]
            # The SDK describes several keys as one tuple with a hasher for each member.
            key_info = key_infos[0] if len(key_infos) == 1 else TypeInfo(info.TupleShape(tuple(key_infos)))
            hashers = tuple(hasher.number for hasher in storage_item.hashers)
            entry_kind = schema.MapEntry(hashers, self.registry.number(key_info), value_number)
        modifier = schema.Modifier.Optional if storage_item.is_optional else schema.Modifier.Default
        return schema.StorageEntry(
            storage_item.name, modifier, entry_kind, storage_item.default_bytes(), sentences(storage_item.doc)
        )

    def _constants(self, pallet_class: type[Pallet]) -> tuple[schema.ConstantEntry, ...]:
        constant_entries = []
        annotations = pallet_class.hints()
        for attribute, constant in pallet_class.constants.items():
            (value_type,) = get_args(annotations[attribute])
            constant_codec = self.runtime.codecs.of(value_type)
            encoded_value = constant_codec.encode(constant_value(pallet_class, constant, self.runtime))
            type_number = self.registry.number(constant_codec.info)
            constant_entries.append(
                schema.ConstantEntry(constant.name, type_number, encoded_value, sentences(constant.doc))
            )
        return tuple(constant_entries)

    def _api(self, api_family: type[Any]) -> schema.ApiEntry:
        method_entries = tuple(
            self._method(api_method) for api_method in self.apis.methods.values() if api_method.api is api_family
        )
        return schema.ApiEntry(api_family.__name__, method_entries, sentences(api_family.__doc__))

    def _method(self, api_method: ApiMethod) -> schema.ApiMethodEntry:
        input_entries = tuple(
            schema.ApiInput(input_name, self.registry.number(input_codec.info))
            for input_name, input_codec in api_method.inputs
        )
        return schema.ApiMethodEntry(
            api_method.name, input_entries, self.registry.number(api_method.output.info), api_method.docs
        )


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
        "RuntimeCall": _union(
            "RuntimeCall", {pallet_class: _call_type(runtime, pallet_class) for pallet_class in runtime.pallets}
        ),
        "RuntimeEvent": _union(
            "RuntimeEvent", {pallet_class: _event_type(runtime, pallet_class) for pallet_class in runtime.pallets}
        ),
        "RuntimeError": _union(
            "RuntimeError", {pallet_class: _error_type(pallet_class) for pallet_class in runtime.pallets}
        ),
        "Extra": extra_info,
        "UncheckedExtrinsic": TypeInfo(extrinsic_shape, extrinsic_path, type_parameters),
        "Runtime": TypeInfo(info.CompositeShape(()), (CRATE, "Runtime")),
    }


def _union(enum_name: str, of_pallets: dict[type[Pallet], TypeInfo | None]) -> TypeInfo:
    pallet_variants = []
    for pallet_class, pallet_info in of_pallets.items():
        if pallet_info is None:
            continue
        pallet_field = info.FieldInfo(None, pallet_info, f"{pallet_class.__name__}{enum_name}")
        pallet_variants.append(info.VariantInfo(pallet_class.__name__, pallet_class.index, (pallet_field,)))
    return TypeInfo(info.VariantsShape(tuple(pallet_variants)), (CRATE, enum_name))


def _call_type(runtime: Runtime, pallet_class: type[Pallet]) -> TypeInfo | None:
    call_variants = tuple(call_method.variant(runtime.codecs) for call_method in pallet_class.methods)
    return _enum_of(pallet_class, "Call", call_variants, sentences(pallet_class.__doc__))


def _event_type(runtime: Runtime, pallet_class: type[Pallet]) -> TypeInfo | None:
    event_variants = tuple(runtime.codecs.alternative(event_class)[1] for event_class in pallet_class.events)
    return _enum_of(pallet_class, "Event", event_variants)


def _error_type(pallet_class: type[Pallet]) -> TypeInfo | None:
    error_variants = []
    for error_class in pallet_class.errors:
        # The number on chain, which may differ from the position in the list.
        error_number = error_class.value.detail[1]
        error_variants.append(info.VariantInfo(error_class.__name__, error_number, (), sentences(error_class.__doc__)))
    return _enum_of(pallet_class, "Error", tuple(error_variants))


def _enum_of(
    pallet_class: type[Pallet], enum_name: str, variants: tuple[info.VariantInfo, ...], doc_lines: tuple[str, ...] = ()
) -> TypeInfo | None:
    """Return a pallet's enum with the SDK's parameter T, None if it has no variants."""
    if not variants:
        return None
    return TypeInfo(
        info.VariantsShape(variants), pallet_path(pallet_class.__name__, enum_name), (("T", None),), doc_lines
    )


def _extension(type_path: str, *extension_fields: info.FieldInfo) -> TypeInfo:
    return TypeInfo(info.CompositeShape(extension_fields), rust_path(type_path))


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
