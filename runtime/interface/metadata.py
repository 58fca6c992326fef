"""The runtime's description of itself, derived from its declarations: Substrate metadata, versions 14 and 15.

Clients build everything from it: storage keys, calls, the signed payload, the decoding of events. Well-known types keep
the paths of the Rust SDK, because clients recognise them by path; ours lie under their module's name.
"""

from functools import cached_property, lru_cache
from typing import Any, get_args

from runtime.blocks.era import ERA
from runtime.blocks.extrinsic import MODE, MULTI_SIGNATURE
from runtime.encoding import type_info as info
from runtime.encoding.codec import codec
from runtime.encoding.type_info import TypeInfo, rust_path, sentences
from runtime.encoding.types import CompactBalance, Hash, MultiAddress
from runtime.frame.api import ApiMethod, Apis
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Runtime, constant_value
from runtime.frame.storage import StorageItem
from runtime.interface import metadata_schema as schema
from runtime.interface.portable_registry import PortableRegistry

VERSIONS = (14, 15)
LATEST_OPAQUE = 14
"""What `state_getMetadata` answers: some clients read nothing newer."""
EXTRINSIC_VERSION = 4
CRATE = "ogpu_runtime"
_FRAME = "frame_system::extensions"


@lru_cache(maxsize=16)
def metadata(apis: Apis, version: int) -> bytes:
    """The encoded metadata with its prefix; KeyError for a version that is not offered."""
    described = {14: _Description.v14, 15: _Description.v15}[version](_Description(apis))
    return schema.MAGIC + bytes((version,)) + described


class _Description:
    """One description under construction: types get their numbers as they are mentioned."""

    def __init__(self, apis: Apis) -> None:
        self.apis = apis
        self.runtime = apis.runtime
        self.outer = _outer_types(self.runtime)
        self.registry = PortableRegistry(self.outer)

    def v14(self) -> bytes:
        """Everything but runtime APIs."""
        pallets = tuple(self._pallet(one) for one in self.runtime.pallets)
        extrinsic = schema.ExtrinsicV14(self._outer("UncheckedExtrinsic"), EXTRINSIC_VERSION, self._extensions)
        runtime = self._outer("Runtime")
        return schema.METADATA_V14.encode(schema.MetadataV14(self.registry.entries(), pallets, extrinsic, runtime))

    def v15(self) -> bytes:
        """Runtime APIs too."""
        pallets = tuple(schema.PalletV15(self._pallet(one), sentences(one.__doc__)) for one in self.runtime.pallets)
        self._outer("UncheckedExtrinsic")
        extrinsic = schema.ExtrinsicV15(
            EXTRINSIC_VERSION,
            self.registry.number(codec(MultiAddress).info),
            self._outer("RuntimeCall"),
            self.registry.number(MULTI_SIGNATURE.info),
            self._outer("Extra"),
            self._extensions,
        )
        enums = schema.OuterEnums(*(self._outer(name) for name in ("RuntimeCall", "RuntimeEvent", "RuntimeError")))
        runtime = self._outer("Runtime")
        apis = tuple(self._api(one) for one in self.apis.families)
        types = self.registry.entries()
        return schema.METADATA_V15.encode(schema.MetadataV15(types, pallets, extrinsic, runtime, apis, enums, ()))

    def _outer(self, name: str) -> int:
        return self.registry.number(self.outer[name])

    @cached_property
    def _extensions(self) -> tuple[schema.ExtensionEntry, ...]:
        return tuple(
            schema.ExtensionEntry(name, self.registry.number(one), self.registry.number(additional))
            for name, one, additional in _EXTENSIONS
        )

    def _pallet(self, pallet: type[Pallet]) -> schema.PalletV14:
        items = self.runtime.items[pallet].values()
        storage = schema.PalletStorage(pallet.__name__, tuple(self._entry(item) for item in items))
        kinds = (
            self.registry.number(made) if made else None
            for made in (_call_type(self.runtime, pallet), _event_type(self.runtime, pallet), _error_type(pallet))
        )
        calls, events, errors = kinds
        return schema.PalletV14(
            pallet.__name__, storage if items else None, calls, events, self._constants(pallet), errors, pallet.index
        )

    def _entry(self, item: StorageItem) -> schema.StorageEntry:
        value = self.registry.number(item.value_codec.info)
        kind: schema.PlainEntry | schema.MapEntry = schema.PlainEntry(value)
        if item.hashers:
            keys = [one.info for one in item.key_codecs]
            key = keys[0] if len(keys) == 1 else TypeInfo(info.TupleShape(tuple(keys)))
            hashers = tuple(hasher.number for hasher in item.hashers)
            kind = schema.MapEntry(hashers, self.registry.number(key), value)
        modifier = schema.Modifier.Optional if item.is_optional else schema.Modifier.Default
        return schema.StorageEntry(item.name, modifier, kind, item.default_bytes(), sentences(item.doc))

    def _constants(self, pallet: type[Pallet]) -> tuple[schema.ConstantEntry, ...]:
        entries = []
        hints = pallet.hints()
        for attribute, one in pallet.constants.items():
            of = self.runtime.codecs.of(get_args(hints[attribute])[0])
            value = of.encode(constant_value(pallet, one, self.runtime))
            entries.append(schema.ConstantEntry(one.name, self.registry.number(of.info), value, sentences(one.doc)))
        return tuple(entries)

    def _api(self, api: type[Any]) -> schema.ApiEntry:
        methods = tuple(self._method(one) for one in self.apis.methods.values() if one.api is api)
        return schema.ApiEntry(api.__name__, methods, sentences(api.__doc__))

    def _method(self, one: ApiMethod) -> schema.ApiMethod:
        inputs = tuple(schema.ApiInput(name, self.registry.number(of.info)) for name, of in one.inputs)
        return schema.ApiMethod(one.name, inputs, self.registry.number(one.output.info), one.docs)


