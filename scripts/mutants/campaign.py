"""A campaign: first the tests without any bug, then each mutant in turn, over copies that are used again and again.

Always: nothing outlives it, Ctrl-C included.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import TypeVar

from scripts.mutants.copies import copy_tree, planted_in
from scripts.mutants.planted import Mutant, MutantError
from scripts.mutants.trial import LIMIT_SECONDS, TrialOutcome, Trials, Verdict

SOUND_SECONDS = 600.0
"""What all the named tests together may take on the tree as it is."""
Item = TypeVar("Item")


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
