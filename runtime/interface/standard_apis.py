"""The runtime APIs that every Substrate client knows, as far as a chain without wasm can serve them."""

from enum import IntEnum
from typing import Annotated

from runtime.blocks.block import RawExtrinsic
from runtime.blocks.extrinsic import Extrinsic, decode_extrinsic
from runtime.encoding import type_info as info
from runtime.encoding.codec import U32, U64, Bounded, Codec, codec, named, struct
from runtime.encoding.scale import DecodeError
from runtime.encoding.type_info import (
    CompositeShape,
    FieldInfo,
    ReferenceShape,
    TypeInfo,
    VariantInfo,
    VariantsShape,
    rust_path,
)
from runtime.encoding.types import AccountId, Balance, DispatchClass, Hash, Nonce, RuntimeVersion, Weight
from runtime.execution.pool_validation import TransactionValidator
from runtime.frame.api import RuntimeApi, query
from runtime.frame.errors import InvalidReason, InvalidTransaction
from runtime.frame.fees import InclusionFee
from runtime.frame.weights import SIGNED_LENGTH_MAX_BYTES
from runtime.interface.metadata import LATEST_OPAQUE, VERSIONS, metadata
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionPayment

METADATA_BYTES_MAX = 1 << 24
TAGS_MAX = 16
TAG_BYTES_MAX = 64

_BYTES = codec(Annotated[bytes, Bounded(METADATA_BYTES_MAX)])
_OPAQUE_INFO = TypeInfo(
    CompositeShape((FieldInfo(None, _BYTES.info, "Vec<u8>"),)), rust_path("sp_core::OpaqueMetadata")
)
OpaqueMetadata = Annotated[bytes, Codec(_BYTES.encode, _BYTES.decode_from, _OPAQUE_INFO, "OpaqueMetadata")]
_RAW = codec(RawExtrinsic)


def _decode_asked(encoded: bytes, start: int) -> tuple[bytes, int]:
    extrinsic_bytes, end = _RAW.decode_from(encoded, start)
    # Inherents may be four times as long, but half a megabyte of nested calls took a second to decode.
    if len(extrinsic_bytes) > SIGNED_LENGTH_MAX_BYTES:
        raise DecodeError("extrinsic longer than the limit", start)
    return extrinsic_bytes, end


EncodedExtrinsic = Annotated[
    bytes, Codec(_RAW.encode, _decode_asked, TypeInfo(ReferenceShape("UncheckedExtrinsic")), "UncheckedExtrinsic")
]
"""An extrinsic that a client wants to send."""


class Core(RuntimeApi, version=5):
    """The rules in force."""

    @query
    def version(self) -> RuntimeVersion:
        """Return the version of the runtime."""
        return self.runtime.version


class Metadata(RuntimeApi, version=2):
    """The runtime's description of itself."""

    @query
    def metadata(self) -> OpaqueMetadata:
        """Return the metadata in the oldest version offered."""
        return metadata(self.apis, LATEST_OPAQUE)

    @query
    def metadata_at_version(self, version: U32) -> OpaqueMetadata | None:
        """Return the metadata in this version, None if it is not offered."""
        return metadata(self.apis, version) if version in VERSIONS else None

    @query
    def metadata_versions(self) -> Annotated[tuple[U32, ...], Bounded(16)]:
        """Return the versions offered."""
        return VERSIONS


class AccountNonceApi(RuntimeApi, version=1):
    """The order of an account's transactions."""

    @query
    def account_nonce(self, account: AccountId) -> Nonce:
        """Return the next nonce of an account."""
        return self.bound[System].account[account].nonce


@struct(path="pallet_transaction_payment::types::RuntimeDispatchInfo")
class RuntimeDispatchInfo:
    """The weight, class and fee of an extrinsic, without tip."""

    weight: Weight
    class_: DispatchClass
    partial_fee: Balance


@struct(path="pallet_transaction_payment::types::FeeDetails")
class FeeDetails:
    """The parts of an extrinsic's fee. An inherent has none."""

    inclusion_fee: InclusionFee | None
    tip: Balance


