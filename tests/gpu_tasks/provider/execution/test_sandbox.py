"""The sandbox of a worker, with a worker that tries to leave it."""

import contextlib
import json
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import hostile_worker
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider import cli
from gpu_tasks.provider.execution.executor import ExecutionError, WorkerExecutor
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.limits import Limits
from gpu_tasks.provider.execution.sandbox import NO_MORE_NAMESPACES, NoSandboxError, Sandbox, find_sandbox
from gpu_tasks.provider.execution.worker_start import workers_with
from gpu_tasks.workloads.model_forms import form_named, open_workload
from started_workers import TIGHT, hostile, started
from text_requests import TEXTS, text_request

SUPPORT = Path(hostile_worker.__file__).parent
CPU = Hardware("CPU", "CPU-1", DeviceClass.CPU, 0, None)


def sandbox_here() -> Sandbox:
    try:
        return find_sandbox([SUPPORT])
    except NoSandboxError as error:
        pytest.skip(f"no sandbox on this machine: {error}")


@contextlib.asynccontextmanager
async def walled_in(limits: Limits = TIGHT) -> AsyncIterator[WorkerExecutor]:
    """A hostile worker in a sandbox, which has answered once."""
    async with started(hostile(limits, sandbox_here())) as executor:
        assert (await executor.run(b"echo hello")).output == b"hello"
        yield executor


def running(mark: str, program: str = "") -> bool:
    """Return True if a process of this machine has the mark on its command line and runs this program."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark.encode() in words and words[0].endswith(program.encode()):
                return True
    return False


def ends(mark: str) -> bool:
    for _ in range(500):
        if not running(mark):
            return True
        time.sleep(0.02)
    return False


async def refuses(request: bytes, reason: str) -> None:
    async with walled_in(replace(TIGHT, file_mib=1)) as executor:
        with pytest.raises(ExecutionError, match=reason):
            await executor.run(request)


async def test_a_key_on_the_disk_is_not_seen(tmp_path: Path) -> None:
    (tmp_path / "key.json").write_text("secret")
    await refuses(f"read {tmp_path / 'key.json'}".encode(), "No such file")


@pytest.mark.parametrize("path", ["/x", "/usr/x", "/dev/x/y"])
async def test_nothing_of_the_disk_is_changed(path: str) -> None:
    await refuses(f"folder {path}".encode(), "Read-only|No such file|denied")
    assert not Path(path).exists()


async def test_no_door_of_the_machine_is_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(0.1)
        await refuses(f"connect {door.getsockname()[1]}".encode(), "refused|unreachable")
        with pytest.raises(TimeoutError):
            door.accept()


async def test_only_the_worker_is_seen() -> None:
    async with walled_in() as executor:
        seen = (await executor.run(b"processes")).output.split()
        assert seen == [b"1", b"2"]


async def test_no_further_namespace_is_made() -> None:
    if not set(NO_MORE_NAMESPACES) <= set(sandbox_here().switches):
        pytest.skip("this bubblewrap is older than 0.8")
    await refuses(b"namespace", "no namespace")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (b"memory", "MemoryError"),
        (b"loop", "1 s of CPU"),
        (b"die", "ended with status 3"),
        (b"files", "Too many open files"),
    ],
)
async def test_limits_hold_inside_too(request_: bytes, reason: str) -> None:
    await refuses(request_, reason)


async def test_who_ends_the_worker_ends_all_that_it_started() -> None:
    mark = f"mark-{secrets.token_hex(8)}"
    async with walled_in(replace(TIGHT, wall_seconds=2, processes=4096)) as executor:
        with pytest.raises(ExecutionError, match="than 2 s"):
            await executor.run(f"orphan {mark}".encode())
        assert ends(mark)


def test_a_worker_at_work_does_not_outlive_its_daemon() -> None:
    """Its input closes, but it does not read that while it computes."""
    mark = f"mark-{secrets.token_hex(8)}"
    inside = sandbox_here().around([sys.executable, "-c", "import time; time.sleep(3600)", mark])
    code = "import json, subprocess, sys; subprocess.Popen(json.loads(sys.stdin.readline())).wait()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as daemon:
        assert daemon.stdin is not None
        daemon.stdin.write(json.dumps(inside).encode() + b"\n")
        daemon.stdin.flush()
        for _ in range(500):
            if running(mark, sys.executable):  # before that, the walls are not up
                break
            time.sleep(0.02)
        else:
            raise AssertionError("it did not start")
        daemon.send_signal(signal.SIGKILL)
        assert ends(mark)


async def test_the_real_worker_gives_the_same_inside() -> None:
    request = text_request(b"def main(", 8)
    expected = open_workload(TEXTS).run(request)
    executor: Any = workers_with("numpy", sandbox_here())(CPU, form_named(TEXTS))
    async with started(executor):
        assert (await executor.run(request)).output == expected


def test_a_gpu_is_handed_in_only_where_it_is_used() -> None:
    plain, with_gpu = (Sandbox("bwrap").around(["worker"], with_gpu=wanted) for wanted in (False, True))
    assert "/sys" not in plain
    assert with_gpu[-1] == plain[-1] == "worker"
    assert with_gpu.count("/sys") == 2


def test_where_there_is_none_the_reason_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoSandboxError, match=r"bwrap .*apt-get install bubblewrap"):
        find_sandbox()
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1\n")
    program.chmod(0o700)
    with pytest.raises(NoSandboxError, match="No permissions to"):
        find_sandbox()


def test_an_older_bubblewrap_serves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    program.write_text('#!/bin/sh\ncase "$*" in *disable-userns*) exit 1;; esac\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not set(NO_MORE_NAMESPACES) & set(find_sandbox().switches)


def test_who_asks_for_walls_gets_no_work_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    given = ["--url", "ws://127.0.0.1:1", "--provider-key", "//Alice//provider", "--base-path", str(tmp_path)]
    answer = CliRunner().invoke(cli.main, [*given, "run", "--sandbox", "bubblewrap"])
    assert answer.exit_code == 2
    assert "bwrap is not installed" in answer.output
