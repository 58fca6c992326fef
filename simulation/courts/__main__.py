"""Gains of coalitions before the courts, with and without honest appeals.

Run as `python -m simulation.courts [--cases 32] [--only lies,frames]` (`make courts`). It plays every habit against
networks of 4, 7, 10 and 33 validators over the real courts. It writes out/courts.json and, as tables for
docs/courts.md, out/courts.md.

It exits with 1 on a failure. The requirements: with honest appeals, a coalition gains nothing by cheating, honest
providers and judges lose nothing, and none is convicted after an appeal. `KNOWN` lists the known exceptions.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simulation.courts.habits import HABITS, Habit
from simulation.courts.results import play
from simulation.courts.season import Setting

OUT = Path(__file__).parents[2] / "out" / "courts.json"
NETWORKS = ((4, 25), (7, 14), (7, 28), (10, 10), (10, 20), (10, 30), (33, 10), (33, 33))
"""Validators, and the coalition's share of the stake in percent."""
TOLERANCE = 0.02
"""The tolerated error of a mean over few cases, in prices a case."""
KNOWN: dict[tuple[str, str], tuple[int, str]] = {}
"""The known failures, by habit and requirement: the largest network that has them, and the reason."""

Row = dict[str, Any]


def main() -> int:
    """Play, print, write, judge."""
    arguments = read_arguments()
    chosen = [habit for habit in HABITS if not arguments.only or habit.name in arguments.only.split(",")]
    rows = list(_rows(chosen, arguments.cases))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1))
    OUT.with_suffix(".md").write_text(page(rows))
    missed = [(sentence, known(row, bar)) for row in rows for bar, sentence in problems(row)]
    for sentence, why in missed:
        print(f"courts: {sentence}" + (f" (known: {why})" if why else ""))
    best = max(row["with"]["gain"] for row in rows)
    summary = f"{len(rows)} settings of {arguments.cases} cases, best gain of a coalition {best:+.3f} prices a case"
    new = sum(not why for _, why in missed)
    print(f"courts: {summary}, {len(missed)} bars missed, {new} of them not known")
    return 1 if new else 0


def page(rows: list[Row]) -> str:
    """Return Markdown tables by habit and network: the coalition's gain, then that of honest providers and judges.

    Each cell has the figure with honest appeals, and in brackets the one without.
    """
    gains = _table(rows, lambda found: f"{found['gain']:+.2f}")
    honest = _table(rows, lambda found: f"{found['provider']:+.2f} / {found['judges']:+.2f}")
    return f"{gains}\n{honest}"


def _table(rows: list[Row], cell: Callable[[Row], str]) -> str:
    networks = list(dict.fromkeys((row["size"], row["share_percent"]) for row in rows))
    by_place = {(row["habit"], row["size"], row["share_percent"]): row for row in rows}
    heads = " | ".join(f"{share} % of {size}" for size, share in networks)
    lines = [f"| habit | {heads} |", "|---|" + "---|" * len(networks)]
    for name in dict.fromkeys(row["habit"] for row in rows):
        found = [by_place[name, size, share] for size, share in networks]
        cells = [f"{cell(row['with'])} ({cell(row['without'])})" for row in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def problems(row: Row) -> Iterator[tuple[str, str]]:
    """Yield the requirements that a setting fails, each with a sentence."""
    name = f"{row['habit']}, {row['share_percent']} % of {row['size']}"
    result = row["with"]
    if result["gain"] > TOLERANCE:
        yield "coalition", f"{name}: the coalition gains {result['gain']:+.3f} prices a case"
    for who in ("provider", "judges"):
        if result[who] < -TOLERANCE:
            yield who, f"{name}: honest ones lose as {who} {result[who]:+.3f} prices a case"
    if result["convicted_after_appeal"]:
        yield "convicted", f"{name}: {result['convicted_after_appeal']} honest convictions after an appeal"


def known(row: Row, bar: str) -> str:
    """Return the reason of a known failure, or an empty text."""
    greatest, why = KNOWN.get((row["habit"], bar), (0, ""))
    return why if row["size"] <= greatest else ""


def _rows(habits: list[Habit], cases: int) -> Iterator[Row]:
    for size, share in NETWORKS:
        for habit in habits:
            row: Row = {"size": size, "share_percent": share, "habit": habit.name}
            for name, has_appeals in (("with", True), ("without", False)):
                row[name] = asdict(play(Setting(size, share, habit, has_appeals, cases)))
            print(_line(row), flush=True)
            yield row


def _line(row: Row) -> str:
    found, without = row["with"], row["without"]
    gains = f"with appeals {found['gain']:+7.3f} without {without['gain']:+7.3f}"
    honest = f"provider {found['provider']:+7.3f} judges {found['judges']:+7.3f}"
    return f"  {row['size']:2} validators, {row['share_percent']:2} %, {row['habit']:10} {gains} {honest}"


def read_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parse the arguments. Exit with a sentence if they are invalid."""
    parser = argparse.ArgumentParser(prog="python -m simulation.courts", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=32, help="cases in each setting")
    parser.add_argument("--only", default="", help="habits, with commas between")
    arguments = parser.parse_args(words)
    if arguments.cases < 1:
        parser.error("a setting has at least one case")
    known = [habit.name for habit in HABITS]
    unknown = [name for name in arguments.only.split(",") if name and name not in known]
    if unknown:
        parser.error(f"no habit is called {', '.join(unknown)}: there are {', '.join(known)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
