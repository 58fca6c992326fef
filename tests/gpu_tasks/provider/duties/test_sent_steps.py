"""The book of steps: journal first, again after some blocks, forgotten at the end."""

import asyncio
from pathlib import Path

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.provider.chain.port import ChainError, View
from gpu_tasks.provider.duties.race_steps import RaceStep
from gpu_tasks.provider.duties.sent_steps import RESEND_BLOCKS, StepBook, StepMessage
from gpu_tasks.provider.journal.records import RaceEntry, Sent
from provider_chain import Village

KEY = (b"u" * 32, 1)
CALL = Devices.resume(device=b"d" * 32)


def test_a_step_is_due_at_once_and_again_after_some_blocks() -> None:
    book: StepBook[RaceStep] = StepBook(None)  # type: ignore[arg-type]  # sends nothing here
    due = []
    for height in range(10, 10 + 2 * RESEND_BLOCKS + 1):
        book.look(View(height, ()))
        if book.is_due(KEY, RaceStep.COMMIT):
            due.append(height)
    assert due == [10, 10 + RESEND_BLOCKS, 10 + 2 * RESEND_BLOCKS]


def test_a_step_is_not_repeated_while_the_final_block_is_older_than_it() -> None:
    """A repeated call would be another extrinsic, fail, and cost a fee."""
    book: StepBook[RaceStep] = StepBook(None)  # type: ignore[arg-type]  # sends nothing here
    due = []
    for final in range(10, 24):
        book.look(View(final, (), final + 6))
        if book.is_due(KEY, RaceStep.COMMIT):
            due.append(final)
    assert due == [10, 10 + 6 + RESEND_BLOCKS]


def test_a_step_that_took_long_to_prepare_is_repeated_by_when_it_was_sent() -> None:
    book: StepBook[RaceStep] = StepBook(None)  # type: ignore[arg-type]  # sends nothing here
    due = []
    for height in range(10, 24):
        book.look(View(height, ()))
        if book.is_due(KEY, RaceStep.COMMIT):
            due.append(height)
        if height == 15:
            book.note_sent(KEY, RaceStep.COMMIT)
    assert due == [10, 13, 15 + RESEND_BLOCKS, 15 + 2 * RESEND_BLOCKS]


def test_what_an_earlier_process_sent_gets_its_time() -> None:
    book: StepBook[RaceStep] = StepBook(None)  # type: ignore[arg-type]  # sends nothing here
    book.look(View(10, ()))
    assert not book.is_due(KEY, RaceStep.COMMIT, was_sent=True)
    book.look(View(10 + RESEND_BLOCKS, ()))
    assert book.is_due(KEY, RaceStep.COMMIT, was_sent=True)


async def test_a_duty_that_has_ended_is_in_no_book_and_its_work_stops() -> None:
    book: StepBook[RaceStep] = StepBook(None)  # type: ignore[arg-type]  # sends nothing here
    book.is_due(KEY, RaceStep.COMMIT)
    book.tasks.start(KEY, asyncio.sleep(3600))
    book.forget(KEY)
    assert book._sent_at == {}
    while book.tasks._tasks:
        await asyncio.sleep(0)


async def test_the_journal_knows_a_step_that_the_node_did_not_take(tmp_path: Path) -> None:
    async with Village(tmp_path, 2) as village:
        miner = village.miners[0]
        book: StepBook[RaceStep] = StepBook(miner.daemon.parts)
        races = miner.daemon.parts.journal.races
        races.put(KEY, RaceEntry(bytes(32)))
        miner.chain.is_away = True
        with pytest.raises(ChainError):
            await book.send(StepMessage(CALL, "told", {}, lambda: races.add(KEY, sent=Sent.COMMIT)))
        assert races[KEY].sent == (Sent.COMMIT,)
        assert "told" not in miner.heard.names()
        miner.chain.is_away = False
        await book.send(StepMessage(CALL, "told", {"unit": KEY[0]}))
        assert village.node.calls == [(miner.keys.provider, CALL)]
        assert miner.heard.events[-1] == ("told", {"unit": KEY[0]})
