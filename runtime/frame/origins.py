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
    account = codec(AccountId)
    # The SDK has the chain's origins under System.
    wires = {SYSTEM_INDEX: _raw_wire(account)}
    encoders: dict[type[Any], scale.Encode] = dict.fromkeys((Signed, Root, Unsigned), wires[SYSTEM_INDEX][0])
    variants = [_outer("system", SYSTEM_INDEX, _raw_info(account.info), "frame_system::Origin<Runtime>")]
    for pallet in pallets:
        if not pallet.origins:
            continue
        if pallet.index == SYSTEM_INDEX or encoders.keys() & set(pallet.origins):
            raise ValueError(f"{pallet.__name__}: an origin belongs to another pallet, or the index is System's")
        inner, members = {}, []
        for kind in pallet.origins:
            wire, member = codecs.alternative(kind, bytes((pallet.index,)))
            inner[member.index], encoders[kind] = wire, wire[0]
            members.append(member)
        wires[pallet.index] = scale.tagged(inner, lambda _: 0)
        shape = TypeInfo(info.VariantsShape(tuple(members)), pallet_path(pallet.__name__, "Origin"))
        variants.append(_outer(pallet.__name__, pallet.index, shape, f"{pallet.__name__}Origin"))
    _, decode = scale.tagged(wires, lambda _: 0)
    described = TypeInfo(info.VariantsShape(tuple(variants)), rust_path("ogpu_runtime::OriginCaller"))
    return Codec(lambda origin: encoders[type(origin)](origin), decode, described, "OriginCaller")


def _raw_wire(account: Codec[bytes]) -> scale.Wire:
    """Return the wire of `RawOrigin` under System's index. As in the SDK, it leaves out an origin's filters."""
    members = {
        _ROOT: struct_wire([], Root, bytes((SYSTEM_INDEX, _ROOT))),
        _SIGNED: struct_wire([("value.account", account.wire)], Signed, bytes((SYSTEM_INDEX, _SIGNED))),
        _UNSIGNED: struct_wire([], Unsigned, bytes((SYSTEM_INDEX, _UNSIGNED))),
    }
    tags = {Root: _ROOT, Signed: _SIGNED, Unsigned: _UNSIGNED}
    return scale.tagged(members, lambda origin: tags[type(origin)])


def _raw_info(account: TypeInfo) -> TypeInfo:
    signed = info.FieldInfo(None, account, "AccountId")
    members = (
        info.VariantInfo("Root", _ROOT),
        info.VariantInfo("Signed", _SIGNED, (signed,)),
        info.VariantInfo("None", _UNSIGNED),
    )
    path = rust_path("frame_support::dispatch::RawOrigin")
    return TypeInfo(info.VariantsShape(members), path, (("AccountId", account),))


def _outer(name: str, index: int, of: TypeInfo, type_name: str) -> info.VariantInfo:
    return info.VariantInfo(name, index, (info.FieldInfo(None, of, type_name),))
