"""A campaign: first the tests without any bug, then each mutant in turn, over reused copies of the tree.

Invariant: no process or copy outlives it, even after Ctrl-C.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import TypeVar

from scripts.mutants.planted import Mutant, MutantError
from scripts.mutants.trial import LIMIT_SECONDS, TrialOutcome, Trials, Verdict

SOUND_SECONDS = 600.0
"""The time limit of all named tests together on the unchanged tree."""
Item = TypeVar("Item")


# Copies of the tree for the bugs: the files that git tracks or would add, with uncommitted changes. Invariant: the
# working tree is never written, and the copies are removed with their folder.
def copy_tree(source: Path, target: Path) -> None:
    """Copy the project's files. Times are kept, so that compiled files stay valid."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=source, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)


@contextmanager
def planted_in(root: Path, mutant: Mutant) -> Iterator[None]:
    """Plant one bug in a copy during the block. Raise MutantError if it does not apply."""
    path = root / mutant.file
    sound = path.read_text(encoding="utf-8")
    try:
        _write(path, mutant.applied(sound))
        yield
    finally:
        _write(path, sound)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    # Python trusts a compiled file of the same second and size, and would run the text before.
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


class Campaign:
    """Copies of a tree, each used by one thread at a time."""

    def __init__(self, copies: list[Path]) -> None:
        """Take the copies. Callers use `open_campaign` instead."""
        self._trials = Trials()
        self._processes = len(copies)
        self._free: SimpleQueue[Path] = SimpleQueue()
        for copy in copies:
            self._free.put(copy)

    def check_sound(self, tests: Iterable[str]) -> list[TrialOutcome]:
        """Run tests on the unchanged tree, a share in each copy. Return the outcomes that did not pass."""
        named = sorted({*tests})
        shares = [share for share in (named[first :: self._processes] for first in range(self._processes)) if share]
        trials = self._over(shares, lambda copy, share: self._trials.run(copy, share, SOUND_SECONDS, compiles=True))
        return [trial for trial in trials if trial.verdict is not Verdict.SURVIVED]

    def try_all(self, mutants: list[Mutant], on_end: Callable[[Mutant, TrialOutcome], None]) -> list[TrialOutcome]:
        """Return the outcome of each mutant, in their order. Call `on_end` as each ends."""

        def attempt(copy: Path, mutant: Mutant) -> TrialOutcome:
            trial = self._attempt(copy, mutant)
            on_end(mutant, trial)
            return trial

        return self._over(mutants, attempt)

    def _attempt(self, copy: Path, mutant: Mutant) -> TrialOutcome:
        try:
            with planted_in(copy, mutant):
                return self._trials.run(copy, mutant.tests, LIMIT_SECONDS, compiles=False)
        except (MutantError, FileNotFoundError) as error:
            return TrialOutcome(Verdict.INAPPLICABLE, output=str(error))

    def _over(self, items: list[Item], work: Callable[[Path, Item], TrialOutcome]) -> list[TrialOutcome]:
        """Work on each item with a free copy."""

        def lend(item: Item) -> TrialOutcome:
            copy = self._free.get()
            try:
                return work(copy, item)
            finally:
                self._free.put(copy)

        with ThreadPoolExecutor(self._processes) as threads:
            try:
                return list(threads.map(lend, items))
            except BaseException:
                # Also on Ctrl-C, because leaving the pool waits for all its trials.
                threads.shutdown(wait=False, cancel_futures=True)
                self._trials.stop()
                raise


@contextmanager
def open_campaign(source: Path, processes: int) -> Iterator[Campaign]:
    """Yield a campaign over `processes` copies of a tree, which are removed at the end."""
    with TemporaryDirectory(prefix="ogpu-mutants-", ignore_cleanup_errors=True) as folder:
        copies = [Path(folder) / str(number) for number in range(processes)]
        for copy in copies:
            copy_tree(source, copy)
        yield Campaign(copies)
