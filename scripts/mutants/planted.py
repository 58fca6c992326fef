"""The list of mutants: data in `bugs/`, a file for each room.

A mutant is a table under its name: `file`, the exact text to `find` there, the bug to `plant` in its place, the `harm`
that somebody would suffer, and the `tests` (files or node ids) that must fail. Equivalent mutants are not listed.

Always: a mutant whose text does not occur exactly once is an error, never left out: the code moved on unseen.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST = Path(__file__).parent / "bugs"
TEXTS = ("file", "find", "plant", "harm")


class MutantError(Exception):
    """A mutant that cannot be planted, or a list that says nothing clear: somebody must look at it."""


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
        """The file's text with the bug in it. MutantError."""
        count = text.count(self.find)
        if count != 1:
            raise MutantError(
                f"{self.name} does not apply: {self.file} holds its text {count} times, not once: {self.find!r}"
            )
        return text.replace(self.find, self.plant)


def read_list(folder: Path = LIST) -> list[Mutant]:
    """Every mutant of every room, in the order of the files. MutantError."""
    mutants = [mutant for path in sorted(folder.glob("*.toml")) for mutant in _read_room(path)]
    names = [mutant.name for mutant in mutants]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise MutantError(f"two mutants have the same name: {', '.join(twice)}")
    return mutants


def choose(mutants: list[Mutant], wanted: list[str]) -> list[Mutant]:
    """Those named, by their own name or by their room's; all of them where nothing is named. MutantError."""
    unknown = [name for name in wanted if not any(name in {mutant.name, mutant.room} for mutant in mutants)]
    if unknown:
        raise MutantError(f"no mutant and no room is called {', '.join(unknown)}")
    return [mutant for mutant in mutants if not wanted or {mutant.name, mutant.room} & {*wanted}]


def require_applicable(mutants: list[Mutant], root: Path) -> None:
    """See that each can be planted in this tree, before time is spent on any. MutantError names all that cannot."""
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
