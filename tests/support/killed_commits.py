"""A program that commits rows and is killed before its n-th SQL statement, for tests.

python killed_commits.py MODULE FUNCTION FOLDER

For each n a child process calls `FUNCTION(FOLDER/n)` of a module of the tests, which yields deeds, and performs them.
After each it writes a line into `FOLDER/n.told`: the state that others could have seen by then. Between two statements
the kernel kills other children in the middle of a file's bytes.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

BYTES_AT = (0, 1, 33, 1_000, 4_096, 5_000, 12_400, 20_000, 33_000)
"""The bytes of a file at which the kernel kills a child: in the database's pages, and in frames of its log."""
Deeds = Iterable[Callable[[], object]]


def lives(function: Callable[[Path], Deeds], base: Path) -> Iterator[tuple[Path, int]]:
    """Yield each killed process's folder with the number of its completed deeds. The last one completed all."""
    done = subprocess.run(
        [sys.executable, __file__, function.__code__.co_filename, function.__name__, str(base)], check=False,
        timeout=300, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert done.returncode == 0
    count = sum(path.suffix == ".told" for path in base.iterdir())
    assert count > len(BYTES_AT), "each statement is a point"
    for place in range(count):
        yield base / str(place), len((base / f"{place}.told").read_bytes())


def call_before_statements(happens: Callable[[], None]) -> None:
    """Call a function before each statement of any connection to a database that this process opens later."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(lambda _: happens())
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]  # it has the same arguments


def _cut_before(place: int) -> None:
    """Kill this process before the `place`-th statement of any connection to a database."""
    left = itertools.count(place, -1)

    def happens() -> None:
        if next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    call_before_statements(happens)


def _child(deeds: Callable[[Path], Deeds], folder: Path, place: int) -> None:
    folder.mkdir()
    told = os.open(folder.with_suffix(".told"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if place < len(BYTES_AT):
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (BYTES_AT[place],) * 2)
    else:
        _cut_before(place - len(BYTES_AT))
    for deed in deeds(folder):
        deed()
        os.write(told, b".")


def main() -> None:
    """Run one child after the other, until one completes."""
    path, name, base = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    for place in itertools.count():
        child = os.fork()
        if not child:
            try:
                _child(getattr(module, name), base / str(place), place)
            except BaseException:  # noqa: BLE001  # it is no cut: a child ends by a signal, or well, or the test fails
                sys.excepthook(*sys.exc_info())
                os._exit(2)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) and (status or place >= len(BYTES_AT)):
            sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
