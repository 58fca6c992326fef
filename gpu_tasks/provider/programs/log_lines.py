"""A program's lines on their way to its customer: told while it runs, kept for the end.

Always: telling is paced, and never holds up the program; who writes faster than is told has the newest lines told, and
how many were passed over is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice

from gpu_tasks.data.program_left import LINE_BYTES_MAX, LogLine
from gpu_tasks.provider.execution.containers.logs import ContainerLine, ContainerLog
from gpu_tasks.provider.watching.watch import TaskWatch
from gpu_tasks.telemetry.notes import LINES_MAX, shortened_text

SECONDS_BETWEEN_NOTES = 0.25
NOTE_TEXT_BYTES = 12 * 1024
"""Of a note's lines, so that it stays below what is told at once."""
BEHIND_LINES_MAX = 1_024
"""Who is further behind passes over lines."""


async def tell_lines(log: ContainerLog, watch: TaskWatch, task: bytes) -> None:
    """Tell the lines of a program as they come, until it says no more."""
    told = 0
    while True:
        is_last = log.is_closed
        lines = log.since(told)
        fresh = lines[-BEHIND_LINES_MAX:]
        note = log_lines(list(_first_that_fit(fresh)), log.began_ms)
        if note:
            watch.lines(task, note, fresh[0].number - told)
            told = fresh[len(note) - 1].number + 1
        elif is_last:
            return
        await asyncio.sleep(SECONDS_BETWEEN_NOTES)


def log_lines(lines: Sequence[ContainerLine], began_ms: int) -> tuple[LogLine, ...]:
    """Lines as customers see them."""
    return tuple(
        LogLine(began_ms + int(1_000 * each.seconds), each.stream == "err", shortened_text(each.text, LINE_BYTES_MAX))
        for each in lines
    )


def _first_that_fit(lines: Sequence[ContainerLine]) -> Iterator[ContainerLine]:
    """As many as one note has room for; at least one, since a line is much shorter than a note."""
    room = NOTE_TEXT_BYTES
    for line in islice(lines, LINES_MAX):
        room -= min(len(line.text.encode()), LINE_BYTES_MAX)
        if room < 0:
            return
        yield line
