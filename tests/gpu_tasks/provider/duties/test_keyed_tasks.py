"""Work beside the daemon's loop: one failure is logged, and that of the journal ends the daemon."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from error_codes import raises_code
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.journal.schema import JournalError


class Working(Duty):
    """A duty whose work fails beside the loop."""

    def __init__(self, error: Exception) -> None:
        self.tasks = KeyedTasks()
        self.running = (self.tasks,)
        self.steps = 0
        self._error = error

    async def step(self, view: View) -> None:
        self.steps += 1
        self.tasks.start("work", self._fail())
        await asyncio.sleep(0.01)

    async def _fail(self) -> None:
        raise self._error


async def _blocks(duty: Duty, count: int) -> None:
    daemon = cast(Any, SimpleNamespace(duties=[duty]))
    for height in range(count):
        await Daemon.step(daemon, View(height, ()))


async def test_a_journal_that_background_work_cannot_write_ends_the_daemon() -> None:
    duty = Working(JournalError("the disk is full", code="disk_full"))
    with raises_code(JournalError, "disk_full"):
        await _blocks(duty, 3)
    assert duty.steps == 1


async def test_another_failure_of_background_work_is_tried_again() -> None:
    duty = Working(OSError("unreachable"))
    await _blocks(duty, 3)
    assert duty.steps == 3
