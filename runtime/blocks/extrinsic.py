"""Extrinsics: the entries of a block, in the forms that public wallets make.

Signed (version 4): `0x84 ++ address ++ signature ++ era ++ nonce ++ tip ++ mode ++ call`. Bare (`0x04` or `0x05`): the
call alone, for inherents. The signature covers `call ++ extra ++ additional`, where `additional` is known to both
sides: versions, genesis, birth block. The transaction extensions are exactly those that clients know without reading
metadata, because some ignore it.
"""

from typing import Annotated

from runtime.blocks.era import IMMORTAL, EraField
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import SIGNATURE_BYTES, Scheme
from runtime.encoding import type_info as info
from runtime.encoding.codec import U32, Codec, CompactU32, CompactU128, DecodeError, Fixed, codec, struct
from runtime.encoding.marks import record
from runtime.encoding.scale import decode_compact, encode_compact
from runtime.encoding.type_info import TypeInfo, rust_path
from runtime.encoding.types import Hash, MultiAddress, Weight
from runtime.frame.call import Call
from runtime.frame.runtime import Runtime
from runtime.frame.weights import EXTRINSIC_LENGTH_MAX_BYTES, SIGNED_LENGTH_MAX_BYTES

SIGNED_V4 = 0x84
BARE_VERSIONS = (0x04, 0x05)
HASHED_PAYLOAD_BYTES = 256
"""The longest payload that is signed as it is. Longer ones are hashed first, so that small devices can sign them."""


@record
class MultiSignature:
    """A signature and its scheme."""

    scheme: Scheme
    signature: Annotated[bytes, Fixed(SIGNATURE_BYTES)]


def _encode_signature(multi_signature: MultiSignature) -> bytes:
    return bytes((multi_signature.scheme,)) + multi_signature.signature


def _decode_signature(encoded: bytes, start: int) -> tuple[MultiSignature, int]:
    tag = encoded[start]
    end = start + 65
    # Ecdsa is in metadata, because clients look for the whole type (ADR 11).
    if tag > 1:
        raise DecodeError("signature neither ed25519 nor sr25519", start)
    if end > len(encoded):
        raise DecodeError("end of input", len(encoded))
    return MultiSignature(_SCHEMES[tag], encoded[start + 1 : end]), end


def _signature_info() -> TypeInfo:
    schemes = (("Ed25519", "ed25519", 64), ("Sr25519", "sr25519", 64), ("Ecdsa", "ecdsa", 65))
    variants = []
    for tag, (name, crate, size) in enumerate(schemes):
        signature = TypeInfo(info.ArrayShape(size, info.U8))
        variants.append(info.VariantInfo(name, tag, (info.FieldInfo(None, signature, f"{crate}::Signature"),)))
    return TypeInfo(info.VariantsShape(tuple(variants)), rust_path("sp_runtime::MultiSignature"))


_SCHEMES = tuple(Scheme)
MULTI_SIGNATURE = Codec(_encode_signature, _decode_signature, _signature_info(), "MultiSignature")


def _decode_mode(encoded: bytes, start: int) -> tuple[None, int]:
    if encoded[start] != 0:
        raise DecodeError("unsupported metadata hash mode", start)
    return None, start + 1


_MODE_INFO = TypeInfo(
    info.VariantsShape((info.VariantInfo("Disabled", 0), info.VariantInfo("Enabled", 1))),
    rust_path("frame_metadata_hash_extension::Mode"),
)
MODE = Codec(lambda _: b"\0", _decode_mode, _MODE_INFO, "Mode")


# No extension of our own: with one more byte, polkadot-js and substrate-interface make extrinsics that do not decode.
@struct
class Extra:
    """The extensions' fields inside a signed extrinsic, in the extensions' order."""

    era: EraField = IMMORTAL
    nonce: CompactU32 = 0
    tip: CompactU128 = 0
    mode: Annotated[None, MODE] = None


@struct
class Additional:
    """The extensions' fields that are signed but not sent."""

    spec_version: U32
    transaction_version: U32
    genesis_hash: Hash
    birth_hash: Hash
    metadata_hash: Annotated[bytes, Fixed(32)] | None = None


_EXTRA = codec(Extra)
_ADDITIONAL = codec(Additional)
_ADDRESS = codec(MultiAddress)


@record
class Authorization:
    """The signer, signature and extensions of an extrinsic. `payload_head` is `call ++ extra`."""

    signer: bytes
    signature: MultiSignature
    extra: Extra
    payload_head: bytes

    def payload(self, additional: Additional) -> bytes:
        """Return the signed message."""
        return signing_payload(self.payload_head, additional)

    def payload_with(self, additional_bytes: bytes) -> bytes:
        """Return the signed message for an encoded `Additional`, which most transactions of a block share."""
        return _payload(self.payload_head + additional_bytes)


@record
class Extrinsic:
    """A decoded extrinsic: its call and weight, its authorization (None for an inherent), and its bytes."""

    call: Call
    weight: Weight
    authorization: Authorization | None
    raw: bytes

    @property
    def hash(self) -> bytes:
        """The hash under which explorers and subscriptions know it."""
        return blake2_256(self.raw)