def _outer_types(runtime: Runtime) -> dict[str, TypeInfo]:
    """The types that are made of all pallets, by the names that references use."""
    call = TypeInfo(info.ReferenceShape("RuntimeCall"))
    address, signature = codec(MultiAddress).info, MULTI_SIGNATURE.info
    extra = TypeInfo(info.TupleShape(tuple(one for _, one, _ in _EXTENSIONS)))
    body = info.CompositeShape((info.FieldInfo(None, info.BYTES, ""),))
    params = (("Address", address), ("Call", call), ("Signature", signature), ("Extra", extra))
    path = rust_path("sp_runtime::generic::unchecked_extrinsic::UncheckedExtrinsic")
    calls = {one: _call_type(runtime, one) for one in runtime.pallets}
    events = {one: _event_type(runtime, one) for one in runtime.pallets}
    errors = {one: _error_type(one) for one in runtime.pallets}
    return {
        "RuntimeCall": _union("RuntimeCall", calls),
        "RuntimeEvent": _union("RuntimeEvent", events),
        "RuntimeError": _union("RuntimeError", errors),
        "Extra": extra,
        "UncheckedExtrinsic": TypeInfo(body, path, params),
        "Runtime": TypeInfo(info.CompositeShape(()), (CRATE, "Runtime")),
    }


def _union(name: str, of_pallets: dict[type[Pallet], TypeInfo | None]) -> TypeInfo:
    variants = tuple(
        info.VariantInfo(pallet.__name__, pallet.index, (info.FieldInfo(None, one, f"{pallet.__name__}{name}"),))
        for pallet, one in of_pallets.items()
        if one is not None
    )
    return TypeInfo(info.VariantsShape(variants), (CRATE, name))


def _pallet_path(pallet: type[Pallet], kind: str) -> tuple[str, ...]:
    name = pallet.__name__
    snake = "".join(f"_{one.lower()}" if one.isupper() else one for one in name)  # deterministic: ASCII
    return ("frame_system" if snake == "_system" else f"pallet{snake}", "pallet", kind)


def _call_type(runtime: Runtime, pallet: type[Pallet]) -> TypeInfo | None:
    variants = tuple(one.variant(runtime.codecs) for one in pallet.methods)
    path = _pallet_path(pallet, "Call")
    return TypeInfo(info.VariantsShape(variants), path, (("T", None),), sentences(pallet.__doc__)) if variants else None


def _event_type(runtime: Runtime, pallet: type[Pallet]) -> TypeInfo | None:
    variants = tuple(runtime.codecs.alternative(one)[1] for one in pallet.events)
    return TypeInfo(info.VariantsShape(variants), _pallet_path(pallet, "Event"), (("T", None),)) if variants else None


def _error_type(pallet: type[Pallet]) -> TypeInfo | None:
    variants = tuple(
        info.VariantInfo(one.__name__, place, (), sentences(one.__doc__)) for place, one in enumerate(pallet.errors)
    )
    return TypeInfo(info.VariantsShape(variants), _pallet_path(pallet, "Error"), (("T", None),)) if variants else None


def _extension(path: str, *fields: info.FieldInfo) -> TypeInfo:
    return TypeInfo(info.CompositeShape(fields), rust_path(path))


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
