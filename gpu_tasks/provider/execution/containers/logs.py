"""A program's output as lines, of which the last are kept. A flood of output slows the program.

Every reader follows the log at its own pace.

The engine's log files are not used. One coroutine reads the attached streams within the rates below. While it waits,
the engine's pipe (a megabyte) fills, and then the program blocks. So a flood costs `log_bytes` of memory, no disk, and
a bounded part of a core.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from wallet.private_file import own_opener

LINE_BYTES_MAX = 4_096
"""A longer line is split."""
LINE_COST_BYTES = 128
"""The memory of a kept line beside its text. Empty lines fill a log too."""
BYTES_PER_SECOND = 1 << 20
LINES_PER_SECOND = 4_000
BURST_SECONDS = 1.0
STREAMS = {1: "out", 2: "err"}
LOGS_MAX = 100
"""Kept log files. Older ones are deleted."""


@dataclass(frozen=True, slots=True)
class ContainerLine:
    """One line without its line end."""

    number: int
    """The number from 0. A gap means dropped lines."""
    stream: str
    """"out" or "err"."""
    seconds: float
    """Seconds since the container's start."""
    text: str

    def __str__(self) -> str:
        """Format the line for a file, with terminal control characters escaped."""
        printable_text = "".join(
            character if character.isprintable() or character == "\t" else repr(character)[1:-1]
            for character in self.text
        )
        return f"{self.seconds:.3f} {self.stream} {printable_text}"


class ContainerLog:
    """The lines of one container. Call `feed` and `close` in the event loop."""

    def __init__(self, bytes_max: int, clock_seconds: Callable[[], float] = time.monotonic) -> None:
        """`bytes_max` limits the kept text, costs included. `began_ms` is in milliseconds since 1970."""
        self._bytes_max = bytes_max
        self._clock_seconds = clock_seconds
        self._began = clock_seconds()
        self.began_ms = time.time_ns() // 1_000_000
        self._kept: deque[ContainerLine] = deque()
        self._size = 0
        self._next = 0
        self._open_lines = {"out": b"", "err": b""}
        self._next_news = asyncio.Event()
        self.is_closed = False
        self.bytes_seen = 0

    @property
    def lines(self) -> tuple[ContainerLine, ...]:
        """The kept lines."""
        return tuple(self._kept)

    @property
    def lines_seen(self) -> int:
        """The number of all lines, of which `lines` are the last."""
        return self._next

    def feed(self, stream_name: str, data: bytes) -> None:
        """Add output of a stream."""
        self.bytes_seen += len(data)
        *ended_lines, unfinished_line = (self._open_lines[stream_name] + data).split(b"\n")
        for ended_line in ended_lines:
            for line_piece in _line_pieces(ended_line):
                self._add_line(stream_name, line_piece)
        *long_pieces, unfinished_line = _line_pieces(unfinished_line)
        for line_piece in long_pieces:
            self._add_line(stream_name, line_piece)
        self._open_lines[stream_name] = unfinished_line
        self._tell()

    def close(self) -> None:
        """End the log: the program has ended."""
        for stream_name, unfinished_line in self._open_lines.items():
            if unfinished_line:
                self._add_line(stream_name, unfinished_line)
        self._open_lines = {"out": b"", "err": b""}
        self.is_closed = True
        self._tell()

    def since(self, line_number: int) -> list[ContainerLine]:
        """Return the kept lines from a number on."""
        first_number = self._kept[0].number if self._kept else self._next
        return list(islice(self._kept, max(0, line_number - first_number), None))

    async def follow(self, first_number: int = 0) -> AsyncIterator[ContainerLine]:
        """Yield lines from a number on as they arrive, until the log ends. Dropped lines leave a gap."""
        while True:
            # Taken before the lines are read, so that a line added meanwhile is not missed.
            next_news = self._next_news
            for log_line in self.since(first_number):
                first_number = log_line.number + 1
                yield log_line
            if self._next <= first_number:
                if self.is_closed:
                    return
                await next_news.wait()

    def _add_line(self, stream_name: str, line_bytes: bytes) -> None:
        line_text = line_bytes.decode(errors="replace").removesuffix("\r")
        self._kept.append(
            ContainerLine(self._next, stream_name, round(self._clock_seconds() - self._began, 3), line_text)
        )
        self._next += 1
        self._size += _line_cost(line_text)
        while self._size > self._bytes_max:
            self._size -= _line_cost(self._kept.popleft().text)

    def _tell(self) -> None:
        self._next_news.set()
        self._next_news = asyncio.Event()


class Pace:
    """The delays that keep a reader within the rates."""

    def __init__(self, clock_seconds: Callable[[], float] = time.monotonic) -> None:
        """A first burst has no delay."""
        self._clock_seconds = clock_seconds
        self._due_at = clock_seconds()

    def delay_after(self, written_bytes: bytes) -> float:
        """Return the seconds to wait after reading `written_bytes`."""
        now_seconds = self._clock_seconds()
        write_cost = max(len(written_bytes) / BYTES_PER_SECOND, written_bytes.count(b"\n") / LINES_PER_SECOND)
        # A quiet program earns at most one burst, or it could flood the log after a long silence.
        self._due_at = max(self._due_at, now_seconds - BURST_SECONDS) + write_cost
        return max(0.0, self._due_at - now_seconds)


def keep_log(folder: Path, container_id: str, log_lines: Sequence[ContainerLine]) -> Path:
    """Write a container's last lines for the operator, with control characters escaped. Raise OSError on failure."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{container_id}.log"
    with open(path, "w", encoding="utf-8", opener=own_opener) as log_file:
        log_file.writelines(f"{log_line}\n" for log_line in log_lines)
    old_logs = sorted(folder.glob("*.log"), key=lambda old_log: old_log.stat().st_mtime, reverse=True)[LOGS_MAX:]
    for old_log in old_logs:
        old_log.unlink()
    return path


async def pump(output_frames: AsyncIterator[tuple[int, bytes]], log: ContainerLog, is_hurried: asyncio.Event) -> None:
    """Copy frames of the attached streams to the log until they end, at the permitted pace or in a hurry."""
    write_pace = Pace()
    try:
        async for stream_name, output_data in output_frames:
            log.feed(STREAMS.get(stream_name, "out"), output_data)
            delay_seconds = write_pace.delay_after(output_data)
            # An ended container is read without delays, because its engine waits for the reader.
            if delay_seconds and not is_hurried.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(is_hurried.wait(), delay_seconds)
            else:
                # A turn for the event loop, since a fast stream would otherwise never yield.
                await asyncio.sleep(0)
    finally:
        log.close()


def _line_pieces(line_bytes: bytes) -> list[bytes]:
    """Split a line into at least one piece, each short enough."""
    return [
        line_bytes[piece_start : piece_start + LINE_BYTES_MAX]
        for piece_start in range(0, max(1, len(line_bytes)), LINE_BYTES_MAX)
    ]


def _line_cost(line_text: str) -> int:
    return len(line_text) + LINE_COST_BYTES
