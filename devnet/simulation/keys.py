"""Keys of simulated validators, and their signatures: real ones, or a fast fake.

Invariant: the fake serves the simulator only. Anyone with a public key can make its signatures. No simulated node
forges, so the fake differs only in the cost of verification.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from runtime.blocks.votes import VerifyEd25519
from runtime.cryptography import signatures

SignMessage = Callable[[bytes], bytes]


class Signer(NamedTuple):
    """A session key: its public half, and a function that signs with its secret half."""

    public: bytes
    sign: SignMessage


class KeyRing(NamedTuple):
    """The session keys of one node. Each serves `epochs` epochs, in turn, and then the first one again."""

    signers: tuple[Signer, ...]
    epochs: int = 1

    def at(self, epoch: int) -> Signer:
        """Return the key of an epoch."""
        return self.signers[epoch // self.epochs % len(self.signers)]

    @property
    def public(self) -> tuple[bytes, ...]:
        """All public keys: those that a connection proves."""
        return tuple(signer.public for signer in self.signers)


def fake_signer(validator_number: int) -> Signer:
    """Return the fast stand-in for the ed25519 key of validator `number`."""
    public_key = blake2b(b"fake session key %d" % validator_number, digest_size=32).digest()
    return Signer(public_key, lambda message: _fake_signature(public_key, message))


# Verification dominates a run with real signatures, so most runs use this one.
def verify_fake(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether a fake signature is valid."""
    return signature == _fake_signature(public_key, message)


def _fake_signature(public_key: bytes, message: bytes) -> bytes:
    return blake2b(message, key=public_key).digest()


def real_signer(validator_number: int) -> Signer:
    """Return a real ed25519 key from a public seed."""
    key_seed = blake2b(b"simulated session key %d" % validator_number, digest_size=32).digest()
    public_key, secret_key = signatures.keypair_from_seed(signatures.Scheme.ED25519, key_seed)
    return Signer(
        public_key, lambda message: signatures.sign(signatures.Scheme.ED25519, public_key, secret_key, message)
    )


verify_real: VerifyEd25519 = signatures.verify_ed25519
