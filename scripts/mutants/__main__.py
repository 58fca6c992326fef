"""`python -m scripts.mutants [--only NAME] [--random N]`: plant bugs in copies of the tree; tests must find each.

Without `--random`, the bugs are those of `bugs/`. It writes out/mutants.json. It exits with 1 if a listed mutant
survives, does not apply or does not run, or if a named test fails without any bug. Drawn mutants that survive are only
shown, because they may be equivalent to the code.
"""

import argparse
import json
import re
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from difflib import unified_diff
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.mutants.campaign import Campaign, open_campaign
from scripts.mutants.planted import Mutant, MutantError, choose, read_list, require_applicable
from scripts.mutants.trial import TrialOutcome, Verdict

ROOT = Path(__file__).parents[2]
PROCESSES = 2
GOOD = {Verdict.KILLED, Verdict.HUNG}
PURE = ["runtime", "consensus", "genesis", "gpu_tasks/batches", "gpu_tasks/traces", "gpu_tasks/market"]


# Mutants drawn by a seed: Cosmic Ray's operators change the files of some rooms. A drawn mutant's tests are the file
# that mirrors its module, then others that import it. A survivor may be equivalent to the code, so a person has to
# look.
PYTHON = Path(".venv-mutants/bin/python")
OPERATORS = Path(__file__).parent / "operators.py"
TESTS_MAX = 6
"""The most test files of one mutant, so that a trial is short."""
HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


def draw(root: Path, rooms: list[str], count: int, seed: int, since: str = "") -> list[Mutant]:
    """Draw mutants of the rooms, folders of the tree at `root`.

    With `since`, a commit, only lines that changed after it are candidates. Raise MutantError if there are none.
    """
    lines = {file: changed_lines(root, file, since) if since else None for file in _modules(root, rooms)}
    changed = {file: found for file, found in lines.items() if found is None or found}
    tests = {file: found for file in changed if (found := tests_of(root, file))}
    if not tests:
        raise MutantError(f"no tested module lies in {', '.join(rooms)}, or none has changed")
    asked = json.dumps({"files": {file: changed[file] for file in sorted(tests)}, "count": count, "seed": seed})
    try:
        done = subprocess.run(
            [root / PYTHON, OPERATORS], cwd=root, input=asked, capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        raise MutantError(f"{PYTHON} is not there: run `make mutants RANDOM={count}`") from None
    except subprocess.CalledProcessError as error:
        raise MutantError(error.stderr) from error
    return [_mutant(root, place, tests[place["file"]]) for place in json.loads(done.stdout)]


def changed_lines(root: Path, file: str, since: str) -> list[int]:
    """Return the numbers of a file's lines that changed after a commit. Raise MutantError if git fails."""
    asked = ["git", "diff", "--unified=0", since, "--", file]
    try:
        diff = subprocess.run(asked, cwd=root, capture_output=True, text=True, check=True).stdout
    except subprocess.CalledProcessError as error:
        raise MutantError(error.stderr) from error
    hunks = ((int(first), int(count or 1)) for first, count in HUNK.findall(diff))
    return [line for first, count in hunks for line in range(first, first + count)]


def tests_of(root: Path, file: str) -> tuple[str, ...]:
    """Return the test files of a module: its mirror first, then those that import it, at most `TESTS_MAX`."""
    path = Path(file)
    mirror = Path("tests", path.parent, f"test_{path.name}")
    module = ".".join(path.with_suffix("").parts)
    words = (f"from {module} import ", f"from {'.'.join(path.parent.parts)} import {path.stem}\n")
    importers = (
        test.relative_to(root)
        for test in sorted((root / "tests").rglob("test_*.py"))
        if any(word in test.read_text(encoding="utf-8") for word in words)
    )
    found = [mirror] * (root / mirror).exists() + [test for test in importers if test != mirror]
    return tuple(map(str, found[:TESTS_MAX]))


def _modules(root: Path, rooms: list[str]) -> list[str]:
    paths = (path for room in rooms for path in sorted((root / room).rglob("*.py")))
    return [str(path.relative_to(root)) for path in paths if path.name != "__init__.py"]


def _mutant(root: Path, place: dict[str, str], tests: tuple[str, ...]) -> Mutant:
    file, line, operator = place["file"], place["line"], place["operator"]
    sound = (root / file).read_text(encoding="utf-8")
    diff = unified_diff(sound.splitlines(), place["text"].splitlines(), lineterm="", n=0)
    harm = " ".join(text for text in diff if text[:1] in "+-" and text[:3] not in {"+++", "---"})
    return Mutant(f"{file}:{line} {operator}", file.split("/")[0], file, sound, place["text"], harm, tests)


def main() -> int:
    """Read the list, try it, report."""
    arguments = _arguments()
    # SIGTERM from a supervisor must remove the copies, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    try:
        mutants = _mutants(arguments)
        require_applicable(mutants, ROOT)
        with open_campaign(ROOT, arguments.processes) as campaign:
            problems = _unsound(campaign, mutants)
            trials = [] if problems else _try_all(campaign, mutants)
    except MutantError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("mutants: stopped; the copies are gone", file=sys.stderr)
        return 130
    problems += [_problem(mutant, trial) for mutant, trial in zip(mutants, trials, strict=False) if _is_bad(trial)]
    report = _report(mutants, trials, problems, time.monotonic() - started)
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    written = json.dumps(report, indent=2) + "\n"
    (out / "mutants.json").write_text(written, encoding="utf-8")
    if arguments.json:
        print(written, end="")
    for problem in problems:
        print(f"mutants: {problem}", file=sys.stderr)
    print(_summary(report), file=sys.stderr if arguments.json else sys.stdout)
    is_listed = not arguments.random
    return 1 if problems and (is_listed or not trials) else 0


def _mutants(arguments: argparse.Namespace) -> list[Mutant]:
    """Return the listed mutants, or some drawn ones."""
    if not arguments.random:
        return choose(read_list(), arguments.only)
    print(f"mutants: drawn with seed {arguments.seed}", file=sys.stderr)
    return draw(ROOT, arguments.rooms or PURE, arguments.random, arguments.seed, arguments.since)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a mutant or a room, repeatable")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="draw N mutants instead of the listed ones")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="which are drawn")
    parser.add_argument("--rooms", nargs="*", metavar="FOLDER", help="where they are drawn; the pure rooms by default")
    parser.add_argument("--since", default="", metavar="COMMIT", help="draw on lines that changed after it alone")
    parser.add_argument("--json", action="store_true", help="print the content of out/mutants.json")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="how many are tried at a time")
    return parser.parse_args()


