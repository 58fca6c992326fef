"""Several attempts at once: slow ones are overtaken, and the search ends."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gpu_tasks.data.blob_client import SLOW_FOR_SECONDS, STORES_KEPT, SlowStores
from gpu_tasks.data.side_by_side import AT_ONCE_MAX, all_side_by_side, side_by_side


class Scene:
    """Attempts that end at the test's command. `begun` has their order."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []

    def quick(self, name: str, result: str | None = "") -> Callable[[], Coroutine[Any, Any, str | None]]:
        async def work() -> str | None:
            self.begun.append(name)
            return name if result == "" else result

        return work

    def hanging(self, name: str) -> Callable[[], Coroutine[Any, Any, str | None]]:
        async def work() -> str | None:
            self.begun.append(name)
            try:
                return await asyncio.Future()
            finally:
                self.ended.append(name)

        return work


def test_a_slow_one_is_overtaken_and_then_stopped() -> None:
    scene = Scene()
    tries = [scene.hanging("slow"), scene.quick("second"), scene.quick("third")]
    found = asyncio.run(side_by_side(tries, wanted=1, patience_seconds=0.01, deadline_seconds=60))
    assert found == ["second"]
    assert scene.begun == ["slow", "second"]
    assert scene.ended == ["slow"]


def test_so_many_as_are_wanted_begin_at_once_and_a_failure_is_replaced() -> None:
    scene = Scene()
    tries = [scene.quick("a"), scene.quick("b", None), scene.quick("c"), scene.quick("d")]
    found = asyncio.run(side_by_side(tries, wanted=2, patience_seconds=60, deadline_seconds=60))
    assert found == ["a", "c"]
    assert scene.begun == ["a", "b", "c"]


def test_the_deadline_ends_it_with_what_there_is() -> None:
    scene = Scene()
    tries = [scene.quick("a"), *(scene.hanging(str(number)) for number in range(20))]
    found = asyncio.run(side_by_side(tries, wanted=2, patience_seconds=0.001, deadline_seconds=0.3))
    assert found == ["a"]
    assert len(scene.begun) == 1 + AT_ONCE_MAX
    assert sorted(scene.ended) == sorted(scene.begun[1:])


def test_nothing_to_try_gives_nothing() -> None:
    assert asyncio.run(side_by_side([], wanted=1, patience_seconds=1, deadline_seconds=1)) == []


def test_a_slow_store_is_asked_last_for_a_while() -> None:
    stores = SlowStores()
    stores.note_slow("a", now_seconds=10.0)
    assert stores.last(["a", "b", "a", "c"], now_seconds=10.0) == ["b", "c", "a"]
    assert stores.last(["a", "b"], now_seconds=10.0 + SLOW_FOR_SECONDS) == ["a", "b"]
    stores.note_quick("a")
    assert stores.last(["a", "b"], now_seconds=11.0) == ["a", "b"]
    for number in range(STORES_KEPT + 5):
        stores.note_slow(str(number), now_seconds=1.0)
    assert len(stores._slow_until) == STORES_KEPT


def test_all_jobs_end_in_their_order_so_many_at_once() -> None:
    at_work, most = 0, 0

    def job(number: int) -> Callable[[], Coroutine[Any, Any, int]]:
        async def work() -> int:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0.001 * (5 - number))
            at_work -= 1
            return number

        return work

    assert asyncio.run(all_side_by_side(map(job, range(5)), at_once=3)) == list(range(5))
    assert most == 3
    assert asyncio.run(all_side_by_side([], at_once=3)) == []


def test_a_job_that_fails_stops_the_others() -> None:
    scene = Scene()

    async def fails() -> str | None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        asyncio.run(all_side_by_side([scene.hanging("a"), fails, scene.hanging("b")], at_once=2))
    assert "a" in scene.ended
    assert sorted(scene.begun) == sorted(scene.ended)
