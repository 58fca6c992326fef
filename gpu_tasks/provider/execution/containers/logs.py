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
        shown = "".join(
            letter if letter.isprintable() or letter == "\t" else repr(letter)[1:-1] for letter in self.text
        )
        return f"{self.seconds:.3f} {self.stream} {shown}"


class ContainerLog:
    """The lines of one container. Call `feed` and `close` in the event loop."""

    def __init__(self, bytes_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`bytes_max` limits the kept text, costs included. `began_ms` is in milliseconds since 1970."""
        self._bytes_max = bytes_max
        self._clock = clock
        self._began = clock()
        self.began_ms = time.time_ns() // 1_000_000
        self._kept: deque[ContainerLine] = deque()
        self._size = 0
        self._next = 0
        self._open_lines = {"out": b"", "err": b""}
        self._news = asyncio.Event()
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

    def feed(self, stream: str, data: bytes) -> None:
        """Add output of a stream."""
        self.bytes_seen += len(data)
        *ended, rest = (self._open_lines[stream] + data).split(b"\n")
        for line in ended:
            for piece in _pieces(line):
                self._add(stream, piece)
        *long, rest = _pieces(rest)
        for piece in long:
            self._add(stream, piece)
        self._open_lines[stream] = rest
        self._tell()

    def close(self) -> None:
        """End the log: the program has ended."""
        for stream, rest in self._open_lines.items():
            if rest:
                self._add(stream, rest)
        self._open_lines = {"out": b"", "err": b""}
        self.is_closed = True
        self._tell()

    def since(self, number: int) -> list[ContainerLine]:
        """Return the kept lines from a number on."""
        first = self._kept[0].number if self._kept else self._next
        return list(islice(self._kept, max(0, number - first), None))

    async def follow(self, since: int = 0) -> AsyncIterator[ContainerLine]:
        """Yield lines from a number on as they arrive, until the log ends. Dropped lines leave a gap."""
        while True:
            # Taken before the lines are read, so that a line added meanwhile is not missed.
            news = self._news
            for line in self.since(since):
                since = line.number + 1
                yield line
            if self._next <= since:
                if self.is_closed:
                    return
                await news.wait()

    def _add(self, stream: str, data: bytes) -> None:
        text = data.decode(errors="replace").removesuffix("\r")
        self._kept.append(ContainerLine(self._next, stream, round(self._clock() - self._began, 3), text))
        self._next += 1
        self._size += _cost(text)
        while self._size > self._bytes_max:
            self._size -= _cost(self._kept.popleft().text)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Pace:
    """The delays that keep a reader within the rates."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """A first burst has no delay."""
        self._clock = clock
        self._due = clock()

    def delay_after(self, data: bytes) -> float:
        """Return the seconds to wait after reading `data`."""
        now = self._clock()
        cost = max(len(data) / BYTES_PER_SECOND, data.count(b"\n") / LINES_PER_SECOND)
        # A quiet program earns at most one burst, or it could flood the log after a long silence.
        self._due = max(self._due, now - BURST_SECONDS) + cost
        return max(0.0, self._due - now)


def keep_log(folder: Path, container_id: str, lines: Sequence[ContainerLine]) -> Path:
    """Write a container's last lines for the operator, with control characters escaped. Raise OSError on failure."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{container_id}.log"
    with open(path, "w", encoding="utf-8", opener=own_opener) as file:
        file.writelines(f"{line}\n" for line in lines)
    old = sorted(folder.glob("*.log"), key=lambda log: log.stat().st_mtime, reverse=True)[LOGS_MAX:]
    for log in old:
        log.unlink()
    return path


async def pump(frames: AsyncIterator[tuple[int, bytes]], log: ContainerLog, hurry: asyncio.Event) -> None:
    """Copy frames of the attached streams to the log until they end, at the permitted pace or in a hurry."""
    pace = Pace()
    try:
        async for stream, data in frames:
            log.feed(STREAMS.get(stream, "out"), data)
            delay = pace.delay_after(data)
            # An ended container is read without delays, because its engine waits for the reader.
            if delay and not hurry.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(hurry.wait(), delay)
            else:
                # A turn for the event loop, since a fast stream would otherwise never yield.
                await asyncio.sleep(0)
    finally:
        log.close()


def _pieces(line: bytes) -> list[bytes]:
    """Split a line into at least one piece, each short enough."""
    return [line[start : start + LINE_BYTES_MAX] for start in range(0, max(1, len(line)), LINE_BYTES_MAX)]


def _cost(text: str) -> int:
    return len(text) + LINE_COST_BYTES
