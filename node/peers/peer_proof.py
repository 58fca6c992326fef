"""How a validator shows its peers which session key stands behind its peer id.

What always holds: the peer id is authenticated by the connection itself, so a proof that is copied proves nothing for
who copied it; a claim to be a validator without a proof that verifies is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from consensus.validators import ValidatorSet
from node.p2p.hello import Role
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme
from runtime.cryptography.signing import domain
from runtime.encoding.codec import Annotated, Codec, DecodeError, Fixed, codec, struct

SESSIONS_MAX = 4_096  # anybody can make keys and prove them
_KIND = b"peer"
IsSeated = Callable[[bytes], bool]
"""Whether a session key is one of this epoch's set or of the one elected next."""


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

    def __init__(self, genesis: bytes, is_seated: IsSeated) -> None:
        """`is_seated` says whether a session key is in office or elected."""
        self._genesis = genesis
        self._is_seated = is_seated
        self.sessions: dict[str, bytes] = {}
        self._newest: dict[bytes, str] = {}

    def accepts(self, peer_id: str, role: Role, proof: bytes) -> bool:
        """Judge a peer's hello (the transport's `OnHello`) and remember the key that it proved."""
        self._forget(peer_id)
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
        self._newest[claimed.session] = peer_id
        self._make_room()
        return True

    def is_validator(self, peer_id: str) -> bool:
        """Whether a peer proved a key that is in office now, or elected: anybody can prove one that is not."""
        session = self.sessions.get(peer_id)
        # One key is one validator, however many peer ids it signs for.
        return session is not None and self._newest.get(session) == peer_id and self._is_seated(session)

    def stashes(self, validators: ValidatorSet) -> dict[bytes, bytes]:
        """The stash behind each peer that proved the key of one of these validators."""
        by_session = {member.session: member.stash for member in validators.members}
        return {peer.encode(): by_session[session] for peer, session in self.sessions.items() if session in by_session}

    def _make_room(self) -> None:
        """Forget the oldest, first of the keys that are in no set: whoever makes up keys pushes out no validator."""
        if len(self.sessions) > SESSIONS_MAX:
            made_up = (peer for peer, session in self.sessions.items() if not self._is_seated(session))
            self._forget(next(made_up, None) or next(iter(self.sessions)))

    def _forget(self, peer_id: str) -> None:
        session = self.sessions.pop(peer_id, None)
        if session is not None and self._newest.get(session) == peer_id:
            del self._newest[session]
