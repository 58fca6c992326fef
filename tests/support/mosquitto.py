"""A real Mosquitto for a test, skipped with its reason where it is not installed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from devnet.launcher import broker
from devnet.launcher.free_ports import one_free_port
from devnet.launcher.processes import listens, source_path


@dataclass
class Mosquitto:
    """A broker that may be killed and started again on its port."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", broker.__name__, str(self.port), str(self.folder)]
        self.process = subprocess.Popen(command, cwd=self.folder, stderr=subprocess.DEVNULL, env=source_path())
        end = time.monotonic() + 20
        while not listens(self.port):
            assert self.process.poll() is None, "Mosquitto ended"
            assert time.monotonic() < end, "Mosquitto does not listen"
            time.sleep(0.02)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def mosquitto(folder: Path) -> Iterator[Mosquitto]:
    """Run a broker."""
    if broker.broker_program() is None:
        pytest.skip("Mosquitto is not installed: apt-get install mosquitto")
    running = Mosquitto(folder, one_free_port())
    running.start()
    try:
        yield running
    finally:
        running.kill()
