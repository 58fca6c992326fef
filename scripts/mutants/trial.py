"""A trial: a mutant's tests, run in a copy of the tree with the bug.

Invariant: a trial ends within its limit, with all processes that it started.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Lock

LIMIT_SECONDS = 60.0
"""The time limit of one mutant's tests. They are quick, so a longer run hangs."""
PASSED, FAILED = 0, 1  # exit codes of pytest
KILLER = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
OPTIONS = ("-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider")


class Verdict(StrEnum):
    """The outcome of a mutant."""

    KILLED = "killed"
    HUNG = "killed by time-out"
    SURVIVED = "SURVIVED"
    BROKEN = "DOES NOT RUN"
    INAPPLICABLE = "DOES NOT APPLY"
    STOPPED = "stopped"


@dataclass(frozen=True)
class TrialOutcome:
    """The end of a test run: `killer` is the first failed test, `output` the end of the printed text."""

    verdict: Verdict
    seconds: float = 0.0
    killer: str = ""
    output: str = ""


class Trials:
    """Runs trials, from any number of threads, until stopped."""

    def __init__(self) -> None:
        """Begin without a trial."""
        self._running: set[subprocess.Popen[str]] = set()
        self._is_over = False
        self._lock = Lock()

    def run(
        self, root: Path, tests: Iterable[str], limit_seconds: float = LIMIT_SECONDS, *, compiles: bool
    ) -> TrialOutcome:
        """Run tests in a copy. `compiles` leaves compiled files there, which is wrong for a planted bug."""
        started = time.monotonic()
        with self._lock:
            if self._is_over:
                return TrialOutcome(Verdict.STOPPED)
            process = _start(root, tests, compiles=compiles)
            self._running.add(process)
        with process:
            try:
                output, _ = process.communicate(timeout=limit_seconds)
            except subprocess.TimeoutExpired:
                return TrialOutcome(Verdict.HUNG, time.monotonic() - started)
            finally:
                _end(process)
                self._running.discard(process)
        if self._is_over:
            return TrialOutcome(Verdict.STOPPED)
        return _judge(process.returncode, output, time.monotonic() - started)

    def stop(self) -> None:
        """Stop the running trials, and start no more."""
        # Under the lock, because a trial that starts at this moment would survive otherwise.
        with self._lock:
            self._is_over = True
            for process in [*self._running]:
                _end(process)


def _start(root: Path, tests: Iterable[str], *, compiles: bool) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", *OPTIONS, f"--basetemp={root}.t", *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "PYTHONDONTWRITEBYTECODE": "" if compiles else "1",
        "HYPOTHESIS_PROFILE": "ci",  # the same examples each time: a kill by luck does not count
    }
    # A separate session, so that nodes and workers of a test end with it.
    return subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def _judge(code: int, output: str, seconds: float) -> TrialOutcome:
    found = KILLER.search(output)
    killer = found[1] if found else ""
    if code == PASSED:
        return TrialOutcome(Verdict.SURVIVED, seconds)
    # Other exit codes of pytest (no such test, a file that cannot be imported) prove nothing about the tests.
    verdict = Verdict.KILLED if code == FAILED and killer else Verdict.BROKEN
    return TrialOutcome(verdict, seconds, killer, output[-2_000:])


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):  # all of it had ended
        os.killpg(process.pid, signal.SIGKILL)
