"""The chain's vocabulary: accounts, amounts, weights and the like, under the Rust paths that clients know."""

from enum import IntEnum
from typing import Annotated, Any, Protocol

from runtime.encoding import type_info as info
from runtime.encoding.codec import (
    U8,
    U32,
    Bounded,
    Codec,
    Compact,
    CompactU64,
    Fixed,
    Named,
    Tagged,
    TypeName,
    UInt,
    codec,
    named,
    struct,
    variant,
)
from runtime.encoding.marks import record
from runtime.encoding.scale import DecodeError, EncodeError
from runtime.encoding.type_info import TypeInfo, rust_path

AccountId = Annotated[bytes, Fixed(32), Named("sp_core::crypto::AccountId32"), TypeName("AccountId")]
Hash = Annotated[bytes, Fixed(32), Named("primitive_types::H256"), TypeName("Hash")]
Signature = Annotated[bytes, Fixed(64)]
Balance = Annotated[int, UInt(16), TypeName("Balance")]
"""An amount in grains, 10^-8 oGPU."""
CompactBalance = Annotated[int, Compact(16), TypeName("Balance")]
BlockNumber = Annotated[int, UInt(4), TypeName("BlockNumber")]
Moment = Annotated[int, UInt(8), TypeName("Moment")]
"""Unix time in milliseconds."""
CompactMoment = Annotated[int, Compact(8), TypeName("Moment")]
Nonce = Annotated[int, UInt(4), TypeName("Nonce")]

GRAINS_PER_OGPU = 10**8
CAP_GRAINS = 21_000_000 * GRAINS_PER_OGPU


def _decode_address(encoded: bytes, start: int) -> tuple[bytes, int]:
    # The SDK's other forms are in metadata, because clients look for the whole type (ADR 11).
    if encoded[start] != 0:
        raise DecodeError("address other than MultiAddress::Id", start)
    end = start + 33
    if end > len(encoded):
        raise DecodeError("end of input", len(encoded))
    return encoded[start + 1 : end], end


def _encode_address(account: bytes) -> bytes:
    if len(account) != 32:
        raise EncodeError(f"expected an account of 32 bytes, got {len(account)}")
    return b"\0" + account


def _address_info() -> TypeInfo:
    account_info = codec(AccountId).info
    unit_index = TypeInfo(info.CompactShape(info.UNIT))
    forms = (
        ("Id", account_info, "AccountId"),
        ("Index", unit_index, "AccountIndex"),
        ("Raw", info.BYTES, "Vec<u8>"),
        ("Address32", TypeInfo(info.ArrayShape(32, info.U8)), "[u8; 32]"),
        ("Address20", TypeInfo(info.ArrayShape(20, info.U8)), "[u8; 20]"),
    )
    form_infos = tuple(
        info.VariantInfo(form_name, index, (info.FieldInfo(None, form_info, type_name),))
        for index, (form_name, form_info, type_name) in enumerate(forms)
    )
    type_parameters = (("AccountId", account_info), ("AccountIndex", info.UNIT))
    return TypeInfo(
        info.VariantsShape(form_infos), rust_path("sp_runtime::multiaddress::MultiAddress"), type_parameters
    )


MultiAddress = Annotated[bytes, Codec(_encode_address, _decode_address, _address_info(), "AccountIdLookupOf<T>")]
"""An account as an argument of calls. The value is its 32 bytes. Of the SDK's five forms only `Id` is accepted."""


@struct(path="sp_weights::weight_v2::Weight")
class Weight:
    """The cost of a call: picoseconds of reference time, bytes of proof."""

    ref_time: CompactU64 = 0
    proof_size: CompactU64 = 0

    def __add__(self, other: "Weight") -> "Weight":
        """Return the sum of both parts."""
        return Weight(self.ref_time + other.ref_time, self.proof_size + other.proof_size)

    def fits(self, limit: "Weight") -> bool:
        """Return True if neither part exceeds the limit's."""
        return self.ref_time <= limit.ref_time and self.proof_size <= limit.proof_size


@named("frame_support::dispatch::DispatchClass")
class DispatchClass(IntEnum):
    """The class of a call, which decides the share of a block that it may fill."""

    Normal = 0
    Operational = 1
    Mandatory = 2


@named("frame_support::dispatch::Pays")
class Pays(IntEnum):
    """Yes if the signer pays the fee."""

    Yes = 0
    No = 1


@struct(path="frame_system::DispatchEventInfo")
class DispatchInfo:
    """The weight, class and payment of an executed extrinsic."""

    weight: Weight
    class_: DispatchClass
    pays_fee: Pays


@variant(0, unnamed=True)
class ApplyExtrinsic:
    """The phase in which this extrinsic is applied."""

    index: U32


@variant(1)
class Finalization:
    """The phase in which the block is closed."""


@variant(2)
class Initialization:
    """The phase before the first extrinsic."""


Phase = Annotated[ApplyExtrinsic | Finalization | Initialization, Tagged("frame_system::Phase")]

RUNTIME_APIS_MAX = 64


@struct(path="sp_version::RuntimeVersion")
class RuntimeVersion:
    """The version of the rules that execute a block. Clients sign `spec_version` and `transaction_version`."""

    spec_name: Annotated[str, Bounded(64)]
    impl_name: Annotated[str, Bounded(64)]
    authoring_version: U32
    spec_version: U32
    impl_version: U32
    apis: Annotated[tuple[tuple[Annotated[bytes, Fixed(8)], U32], ...], Bounded(RUNTIME_APIS_MAX)]
    transaction_version: U32
    system_version: U8


class CallFilter(Protocol):
    """A set of calls, declared by a pallet that lets an account use another account's origin."""

    def allows(self, call: Any, /) -> bool:
        """Return True if the call belongs to the set."""
        ...


@record
class Signed:
    """The origin of a call signed by an account, for calls that all its `filters` allow."""

    account: bytes
    filters: tuple[CallFilter, ...] = ()

    def within(self, calls: CallFilter) -> "Signed":
        """Return the same origin restricted to these calls. The restriction also covers calls inside calls."""
        # Filters only accumulate, so no inner call can widen them.
        return Signed(self.account, (*self.filters, calls))


@record
class Root:
    """The origin of a call by the chain's own authority: governance, or Sudo in development."""


@record
class Unsigned:
    """The origin of an inherent: the author of the block, whose whole block is invalid if the inherent is."""


class PalletOrigin:
    """An origin that a pallet declares and makes (`runtime.frame.pallet.origin`), such as a body's vote."""

    __slots__ = ()


Origin = Signed | Root | Unsigned | PalletOrigin
U64_MAX = (1 << 64) - 1
U128_MAX = (1 << 128) - 1
