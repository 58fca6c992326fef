"""Who is connected: members first, and no work for it but when somebody comes or goes."""

from consensus.neighbours import Neighbours
from consensus.validators import Validator, ValidatorSet

KEYS = [bytes([number]) * 32 for number in range(4)]


def member(key: bytes) -> Validator:
    return Validator(key, key, key, 1)


def test_members_come_first_and_strangers_as_they_arrived() -> None:
    neighbours = Neighbours(KEYS[0])
    neighbours.begin(ValidatorSet(0, tuple(map(member, KEYS[:3]))))
    for peer, key in ((b"x", None), (b"b", KEYS[2]), (b"y", KEYS[3]), (b"a", KEYS[1])):
        neighbours.connect(peer, key)
    assert list(neighbours.in_order()) == [b"b", b"a", b"x", b"y"]
    neighbours.begin(ValidatorSet(1, tuple(map(member, KEYS[2:]))))
    assert list(neighbours.in_order()) == [b"b", b"y", b"x", b"a"]
    neighbours.disconnect(b"b")
    assert list(neighbours.in_order()) == [b"y", b"x", b"a"]


def test_the_order_is_worked_out_when_somebody_comes_or_goes_alone() -> None:
    """It is asked for twice with every message; with 128 members that was most of what agreement cost."""
    neighbours = Neighbours(KEYS[0])
    neighbours.begin(ValidatorSet(0, tuple(map(member, KEYS))))
    neighbours.connect(b"a", KEYS[1])
    before = neighbours.in_order()
    assert neighbours.in_order() is before
    neighbours.connect(b"b", None)
    assert list(neighbours.in_order()) == [b"a", b"b"]
