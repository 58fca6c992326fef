"""Real nodes as processes, for tests that kill them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from devnet.launcher.free_ports import one_free_port

FINAL = re.compile(r"final #(\d+) (0x[0-9a-f]+)")


class NodeProcess:
    """One node, which can start again after it was stopped or killed."""

    def __init__(self, base: Path, name: str, *flags: str) -> None:
        self.base, self.name = base / name, name
        self.log = base / f"{name}.log"
        self.port, self.metrics_port = one_free_port(), one_free_port()
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        """Start the node. Its log continues."""
        command = [
            sys.executable,
            "-m",
            "node.cli",
            *self._flags,
            *more,
            "--base-path",
            str(self.base),
            "--listen-host",
            "127.0.0.1",
        ]
        command += ["--port", str(self.port), "--prometheus-port", str(self.metrics_port)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End it by a signal. Return its exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(30)

    def wait(self, seconds: float) -> int:
        """Its exit status, when it ends by itself."""
        assert self._process is not None
        return self._process.wait(seconds)

    def close(self) -> None:
        """End it if it runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def finals(self) -> dict[int, str]:
        """Return the logged final blocks: height to short id, the last block of each commit."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        found: dict[int, str] = {}
        for height, block in FINAL.findall(text):
            assert found.setdefault(int(height), block) == block, f"{self.name} finalised two blocks at {height}"
        return found

    def final_height(self) -> int:
        """Return the highest final height."""
        return max(self.finals(), default=0)


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until `condition` holds. Raise `TimeoutError` if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)


def agree(nodes: list[NodeProcess]) -> int:
    """Check that no two nodes finalised different blocks. Return the number of comparable heights."""
    compared = 0
    known: dict[int, str] = {}
    for node in nodes:
        for height, block in node.finals().items():
            compared += height in known
            assert known.setdefault(height, block) == block, f"{node.name} differs at {height}"
    return compared
