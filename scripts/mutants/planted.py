"""The list of mutants: data in `bugs/`, a file for each room.

A mutant is a table under its name: `file`, the exact text to `find`, the bug to `plant` instead, the `harm` to users,
and the `tests` (files or node ids) that must fail. Equivalent mutants are not listed. Invariant: a mutant whose text
does not occur exactly once is an error and never skipped, because the code has changed under it.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST = Path(__file__).parent / "bugs"
TEXTS = ("file", "find", "plant", "harm")


class MutantError(Exception):
    """A mutant cannot be planted, or the list is invalid."""


@dataclass(frozen=True)
class Mutant:
    """One bug, and the tests that must find it."""

    name: str
    room: str
    file: str
    find: str
    plant: str
    harm: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """Return the file's text with the bug. Raise MutantError if its text does not occur exactly once."""
        count = text.count(self.find)
        if count != 1:
            raise MutantError(
                f"{self.name} does not apply: {self.file} holds its text {count} times, not once: {self.find!r}"
            )
        return text.replace(self.find, self.plant)


def read_list(folder: Path = LIST) -> list[Mutant]:
    """Return every mutant of every room, in the order of the files. Raise MutantError if a file is invalid."""
    mutants = [mutant for path in sorted(folder.glob("*.toml")) for mutant in _read_room(path)]
    names = [mutant.name for mutant in mutants]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise MutantError(f"two mutants have the same name: {', '.join(twice)}")
    return mutants


def choose(mutants: list[Mutant], wanted: list[str]) -> list[Mutant]:
    """Return the mutants with these names or rooms, or all without names. Raise MutantError for an unknown name."""
    unknown = [name for name in wanted if not any(name in {mutant.name, mutant.room} for mutant in mutants)]
    if unknown:
        raise MutantError(f"no mutant and no room is called {', '.join(unknown)}")
    return [mutant for mutant in mutants if not wanted or {mutant.name, mutant.room} & {*wanted}]


def require_applicable(mutants: list[Mutant], root: Path) -> None:
    """Raise MutantError with all mutants that cannot be planted in this tree."""
    problems = []
    for mutant in mutants:
        try:
            mutant.applied((root / mutant.file).read_text(encoding="utf-8"))
        except (MutantError, FileNotFoundError) as error:
            problems.append(str(error))
    if problems:
        raise MutantError("\n".join(problems))


def _read_room(path: Path) -> Iterator[Mutant]:
    try:
        room = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise MutantError(f"{path.name}: {error}") from error
    for name, said in room.items():
        yield _read_mutant(name, path.stem, said)


def _read_mutant(name: str, room: str, said: Any) -> Mutant:
    if not isinstance(said, dict) or {*said} != {*TEXTS, "tests"}:
        raise MutantError(f"{name}: a mutant says {', '.join(TEXTS)} and tests, and nothing else")
    file, find, plant, harm = texts = [said[key] for key in TEXTS]
    tests = said["tests"]
    are_texts = all(isinstance(text, str) for text in (*texts, *tests))
    if not are_texts or not find or find == plant or not tests:
        raise MutantError(f"{name}: a text to find, another one to plant, and at least one test")
    return Mutant(name, room, file, find, plant, harm, tuple(tests))
