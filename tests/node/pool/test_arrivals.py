"""The queue of arrivals: a peer with many waits only behind its own, and the queue is bounded."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from node.pool import arrivals as module
from node.pool.arrivals import Arrival, Arrivals, Source, Submission


def arrival(source: Source, number: int, size: int = 10) -> Arrival:
    name = f"{source}/{number}".encode()
    return Arrival(name.ljust(size, b"."), source, name)


def taken(arrivals: Arrivals, count: int) -> list[bytes]:
    found = [arrivals.take() for _ in range(count)]
    return [each.extrinsic_hash for each in found if each is not None]


@pytest.mark.trio
async def test_sources_are_served_in_turn_and_each_in_order() -> None:
    arrivals = Arrivals()
    for number in range(1_000):
        assert arrivals.offer(arrival("flood", number))
    assert arrivals.offer(arrival("honest", 0))
    await arrivals.put([arrival(None, 0), arrival(None, 1)])
    assert taken(arrivals, 6) == [b"flood/0", b"honest/0", b"None/0", b"flood/1", b"None/1", b"flood/2"]


def test_one_source_is_bounded_in_count_and_bytes_and_no_other_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOURCE_COUNT_MAX", 3)
    arrivals = Arrivals()
    assert [arrivals.offer(arrival("a", number)) for number in range(5)] == [True] * 3 + [False] * 2
    assert arrivals.offer(arrival("b", 0))
    monkeypatch.setattr(module, "SOURCE_BYTES_MAX", 100)
    assert [arrivals.offer(arrival("c", number, size=60)) for number in range(3)] == [True, True, False]
    monkeypatch.setattr(module, "PEERS_BYTES_MAX", 160)
    assert not arrivals.offer(arrival("d", 0))
    while arrivals.take():
        pass
    assert arrivals.offer(arrival("d", 0))
    assert len(arrivals) == 1


def test_the_same_of_many_peers_is_judged_once() -> None:
    arrivals = Arrivals()
    first = Arrival(b"x", "a", b"hash")
    assert arrivals.offer(first)
    assert not arrivals.offer(Arrival(b"x", "b", b"hash"))
    assert arrivals.take() is first
    assert not arrivals.offer(Arrival(b"x", "b", b"hash"))
    arrivals.judged(first)
    assert arrivals.offer(Arrival(b"x", "b", b"hash"))


@pytest.mark.trio
async def test_this_nodes_users_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOURCE_COUNT_MAX", 2)
    arrivals = Arrivals()
    await arrivals.put([arrival(None, number) for number in range(3)])
    with trio.move_on_after(0.01) as waited:
        await arrivals.put([arrival(None, 3)])
    assert waited.cancelled_caught
    async with trio.open_nursery() as nursery:
        nursery.start_soon(arrivals.put, [arrival(None, 4)])
        await trio.testing.wait_all_tasks_blocked()
        assert taken(arrivals, 2) == [b"None/0", b"None/1"]
    assert taken(arrivals, 3) == [b"None/2", b"None/4"]


@pytest.mark.trio
async def test_a_submission_is_done_when_each_of_it_was_judged() -> None:
    arrivals, submission = Arrivals(), Submission(2)
    await arrivals.put([Arrival(b"x", None, b"%d" % number, submission) for number in range(2)])
    await arrivals.wait()
    for left in (1, 0):
        next_one = arrivals.take()
        assert next_one is not None
        assert not submission.done.is_set()
        arrivals.judged(next_one)
        assert submission.missing == left
    assert submission.done.is_set()
