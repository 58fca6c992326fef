"""The supervisor of the RPC process: it restarts a hung or dead one, and leaves a live one alone."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from node.config import RpcConfig
from node.rpc import __main__ as rpc_process
from node.rpc import supervisor
from node.rpc.supervisor import SILENCES_MAX, keep_running

SILENT_SECONDS = 1.0
LIVING = (
    "import os, sys, time\n"
    "with open(sys.argv[1], 'a') as starts: print(os.getpid(), file=starts)\n"
    "while True:\n"
    "    os.write(1, b'.')\n"
    "    time.sleep(0.05)\n"
)


async def started(file: Path, count: int) -> list[int]:
    """The process ids of the first `count` starts."""
    path = trio.Path(file)
    while True:
        lines = (await path.read_text()).split() if await path.exists() else []
        if len(lines) >= count:
            return [int(line) for line in lines]
        await trio.sleep(0.05)


@pytest.mark.trio
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
async def test_a_process_that_stopped_or_died_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    monkeypatch.setattr(supervisor, "BACKOFF_FIRST_SECONDS", 0.05)
    starts = tmp_path / "starts"
    words = [sys.executable, "-c", LIVING, str(starts)]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_running, words, SILENT_SECONDS)
            (first,) = await started(starts, 1)
            os.kill(first, how)
            second = (await started(starts, 2))[1]
            assert second != first
            with pytest.raises(ProcessLookupError):
                os.kill(first, 0)
            nursery.cancel_scope.cancel()


def test_an_interrupt_from_the_terminal_is_the_nodes_to_answer(tmp_path: Path) -> None:
    feed = tmp_path / "feed"
    with socket.socket(socket.AF_UNIX) as node:
        node.bind(str(feed))
        node.listen()
        node.settimeout(60)
        words = supervisor.command(RpcConfig(port=0), feed)
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while not Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(sys.executable.encode()):
                time.sleep(0.001)
            process.send_signal(signal.SIGINT)  # Python has just begun
            link, _ = node.accept()
            process.send_signal(signal.SIGINT)
            link.close()
            beats, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert set(beats) == {"."}
    (line,) = said.splitlines()
    assert line.endswith(f" rpc: {rpc_process.NODE_ENDED}"), "no other error ended it"


def test_a_file_in_the_present_folder_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "genesis.py").write_text("raise SystemExit(7)")
    words = supervisor.command(RpcConfig(port=0), tmp_path / "no-feed")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr


@pytest.mark.trio
async def test_a_process_that_lives_is_left_alone(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_running, [sys.executable, "-c", LIVING, str(starts)], SILENT_SECONDS)
            await started(starts, 1)
            await trio.sleep(SILENT_SECONDS * (SILENCES_MAX + 1))
            assert len(await started(starts, 1)) == 1
            nursery.cancel_scope.cancel()


def test_beats_go_on_past_a_full_pipe_and_come_often_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 5 * rpc_process.BEAT_SECONDS <= supervisor.SILENT_SECONDS
    monkeypatch.setattr(rpc_process, "BEAT_SECONDS", 0.001)
    out, into = os.pipe()

    async def main() -> None:
        beating = asyncio.create_task(rpc_process.beat(into))
        assert await asyncio.to_thread(os.read, out, 1) == b"."
        with pytest.raises(BlockingIOError):
            while True:
                os.write(into, b"x")
        await asyncio.sleep(0.02)
        while set(await asyncio.to_thread(os.read, out, 1 << 16)) != {ord(".")}:
            assert not beating.done()
        beating.cancel()

    asyncio.run(main())
    os.close(out)
    os.close(into)
