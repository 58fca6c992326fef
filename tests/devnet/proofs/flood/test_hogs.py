"""Programs that use every processor end with the attack that they accompany."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devnet.proofs.flood import network

LOOKS = 1_000


def children() -> set[str]:
    return {
        pid
        for task in Path(f"/proc/{os.getpid()}/task").iterdir()
        for pid in (task / "children").read_text(encoding="ascii").split()
    }


def test_there_is_one_for_each_processor_at_the_nodes_priority_and_none_afterwards() -> None:
    before = children()
    with network.beside_hogs() as count:
        started = children() - before
        assert len(started) == count == len(os.sched_getaffinity(0))
        assert {os.getpriority(os.PRIO_PROCESS, int(pid)) for pid in started} == {os.getpriority(os.PRIO_PROCESS, 0)}
    assert children() == before


def test_they_end_with_a_program_that_is_killed() -> None:
    program = """if True:
        import time
        from devnet.proofs.flood import network
        with network.beside_hogs():
            print("begun", flush=True)
            time.sleep(600)
    """
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"begun\n"
        started = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text(encoding="ascii").split()
        running.kill()
    assert started
    try:
        for _ in range(LOOKS):
            if not any(network.BUSY_LOOP in command_of(pid) for pid in started):
                return
            time.sleep(0.01)
        pytest.fail("they go on")
    finally:
        for pid in started:
            if network.BUSY_LOOP in command_of(pid):
                os.kill(int(pid), signal.SIGKILL)


def command_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""
