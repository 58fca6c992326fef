"""Limits on work, with real processes that try to break them."""

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError, WorkerExecutor
from gpu_tasks.provider.execution.limits import MIB
from gpu_tasks.workloads.model_forms import open_workload
from started_workers import TIGHT, hostile, started, worker_of
from text_requests import TEXTS, text_request


async def still_works(executor: WorkerExecutor) -> None:
    assert (await executor.run(b"echo hello")).output == b"hello"


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (b"memory", "MemoryError"),
        (b"memory-slowly", "MemoryError|status"),
        (b"loop", "1 s of CPU"),
        (b"die", "ended with status 3"),
        (b"files", "Too many open files"),
        (b"garbage", "not an answer"),
        (b"device-lost", "^RuntimeError: CUDA error: unspecified launch failure$"),
    ],
)
async def test_an_attack_costs_one_request_and_no_more(request_: bytes, reason: str) -> None:
    # to fill its memory in small pieces takes a slow machine more than a second
    async with started(hostile(replace(TIGHT, cpu_seconds=10) if request_ == b"memory-slowly" else TIGHT)) as executor:
        await still_works(executor)
        with pytest.raises(ExecutionError, match=reason):
            await executor.run(request_)
        await still_works(executor)


async def test_the_kernel_has_every_limit_of_a_worker() -> None:
    """A machine with low limits of its own would stop the attacks too."""
    limits = {
        resource.RLIMIT_CPU: TIGHT.cpu_seconds_life, resource.RLIMIT_AS: TIGHT.address_mib * MIB,
        resource.RLIMIT_NPROC: TIGHT.processes, resource.RLIMIT_FSIZE: TIGHT.file_mib * MIB,
        resource.RLIMIT_NOFILE: TIGHT.open_files, resource.RLIMIT_CORE: 0,
    }  # fmt: skip
    async with started(hostile()) as executor:
        process = executor._process._process
        assert process is not None
        assert {kind: resource.prlimit(process.pid, kind)[1] for kind in limits} == limits


async def test_work_that_takes_too_long_on_the_clock_is_killed() -> None:
    async with started(hostile(replace(TIGHT, wall_seconds=1))) as executor:
        with pytest.raises(ExecutionError, match="than 1 s"):
            await executor.run(b"sleep")
        await still_works(executor)


