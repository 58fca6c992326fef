"""`ogpu chat` as a person at a terminal or a script with a pipe runs it, with the time of each piece of text.

Invariant: the program is real, and its standard output alone says which text arrived and when.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
import tty
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from devnet.launcher import processes, programs
from devnet.launcher.folder import DevnetError
from devnet.stage.network import Stage

READY_TEXT = "Type a question"
READY_SECONDS, ANSWER_SECONDS, QUIT_SECONDS = 120.0, 600.0, 120.0
POLL_SECONDS = 0.01
LOG_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """A whole answer. Times are seconds of the clock of this machine."""

    text: str
    asked_at: float
    first_at: float
    """The arrival of the first piece of text."""
    ended_at: float
    tokens_in: int
    tokens_out: int
    cost: int

    @property
    def first_seconds(self) -> float:
        """The time to the first token."""
        return self.first_at - self.asked_at


class ChatProgram:
    """One run of `ogpu chat` in an open session, which it leaves open."""

    def __init__(self, stage: Stage, log: Path, *words: str, question: str | None = None) -> None:
        """Start the program with a question in a pipe, or without one at a terminal. Notes go to the log."""
        self._log = log
        self._lines: list[tuple[float, dict[str, Any]]] = []
        self._read_lines = 0
        """The lines of earlier answers."""
        self.asked_at = time.monotonic()
        arguments = ("--url", stage.url, "chat", *words, "--keep", "--yes")
        with log.open("w", encoding="utf-8") as errors, _terminal(is_wanted=question is None) as (keyboard, terminal):
            self._keyboard = keyboard
            self._process = programs.started(
                "ogpu", *arguments, keyring=stage.devnet.keyring, errors=errors,
                typed=subprocess.PIPE if terminal is None else terminal,
            )  # fmt: skip
        if question is not None:
            assert self._process.stdin is not None, "a pipe"
            # A program that has ended already takes no question. Its log says why.
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(question)
                self._process.stdin.close()
        # A thread, because a line's time is that of its arrival.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        """Return the running program."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the program, unless it has ended."""
        self.kill()

    # ------------------------------------------------------------------------------------------------------ a terminal

    def wait_until_ready(self) -> None:
        """Wait until the program has entered the session and takes questions."""
        self._wait(lambda: READY_TEXT in self.notes, READY_SECONDS, "is not ready")

    def type(self, line: str) -> None:
        """Type a question."""
        self.asked_at = time.monotonic()
        os.write(self._keyboard, line.encode() + b"\n")

    def quit(self) -> None:
        """Leave the chat. The session stays open."""
        os.write(self._keyboard, b"/quit\n")
        self._wait(lambda: self._process.poll() is not None, QUIT_SECONDS, "does not end")
        self._end()

    # --------------------------------------------------------------------------------------------------------- answers

    @property
    def notes(self) -> str:
        """The text on standard error so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def pieces(self) -> int:
        """The pieces of text that have arrived."""
        return sum("text" in fields for _, fields in self._lines)

    @property
    def is_running(self) -> bool:
        """True until the program has ended."""
        return self._process.poll() is None

    def answer(self) -> TimedAnswer:
        """Wait for the end of the next answer. Raise DevnetError if the program ends without it."""
        self._wait(lambda: self._answer_end() is not None, ANSWER_SECONDS, "brings no answer")
        end = self._answer_end()
        assert end is not None, "waited for"
        lines, self._read_lines = self._lines[self._read_lines : end + 1], end + 1
        ended_at, facts = lines[-1]
        return TimedAnswer(
            facts["answer"], self.asked_at, lines[0][0], ended_at, facts["tokens_in"], facts["tokens_out"],
            int(facts["cost"]["grains"]),
        )  # fmt: skip

    def last_text(self) -> str:
        """Wait until the program has ended, and return the text of its last answer. Raise DevnetError if it failed."""
        self._wait(lambda: not self.is_running, ANSWER_SECONDS, "does not end")
        self._end()
        answers = [fields["answer"] for _, fields in self._lines if "answer" in fields]
        if self._process.returncode or not answers:
            raise DevnetError(f"`ogpu chat` failed: {self.notes[-LOG_CHARACTERS:]}")
        return str(answers[-1])

    def longest_silence_from(self, moment: float) -> float:
        """Return the longest time without a new piece of text from a moment on."""
        times = [moment, *(seconds for seconds, fields in self._lines if "text" in fields and seconds > moment)]
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)

    def kill(self) -> None:
        """Kill the program with SIGKILL, as a power cut would."""
        if self.is_running:
            self._process.send_signal(signal.SIGKILL)
        self._end()

    def _end(self) -> None:
        self._process.wait()
        self._reader.join()
        if self._keyboard >= 0:
            os.close(self._keyboard)
            self._keyboard = -1

    def _answer_end(self) -> int | None:
        ends = range(self._read_lines, len(self._lines))
        return next((number for number in ends if "answer" in self._lines[number][1]), None)

    def _wait(self, is_met: Callable[[], bool], seconds: float, problem: str) -> None:
        processes.until(lambda: is_met() or not self.is_running, seconds, POLL_SECONDS)
        if not self.is_running:
            self._reader.join()
        if not is_met():
            status = "" if self.is_running else f" (exit status {self._process.returncode})"
            raise DevnetError(f"`ogpu chat` {problem}{status}: {self.notes[-LOG_CHARACTERS:]}")

    def _read(self) -> None:
        assert self._process.stdout is not None, "a pipe"
        for line in self._process.stdout:
            # A killed program may leave half a line.
            with contextlib.suppress(ValueError):
                self._lines.append((time.monotonic(), json.loads(line)))


@contextlib.contextmanager
def _terminal(*, is_wanted: bool) -> Iterator[tuple[int, int | None]]:
    """Yield a keyboard and the terminal that it writes to, or -1 and None. The program gets the terminal."""
    if not is_wanted:
        yield -1, None
        return
    keyboard, terminal = os.openpty()
    # Without echo, which nobody would read.
    tty.setraw(terminal)
    try:
        yield keyboard, terminal
    finally:
        os.close(terminal)
