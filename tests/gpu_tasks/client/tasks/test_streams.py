"""Many slots whose providers are silent: all are asked at once whether they answer. And a table, drawn in time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from rich.console import Console

from cli.output import Output
from gpu_tasks.client.commands import logs
from gpu_tasks.client.tasks import streams as following_module
from gpu_tasks.client.tasks.streams import ProgressTable, TaskHearings
from gpu_tasks.client.tasks.subscriber import BrokerBook, BrokerTrouble, HeardNote, ToldSlot
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.telemetry.broker import BrokerAddress
from gpu_tasks.telemetry.notes import NO_METER, ProgressNote

SLOTS = 8
NOWHERE = BrokerAddress("mqtt", "127.0.0.1", 1)


class SlowBook:
    """Providers that answer once all have been asked."""

    client = None

    def __init__(self) -> None:
        self.asked = 0
        self.all_asked = asyncio.Event()

    async def answers(self, _: bytes) -> bool:
        self.asked += 1
        if self.asked == SLOTS:
            self.all_asked.set()
        await self.all_asked.wait()
        return True


def test_silent_providers_are_asked_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following_module, "SILENCE_SECONDS", 0.0)
    monkeypatch.setattr(TaskHearings, "_listen_at", lambda *_: None)

    async def main() -> None:
        book = cast("BrokerBook", SlowBook())
        hearings = TaskHearings(book, SealKey.from_seed(b"c" * 32), ())
        slots = [ToldSlot(bytes((number,)) * 32, 0, bytes((number,)) * 32, NOWHERE) for number in range(SLOTS)]
        await asyncio.wait_for(hearings._listen_to(slots), 10)
        said = [hearings._queue.get_nowait() for _ in slots]
        assert {each.trouble for each in said if each is not None} == {BrokerTrouble.GONE}

    asyncio.run(main())


def test_a_table_is_not_drawn_for_each_note(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    draw = logs._drawn

    def counted(table: ProgressTable) -> Any:
        drawn.append(1)
        return draw(table)

    monkeypatch.setattr(logs, "_drawn", counted)

    async def many() -> AsyncIterator[HeardNote]:
        for number in range(1_000):
            yield HeardNote(bytes(32), 0, number, ProgressNote(number, 1_000, 0, NO_METER))
            await asyncio.sleep(0)

    async def main() -> None:
        table = ProgressTable()
        output = Output(as_json=False)
        output.console = Console(quiet=True)
        await logs._show(output, table, many(), once=False)
        assert table.rows(0)[0]["done"] == 999

    asyncio.run(main())
    assert len(drawn) < 100
