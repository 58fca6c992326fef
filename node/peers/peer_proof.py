"""How a validator shows its peers which session keys stand behind its peer id.

Invariant: the peer id is authenticated by the connection itself, so a proof that is copied proves nothing for
who copied it; a claim to be a validator without a proof that verifies is refused, and one proof that does not is enough
for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from consensus.validators import ValidatorSet
from node.p2p.hello import Role
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme
from runtime.cryptography.signing import domain
from runtime.encoding.codec import Annotated, Bounded, Codec, DecodeError, Fixed, codec, struct

PROOFS_MAX = 4
"""Keys of one node: the one that sits, that of after a rotation, and two more. Each costs a peer 50 us to check."""
PEERS_MAX = 4_096  # anybody can make keys and prove them
_KIND = b"peer"
IsSeated = Callable[[bytes], bool]
"""Whether a session key is one of this epoch's set or of the one elected next."""


@struct
class PeerProof:
    """A session key, and its signature over the peer id."""

    session: Annotated[bytes, Fixed(32)]
    signature: Annotated[bytes, Fixed(64)]


_PROOFS: Codec[tuple[PeerProof, ...]] = codec(Annotated[tuple[PeerProof, ...], Bounded(PROOFS_MAX)])


def prove(pairs: Sequence[tuple[bytes, bytes]], genesis: bytes, peer_id: str) -> bytes:
    """Return the proofs that the node with these session keys (public and secret) is called `peer_id`."""
    message = domain(_KIND, genesis, peer_id.encode())
    return _PROOFS.encode(
        tuple(PeerProof(public, signatures.sign(Scheme.ED25519, public, secret, message)) for public, secret in pairs)
    )


class PeerProofs:
    """The session keys that connected peers proved, in `sessions` by peer id."""

    def __init__(self, genesis: bytes, is_seated: IsSeated) -> None:
        """`is_seated` says whether a session key is in office or elected."""
        self._genesis = genesis
        self._is_seated = is_seated
        self.sessions: dict[str, tuple[bytes, ...]] = {}
        self._newest: dict[bytes, str] = {}

    def accepts(self, peer_id: str, role: Role, proof: bytes) -> bool:
        """Judge a peer's hello (the transport's `OnHello`) and remember the keys that it proved."""
        self._forget(peer_id)
        return role is not Role.VALIDATOR or self.renew(peer_id, proof)

    def renew(self, peer_id: str, proof: bytes) -> bool:
        """Remember the keys that a validator proves now, in place of those before, which stay if this is no proof."""
        try:
            claimed = _PROOFS.decode(proof)
        except DecodeError:
            return False
        keys = tuple(dict.fromkeys(each.session for each in claimed))
        if not keys or len(keys) != len(claimed) or not all(self._holds(each, peer_id) for each in claimed):
            return False
        self._forget(peer_id)
        self.sessions[peer_id] = keys
        for session in keys:
            self._newest[session] = peer_id
        self._make_room()
        return True

    def is_validator(self, peer_id: str) -> bool:
        """Return whether a peer proved a key that is in office now, or elected: anybody can prove one that is not."""
        # One key is one validator, however many peer ids it signs for.
        return any(
            self._newest.get(session) == peer_id and self._is_seated(session)
            for session in self.sessions.get(peer_id, ())
        )

    def stashes(self, validators: ValidatorSet) -> dict[bytes, bytes]:
        """Return the stash behind each peer that proved the key of one of these validators."""
        by_session = {member.session: member.stash for member in validators.members}
        return {
            peer.encode(): by_session[session]
            for peer, sessions in self.sessions.items()
            for session in sessions
            if session in by_session
        }

    def _holds(self, claimed: PeerProof, peer_id: str) -> bool:
        # Anybody can sign for a key of small order.
        if not signatures.is_safe_public_key(claimed.session):
            return False
        message = domain(_KIND, self._genesis, peer_id.encode())
        return signatures.verify_ed25519(claimed.session, message, claimed.signature)

    def _make_room(self) -> None:
        """Forget the oldest, first of the keys that are in no set: whoever makes up keys pushes out no validator."""
        if len(self.sessions) > PEERS_MAX:
            made_up = (peer for peer, keys in self.sessions.items() if not any(map(self._is_seated, keys)))
            self._forget(next(made_up, None) or next(iter(self.sessions)))

    def _forget(self, peer_id: str) -> None:
        for session in self.sessions.pop(peer_id, ()):
            if self._newest.get(session) == peer_id:
                del self._newest[session]