@record
class Envelope:
    """A signed extrinsic with its call still encoded, so that signer and fee can be checked first."""

    authorization: Authorization
    call_bytes: bytes
    raw: bytes

    def decode(self, runtime: Runtime) -> Extrinsic:
        """Return the extrinsic with its decoded call. Raise DecodeError if that is malformed."""
        decoded_call = runtime.call_codec.decode(self.call_bytes)
        return Extrinsic(decoded_call, decoded_call.weight, self.authorization, self.raw)


def open_envelope(extrinsic_bytes: bytes) -> Envelope:
    """Return a signed extrinsic without decoding its call. Raise DecodeError if it is malformed.

    Calls contain calls: decoding 60 kB of them takes 26 ms. No sender may cause that work before its signature is
    checked.
    """
    try:
        content_length, start = decode_compact(extrinsic_bytes, 0)
        if start + content_length != len(extrinsic_bytes):
            raise DecodeError("wrong length prefix", start)
        if extrinsic_bytes[start] == SIGNED_V4:
            return _open_signed(extrinsic_bytes, start + 1)
    except IndexError:
        raise DecodeError("end of input", len(extrinsic_bytes)) from None
    raise DecodeError("not a signed extrinsic", start)


def decode_extrinsic(runtime: Runtime, extrinsic_bytes: bytes) -> Extrinsic:
    """Return the extrinsic of exactly these bytes, length prefix included. Raise DecodeError if they are malformed."""
    if len(extrinsic_bytes) > EXTRINSIC_LENGTH_MAX_BYTES:
        raise DecodeError("extrinsic too long")
    try:
        content_length, start = decode_compact(extrinsic_bytes, 0)
        if start + content_length != len(extrinsic_bytes):
            raise DecodeError("wrong length prefix", start)
        format_version = extrinsic_bytes[start]
        if format_version == SIGNED_V4:
            return _decode_signed(runtime, extrinsic_bytes, start + 1)
        # Of version 5 only the bare form: polkadot-js 16 still signs in version 4.
        if format_version in BARE_VERSIONS:
            decoded_call = runtime.call_codec.decode(extrinsic_bytes[start + 1 :])
            return Extrinsic(decoded_call, decoded_call.weight, None, extrinsic_bytes)
    except IndexError:
        raise DecodeError("end of input", len(extrinsic_bytes)) from None
    raise DecodeError("unknown extrinsic version", start)


def _decode_signed(runtime: Runtime, extrinsic_bytes: bytes, start: int) -> Extrinsic:
    return _open_signed(extrinsic_bytes, start).decode(runtime)


def _open_signed(extrinsic_bytes: bytes, start: int) -> Envelope:
    # Before any decoding, whose cost grows with the length (`runtime.frame.weights`).
    if len(extrinsic_bytes) > SIGNED_LENGTH_MAX_BYTES:
        raise DecodeError("signed extrinsic too long")
    signer, signature_start = _ADDRESS.decode_from(extrinsic_bytes, start)
    signature, extra_start = MULTI_SIGNATURE.decode_from(extrinsic_bytes, signature_start)
    extra, call_start = _EXTRA.decode_from(extrinsic_bytes, extra_start)
    call_bytes = extrinsic_bytes[call_start:]
    # Signed in another order than sent: the call comes first.
    signed_head = call_bytes + extrinsic_bytes[extra_start:call_start]
    return Envelope(Authorization(signer, signature, extra, signed_head), call_bytes, extrinsic_bytes)


def signing_payload(payload_head: bytes, additional: Additional) -> bytes:
    """Return the message to sign for `call ++ extra`."""
    return _payload(payload_head + additional_tail(additional))


def additional_tail(additional: Additional) -> bytes:
    """Return the encoded part of the signed message that is not sent."""
    return _ADDITIONAL.encode(additional)


def _payload(full_payload: bytes) -> bytes:
    return blake2_256(full_payload) if len(full_payload) > HASHED_PAYLOAD_BYTES else full_payload


def payload_head(runtime: Runtime, call: Call, extra: Extra) -> bytes:
    """Return `call ++ extra`, the part of the signed message that is sent."""
    return runtime.call_codec.encode(call) + _EXTRA.encode(extra)


def encode_signed(runtime: Runtime, call: Call, extra: Extra, signer: bytes, signature: MultiSignature) -> bytes:
    """Return a signed extrinsic, ready to submit."""
    signed_body = bytes((SIGNED_V4,)) + _ADDRESS.encode(signer) + MULTI_SIGNATURE.encode(signature)
    return _prefixed(signed_body + _EXTRA.encode(extra) + runtime.call_codec.encode(call))


def encode_bare(runtime: Runtime, call: Call) -> bytes:
    """Return an inherent in the form of a block's entry."""
    return _prefixed(bytes((BARE_VERSIONS[0],)) + runtime.call_codec.encode(call))


def _prefixed(extrinsic_body: bytes) -> bytes:
    return encode_compact(len(extrinsic_body)) + extrinsic_body
