"""The command-line programs, run as users run them, and shown as users would type them.

Invariant: a failed program raises a ProgramFailedError with its error text and code. The programs keep their files in a
folder of the devnet, because files of another chain would make them refuse this one.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import IO, Any

from devnet.launcher.folder import DevnetError
from devnet.launcher.processes import source_path

MODULES = {
    "ogpu-wallet": "cli.wallet.program",
    "ogpu-provider": "gpu_tasks.provider.cli",
    "ogpu": "gpu_tasks.client.cli",
}
SECONDS_MAX = 3_600.0
"""The time limit of a program: eight batches of a language model on one busy core take half an hour."""
ERROR_CHARACTERS = 1500

Shown = Callable[[str], None]


class ProgramFailedError(DevnetError):
    """A program ended with an error. The code is that of its last line under `--json`."""

    def __init__(self, error_text: str, status: int, code: str | None) -> None:
        """`status`: the program's exit status."""
        super().__init__(error_text, code=code)
        self.status = status


def run(program: str, *words: str, keyring: Path, show: Shown | None = None) -> str:
    """Run `program` with --json and return its output. Raise DevnetError if it fails."""
    if show is not None:
        show("$ " + as_typed(program, *words))
    with _output(program, words, keyring) as output:
        return output.read()


def lines(program: str, *words: str, keyring: Path, show: Shown | None = None) -> Iterator[Any]:
    """Run `program` with --json and yield each printed line, parsed. Raise DevnetError if it fails."""
    if show is not None:
        show("$ " + as_typed(program, *words))
    with _output(program, words, keyring) as output:
        for line in output:
            yield json.loads(line)


def tried(program: str, *words: str, keyring: Path, show: Shown | None = None) -> tuple[int, str]:
    """Run `program` with --json, and return its exit code and its output.

    If it exceeds the time limit, the code is 1.
    """
    if show is not None:
        show("$ " + as_typed(program, *words))
    process = started(program, *words, keyring=keyring, errors=subprocess.DEVNULL)
    try:
        output, _ = process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return 1, ""
    finally:
        process.kill()
        process.wait()
    return process.returncode, output


def started(
    program: str,
    *words: str,
    keyring: Path,
    output: int | IO[Any] = subprocess.PIPE,
    errors: int | IO[Any],
    typed: int = subprocess.DEVNULL,
) -> subprocess.Popen[str]:
    """Start `program` with --json. `typed` is its standard input."""
    return subprocess.Popen(
        [sys.executable, "-m", MODULES[program], "--json", *words],
        stdin=typed,
        stdout=output,
        stderr=errors,
        text=True,
        env={**source_path(), "OGPU_KEYRING": str(keyring)},
    )


def as_typed(program: str, *words: str) -> str:
    """Return the command as a user would type it."""
    return " ".join((program, *map(shlex.quote, words)))


@contextmanager
def _output(program: str, words: tuple[str, ...], keyring: Path) -> Iterator[IO[str]]:
    """Yield the program's output. The program has ended when the block ends."""
    # Errors go to a file: a full pipe that no reader empties would block the program.
    with TemporaryFile("w+") as errors:
        process = started(program, *words, keyring=keyring, errors=errors)
        assert process.stdout is not None  # a pipe
        watchdog = Timer(SECONDS_MAX, process.kill)
        watchdog.start()
        try:
            yield process.stdout
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
            process.stdout.close()
            watchdog.cancel()
        if process.returncode:
            errors.seek(0)
            error_output = errors.read()[-ERROR_CHARACTERS:].strip()
            error_text = f"`{as_typed(program, *words)}` failed with status {process.returncode}: {error_output}"
            raise ProgramFailedError(error_text, process.returncode, _last_code(error_output))


def _last_code(error_output: str) -> str | None:
    """Return the code in a program's last error line; None if its last line is something else."""
    with suppress(ValueError, TypeError, KeyError, IndexError):
        return str(json.loads(error_output.splitlines()[-1])["code"])
    return None
