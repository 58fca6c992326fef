"""Penalties of misbehaving peers, and certificates cut into messages."""

from __future__ import annotations

import pytest

import node.peers.peers
from consensus.certificates import BITMAP_BYTES_MAX, VERSION_ED25519, Certificate
from consensus.parameters import ACTIVE_VALIDATORS_MAX
from consensus.wire import CERTIFICATES_PER_MESSAGE_MAX, MESSAGE, Certified
from node.p2p.frames import MAX_SMALL_PAYLOAD_BYTES
from node.peers.peers import PENALTIES_MAX, PENALTY_WINDOW_MS, Peers
from played_transport import PlayedTransport
from runtime.blocks.votes import Ballot, BallotKind


@pytest.fixture
def transport() -> PlayedTransport:
    return PlayedTransport("a", "b")


def test_so_many_mistakes_in_a_minute_and_a_peer_is_banned(transport: PlayedTransport) -> None:
    peers = Peers(transport)
    for number in range(PENALTIES_MAX - 1):
        peers.penalise(b"a", "late", 1_000 + number)
        peers.penalise(b"b", "late", 1_000 + number)
    assert transport.banned == []
    peers.penalise(b"a", "late", 2_000)
    assert transport.banned == ["a"]


def test_as_many_mistakes_over_a_longer_time_are_forgiven(transport: PlayedTransport) -> None:
    peers = Peers(transport)
    for number in range(10 * PENALTIES_MAX):
        peers.penalise(b"a", "late", number * PENALTY_WINDOW_MS // (PENALTIES_MAX - 1))
    assert transport.banned == []


def test_what_nobody_sends_by_mistake_counts_for_all_of_them(transport: PlayedTransport) -> None:
    peers = Peers(transport)
    peers.penalise(b"a", "late", 1_000)
    assert transport.banned == []
    peers.penalise(b"a", "made up", 1_000, PENALTIES_MAX)
    assert transport.banned == ["a"]


def test_new_names_fill_no_memory_with_their_mistakes(
    transport: PlayedTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node.peers.peers, "PENALISED_MAX", 3)
    peers = Peers(transport)
    for number in range(10):
        peers.penalise(b"peer %d" % number, "late", 1_000)
    assert len(peers._penalties) == 3


def large_certificate(round_: int) -> Certificate:
    """Return a certificate by all of the largest set."""
    signatures = tuple(bytes(64) for _ in range(ACTIVE_VALIDATORS_MAX))
    content = Ballot(BallotKind.SKIP, 0, round_, 0, bytes(32))
    return Certificate(VERSION_ED25519, content, b"\xff" * BITMAP_BYTES_MAX, signatures)


def test_certificates_of_the_largest_set_are_cut_into_messages_that_fit(transport: PlayedTransport) -> None:
    certificates = tuple(large_certificate(round_) for round_ in range(CERTIFICATES_PER_MESSAGE_MAX))
    Peers(transport).send(b"a", Certified(certificates))
    payloads = [payload for _, _, payload in transport.sent]
    assert len(payloads) > 1
    assert all(len(payload) <= MAX_SMALL_PAYLOAD_BYTES for payload in payloads)
    arrived = [MESSAGE.decode(payload) for payload in payloads]
    assert [kept for part in arrived if isinstance(part, Certified) for kept in part.certificates] == [*certificates]
