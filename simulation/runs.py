"""Runs of many chains: their parts, several at a time, their failures, and the end of a run."""

import argparse
import json
import multiprocessing
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Stretch:
    """One chain of a run. It depends only on these fields."""

    seed: int
    number: int
    steps: int

    def told(self, target: str, error: Exception, place: str) -> str:
        """Return a failure of the chain, its place, and the command that repeats it."""
        traceback.print_exception(error)
        again = f"`make {target} SEED={self.seed} SEASON={self.number}` repeats it"
        return f"seed {self.seed}, season {self.number}, {place}: {type(error).__name__}: {error}; {again}"


@dataclass
class Counted:
    """Results of some chains: counters, numbers and lists, which add up."""

    greatest: ClassVar[frozenset[str]] = frozenset()
    """The numbers of which the maximum is kept."""

    def add(self, other: Self) -> None:
        """Add other results to these."""
        for name, theirs in vars(other).items():
            mine = getattr(self, name)
            setattr(self, name, max(mine, theirs) if name in self.greatest else mine + theirs)

    def told(self) -> dict[str, Any]:
        """Return all results for JSON."""
        return {
            name: dict(sorted(one.items())) if isinstance(one, Counter) else one for name, one in vars(self).items()
        }


def shown_progress() -> Progress:
    """Return progress bars that disappear at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)


def stretches(seed: int, steps: int, steps_each: int) -> list[Stretch]:
    """Return the chains of a run with this many steps."""
    count = -(-steps // steps_each)
    return [Stretch(seed, number, min(steps_each, steps - number * steps_each)) for number in range(count)]


def in_turn(work: Callable[[Part], Result], parts: Sequence[Part], jobs: int) -> Iterator[Result]:
    """Yield the results of parts in their order. Each part runs in its own process, `jobs` at a time."""
    if min(jobs, len(parts)) < 2:
        yield from map(work, parts)
        return
    # spawned: this process may have threads, which a forked child would lack
    with ProcessPoolExecutor(min(jobs, len(parts)), multiprocessing.get_context("spawn")) as processes:
        yield from processes.map(work, parts)


def run_parser(name: str, doc: str) -> argparse.ArgumentParser:
    """Return the parser with the options of every random run."""
    parser = argparse.ArgumentParser(prog=f"python -m simulation.{name}", description=doc.splitlines()[0])
    parser.add_argument("--steps", type=positive, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--season", type=int, help="play this chain of random steps alone")
    parser.add_argument("--jobs", type=positive, default=1, help="chains at a time, each in a process of its own")
    return parser


def chosen_stretches(parser: argparse.ArgumentParser, options: argparse.Namespace, steps_each: int) -> list[Stretch]:
    """Return all chains of a run, or the selected one. Exit if there is no such chain."""
    found = stretches(options.seed, options.steps, steps_each)
    if options.season is None:
        return found
    if not 0 <= options.season < len(found):
        parser.error(f"so many steps have the seasons 0 to {len(found) - 1}")
    return [found[options.season]]


def positive(text: str) -> int:
    """Parse a number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def ended(out: Path, content: dict[str, Any], problems: Sequence[str], line: str) -> int:
    """Write figures as JSON, print failures and the summary line, and return the exit status."""
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for problem in problems:
        print(f"FAILED {problem}", file=sys.stderr)
    print(line)
    return 1 if problems else 0
