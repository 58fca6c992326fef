"""A validator's proof to its peers of the session keys behind its peer id.

Invariant: the connection authenticates the peer id, so a copied proof is useless. A claim to be a validator is refused
without a proof, and also if one of its proofs is invalid.
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
"""The most keys of one node: the seated one, its successor after a rotation, and two more. Each costs a peer 50 us to
check."""
PEERS_MAX = 4_096  # making and proving keys is free
_KIND = b"peer"
IsSeated = Callable[[bytes], bool]
"""Return whether a session key is in this epoch's set or in the next one."""


@struct
class PeerProof:
    """A session key, and its signature over the peer id."""

    session: Annotated[bytes, Fixed(32)]
    signature: Annotated[bytes, Fixed(64)]


_PROOFS: Codec[tuple[PeerProof, ...]] = codec(Annotated[tuple[PeerProof, ...], Bounded(PROOFS_MAX)])


def prove(pairs: Sequence[tuple[bytes, bytes]], genesis: bytes, peer_id: str) -> bytes:
    """Return the proofs that the node with these session keys (public and secret) has the peer id `peer_id`."""
    message = domain(_KIND, genesis, peer_id.encode())
    return _PROOFS.encode(
        tuple(PeerProof(public, signatures.sign(Scheme.ED25519, public, secret, message)) for public, secret in pairs)
    )


class PeerProofs:
    """The session keys that connected peers proved, in `sessions` by peer id."""

    def __init__(self, genesis: bytes, is_seated: IsSeated) -> None:
        """Create it; `is_seated` returns whether a session key is in the active or the elected set."""
        self._genesis_hash = genesis
        self._is_seated = is_seated
        self.sessions: dict[str, tuple[bytes, ...]] = {}
        self._newest_owner: dict[bytes, str] = {}

    def accepts(self, peer_id: str, role: Role, packed: bytes) -> bool:
        """Judge a peer's hello (the transport's `OnHello`), and remember the keys that it proved."""
        self._forget_peer(peer_id)
        return role is not Role.VALIDATOR or self.renew(peer_id, packed)

    def renew(self, peer_id: str, packed: bytes) -> bool:
        """Replace the keys of a peer by newly proven ones; an invalid proof leaves the old ones."""
        try:
            proofs = _PROOFS.decode(packed)
        except DecodeError:
            return False
        keys = tuple(dict.fromkeys(proof.session for proof in proofs))
        if not keys or len(keys) != len(proofs) or not all(self._proof_holds(proof, peer_id) for proof in proofs):
            return False
        self._forget_peer(peer_id)
        self.sessions[peer_id] = keys
        for session in keys:
            self._newest_owner[session] = peer_id
        self._make_room()
        return True

    def is_validator(self, peer_id: str) -> bool:
        """Return whether a peer proved a key of the active or the elected set: proving any other key is free."""
        # One key is one validator, for however many peer ids it signs: only the newest id counts.
        return any(
            self._newest_owner.get(session) == peer_id and self._is_seated(session)
            for session in self.sessions.get(peer_id, ())
        )

    def stashes(self, validators: ValidatorSet) -> dict[bytes, bytes]:
        """Return the stash behind each peer that proved the key of one of these validators."""
        by_session = {member.session: member.stash for member in validators.members}
        stash_by_peer = {}
        for peer_id, keys in self.sessions.items():
            for session in keys:
                if session in by_session:
                    stash_by_peer[peer_id.encode()] = by_session[session]
        return stash_by_peer

    def _proof_holds(self, proof: PeerProof, peer_id: str) -> bool:
        # For a key of small order anybody can make valid signatures.
        if not signatures.is_safe_public_key(proof.session):
            return False
        message = domain(_KIND, self._genesis_hash, peer_id.encode())
        return signatures.verify_ed25519(proof.session, message, proof.signature)

    def _make_room(self) -> None:
        """Forget the oldest peer, one without a seated key first: made-up keys must not push out a validator."""
        if len(self.sessions) > PEERS_MAX:
            made_up = (peer_id for peer_id, keys in self.sessions.items() if not any(map(self._is_seated, keys)))
            self._forget_peer(next(made_up, None) or next(iter(self.sessions)))

    def _forget_peer(self, peer_id: str) -> None:
        for session in self.sessions.pop(peer_id, ()):
            if self._newest_owner.get(session) == peer_id:
                del self._newest_owner[session]