class TransactionPaymentApi(RuntimeApi, version=4):
    """The fee of a transaction now. The signature may be a placeholder."""

    @query
    def query_info(self, uxt: EncodedExtrinsic, len: U32) -> RuntimeDispatchInfo:  # noqa: A002 - the SDK's name
        """Return weight, class and fee, without tip."""
        extrinsic, inclusion_fee = self._fee(uxt, len)
        dispatch_class = extrinsic.call.method.dispatch_class
        return RuntimeDispatchInfo(
            extrinsic.weight, dispatch_class, 0 if inclusion_fee is None else inclusion_fee.total
        )

    @query
    def query_fee_details(self, uxt: EncodedExtrinsic, len: U32) -> FeeDetails:  # noqa: A002 - the SDK's name
        """Return the parts of the fee."""
        extrinsic, inclusion_fee = self._fee(uxt, len)
        return FeeDetails(inclusion_fee, extrinsic.authorization.extra.tip if extrinsic.authorization else 0)

    @query
    def query_weight_to_fee(self, weight: Weight) -> Balance:
        """Return the fee for a weight."""
        return self.bound[TransactionPayment].fee(0, weight).adjusted_weight_fee

    @query
    def query_length_to_fee(self, length: U32) -> Balance:
        """Return the fee for a length."""
        return self.bound[TransactionPayment].fee(length, Weight()).len_fee

    def _fee(self, extrinsic_bytes: bytes, length: int) -> tuple[Extrinsic, InclusionFee | None]:
        extrinsic = decode_extrinsic(self.runtime, extrinsic_bytes)
        # Inherents pay no fee.
        if extrinsic.authorization is None:
            return extrinsic, None
        return extrinsic, self.bound[TransactionPayment].fee(length, extrinsic.weight)


@named("sp_runtime::transaction_validity::TransactionSource")
class TransactionSource(IntEnum):
    """The source of a transaction, which makes no difference here."""

    InBlock = 0
    Local = 1
    External = 2


Tags = Annotated[tuple[Annotated[bytes, Bounded(TAG_BYTES_MAX)], ...], Bounded(TAGS_MAX)]


@struct(path="sp_runtime::transaction_validity::ValidTransaction")
class ValidTransaction:
    """A pool's instructions for a valid transaction."""

    priority: U64
    requires: Tags
    provides: Tags
    longevity: U64
    propagate: bool


_VALID = codec(ValidTransaction)


def _encode_validity(validity: ValidTransaction | InvalidReason) -> bytes:
    # Err, then Invalid, then the reason: the SDK's nested enums.
    return bytes((1, 0, validity)) if isinstance(validity, InvalidReason) else b"\0" + _VALID.encode(validity)


def _decode_validity(encoded: bytes, start: int) -> tuple[ValidTransaction | InvalidReason, int]:
    if encoded[start] == 0:
        return _VALID.decode_from(encoded, start + 1)
    if encoded[start : start + 2] != b"\1\0" or encoded[start + 2] not in list(InvalidReason):
        raise DecodeError("unknown variant", start)
    return InvalidReason(encoded[start + 2]), start + 3


def _validity_info() -> TypeInfo:
    names = (
        "Call Payment Future Stale BadProof AncientBirthBlock ExhaustsResources Custom BadMandatory "
        "MandatoryValidation BadSigner"
    ).split()
    fields_by_name = {"Custom": (FieldInfo(None, info.U8, "u8"),)}
    base = "sp_runtime::transaction_validity"
    invalid_shape = VariantsShape(
        tuple(VariantInfo(name, index, fields_by_name.get(name, ())) for index, name in enumerate(names))
    )
    unknown_shape = VariantsShape(
        (
            VariantInfo("CannotLookup", 0),
            VariantInfo("NoUnsignedValidator", 1),
            VariantInfo("Custom", 2, fields_by_name["Custom"]),
        )
    )
    variants = tuple(
        VariantInfo(
            name,
            index,
            (FieldInfo(None, TypeInfo(error_shape, rust_path(f"{base}::{kind}")), kind),),
        )
        for index, (name, kind, error_shape) in enumerate(
            (("Invalid", "InvalidTransaction", invalid_shape), ("Unknown", "UnknownTransaction", unknown_shape))
        )
    )
    error_info = TypeInfo(VariantsShape(variants), rust_path(f"{base}::TransactionValidityError"))
    result_variants = (
        VariantInfo("Ok", 0, (FieldInfo(None, _VALID.info, ""),)),
        VariantInfo("Err", 1, (FieldInfo(None, error_info, ""),)),
    )
    return TypeInfo(VariantsShape(result_variants), ("Result",), (("T", _VALID.info), ("E", error_info)))


TransactionValidity = Annotated[
    ValidTransaction | InvalidReason, Codec(_encode_validity, _decode_validity, _validity_info(), "TransactionValidity")
]


class TaggedTransactionQueue(RuntimeApi, version=3):
    """The queries of the transaction pool."""

    @query
    def validate_transaction(
        self, source: TransactionSource, tx: EncodedExtrinsic, block_hash: Hash
    ) -> TransactionValidity:
        """Return a transaction's validity for the next block. `block_hash` is ignored: the state knows its block."""
        try:
            validity = TransactionValidator(self.runtime, self.reader, self.block_hash).validate(tx, self.verify)
        except InvalidTransaction as failure:
            return failure.reason
        except DecodeError:
            return InvalidReason.CALL
        return ValidTransaction(
            validity.priority, validity.requires, validity.provides, validity.longevity, validity.propagate
        )


STANDARD_APIS: tuple[type[RuntimeApi], ...] = (
    Core,
    Metadata,
    AccountNonceApi,
    TransactionPaymentApi,
    TaggedTransactionQueue,
)
