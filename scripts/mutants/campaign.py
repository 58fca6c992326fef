"""A campaign: first the tests without any bug, then each mutant in turn, over copies that are used again and again.

Always: nothing outlives it, Ctrl-C included.
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
"""What all the named tests together may take on the tree as it is."""
Item = TypeVar("Item")


# Copies of the tree to plant bugs in: the files that git knows or would take, with what is not committed yet.
#
# Always: the working tree is never written to; copies are gone when their folder is closed.
def copy_tree(source: Path, target: Path) -> None:
    """Copy what belongs to the project; times are kept, so that compiled files stay valid."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=source, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)


@contextmanager
def planted_in(root: Path, mutant: Mutant) -> Iterator[None]:
    """A copy with one bug in it. MutantError if it does not apply."""
    path = root / mutant.file
    sound = path.read_text(encoding="utf-8")
    try:
        _write(path, mutant.applied(sound))
        yield
    finally:
        _write(path, sound)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    # Python trusts a compiled file of the same second and size: it would go on running the text before.
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


class Campaign:
    """Copies of a tree, each worked on by one thread at a time."""

    def __init__(self, copies: list[Path]) -> None:
        """See `open_campaign`."""
        self._trials = Trials()
        self._processes = len(copies)
        self._free: SimpleQueue[Path] = SimpleQueue()
        for copy in copies:
            self._free.put(copy)

    def check_sound(self, tests: Iterable[str]) -> list[TrialOutcome]:
        """Run tests on the tree as it is, a share in each copy; what did not pass."""
        named = sorted({*tests})
        shares = [share for share in (named[first :: self._processes] for first in range(self._processes)) if share]
        trials = self._over(shares, lambda copy, share: self._trials.run(copy, share, SOUND_SECONDS, compiles=True))
        return [trial for trial in trials if trial.verdict is not Verdict.SURVIVED]

    def try_all(self, mutants: list[Mutant], on_end: Callable[[Mutant, TrialOutcome], None]) -> list[TrialOutcome]:
        """What became of each mutant, in their order; `on_end` is told as they end."""

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
        """Work on items with a free copy each."""

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
                threads.shutdown(wait=False, cancel_futures=True)
                self._trials.stop()
                raise


@contextmanager
def open_campaign(source: Path, processes: int) -> Iterator[Campaign]:
    """So many copies of a tree, removed in the end."""
    with TemporaryDirectory(prefix="ogpu-mutants-", ignore_cleanup_errors=True) as folder:
        copies = [Path(folder) / str(number) for number in range(processes)]
        for copy in copies:
            copy_tree(source, copy)
        yield Campaign(copies)