def is_dead(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


async def test_children_of_a_killed_worker_die_with_it(tmp_path: Path) -> None:
    """The kernel allows an ordinary user's worker no children. Here it may have some, to test their end."""
    async with started(hostile(replace(TIGHT, wall_seconds=2, processes=4096, file_mib=1))) as executor:
        pid_file = tmp_path / "pid"
        with pytest.raises(ExecutionError, match="stopped after more"):
            await executor.run(f"child {pid_file}".encode())
        pid = int(pid_file.read_text())
        for _ in range(200):
            if is_dead(pid):
                return
            await asyncio.sleep(0.02)
        raise AssertionError("the child lives on")


async def test_no_file_is_written(tmp_path: Path) -> None:
    async with started(hostile()) as executor:
        with pytest.raises(ExecutionError):
            await executor.run(f"write {tmp_path / 'x'}".encode())
        assert not (tmp_path / "x").exists() or (tmp_path / "x").stat().st_size == 0
        await still_works(executor)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_an_ordinary_users_worker_starts_no_process() -> None:
    """The kernel exempts root, so this test becomes `nobody`. It tests only the limits, not the worker."""
    code = (
        "import os, resource; resource.setrlimit(resource.RLIMIT_NPROC, (0, 0)); os.setuid(65534)\n"
        "try:\n    os.fork()\nexcept BlockingIOError:\n    print('refused')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "refused\n"


async def test_a_flood_of_output_neither_confuses_nor_fills_the_daemon() -> None:
    async with started(hostile()) as executor:
        assert (await executor.run(b"print")).output == b"printed"
        assert len(executor._process._complaints) <= 2_000
        await still_works(executor)


async def test_the_worker_sees_no_secret_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OGPU_PROVIDER_KEY", "//Alice//provider")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    async with started(hostile()) as executor:
        seen = json.loads((await executor.run(b"environment")).output)
        assert not {"OGPU_PROVIDER_KEY", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK"} & set(seen)
        assert seen["HOME"] == "/nonexistent"


async def test_the_worker_is_its_own_session_and_is_used_again() -> None:
    async with started(hostile()) as executor:
        first, second = [(await executor.run(b"session")).output for _ in range(2)]
        assert first == second
        session, process = first.split()
        assert session == process != str(os.getsid(0)).encode()


@pytest.mark.nightly
async def test_cpu_is_allowed_anew_for_each_request() -> None:
    async with started(hostile()) as executor:
        for _ in range(2):
            with pytest.raises(ExecutionError, match="CPU"):
                await executor.run(b"loop")
        await still_works(executor)


async def test_a_cancelled_request_leaves_no_answer_behind() -> None:
    async with started(hostile()) as executor:
        task = asyncio.create_task(executor.run(b"sleep"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await still_works(executor)


async def test_a_request_that_is_cancelled_while_its_answer_arrives_keeps_no_device() -> None:
    """An unread pipe pauses, and a paused pipe does not report its end, so nothing may wait for it."""
    async with started(hostile()) as executor:
        task = asyncio.create_task(executor.run(b"pour"))
        await asyncio.sleep(0.5)
        time.sleep(0.2)  # noqa: ASYNC251 - the loop stands still, so that the pipe is full when the request is cancelled
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)
        await still_works(executor)


async def test_a_worker_that_does_not_start_says_why() -> None:
    with pytest.raises(ExecutionError, match=r"start: .*'abacus'"):
        await worker_of(TEXTS, "abacus").start()
    with pytest.raises(ExecutionError, match=r"No module|status 1"):
        await WorkerExecutor([sys.executable, "-m", "no.such.module"], TIGHT).start()


async def test_the_real_worker_gives_what_the_workload_gives() -> None:
    request = text_request(b"def main(", 24, seed=b"\x05" * 32)
    expected = open_workload(TEXTS).run(request)
    async with started(worker_of(TEXTS)) as executor:
        execution = await executor.run(request)
        assert execution.output == expected
        assert execution.cpu_ms <= execution.wall_ms + 20
        assert execution.memory_peak_bytes > 1_000_000
        seed, wrong = b"f" * 32, bytes((expected[0] ^ 1,)) + expected[1:]
        fingerprint = open_workload(TEXTS).fingerprint(request, expected, seed)
        assert await executor.fingerprint(request, expected, seed) == fingerprint
        assert await executor.check(request, expected, seed) == (True, fingerprint)
        assert await executor.check(request, wrong, seed) == (False, None)
        assert await executor.check(request, b"no output", seed) == (False, None)
        for asked in (executor.check(b"no request", expected, seed), executor.fingerprint(request, b"no", seed)):
            with pytest.raises(BadRequestError):
                await asked
        with pytest.raises(BadRequestError):
            await executor.run(b"no request")


@pytest.mark.parametrize("is_check", [True, False])
async def test_a_fingerprint_has_the_limits_of_a_run(*, is_check: bool) -> None:
    async with started(hostile()) as executor:
        asked = executor.check if is_check else executor.fingerprint
        text = b"16 bytes of text"
        assert await asked(b"echo " + text, b"", bytes(32)) == ((True, text) if is_check else text)
        attacks = {b"loop": "worker_ended", b"memory": "execution_failed", b"echo 15 bytes": "worker_ended"}
        for attack, code in attacks.items():
            with pytest.raises(ExecutionError) as stopped:
                await asked(attack, b"", bytes(32))
            assert stopped.value.code == code
        executor._limits = replace(TIGHT, wall_seconds=2)
        with pytest.raises(ExecutionError) as stopped:
            await asked(b"sleep", b"", bytes(32))
        assert stopped.value.code == "execution_too_long"
        await still_works(executor)
