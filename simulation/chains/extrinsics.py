"""Signed extrinsics of chains in memory and of benchmarks, as a wallet makes them."""

from collections.abc import Callable

from runtime.blocks.extrinsic import Additional, Extra, MultiSignature, encode_signed, payload_head, signing_payload
from runtime.cryptography.signatures import Scheme, sign
from runtime.frame.call import Call
from runtime.frame.runtime import Runtime

Signer = Callable[[bytes], MultiSignature]


def signed_extrinsic(
    runtime: Runtime, genesis: bytes, call: Call, extra: Extra, account: bytes, signer: Signer, birth: bytes = b""
) -> bytes:
    """Return a call that an account signs. `birth` is the block at which a mortal era begins."""
    version = runtime.version
    additional = Additional(version.spec_version, version.transaction_version, genesis, birth or genesis)
    payload = signing_payload(payload_head(runtime, call, extra), additional)
    return encode_signed(runtime, call, extra, account, signer(payload))


def ed25519(public: bytes, secret: bytes) -> Signer:
    """Return a signer with an ed25519 key."""
    return lambda payload: MultiSignature(Scheme.ED25519, sign(Scheme.ED25519, public, secret, payload))
