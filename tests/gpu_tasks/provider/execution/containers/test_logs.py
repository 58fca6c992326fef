import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.provider.execution.containers.logs import (
    BYTES_PER_SECOND,
    LINE_BYTES_MAX,
    LINE_COST_BYTES,
    LINES_PER_SECOND,
    LOGS_MAX,
    ContainerLine,
    ContainerLog,
    Pace,
    keep_log,
    pump,
)


def log_of(bytes_max: int = 100_000) -> ContainerLog:
    return ContainerLog(bytes_max, clock_seconds=lambda: 0.0)


def texts(lines: Sequence[ContainerLine]) -> list[str]:
    return [line.text for line in lines]


@given(st.lists(st.binary(max_size=50), max_size=10))
def test_lines_do_not_depend_on_the_pieces(pieces: list[bytes]) -> None:
    async def run() -> None:
        log, whole = log_of(), log_of()
        for piece in pieces:
            log.feed("out", piece)
        whole.feed("out", b"".join(pieces))
        log.close()
        whole.close()
        assert texts(log.lines) == texts(whole.lines)

    asyncio.run(run())


async def test_streams_do_not_mix_and_the_last_line_needs_no_end() -> None:
    log = log_of()
    log.feed("out", b"a")
    log.feed("err", b"x\n")
    log.feed("out", b"b\nc")
    assert [(line.stream, line.text) for line in log.lines] == [("err", "x"), ("out", "ab")]
    log.close()
    assert texts(log.lines) == ["x", "ab", "c"]


async def test_the_last_lines_are_kept_within_the_limit() -> None:
    log = log_of(10 * LINE_COST_BYTES)
    log.feed("out", b"\n" * 1_000)
    assert len(log.lines) == 10
    assert log.lines[-1].number == 999
    log.feed("out", b"x" * 100 * LINE_BYTES_MAX)
    assert all(len(line.text) <= LINE_BYTES_MAX for line in log.lines)


async def test_who_follows_gets_every_line_that_is_kept_and_then_the_end() -> None:
    log = log_of(5 * (LINE_COST_BYTES + 1))
    found: list[int] = []

    async def follow() -> None:
        found.extend([line.number async for line in log.follow()])

    following = asyncio.create_task(follow())
    log.feed("out", b"a\nb\n")
    await asyncio.sleep(0)
    log.feed("out", b"c\n" * 20)  # it sees the last five of these
    for _ in range(3):
        await asyncio.sleep(0)
    log.close()
    await following
    assert found == [0, 1, 17, 18, 19, 20, 21]
    assert [line.number async for line in log.follow(20)] == [20, 21]


def test_the_pace_holds_bytes_and_lines() -> None:
    now = [0.0]
    for data, rate in ((b"x" * 1_000, BYTES_PER_SECOND / 1_000), (b"\n" * 100, LINES_PER_SECOND / 100)):
        now[0] = 0.0
        pace, count = Pace(lambda: now[0]), 0
        while now[0] < 10:
            now[0] += pace.delay_after(data)
            count += 1
        assert rate * 9 < count < rate * 12


async def test_after_the_end_nobody_waits() -> None:
    async def frames() -> AsyncIterator[tuple[int, bytes]]:
        for _ in range(50):
            yield 2, b"\n" * LINES_PER_SECOND

    log, is_over = log_of(), asyncio.Event()
    is_over.set()
    await asyncio.wait_for(pump(frames(), log, is_over), 30)
    assert log.is_closed
    assert log.lines_seen == 50 * LINES_PER_SECOND
    assert log.lines[-1].stream == "err"


def test_a_kept_log_says_nothing_to_a_terminal(tmp_path: Path) -> None:
    path = keep_log(tmp_path / "logs", "task-0", [ContainerLine(0, "out", 1.5, "a\x1b[2Jb\u202e")])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text(encoding="utf-8") == "1.500 out a\\x1b[2Jb\\u202e\n"


@pytest.mark.parametrize("count", [LOGS_MAX + 5])
def test_old_logs_go(tmp_path: Path, count: int) -> None:
    for number in range(count):
        os.utime(keep_log(tmp_path, f"task-{number}", []), (number, number))
    newest = range(count - LOGS_MAX, count)
    assert {path.stem for path in tmp_path.iterdir()} == {f"task-{number}" for number in newest}
