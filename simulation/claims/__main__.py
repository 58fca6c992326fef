"""Gains of dishonest behaviours in claims and disputes, on the real pallets with a toy market.

Run as `python -m simulation.claims [--plays 16] [--only lies,frames]` (`make claims`). It prints a table for each
setting, and writes out/claims.json.

It exits with 1 if, with appeals, a coalition gains more than the bar beyond the statistical error, or an honest party
loses anything but its costs. `KNOWN` lists the known exceptions.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpu_tasks.market.claims.collateral import PPM
from simulation.claims.habits import HABITS, Habit
from simulation.claims.network import Setting
from simulation.claims.results import Result, measured

OUT = Path(__file__).parents[2] / "out" / "claims.json"
TENTH = 100_000
SETTINGS = (
    Setting(4, 25), Setting(6, 33), Setting(12, 10, TENTH), Setting(12, 20), Setting(12, 33),
    Setting(12, 33, has_appeals=False), Setting(33, 10, TENTH), Setting(33, 20), Setting(33, 33, TENTH),
    Setting(33, 33, TENTH, has_appeals=False),
)  # fmt: skip
BAR = 0.01
PLAYS_MIN = 8
"""With fewer plays, all of them may have the same rare outcome, and no spread."""
GAIN = "gain"
_NO_VOTERS = "fewer than three voters beside the parties: nobody is convicted, and the price returns"
_HALVES = "nobody can show who withheld: provider and checker each pay half of all votes"
KNOWN: dict[tuple[str, str], tuple[int, str]] = {
    **{(name, "provider"): (4, _NO_VOTERS) for name in ("guesses", "insists", "copies", "is silent", "says wrong")},
    **{(name, "provider"): (4, _NO_VOTERS) for name in ("insists on wrong", "buys false")},
    ("confirms", GAIN): (4, _NO_VOTERS),
    ("says unavailable", "provider"): (33, _HALVES),
    ("spites", "checker"): (33, _HALVES),
    ("withholds half", "checker"): (33, _HALVES),
    ("votes unseen", GAIN): (33, "an appeal pays a drawn voter no second fee, and a vote `unavailable` costs nothing"),
}
"""The known failures, by habit and `GAIN` or role: the largest network that has them, and the reason."""


def main() -> int:
    """Play, print, write, and return 1 for a new failure."""
    arguments = read_arguments()
    chosen = [habit for habit in HABITS if not arguments.only or habit.name in arguments.only.split(",")]
    rows: list[dict[str, Any]] = []
    missed: list[tuple[str, str]] = []
    for setting in SETTINGS:
        print(f"\n{title(setting)}\n\n| habit | gain | error | losses | outcomes | appeals |\n{'|---' * 6}|")
        for habit in chosen:
            result = measured(setting, habit, arguments.plays)
            print(line(habit.name, result), flush=True)
            rows.append({**asdict(setting), "habit": habit.name, **asdict(result)})
            for kind, sentence in problems(setting, habit, result):
                missed.append((f"{title(setting)}: {habit.name}: {sentence}", known(setting, habit.name, kind)))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1))
    print()
    for sentence, why in missed:
        print(f"claims: {sentence}" + (f" (known: {why})" if why else ""))
    new = sum(not why for _, why in missed)
    best = max((row["gain"] for row in rows if row["has_appeals"]), default=0.0)
    print(f"claims: {len(rows)} rows, {arguments.plays} plays each, best with appeals {best:+.3f}, {new} new failures")
    return 1 if new else 0


def title(setting: Setting) -> str:
    """Return a setting in words."""
    appeals = "appeals" if setting.has_appeals else "no appeals"
    rate = f"1/{PPM // setting.rate_ppm}"
    return f"{setting.share_percent} % of {setting.size} validators, rate {rate}, {appeals}"


def line(name: str, result: Result) -> str:
    """Return a row of the printed table."""
    losses = ", ".join(f"{role} {loss:.2f}" for role, loss in result.losses.items())
    outcomes = ", ".join(f"{number} {outcome.lower()}" for outcome, number in result.outcomes.items())
    return f"| {name} | {result.gain:+.3f} | {result.error:.3f} | {losses} | {outcomes} | {result.appeals} |"


def problems(setting: Setting, habit: Habit, result: Result) -> Iterator[tuple[str, str]]:
    """Yield the requirements that a setting with appeals fails, each with a sentence."""
    if not setting.has_appeals:
        return
    if result.gain - result.error > BAR and not habit.exempt:
        yield GAIN, f"the coalition gains {result.gain:+.3f}, with an error of {result.error:.3f}"
    for role, loss in result.losses.items():
        yield role, f"an honest {role} loses {loss:.3f}"


def known(setting: Setting, name: str, kind: str) -> str:
    """Return the reason of a known failure, or an empty text."""
    greatest, why = KNOWN.get((name, kind), (0, ""))
    return why if setting.size <= greatest else ""


def read_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parse the arguments. Exit with a sentence if they are invalid."""
    parser = argparse.ArgumentParser(prog="python -m simulation.claims", description=__doc__.splitlines()[0])
    parser.add_argument("--plays", type=int, default=16, help="plays of each habit in each setting")
    parser.add_argument("--only", default="", help="habits, with commas between")
    arguments = parser.parse_args(words)
    if arguments.plays < PLAYS_MIN:
        parser.error(f"--plays must be {PLAYS_MIN} or more: fewer give no statistical error")
    names = [habit.name for habit in HABITS]
    unknown = [name for name in arguments.only.split(",") if name and name not in names]
    if unknown:
        parser.error(f"no habit is called {', '.join(unknown)}: there are {', '.join(names)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
