"""The results of a program: its lines while it runs, its sealed outputs and last lines, and the record of its use.

Invariants:

* Notes are paced and never delay the program. A program that writes faster has its newest lines sent, with the number
  of skipped ones.
* The chain has the hash of the outputs before they are sealed, so their reader can verify them.
* Only the customer and this provider can open them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice

from gpu_tasks.data.program_left import LINE_BYTES_MAX, LogLine, encode_left
from gpu_tasks.data.sealing import seal
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.containers.logs import ContainerLine, ContainerLog
from gpu_tasks.provider.execution.containers.run import ContainerEnd
from gpu_tasks.provider.watching.broadcast import TaskWatch
from gpu_tasks.telemetry.notes import LINES_MAX, shortened_text
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import codec

SECONDS_BETWEEN_NOTES = 0.25
NOTE_TEXT_BYTES = 12 * 1024
"""The text in a note's lines, within the limit of a note."""
BEHIND_LINES_MAX = 1_024
"""A reader further behind skips lines."""
NOTHING = bytes(32)
"""The root and address of missing outputs."""
UNKNOWN_EXIT = 255
_USAGE = codec(Usage)


async def tell_lines(log: ContainerLog, task_watch: TaskWatch, task_id: bytes) -> None:
    """Report the lines of a program as they arrive, until its log closes."""
    told_number = 0
    while True:
        # Read before the lines, so that lines written just before the close are still sent.
        is_last = log.is_closed
        new_lines = log.since(told_number)
        # A customer that watches wants the newest lines, so a backlog is skipped and only counted.
        fresh_lines = new_lines[-BEHIND_LINES_MAX:]
        log_note = log_lines(list(_first_that_fit(fresh_lines)), log.began_ms)
        if log_note:
            task_watch.lines(task_id, log_note, fresh_lines[0].number - told_number)
            told_number = fresh_lines[len(log_note) - 1].number + 1
        elif is_last:
            return
        await asyncio.sleep(SECONDS_BETWEEN_NOTES)


def log_lines(lines: Sequence[ContainerLine], began_ms: int) -> tuple[LogLine, ...]:
    """Return lines in the customers' form."""
    return tuple(
        LogLine(began_ms + int(1_000 * line.seconds), line.stream == "err", shortened_text(line.text, LINE_BYTES_MAX))
        for line in lines
    )


def _first_that_fit(log_lines: Sequence[ContainerLine]) -> Iterator[ContainerLine]:
    """Yield the lines that fit into one note; at least one, because a line is much shorter than a note."""
    remaining = NOTE_TEXT_BYTES
    for log_line in islice(log_lines, LINES_MAX):
        remaining -= min(len(log_line.text.encode()), LINE_BYTES_MAX)
        if remaining < 0:
            return
        yield log_line


def interval_of(number: int, usage: Usage) -> Milestone:
    """Return the statement about an interval: the hash of its usage record, and its GPU seconds."""
    return Milestone(number, blake2_256(b"ogpu/usage/1" + _USAGE.encode(usage)), usage.gpu_ms // 1_000, NOTHING)


def stored(parts: Parts[object], archive: bytes, log: ContainerLog, reply_key: bytes) -> bytes:
    """Seal outputs and last lines, store the blob and return its address. Raise ValueError if it is too long."""
    left_content = encode_left(archive, log_lines(log.lines, log.began_ms), log.lines_seen)
    reader_keys = list(dict.fromkeys((reply_key, parts.identity.seal_key.public)))
    return parts.store.put(seal(left_content, reader_keys), is_own=True)


def result_of(end: ContainerEnd, content_root: bytes, sealed_blob: bytes) -> TaskResult:
    """Return the statement about a program's end: the outputs' hash and address, and the exit code."""
    return TaskResult(content_root, sealed_blob, UNKNOWN_EXIT if end.exit_code < 0 else end.exit_code)
