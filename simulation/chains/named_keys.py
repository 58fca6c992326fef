"""A stash and its linked keys, all made from a name."""

from dataclasses import dataclass
from functools import cache

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme, keypair_from_seed, sign
from runtime.pallets.session_keys import KeysProof, SessionKeys, prove_keys


@cache
def _pair(seed: bytes) -> tuple[bytes, bytes]:
    return keypair_from_seed(Scheme.ED25519, seed)


@cache
def _proof(keys: "NamedKeys", genesis: bytes, stash: bytes, session: str, vrf: str) -> KeysProof:
    node_keys = keys.node_keys(session, vrf)
    return prove_keys(genesis, stash, node_keys, lambda payload: keys.sign(session, payload), keys.seed(vrf))


@dataclass(frozen=True)
class NamedKeys:
    """The ed25519 keys of one name, by role."""

    name: str

    def seed(self, role: str) -> bytes:
        """Return the seed of a role's key."""
        return blake2_256(f"{self.name}/{role}".encode())

    def public(self, role: str = "stash") -> bytes:
        """Return the public key of a role."""
        return _pair(self.seed(role))[0]

    def sign(self, role: str, message: bytes) -> bytes:
        """Return a signature with the key of a role."""
        public, secret = _pair(self.seed(role))
        return sign(Scheme.ED25519, public, secret, message)

    def node_keys(self, session: str = "session", vrf: str = "vrf") -> SessionKeys:
        """Return its node's session and VRF keys, by role."""
        return SessionKeys(self.public(session), self.public(vrf))

    def proof(
        self, genesis: bytes, stash: bytes | None = None, session: str = "session", vrf: str = "vrf"
    ) -> KeysProof:
        """Return a proof that these keys may be registered for a stash, by default its own."""
        owner = self.stash if stash is None else stash
        return _proof(self, genesis, owner, session, vrf)

    @property
    def stash(self) -> bytes:
        """The account that bonds and is paid."""
        return self.public()

    @property
    def provider(self) -> bytes:
        """The daemon's account."""
        return self.public("provider")
