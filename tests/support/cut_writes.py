"""A program that writes files and is killed by a signal at the n-th operation on them, for tests.

python cut_writes.py DEEDS FOLDER

For each n a child process starts with an empty folder `FOLDER/n` and performs the deeds. After each it writes a line
into `FOLDER/n.told`: the state that others could have seen by then. The counted operations are the interpreter's audit
events (open, rename, remove, mkdir), each sync, and each SQL statement. Between these the kernel kills a child in the
middle of a file's bytes.
"""

from __future__ import annotations

import itertools
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gpu_tasks.market.capacity.proofs import ROWS_MIN, SIZE_MIN
from gpu_tasks.provider.duties.kept_rows import ComputedChain, KeptRows
from gpu_tasks.provider.execution.chain_worker import ChainRows
from gpu_tasks.provider.execution.containers.images import BroughtImage, ImageBook
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, open_journal
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge, ChainShape
from killed_commits import call_before_statements

FILE_EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.link")
BYTES_AT = (0, 1, 33, 1_000)
"""The bytes of a file at which the kernel kills a child."""
CHALLENGE = ChainChallenge(b"s" * 32, ChainShape(SIZE_MIN, ROWS_MIN, 1))
CHAIN = ComputedChain(CHALLENGE, ChainRows(b"r" * 32, bytes(range(256)) * (ROWS_MIN // 8)))
CLAIM = b"c" * 32
ONE, OTHER = BroughtImage("sha256:1", 5, 1.0), BroughtImage("sha256:2", 0, 2.0)
LATER = BroughtImage("sha256:2", 9, 3.0)
BOOK = "images.json"


def rows(folder: Path) -> Iterable[Callable[[], None]]:
    """Keep a proof as the daemon does: its rows, its sending, and nothing after its claim."""
    kept = KeptRows(folder / "roll-calls", open_journal(folder / JOURNAL_FILE))
    yield lambda: kept.keep(CLAIM, CHAIN)
    yield lambda: kept.note_sent(CLAIM)
    yield lambda: kept.forget(CLAIM)


def book(folder: Path) -> Iterable[Callable[[], None]]:
    """Add two images, and remove one."""
    kept = ImageBook(folder / BOOK)
    yield lambda: kept.note(ONE)
    yield lambda: kept.note(OTHER)
    yield lambda: kept.note(LATER)
    yield lambda: kept.forget(ONE.reference)


DEEDS: dict[str, Callable[[Path], Iterable[Callable[[], object]]]] = {"rows": rows, "book": book}


def _cut_at(place: int, folder: Path) -> None:
    """End this process at the `place`-th event within a folder."""
    left = itertools.count(place, -1)

    def happened() -> None:
        if next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        if event in FILE_EVENTS and str(arguments[0]).startswith(str(folder)):
            happened()

    call_before_statements(happened)
    sync = os.fsync

    def synced(fd: Any) -> None:
        happened()
        sync(fd)
        happened()

    sys.addaudithook(on_event)
    os.fsync = synced


def _cut_after(size: int) -> None:
    """Make the kernel kill this process when a file grows beyond `size` bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _child(deeds: str, folder: Path, place: int) -> None:
    folder.mkdir()
    told = os.open(folder.with_suffix(".told"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if place < len(BYTES_AT):
        _cut_after(BYTES_AT[place])
    else:
        _cut_at(place - len(BYTES_AT), folder)
    for deed in DEEDS[deeds](folder):
        deed()
        os.write(told, b".")


def main() -> None:
    """Run one child after the other, until one completes."""
    deeds, base = sys.argv[1], Path(sys.argv[2])
    for place in itertools.count():
        child = os.fork()
        if not child:
            try:
                _child(deeds, base / str(place), place)
            except BaseException:  # noqa: BLE001  # it is no cut: a child ends by a signal, or well, or the test fails
                os._exit(2)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) and (status or place >= len(BYTES_AT)):
            sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
