"""Coalitions before the courts, with and without honest appeals: who gains what.

Run as `python -m scripts.courts [--units 24] [--only lies,sybil]` (`make courts`). Plays every habit against networks
of 4, 7, 10 and 33 validators over the real pallet, writes out/courts.json and, as a table for docs/courts.md,
out/courts.md. Exits with 1 when a bar is missed: where honest daemons appeal and a court can be drawn, a coalition
gains nothing by cheating, honest validators lose nothing, none is convicted after an appeal.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from scripts.courts.habits import HABITS, HONEST, Against, Habit
from scripts.courts.season import Result, Setting, play

OUT = Path(__file__).parents[2] / "out" / "courts.json"
NETWORKS = ((4, 25), (7, 14), (7, 28), (10, 10), (10, 20), (10, 30), (33, 10), (33, 33))
"""Validators, and the coalition's share of the stake in percent."""
COURT_SIZE_MIN = 7
"""From here on a committee leaves enough for a court, two racers that validate apart."""
TOLERANCE = 0.02
"""Of a price a unit: what a mean over few units may be off."""


Row = dict[str, Any]


def main() -> int:
    """Play, print, write, judge."""
    arguments = read_arguments()
    chosen = [habit for habit in HABITS if not arguments.only or habit.name in arguments.only.split(",")]
    rows = list(_rows(chosen, arguments.units))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1))
    OUT.with_suffix(".md").write_text(page(rows))
    missed = [problem for row in rows for problem in problems(row)]
    for problem in missed:
        print(f"courts: {problem}")
    cases = sum(row["with"]["cases"] + row["without"]["cases"] for row in rows)
    best = max(row["with"]["over_honest"] for row in rows)
    summary = f"{len(rows)} settings, {cases} cases, best gain of a coalition {best:+.3f} prices a unit"
    print(f"courts: {summary}, {len(missed)} missed")
    return 1 if missed else 0


def page(rows: list[Row]) -> str:
    """The gains by habit and network as Markdown: with honest appeals, and in brackets without."""
    networks = list(dict.fromkeys((row["size"], row["share_percent"]) for row in rows))
    by_place = {(row["habit"], row["size"], row["share_percent"]): row for row in rows}
    heads = " | ".join(f"{share} % of {size}" for size, share in networks)
    lines = [f"| habit | {heads} |", "|---|" + "---|" * len(networks)]
    for name in dict.fromkeys(row["habit"] for row in rows):
        cells = []
        for size, share in networks:
            row = by_place[name, size, share]
            cells.append(f"{row['with']['over_honest']:+.2f} ({row['without']['over_honest']:+.2f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def problems(row: Row) -> Iterator[str]:
    """What of the bars a setting misses."""
    name = f"{row['habit']}, {row['share_percent']} % of {row['size']}"
    result = row["with"]
    if row["size"] < COURT_SIZE_MIN:
        return
    if result["over_honest"] > TOLERANCE:
        yield f"{name}: the coalition gains {result['over_honest']:+.3f} prices a unit"
    if result["honest"] < -TOLERANCE:
        yield f"{name}: honest validators lose {result['honest']:+.3f} prices a unit"
    if result["convicted_after_appeal"]:
        yield f"{name}: {result['convicted_after_appeal']} honest convictions after an appeal"


def _rows(habits: list[Habit], units: int) -> Iterator[Row]:
    for size, share in NETWORKS:
        for habit in habits:
            row: Row = {"size": size, "share_percent": share, "habit": habit.name}
            for name, has_appeals in (("with", True), ("without", False)):
                result = play(Setting(size, share, habit, has_appeals, units))
                row[name] = {**asdict(result), "over_honest": result.coalition - _idle(size, share, habit, units)}
            print(
                f"  {size:2} validators, {share:2} %, {habit.name:10} "
                f"with appeals {row['with']['over_honest']:+7.3f} without {row['without']['over_honest']:+7.3f} "
                f"honest {row['with']['honest']:+7.3f}",
                flush=True,
            )
            yield row


def _idle(size: int, share: int, habit: Habit, units: int) -> float:
    """What the coalition has without cheating: what it earns honestly; or nothing, where it need not have posted."""
    return _honest(size, share, units).coalition if habit.party is Against.STRANGERS else 0.0


@cache
def _honest(size: int, share: int, units: int) -> Result:
    return play(Setting(size, share, replace(HONEST, party=Against.STRANGERS), has_appeals=True, units=units))


def read_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """What was typed; SystemExit with a sentence for what cannot be played."""
    parser = argparse.ArgumentParser(prog="python -m scripts.courts", description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=24, help="units in each setting")
    parser.add_argument("--only", default="", help="habits, with commas between")
    arguments = parser.parse_args(words)
    if arguments.units < 1:
        parser.error("a setting has at least one unit")
    known = [habit.name for habit in HABITS]
    unknown = [name for name in arguments.only.split(",") if name and name not in known]
    if unknown:
        parser.error(f"no habit is called {', '.join(unknown)}: there are {', '.join(known)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
