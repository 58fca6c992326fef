"""One question for all callers: never an answer to an older question than the caller's, and a pause between two."""

from __future__ import annotations

import asyncio
import gc
from unittest.mock import Mock

import pytest

from node.feed.client import SharedAnswer

PAUSE_SECONDS = 0.02


class Asked:
    """Sent questions, each answered by its number at the test's command."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.may_answer = asyncio.Event()
        self.under_way = 0
        self.fails = False

    async def __call__(self) -> int:
        """Send one question."""
        self.times.append(asyncio.get_running_loop().time())
        number = len(self.times)
        self.under_way += 1
        assert self.under_way == 1, "one question is under way at a time"
        await self.may_answer.wait()
        self.under_way -= 1
        if self.fails:
            raise ConnectionError
        return number


def test_who_asks_while_a_question_is_under_way_shares_the_next_one() -> None:
    async def main() -> None:
        asked = Asked()
        shared = SharedAnswer(asked, PAUSE_SECONDS)
        first = [asyncio.create_task(shared.get()) for _ in range(50)]
        while not asked.times:
            await asyncio.sleep(0)
        later = [asyncio.create_task(shared.get()) for _ in range(50)]
        await asyncio.sleep(2 * PAUSE_SECONDS)
        assert len(asked.times) == 1
        first[0].cancel()  # its departure ends no other wait
        asked.may_answer.set()
        answers = await asyncio.gather(*first, *later, return_exceptions=True)
        assert isinstance(answers[0], asyncio.CancelledError)
        assert answers[1:] == [1] * 49 + [2] * 50
        again = [await shared.get() for _ in range(3)]
        assert again == [3, 4, 5]
        gaps = [after - before for before, after in zip(asked.times, asked.times[1:], strict=False)]
        assert min(gaps) >= PAUSE_SECONDS * 0.9

    asyncio.run(main())


def test_a_question_that_failed_fails_for_those_who_shared_it_alone() -> None:
    async def main() -> None:
        asked = Asked()
        asked.may_answer.set()
        asked.fails = True
        shared = SharedAnswer(asked, 0.0)
        outcomes = await asyncio.gather(shared.get(), shared.get(), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ConnectionError] * 2
        with pytest.raises(ConnectionError):
            await shared.get()
        asked.fails = False
        assert await shared.get() == 3

    asyncio.run(main())


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_question_without_an_asker_leaves_no_word_in_the_log(*, is_cut_off: bool) -> None:
    async def main() -> None:
        problems = Mock()
        asyncio.get_running_loop().set_exception_handler(problems)
        asked = Asked()
        asked.fails = True
        shared = SharedAnswer(asked, 0.0)
        asking = asyncio.create_task(shared.get())
        await asyncio.sleep(0)
        question = shared._next
        assert question is not None
        while not asked.times:
            await asyncio.sleep(0)
        asking.cancel()
        if is_cut_off:
            question.cancel()
        asked.may_answer.set()
        await asyncio.wait([asking, question])
        await asyncio.sleep(0)
        del question, asking
        gc.collect()
        problems.assert_not_called()

    asyncio.run(main())
