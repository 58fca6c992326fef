"""A stash and the keys that it links, all made from a name."""

from dataclasses import dataclass
from functools import cache

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme, keypair_from_seed, sign


@cache
def _pair(seed: bytes) -> tuple[bytes, bytes]:
    return keypair_from_seed(Scheme.ED25519, seed)


@dataclass(frozen=True)
class NamedKeys:
    """The ed25519 keys of one name, by role."""

    name: str

    def seed(self, role: str) -> bytes:
        """What the key of a role is made of."""
        return blake2_256(f"{self.name}/{role}".encode())

    def public(self, role: str = "stash") -> bytes:
        """The public key of a role."""
        return _pair(self.seed(role))[0]

    def sign(self, role: str, message: bytes) -> bytes:
        """A signature with the key of a role."""
        public, secret = _pair(self.seed(role))
        return sign(Scheme.ED25519, public, secret, message)

    @property
    def stash(self) -> bytes:
        """The account that bonds and is paid."""
        return self.public()

    @property
    def provider(self) -> bytes:
        """The account of the daemon."""
        return self.public("provider")
