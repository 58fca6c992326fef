"""Extrinsics from the pool to peers: each once, never back, and never over a message's size."""

from __future__ import annotations

import random

import pytest

from node.p2p.frames import MAX_SMALL_PAYLOAD_BYTES, FrameKind
from node.p2p.gossip import Gossip
from node.peers.peers import Peers
from node.pool.relay import Relay
from played_transport import PlayedTransport
from runtime.cryptography.hashing import blake2_256


@pytest.fixture
def transport() -> PlayedTransport:
    return PlayedTransport("a", "b", "c")


@pytest.fixture
def relay(transport: PlayedTransport, monkeypatch: pytest.MonkeyPatch) -> Relay:
    peers = Peers(transport)
    monkeypatch.setattr(peers, "peer_ids", lambda: transport.connected)
    return Relay(peers, Gossip(random.Random(1)))


def test_a_peers_extrinsic_goes_on_once_and_not_back(relay: Relay, transport: PlayedTransport) -> None:
    extrinsic_hash = blake2_256(b"extrinsic")
    assert not relay.has_passed_on(extrinsic_hash)
    relay.pass_on(extrinsic_hash, b"extrinsic", "a")
    assert {peer for peer, _, _ in transport.sent} == {"b", "c"}
    assert relay.has_passed_on(extrinsic_hash)
    relay.pass_on(extrinsic_hash, b"extrinsic", "b")
    assert len(transport.sent) == 2


def test_own_extrinsics_go_to_everybody_unless_too_large_for_a_message(
    relay: Relay, transport: PlayedTransport
) -> None:
    relay.pass_on(b"h" * 32, b"own", None)
    assert sorted(transport.sent) == [(peer, FrameKind.TX, b"own") for peer in "abc"]
    relay.pass_on(b"i" * 32, b"x" * (MAX_SMALL_PAYLOAD_BYTES + 1), None)
    assert len(transport.sent) == 3
