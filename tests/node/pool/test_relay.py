"""Extrinsics between peers: each is judged once, and passed on only when it is good, never back."""

from __future__ import annotations

import random

import pytest

from node.p2p.frames import MAX_SMALL_PAYLOAD_BYTES, FrameKind
from node.p2p.gossip import Gossip
from node.peer_messages import STATUS, PeerStatus
from node.peers import Peers
from node.pool.relay import Relay
from played_transport import PlayedTransport
from runtime.cryptography.hashing import blake2_256

STANDING = PeerStatus(b"t" * 32, 5, b"f" * 32, 4)


class Taken:
    """Stands in for the pool: what it is offered."""

    def __init__(self) -> None:
        self.offered: list[tuple[bytes, str]] = []

    def offer(self, raw: bytes, peer: str, extrinsic_hash: bytes) -> None:
        assert extrinsic_hash == blake2_256(raw)
        self.offered.append((raw, peer))


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> Relay:
    transport = PlayedTransport("a", "b", "c")
    network = Peers(transport)
    monkeypatch.setattr(network, "peer_ids", lambda: transport.connected)
    relay = Relay(network, Gossip(random.Random(1)), lambda: STANDING)
    relay.pool = Taken()  # type: ignore[assignment]
    return relay


def sent(relay: Relay) -> list[tuple[str, FrameKind, bytes]]:
    transport = relay._network.transport
    assert isinstance(transport, PlayedTransport)
    return transport.sent


def test_a_peers_extrinsic_goes_on_only_after_it_is_admitted_and_not_back(relay: Relay) -> None:
    relay.on_gossip(FrameKind.TX, b"extrinsic", "a")
    assert relay.pool.offered == [(b"extrinsic", "a")]  # type: ignore[attr-defined]
    assert sent(relay) == []
    relay.on_admitted(blake2_256(b"extrinsic"), b"extrinsic", "a")
    assert {peer for peer, _, _ in sent(relay)} == {"b", "c"}
    relay.on_gossip(FrameKind.TX, b"extrinsic", "b")
    assert len(relay.pool.offered) == 1  # type: ignore[attr-defined]
    relay.on_admitted(blake2_256(b"extrinsic"), b"extrinsic", "b")
    assert len(sent(relay)) == 2


def test_own_extrinsics_go_to_everybody_unless_too_large_for_a_message(relay: Relay) -> None:
    relay.on_admitted(b"h" * 32, b"own", None)
    assert sorted(sent(relay)) == [(peer, FrameKind.TX, b"own") for peer in "abc"]
    relay.on_admitted(b"i" * 32, b"x" * (MAX_SMALL_PAYLOAD_BYTES + 1), None)
    assert len(sent(relay)) == 3


def test_a_new_tip_is_told(relay: Relay) -> None:
    relay.on_tip(b"t" * 32)
    assert sorted(sent(relay)) == [(peer, FrameKind.STATUS, STATUS.encode(STANDING)) for peer in "abc"]
    relay.on_gossip(FrameKind.ATTESTATION, b"not mine", "a")
    assert relay.pool.offered == []  # type: ignore[attr-defined]
