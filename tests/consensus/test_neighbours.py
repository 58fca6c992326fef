"""Who is connected: which keys count for whom, members first, and no work for it but when somebody comes or goes."""

from consensus.neighbours import Neighbours
from consensus.validators import Validator, ValidatorSet
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


def member(key: bytes) -> Validator:
    return Validator(key, key, key, 1)


def chosen(keys: list[bytes]) -> tuple[Validator, ...]:
    return tuple(member(key) for key in sorted(keys))


def test_members_come_first_and_strangers_as_they_arrived() -> None:
    neighbours = Neighbours(KEYS[0])
    neighbours.begin(ValidatorSet(0, chosen(KEYS[:3])))
    for peer, key in ((b"x", None), (b"b", KEYS[2]), (b"y", KEYS[3]), (b"a", KEYS[1])):
        neighbours.connect(peer, key)
    assert list(neighbours.in_order()) == [b"b", b"a", b"x", b"y"]
    neighbours.begin(ValidatorSet(1, chosen(KEYS[2:])))
    assert list(neighbours.in_order()) == [b"b", b"y", b"x", b"a"]
    neighbours.disconnect(b"b")
    assert list(neighbours.in_order()) == [b"y", b"x", b"a"]


def test_the_order_is_worked_out_when_somebody_comes_or_goes_alone() -> None:
    """It is asked for twice with every message; with 128 members that was most of what agreement cost."""
    neighbours = Neighbours(KEYS[0])
    neighbours.begin(ValidatorSet(0, chosen(KEYS)))
    neighbours.connect(b"a", KEYS[1])
    before = neighbours.in_order()
    assert neighbours.in_order() is before
    neighbours.connect(b"b", None)
    assert list(neighbours.in_order()) == [b"a", b"b"]
