"""Real provider daemons and customers' programs as processes, for tests that kill them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


class ProviderProcess:
    """One `ogpu-provider run`, which can start again after it was killed."""

    def __init__(self, base: Path, name: str, url: str, *, port: int, cheat: str = "") -> None:
        self.base = base / f"provider-{name}"
        self.log = base / f"provider-{name}.log"
        program = ["devnet.stage.cheating", "--mode", cheat] if cheat else ["gpu_tasks.provider.cli"]
        self._command = [sys.executable, "-m", *program, "--url", url, "--provider-key", f"//{name}//provider"]
        self._command += ["--base-path", str(self.base), "run", "--blob-port", str(port)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the daemon. Its log continues."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End it by a signal. Return its exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(30)

    def close(self) -> None:
        """End it if it runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def text(self) -> str:
        """Its log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def count(self, event: str) -> int:
        """Return the number of its telemetry events of a kind."""
        path = self.base / "telemetry.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return sum(json.loads(line)["event"] == event for line in lines)


def operator(url: str, base: Path, name: str, *arguments: str, seconds: float = 120) -> Any:
    """Return the output of `ogpu-provider --json ...`, with the base path of a `ProviderProcess`."""
    command = [
        sys.executable,
        "-m",
        "gpu_tasks.provider.cli",
        "--url",
        url,
        "--provider-key",
        f"//{name}//provider",
        "--json",
    ]
    command += ["--base-path", str(base / f"provider-{name}"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def customer(url: str, *arguments: str, seconds: float = 120) -> Any:
    """Return the output of `ogpu --json ...`: one JSON value, or a list of the lines of `--watch`."""
    command = [sys.executable, "-m", "gpu_tasks.client.cli", "--url", url, "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return [json.loads(line) for line in done.stdout.splitlines()]
