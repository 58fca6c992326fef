"""Peers that prove other keys during a connection."""

from __future__ import annotations

from node.duty.keystore import KeyPair
from node.p2p.frames import FrameKind
from node.p2p.hello import Role
from node.peers.peer_proof import PeerProofs, prove
from node.peers.peers import PENALTIES_MAX, Peers
from node.sync.proven_keys import BURST, ProvenKeys
from played_transport import PlayedTransport

GENESIS = b"g" * 32
FIRST, SECOND = (KeyPair.from_seed(bytes([number]) * 32) for number in (1, 2))


def proof(peer: str, *pairs: KeyPair) -> bytes:
    return prove([(pair.public, pair.secret) for pair in pairs], GENESIS, peer)


class Stage:
    """A node with two peers: one validator, and one that only follows."""

    def __init__(self) -> None:
        self.transport = PlayedTransport("validator", "follower")
        self.peers, self.now_ms = Peers(self.transport), 0
        self.proofs = PeerProofs(GENESIS, lambda _: True)
        assert self.proofs.accepts("validator", Role.VALIDATOR, proof("validator", FIRST))
        assert self.proofs.accepts("follower", Role.FULL, b"")
        self.told: list[tuple[str, tuple[bytes, ...]]] = []
        self.listener = ProvenKeys(self.proofs, self.peers, lambda: self.now_ms, self._note)

    def _note(self, peer: str, keys: tuple[bytes, ...]) -> None:
        self.told.append((peer, keys))

    def hear(self, payload: bytes, peer: str = "validator", kind: FrameKind = FrameKind.KEYS) -> None:
        self.listener.on_gossip(kind, payload, peer)


def test_another_key_is_known_from_its_proof_on() -> None:
    stage = Stage()
    stage.hear(proof("validator", FIRST, SECOND))
    assert stage.told == [("validator", (FIRST.public, SECOND.public))]
    assert stage.proofs.sessions["validator"] == (FIRST.public, SECOND.public)
    assert stage.proofs.is_validator("validator")
    stage.hear(proof("validator", FIRST, SECOND))
    assert len(stage.told) == 1, "nothing new"
    assert stage.peers.penalties == 0


def test_what_proves_nothing_changes_nothing_and_is_penalised() -> None:
    stage = Stage()
    for payload in (b"", b"\xff" * 97, proof("another", SECOND), proof("validator", SECOND)[:-1] + b"\0"):
        stage.now_ms += 60_000
        stage.hear(payload)
    assert stage.told == []
    assert stage.proofs.sessions["validator"] == (FIRST.public,)
    assert stage.peers.penalties == 4


def test_who_claimed_to_be_no_validator_proves_nothing() -> None:
    stage = Stage()
    stage.hear(proof("follower", SECOND), "follower")
    assert (stage.told, "follower" in stage.proofs.sessions, stage.peers.penalties) == ([], False, 1)


def test_a_peer_that_proves_without_end_is_not_listened_to_and_banned() -> None:
    stage = Stage()
    for number in range(int(BURST) + PENALTIES_MAX):
        stage.hear(proof("validator", FIRST, *([SECOND] if number % 2 else [])))
    assert len(stage.told) <= BURST
    assert stage.transport.banned == ["validator"]


def test_four_proofs_at_once_and_one_more_in_ten_seconds_are_heard() -> None:
    stage = Stage()
    both, one = proof("validator", FIRST, SECOND), proof("validator", FIRST)
    for number in range(6):
        stage.hear(one if number % 2 else both)
    assert (len(stage.told), stage.peers.penalties) == (4, 2)
    stage.now_ms += 10_000
    stage.hear(both)
    stage.hear(one)
    assert (len(stage.told), stage.peers.penalties) == (5, 3)


def test_other_messages_are_not_for_it() -> None:
    stage = Stage()
    stage.hear(proof("validator", SECOND), kind=FrameKind.HEARTBEAT)
    assert (stage.told, stage.peers.penalties) == ([], 0)
