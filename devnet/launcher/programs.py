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

from devnet.launcher.errors import DevnetError
from devnet.launcher.processes import source_path

MODULES = {
    "ogpu-wallet": "wallet.cli",
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
    with _started(program, words, keyring) as output:
        return output.read()


def lines(program: str, *words: str, keyring: Path, show: Shown | None = None) -> Iterator[Any]:
    """Run `program` with --json; gives each line that it prints, read, as it comes.  Raises `DevnetError`."""
    if show is not None:
        show("$ " + as_typed(program, *words))
    with _started(program, words, keyring) as output:
        for line in output:
            yield json.loads(line)


def tried(program: str, *words: str, keyring: Path, show: Shown | None = None) -> tuple[int, str]:
    """Run `program` with --json, however it ends: its exit code, and what it printed; 1 where it hangs."""
    if show is not None:
        show("$ " + as_typed(program, *words))
    try:
        done = subprocess.run(
            [sys.executable, "-m", MODULES[program], "--json", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**source_path(), "OGPU_KEYRING": str(keyring)},
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, ""
    return done.returncode, done.stdout


def as_typed(program: str, *words: str) -> str:
    """The command as somebody would type it."""
    return " ".join((program, *map(shlex.quote, words)))


@contextmanager
def _started(program: str, words: tuple[str, ...], keyring: Path) -> Iterator[IO[str]]:
    """The program's output; when the block ends, so has the program."""
    with TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULES[program], "--json", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**source_path(), "OGPU_KEYRING": str(keyring)},
        )
        assert process.stdout is not None  # a pipe, as asked for
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
