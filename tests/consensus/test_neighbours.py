"""Who is connected, and which keys count for whom."""

from consensus.neighbours import Neighbours
from consensus_parts import members, signers

KEYS = [signer.public for signer in signers(4)]


def begun(session: bytes | None = None) -> Neighbours:
    neighbours = Neighbours(session)
    neighbours.begin(members(4))
    return neighbours


def test_a_validator_that_connects_anew_keeps_its_vote_when_the_old_connection_ends() -> None:
    neighbours = begun()
    neighbours.connect(b"old", KEYS[1])
    neighbours.connect(b"new", KEYS[1])
    neighbours.disconnect(b"old")
    assert neighbours.voters == {KEYS[1]: b"new"}
    neighbours.disconnect(b"new")
    assert neighbours.voters == {}


def test_a_peer_with_this_nodes_own_key_is_not_polled() -> None:
    neighbours = begun(KEYS[0])
    neighbours.connect(b"copy", KEYS[0])
    neighbours.connect(b"other", KEYS[1])
    assert neighbours.voters == {KEYS[1]: b"other"}
    assert neighbours.linked() == {KEYS[0], KEYS[1]}
