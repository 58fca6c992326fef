"""Starting, killing and stopping real processes: a small one with a child, which obeys or ignores SIGTERM."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devnet.launcher import processes
from devnet.launcher.folder import DevnetError
from devnet.launcher.processes import Process

PROGRAM = """
import signal, subprocess, sys, time
if "--deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
print("child", child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    (tmp_path / "devnet_test_program.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = Process("Test", "devnet_test_program", (), tmp_path / "home")
    yield made
    processes.stop(made, seconds=0)


def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def child_of(process: Process) -> int:
    until(lambda: process.log.exists() and re.search(r"child \d+\n", process.log.read_text()) is not None)
    return int(process.log.read_text().split()[-1])


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def test_stop_ends_the_process_and_its_child(process: Process) -> None:
    pid = processes.start(process)
    assert [path.stat().st_mode & 0o077 for path in (process.folder, process.log)] == [0, 0], "nobody else reads it"
    child = child_of(process)
    assert processes.running(process) == pid
    assert processes.stop(process) == []
    assert processes.running(process) is None
    assert not is_alive(pid)
    assert not is_alive(child)


def test_who_does_not_listen_is_made_to(process: Process) -> None:
    deaf = Process("Deaf", process.module, ("--deaf",), process.folder)
    processes.start(deaf)
    child = child_of(deaf)
    assert processes.stop(deaf, seconds=0.2) == ["Deaf"]
    assert not is_alive(child)


def test_kill_leaves_a_process_that_can_be_started_again(process: Process) -> None:
    first = processes.start(process)
    child = child_of(process)
    assert processes.kill(process) == first
    assert processes.running(process) is None
    assert processes.restarts(process) == 0
    assert processes.start(process) != first
    assert processes.restarts(process) == 1
    assert not is_alive(child), "what the killed one left behind would keep its ports"


def test_twice_is_once_too_often(process: Process) -> None:
    processes.start(process)
    with pytest.raises(DevnetError, match="runs already"):
        processes.start(process)


def test_what_does_not_run_cannot_be_killed(process: Process) -> None:
    with pytest.raises(DevnetError, match="does not run"):
        processes.kill(process)


def test_a_pid_that_belongs_to_somebody_else_is_left_alone(process: Process) -> None:
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        process.folder.mkdir()
        process.pid_file.write_text(json.dumps({"pid": stranger.pid, "began": 1, "starts": 1}))
        assert processes.running(process) is None
        assert processes.stop(process) == []
        assert is_alive(stranger.pid)
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("is_detached", [False, True])
def test_who_is_not_detached_dies_with_its_starter(process: Process, is_detached: bool) -> None:
    starter = (
        "import sys, time; from pathlib import Path; from devnet.launcher.processes import Process, start; "
        f"start(Process('Test', {process.module!r}, (), Path({str(process.folder)!r})), detach={is_detached}); "
        "time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", starter], env=processes.source_path())
    child_of(process)
    until(process.pid_file.exists)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    if is_detached:
        time.sleep(0.2)
        assert processes.running(process) is not None
    else:
        until(lambda: processes.running(process) is None)


def test_a_damaged_pid_file_means_that_nothing_runs(process: Process) -> None:
    process.folder.mkdir()
    process.pid_file.write_text("{")
    assert processes.running(process) is None
    processes.start(process)
    assert processes.running(process) is not None
    assert os.getpgid(processes.running(process) or 0) != os.getpgid(0)


def test_a_program_finds_these_packages_from_any_folder() -> None:
    """The path named devnet/ itself after the launcher had become a package, so only installed packages were found."""
    source = Path(processes.source_path()["PYTHONPATH"].split(os.pathsep)[0])
    assert (source / "devnet" / "__init__.py").exists()
    assert (source / "node" / "cli.py").exists()
