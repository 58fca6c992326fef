"""The next peer to ask: orders, pauses, and the memory of earlier answers."""

from __future__ import annotations

from node.sync.sets_ahead import REST_DOUBLINGS_MAX, REST_MS, QuestionTurns

PEERS = (b"a", b"b", b"c")


def test_in_the_order_of_arrival_until_one_has_answered() -> None:
    known = QuestionTurns()
    assert known.next(PEERS, 0) == b"a"
    known.on_right(b"c")
    assert known.next(PEERS, 0) == b"c"
    assert known.next((), 0) is None


def test_who_was_silent_comes_after_everybody_who_was_so_less_often() -> None:
    known = QuestionTurns()
    known.on_right(b"a")
    known.on_silence(b"a", 0)
    known.on_silence(b"b", 0)
    known.on_silence(b"b", 0)
    later = REST_MS << REST_DOUBLINGS_MAX
    assert known.next(PEERS, later) == b"c"
    assert known.next(PEERS[:2], later) == b"a", "what it once answered no longer counts"
    known.on_useless(b"b", later)
    assert known.next((b"b",), later + REST_MS) == b"b"
    known.on_right(b"b")
    assert known.next(PEERS, later) == b"b", "an answer makes good what was"


def test_each_silence_in_a_row_doubles_the_rest_up_to_a_bound() -> None:
    known, now_ms, rests = QuestionTurns(), 0, []
    for _ in range(REST_DOUBLINGS_MAX + 3):
        known.on_silence(b"a", now_ms)
        begun = now_ms
        while known.next((b"a",), now_ms) is None:
            now_ms += REST_MS
        rests.append((now_ms - begun) // REST_MS)
    assert rests == [1, 2, 4, 8, 8, 8]


def test_the_peers_of_the_last_silences_are_remembered() -> None:
    known = QuestionTurns()
    for number in range(1_025):
        known.on_silence(b"%d" % number, 0)
    assert len(known) == 1_024
    assert known.next((b"0",), 0) == b"0"
    assert known.next((b"1", b"1024"), 0) is None
