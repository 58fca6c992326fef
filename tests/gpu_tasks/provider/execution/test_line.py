"""The waiting line of a device."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from gpu_tasks.provider.execution.line import FIRST as FIRST_RANK
from gpu_tasks.provider.execution.line import Line, Rank, rank_of_race

FIRST, SECOND = b"first", b"second"


@contextlib.asynccontextmanager
async def line_of_two() -> AsyncIterator[Line]:
    line = Line()
    line.add(FIRST)
    line.add(SECOND)
    async with asyncio.timeout(10):
        yield line


async def order_of(line: Line, *users: tuple[str, bytes | None, Rank]) -> list[str]:
    """Return the order of service if all arrived in this order while both places were taken."""
    order: list[str] = []

    async def use(name: str, place: bytes | None, rank: Rank) -> None:
        taken = await line.take(place, request_rank=rank)
        order.append(name)
        line.give(taken)

    await line.take(FIRST)
    await line.take(SECOND)
    tasks = [asyncio.create_task(use(*user)) for user in users]
    await asyncio.sleep(0)
    line.give(FIRST)
    await asyncio.gather(*tasks)
    return order


async def test_two_places_have_two_users_at_once_and_one_place_has_one() -> None:
    async with line_of_two() as line:
        assert [await line.take(FIRST), await line.take(SECOND)] == [FIRST, SECOND]
        waiting = asyncio.create_task(line.take(FIRST))
        await asyncio.sleep(0)
        assert not waiting.done()
        line.give(FIRST)
        assert await waiting == FIRST


async def test_a_race_goes_before_checks_that_came_first() -> None:
    async with line_of_two() as line:
        users = [("check", None), ("another check", None), ("race", FIRST), ("second race", FIRST)]
        order = await order_of(line, *((*user, FIRST_RANK) for user in users))
        assert order == ["race", "second race", "check", "another check"]


async def test_a_check_takes_any_place_and_rather_a_warm_one() -> None:
    async with line_of_two() as line:
        assert await line.take(preferred_places=[SECOND]) == SECOND
        assert await line.take(preferred_places=[SECOND]) == FIRST
        waiting = asyncio.create_task(line.take())
        await asyncio.sleep(0)
        line.give(SECOND)
        assert await waiting == SECOND


async def test_whoever_is_cancelled_keeps_no_place() -> None:
    async with line_of_two() as line:
        await line.take(FIRST)
        before_its_turn, in_its_turn = asyncio.create_task(line.take(FIRST)), asyncio.create_task(line.take(FIRST))
        await asyncio.sleep(0)
        before_its_turn.cancel()
        await asyncio.sleep(0)
        line.give(FIRST)
        in_its_turn.cancel()
        await asyncio.gather(before_its_turn, in_its_turn, return_exceptions=True)
        assert line.is_free(FIRST)


async def test_a_place_that_is_free_cannot_be_given_back() -> None:
    async with line_of_two() as line:
        with pytest.raises(AssertionError):
            line.give(FIRST)


async def test_a_race_whose_time_does_not_run_yet_goes_after_checks_and_in_the_order_of_draws() -> None:
    async with line_of_two() as line:
        order = await order_of(
            line,
            ("later draw", FIRST, rank_of_race(9, 1)),
            ("second behind", FIRST, rank_of_race(7, 2)),
            ("first behind", FIRST, rank_of_race(7, 1)),
            ("check", None, FIRST_RANK),
            ("its turn", FIRST, rank_of_race(8, 0)),
        )
        assert order == ["its turn", "check", "first behind", "second behind", "later draw"]
