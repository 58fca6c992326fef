"""The log of polls, as `ogpu_inspect polls` shows it."""

from consensus.parameters import Condition
from consensus.validators import ValidatorSet
from consensus.wire import Chits, PullQuery
from consensus_parts import members
from node.monitoring.poll_log import POLLS_KEPT, PollLog

TIP, OTHER = b"\1" * 32, b"\2" * 32


FOUR = members(4, weights=(40, 30, 20, 10))
A, B, C, D = FOUR.members


def drawing(_: int) -> tuple[ValidatorSet, dict[bytes, int]]:
    return FOUR, {A.session: 2, D.session: 1}


def chits(request: int, tip: bytes) -> Chits:
    return Chits(request, tip, tip, bytes(32), 1, 1)


def test_a_poll_is_shown_with_answers_and_confidence() -> None:
    log = PollLog(lambda _: {b"bob": b"stash"})
    for peer in (b"bob", b"carol", b"dave"):
        log.on_query(peer, PullQuery(7, TIP, 5), 1_000, drawing)
    log.on_chits(b"bob", chits(7, TIP), 1_004)
    log.on_chits(b"carol", chits(7, OTHER), 1_006)
    log.on_chits(b"stranger", chits(7, TIP), 1_007)
    log.on_chits(b"dave", chits(8, TIP), 1_008)  # of a poll that was never asked
    log.on_accepted(4, 1_010, ())
    log.on_accepted(5, 1_020, ((Condition(3, 4), 2), (Condition(4, 2), 2)))
    (shown,) = log.show()
    assert isinstance(shown, dict)
    assert (shown["asked"], shown["answered"], shown["agreed"], shown["accepted_after_ms"]) == (3, 2, 1, 20)
    assert (shown["validators"], shown["stake"], shown["votes"]) == (4, 100, 3)
    assert shown["drawn"] == [
        {"validator": A.stash, "stake": 40, "votes": 2},
        {"validator": D.stash, "stake": 10, "votes": 1},
    ]
    assert shown["confidence"] == [{"alpha": 3, "beta": 4, "polls": 2}, {"alpha": 4, "beta": 2, "polls": 2}]
    assert shown["answers"] == [
        {"peer": "bob", "validator": b"stash", "prefers": TIP, "at_height": TIP, "after_ms": 4},
        {"peer": "carol", "validator": None, "prefers": OTHER, "at_height": OTHER, "after_ms": 6},
        {"peer": "dave", "validator": None},
    ]


def test_only_the_last_polls_are_kept() -> None:
    log = PollLog(lambda _: {})
    for request in range(POLLS_KEPT + 5):
        log.on_query(b"bob", PullQuery(request, TIP, request), request, drawing)
    assert [poll["request"] for poll in log.show() if isinstance(poll, dict)] == list(range(POLLS_KEPT + 4, 4, -1))


def test_each_poll_is_shown_with_its_own_set() -> None:
    others = members(3, weights=(3, 2, 1))
    log = PollLog(lambda asked: {b"bob": asked.members[0].stash})
    log.on_query(b"bob", PullQuery(1, TIP, 5), 1_000, drawing)
    log.on_query(b"bob", PullQuery(2, TIP, 6), 1_001, lambda number: (others, {others.members[1].session: number}))
    log.on_query(b"carol", PullQuery(2, TIP, 6), 1_002, drawing)  # the set of a poll never changes
    later, first = log.show()
    assert isinstance(later, dict)
    assert isinstance(first, dict)
    assert (first["validators"], later["validators"]) == (4, 3)
    assert later["drawn"] == [{"validator": others.members[1].stash, "stake": 2, "votes": 2}]
    assert first["answers"] == [{"peer": "bob", "validator": A.stash}]
    assert later["answers"][0] == {"peer": "bob", "validator": others.members[0].stash}  # type: ignore[index]
