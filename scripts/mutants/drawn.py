"""Mutants drawn by a seed: Cosmic Ray's operators change the files of some rooms.

A drawn mutant's tests are the file that mirrors its module, then others that import it. A survivor may be equivalent
to the code: somebody has to look.
"""

import json
import re
import subprocess
from difflib import unified_diff
from pathlib import Path

from scripts.mutants.planted import Mutant, MutantError

PYTHON = Path(".venv-mutants/bin/python")
OPERATORS = Path(__file__).parent / "operators.py"
TESTS_MAX = 6
"""Test files of one mutant: a trial is short."""
HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


def draw(root: Path, rooms: list[str], count: int, seed: int, since: str = "") -> list[Mutant]:
    """Draw mutants of the rooms, folders of the tree at `root`.

    With `since`, a commit, only lines that changed after it are planted in.  Raises `MutantError`.
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
    """Return the numbers of the lines of a file that changed after a commit.  Raises `MutantError`."""
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
