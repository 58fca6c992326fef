"""The origin of a call as one value: the chain's three origins and those of pallets, in one outer enum.

    @origin
    class Approved(PalletOrigin):
        ayes: U32

    class Council(Pallet, index=20):
        origins = (Approved,)                            # it makes them: self.dispatch(call, Approved(ayes=3))

    class Treasury(Pallet, index=21):
        @call(index=0)
        def spend(self, origin: Approved | Root, ...)    # any pallet's call may ask for them

As in the SDK the enum is `OriginCaller`: the pallet's index, then the origin's position in that pallet's list. System's
index holds `RawOrigin`. Use the annotation `RuntimeOrigin` to store an origin or take one as an argument.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Protocol

from runtime.encoding import scale
from runtime.encoding import type_info as info
from runtime.encoding.codec import Codec, Codecs, TypeName, codec
from runtime.encoding.struct_codec import struct_wire
from runtime.encoding.type_info import TypeInfo, pallet_path, rust_path
from runtime.encoding.types import AccountId, Origin, PalletOrigin, Root, Signed, Unsigned

SYSTEM_INDEX = 0
"""The index of System, which owns the origins of every chain."""
RuntimeOrigin = Annotated[Origin, TypeName("OriginCaller")]
"""An origin of any kind, stored or as an argument. The runtime provides its codec."""
_ROOT, _SIGNED, _UNSIGNED = range(3)


class Originating(Protocol):
    """The attributes of a pallet that this module uses."""

    index: ClassVar[int]
    origins: ClassVar[tuple[type[PalletOrigin], ...]]


def origin_codec(pallets: Sequence[type[Originating]], codecs: Codecs) -> Codec[Origin]:
    """Return the codec of `RuntimeOrigin`.

    Raise ValueError if two pallets declare one origin, or a pallet with origins has System's index.
    """
    account_codec = codec(AccountId)
    # The SDK has the chain's origins under System.
    wires_by_index = {SYSTEM_INDEX: _raw_wire(account_codec)}
    encoders: dict[type[Any], scale.Encode] = dict.fromkeys((Signed, Root, Unsigned), wires_by_index[SYSTEM_INDEX][0])
    variants = [_outer("system", SYSTEM_INDEX, _raw_info(account_codec.info), "frame_system::Origin<Runtime>")]
    for pallet in pallets:
        if not pallet.origins:
            continue
        if pallet.index == SYSTEM_INDEX or encoders.keys() & set(pallet.origins):
            raise ValueError(f"{pallet.__name__}: an origin belongs to another pallet, or the index is System's")
        pallet_wires, variant_infos = {}, []
        for origin_type in pallet.origins:
            wire, variant = codecs.alternative(origin_type, bytes((pallet.index,)))
            pallet_wires[variant.index], encoders[origin_type] = wire, wire[0]
            variant_infos.append(variant)
        wires_by_index[pallet.index] = scale.tagged(pallet_wires, lambda _: 0)
        origins_info = TypeInfo(info.VariantsShape(tuple(variant_infos)), pallet_path(pallet.__name__, "Origin"))
        variants.append(_outer(pallet.__name__, pallet.index, origins_info, f"{pallet.__name__}Origin"))
    _, decode = scale.tagged(wires_by_index, lambda _: 0)
    described = TypeInfo(info.VariantsShape(tuple(variants)), rust_path("ogpu_runtime::OriginCaller"))
    return Codec(lambda origin: encoders[type(origin)](origin), decode, described, "OriginCaller")


def _raw_wire(account_codec: Codec[bytes]) -> scale.Wire:
    """Return the wire of `RawOrigin` under System's index. As in the SDK, it leaves out an origin's filters."""
    origin_wires = {
        _ROOT: struct_wire([], Root, bytes((SYSTEM_INDEX, _ROOT))),
        _SIGNED: struct_wire([("value.account", account_codec.wire)], Signed, bytes((SYSTEM_INDEX, _SIGNED))),
        _UNSIGNED: struct_wire([], Unsigned, bytes((SYSTEM_INDEX, _UNSIGNED))),
    }
    tags_by_type = {Root: _ROOT, Signed: _SIGNED, Unsigned: _UNSIGNED}
    return scale.tagged(origin_wires, lambda origin: tags_by_type[type(origin)])


def _raw_info(account_info: TypeInfo) -> TypeInfo:
    account_field = info.FieldInfo(None, account_info, "AccountId")
    variant_infos = (
        info.VariantInfo("Root", _ROOT),
        info.VariantInfo("Signed", _SIGNED, (account_field,)),
        info.VariantInfo("None", _UNSIGNED),
    )
    path = rust_path("frame_support::dispatch::RawOrigin")
    return TypeInfo(info.VariantsShape(variant_infos), path, (("AccountId", account_info),))


def _outer(pallet_name: str, pallet_index: int, origin_info: TypeInfo, type_name: str) -> info.VariantInfo:
    return info.VariantInfo(pallet_name, pallet_index, (info.FieldInfo(None, origin_info, type_name),))
