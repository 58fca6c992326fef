"""How a validator shows its peers which session key stands behind its peer id.

What always holds: the peer id is authenticated by the connection itself, so a proof that is copied proves nothing for
who copied it; a claim to be a validator without a proof that verifies is refused.
"""

from __future__ import annotations

from consensus.validators import ValidatorSet
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


def prove(public: bytes, secret: bytes, genesis: bytes, peer_id: str) -> bytes:
    """The proof that the node with this session key is called `peer_id`."""
    message = domain(_KIND, genesis, peer_id.encode())
    return _PEER_PROOF.encode(PeerProof(public, signatures.sign(Scheme.ED25519, public, secret, message)))


class PeerProofs:
    """The session keys that connected peers proved, in `sessions` by peer id."""

    def __init__(self, genesis: bytes) -> None:
        self._genesis = genesis
        self.sessions: dict[str, bytes] = {}

    def accepts(self, peer_id: str, role: Role, proof: bytes) -> bool:
        """Judge a peer's hello (the transport's `OnHello`) and remember the key that it proved."""
        self.sessions.pop(peer_id, None)
        if role is not Role.VALIDATOR:
            return True
        try:
            claimed = _PEER_PROOF.decode(proof)
        except DecodeError:
            return False
        # Anybody can sign for a key of small order.
        if not signatures.is_safe_public_key(claimed.session):
            return False
        message = domain(_KIND, self._genesis, peer_id.encode())
        if not signatures.verify_ed25519(claimed.session, message, claimed.signature):
            return False
        self.sessions[peer_id] = claimed.session
        if len(self.sessions) > SESSIONS_MAX:
            del self.sessions[next(iter(self.sessions))]
        return True

    def stashes(self, validators: ValidatorSet) -> dict[bytes, bytes]:
        """The stash behind each peer that proved the key of one of these validators."""
        by_session = {member.session: member.stash for member in validators.members}
        return {peer.encode(): by_session[session] for peer, session in self.sessions.items() if session in by_session}
