"""The command-line programs that people use, run as people run them, and shown as people would type them.

What always holds: a program that fails is a `DevnetError` with what it said; what it keeps lies in a folder of the
devnet, since one that knows another chain refuses this one.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
SECONDS_MAX = 900.0
"""That a program may take: a unit of 4,096 requests on a quarter of one core takes nine minutes."""
ERROR_CHARACTERS = 1500

Shown = Callable[[str], None]


def run(program: str, *words: str, keyring: Path, show: Shown | None = None) -> str:
    """Run `program` with --json; gives what it printed.  Raises `DevnetError`."""
    if show is not None:
        show("$ " + as_typed(program, *words))
    with _output(program, words, keyring) as output:
        return output.read()


def lines(program: str, *words: str, keyring: Path, show: Shown | None = None) -> Iterator[Any]:
    """Run `program` with --json; gives each line that it prints, read, as it comes.  Raises `DevnetError`."""
    if show is not None:
        show("$ " + as_typed(program, *words))
    with _output(program, words, keyring) as output:
        for line in output:
            yield json.loads(line)


def tried(program: str, *words: str, keyring: Path, show: Shown | None = None) -> tuple[int, str]:
    """Run `program` with --json, however it ends: its exit code, and what it printed; 1 where it hangs."""
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
    program: str, *words: str, keyring: Path, output: int | IO[Any] = subprocess.PIPE, errors: int | IO[Any]
) -> subprocess.Popen[str]:
    """Start `program` with --json."""
    return subprocess.Popen(
        [sys.executable, "-m", MODULES[program], "--json", *words],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        text=True,
        env={**source_path(), "OGPU_KEYRING": str(keyring)},
    )


def as_typed(program: str, *words: str) -> str:
    """The command as somebody would type it."""
    return " ".join((program, *map(shlex.quote, words)))


@contextmanager
def _output(program: str, words: tuple[str, ...], keyring: Path) -> Iterator[IO[str]]:
    """The program's output; when the block ends, so has the program."""
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
            said = errors.read()[-ERROR_CHARACTERS:].strip()
            raise DevnetError(f"`{as_typed(program, *words)}` failed with status {process.returncode}: {said}")