def _unsound(campaign: Campaign, mutants: list[Mutant]) -> list[str]:
    """Return failures of the named tests without any bug. Such tests prove nothing."""
    print("mutants: first the named tests on the tree as it is", file=sys.stderr)
    failed = campaign.check_sound(test for mutant in mutants for test in mutant.tests)
    return [
        f"a named test fails on the tree as it is ({trial.verdict}): {trial.killer}\n{trial.output}" for trial in failed
    ]


def _try_all(campaign: Campaign, mutants: list[Mutant]) -> list[TrialOutcome]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("mutants", total=len(mutants))

        def on_end(mutant: Mutant, trial: TrialOutcome) -> None:
            if trial.verdict is not Verdict.KILLED:
                progress.console.print(f"{trial.verdict}: {mutant.name} ({mutant.file})", markup=False, highlight=False)
            progress.advance(bar)

        return campaign.try_all(mutants, on_end)


def _is_bad(trial: TrialOutcome) -> bool:
    return trial.verdict not in GOOD


def _problem(mutant: Mutant, trial: TrialOutcome) -> str:
    said = {
        Verdict.SURVIVED: f"no test fails: {', '.join(mutant.tests)}. {mutant.harm}",
        Verdict.BROKEN: f"its tests do not even run:\n{trial.output}",
    }
    return f"{mutant.name}: {trial.verdict}: {said.get(trial.verdict, trial.output)}"


def _report(mutants: list[Mutant], trials: list[TrialOutcome], problems: list[str], seconds: float) -> dict[str, Any]:
    counts = Counter(trial.verdict for trial in trials)
    return {
        "mutants": len(mutants),
        "files": len({mutant.file for mutant in mutants}),
        "killed": counts[Verdict.KILLED],
        "timed_out": counts[Verdict.HUNG],
        "survived": counts[Verdict.SURVIVED],
        "not_applied": counts[Verdict.INAPPLICABLE] + counts[Verdict.BROKEN],
        "seconds": round(seconds, 1),
        "problems": problems,
        "each": {
            mutant.name: {
                "file": mutant.file,
                "harm": mutant.harm,
                "verdict": trial.verdict,
                "killer": trial.killer,
                "seconds": round(trial.seconds, 1),
            }
            for mutant, trial in zip(mutants, trials, strict=False)
        },
    }


def _summary(report: dict[str, Any]) -> str:
    good = report["killed"] + report["timed_out"]
    return (
        f"mutants: {good} of {report['mutants']} killed in {report['files']} files "
        f"({report['timed_out']} by time-out), {report['survived']} survived, {report['not_applied']} not applied, "
        f"{report['seconds']:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
