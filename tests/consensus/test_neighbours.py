"""Connected validators: the keys of each peer, members first, and no work except when a peer comes or leaves."""

from consensus.neighbours import Neighbours
from consensus.validators import Validator, ValidatorSet
from consensus_parts import members, signers

KEYS = [signer.public for signer in signers(4)]


def begun(session: bytes | None = None) -> Neighbours:
    neighbours = Neighbours()
    neighbours.begin(members(4), session)
    return neighbours


def test_a_validator_that_connects_anew_keeps_its_vote_when_the_old_connection_ends() -> None:
    neighbours = begun()
    neighbours.connect(b"old", (KEYS[1],))
    neighbours.connect(b"new", (KEYS[1],))
    neighbours.disconnect(b"old")
    assert neighbours.voters == {KEYS[1]: b"new"}
    neighbours.disconnect(b"new")
    assert neighbours.voters == {}


def test_a_peer_that_proves_other_keys_counts_for_those_alone() -> None:
    neighbours = begun()
    neighbours.connect(b"a", (KEYS[1], KEYS[2]))
    neighbours.connect(b"a", (KEYS[2], KEYS[3]))
    assert neighbours.voters == {KEYS[2]: b"a", KEYS[3]: b"a"}
    neighbours.connect(b"b", (KEYS[3],))
    neighbours.connect(b"a", (KEYS[2],))
    assert neighbours.voters == {KEYS[2]: b"a", KEYS[3]: b"b"}, "another's key stays the other's"


def test_a_peer_with_this_nodes_own_key_is_not_polled() -> None:
    neighbours = begun(KEYS[0])
    neighbours.connect(b"copy", (KEYS[0],))
    neighbours.connect(b"other", (KEYS[1],))
    assert neighbours.voters == {KEYS[1]: b"other"}
    assert neighbours.linked() == {KEYS[0], KEYS[1]}


def member(key: bytes) -> Validator:
    return Validator(key, key, key, 1)


def chosen(keys: list[bytes]) -> tuple[Validator, ...]:
    return tuple(member(key) for key in sorted(keys))


def test_members_come_first_and_strangers_as_they_arrived() -> None:
    neighbours = Neighbours()
    neighbours.begin(ValidatorSet(0, chosen(KEYS[:3])), KEYS[0])
    for peer, keys in ((b"x", ()), (b"b", (KEYS[2],)), (b"y", (KEYS[3],)), (b"a", (KEYS[1],))):
        neighbours.connect(peer, keys)
    assert list(neighbours.in_order()) == [b"b", b"a", b"x", b"y"]
    neighbours.begin(ValidatorSet(1, chosen(KEYS[2:])), None)
    assert list(neighbours.in_order()) == [b"b", b"y", b"x", b"a"]
    neighbours.disconnect(b"b")
    assert list(neighbours.in_order()) == [b"y", b"x", b"a"]


def test_the_order_is_worked_out_when_somebody_comes_or_goes_alone() -> None:
    """The order is needed twice for every message. With 128 members it was most of the cost of agreement."""
    neighbours = Neighbours()
    neighbours.begin(ValidatorSet(0, chosen(KEYS)), KEYS[0])
    neighbours.connect(b"a", (KEYS[1],))
    before = neighbours.in_order()
    assert neighbours.in_order() is before
    neighbours.connect(b"b", ())
    assert list(neighbours.in_order()) == [b"a", b"b"]


def test_a_peer_votes_with_that_of_its_keys_which_sits() -> None:
    neighbours = Neighbours()
    neighbours.begin(ValidatorSet(0, chosen(KEYS[:2])), KEYS[0])
    neighbours.connect(b"peer", (KEYS[1], KEYS[2]))
    assert neighbours.voters == {KEYS[1]: b"peer"}
    neighbours.begin(ValidatorSet(1, chosen(KEYS[2:])), None)
    assert neighbours.voters == {KEYS[2]: b"peer"}
    assert neighbours.linked() == {KEYS[2]}
    neighbours.disconnect(b"peer")
    assert neighbours.voters == {}


def test_a_copy_of_the_key_of_another_epoch_is_polled_in_none_in_which_it_is_this_nodes() -> None:
    neighbours = Neighbours()
    neighbours.begin(ValidatorSet(0, chosen(KEYS[:2])), KEYS[0])
    neighbours.connect(b"copy", (KEYS[2],))
    neighbours.begin(ValidatorSet(1, chosen(KEYS)), KEYS[2])
    assert neighbours.voters == {}
