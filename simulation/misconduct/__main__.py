"""The price of misconduct about batches, over the real pallets in memory.

Run as `python -m simulation.misconduct [--batches 1000] [--only pair,lazy_third] [--jobs 2]`. It plays each misdeed for
the given number of batches, and writes out/misconduct.json and, as the table of docs/batches.md, out/misconduct.md.

It exits with 1 on a failure. The requirements: each misdeed loses on average, by its formula, and costs an honest party
no more than is known.
"""

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

from simulation.misconduct.misdeeds import MISDEEDS
from simulation.misconduct.scores import BatchScore, Summary, missed, summary
from simulation.runs import ended, positive

OUT = Path(__file__).parents[2] / "out" / "misconduct.json"
HEADS = (
    "misdeed",
    "gain, without a check",
    "made to pay",
    "by the formula",
    "as played",
    "best batch",
    "honest lost",
)


def main() -> int:
    """Play, print, write, judge."""
    arguments = read_arguments()
    names = arguments.only.split(",") if arguments.only else list(MISDEEDS)
    found = dict(played(names, arguments.batches, arguments.jobs))
    told = {name: {key: float(value) for key, value in asdict(each).items()} for name, each in found.items()}
    problems = [f"{name} {problem}" for name, each in found.items() for problem in missed(MISDEEDS[name], each)]
    best = max(float(each.gain) for each in found.values())
    line = (
        f"misconduct: {len(found)} misdeeds, {arguments.batches} batches each; the one that loses least comes to"
        f" {best:+.3f} prices a batch; {len(problems)} bars missed"
    )
    status = ended(OUT, told, problems, line)
    OUT.with_suffix(".md").write_text(page(found))
    return status


def played(names: list[str], batches: int, jobs: int) -> Iterator[tuple[str, Summary]]:
    """Yield the summary of each misdeed."""
    with ProcessPoolExecutor(jobs) as pool:
        for name in names:
            scores = list(pool.map(score, [name] * batches, range(batches), chunksize=10))
            print(f"  {name}: {', '.join(_cells(summary(scores)))}", flush=True)
            yield name, summary(scores)


def score(name: str, number: int) -> BatchScore:
    """Return the score of one batch of a misdeed."""
    return MISDEEDS[name].play(f"{name} {number}")


def page(found: dict[str, Summary]) -> str:
    """Return the table, in hundredths of the price."""
    rows = [(MISDEEDS[name].says, *_cells(each)) for name, each in found.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in (HEADS, ["---"] * len(HEADS), *rows)) + "\n"


def _cells(found: Summary) -> tuple[str, ...]:
    sums = (found.formula, found.gain, found.best, found.harm)
    return (_hundredths(found.unseen), f"{float(found.found):.1%}".replace("%", " %"), *map(_hundredths, sums))


def _hundredths(prices: Fraction) -> str:
    return f"{float(100 * prices):.1f}".replace("-0.0", "0").removesuffix(".0") if prices else "0"


def read_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parse the arguments. Exit with a sentence if they are invalid."""
    parser = argparse.ArgumentParser(prog="python -m simulation.misconduct", description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=positive, default=1_000, help="of each misdeed")
    parser.add_argument("--only", default="", help="misdeeds, with commas between")
    parser.add_argument("--jobs", type=positive, default=2, help="processes")
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.only.split(",") if name and name not in MISDEEDS]
    if unknown:
        parser.error(f"no such misdeed; they are {', '.join(MISDEEDS)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
