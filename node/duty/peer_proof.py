"""How a validator shows its peers which session key stands behind its peer id.

What always holds: the peer id is authenticated by the connection itself, so a proof that is copied proves nothing for
who copied it; a claim to be a validator without a proof that verifies is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from consensus.votes import VerifyEd25519
from node.duty.keystore import KeyPair
from node.p2p.hello import Role
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme
from runtime.cryptography.signing import domain
from runtime.encoding.codec import Annotated, Codec, DecodeError, Fixed, codec, struct

SESSIONS_MAX = 4_096  # anybody can make keys and prove them
_KIND = b"peer"


@struct
class PeerProof:
    """A session key, and its signature over the peer id."""

    session: Annotated[bytes, Fixed(32)]
    signature: Annotated[bytes, Fixed(64)]


_PEER_PROOF: Codec[PeerProof] = codec(PeerProof)


def prove(pair: KeyPair, genesis: bytes, peer_id: str) -> bytes:
    """The proof that this session key's node is called `peer_id`."""
    message = domain(_KIND, genesis, peer_id.encode())
    return _PEER_PROOF.encode(
        PeerProof(pair.public, signatures.sign(Scheme.ED25519, pair.public, pair.secret, message))
    )


@dataclass(slots=True)
class PeerProofs:
    """The session keys that connected peers proved."""

    genesis: bytes
    verify: VerifyEd25519
    sessions: dict[str, bytes]

    def accepts(self, peer_id: str, role: Role, proof: bytes) -> bool:
        """Judge a peer's hello (the transport's `OnHello`) and remember the key that it proved."""
        self.sessions.pop(peer_id, None)
        if role is not Role.VALIDATOR:
            return True
        try:
            claimed = _PEER_PROOF.decode(proof)
        except DecodeError:
            return False
        if not signatures.is_safe_public_key(claimed.session):  # anybody can sign for a key of small order
            return False
        if not self.verify(claimed.session, domain(_KIND, self.genesis, peer_id.encode()), claimed.signature):
            return False
        self.sessions[peer_id] = claimed.session
        if len(self.sessions) > SESSIONS_MAX:
            del self.sessions[next(iter(self.sessions))]
        return True
