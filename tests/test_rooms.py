"""Every package's docstring lists its files, in a possible reading order."""

import ast
import re
from functools import cache
from pathlib import Path

from scripts.house.tree import PACKAGES, statements

ROOT = Path(__file__).parent.parent
HOUSE = (*PACKAGES, "scripts/house")
ROOMS = sorted(path.parent for package in HOUSE for path in (ROOT / package).rglob("__init__.py"))
# "* `name`: what it is for", several names where they are one idea; or a table, "name    what it is for".
BULLET = re.compile(r"\* ((?:`\w+`, )*`\w+`): \S")
ROW = re.compile(r"(\w+) {2,}\S")
NOT_LISTED = {"__init__", "__main__"}  # a package may list its `__main__`, but its name alone explains it


def listed(room: Path) -> list[str]:
    """Return the names that a package's docstring lists, in its order."""
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    names = []
    for line in text.splitlines():
        if found := BULLET.match(line) or ROW.match(line):
            names += re.findall(r"\w+", found[1])
    return [name for name in names if name not in NOT_LISTED]


def inhabitants(room: Path) -> set[str]:
    files = {path.stem for path in room.glob("*.py")} - NOT_LISTED
    return files | {path.parent.name for path in room.glob("*/__init__.py")}


@cache
def imports_of(path: Path) -> list[ast.ImportFrom]:
    """Return the imports of a file, cached, because it is in several packages."""
    tree = ast.parse(path.read_text())
    return [node for node in statements(tree) if isinstance(node, ast.ImportFrom) and node.module]


def imported(room: Path, name: str) -> set[str]:
    """Return the imports of a module or subpackage from its siblings."""
    package = ".".join(room.relative_to(ROOT).parts) + "."
    paths = [room / f"{name}.py"] if (room / f"{name}.py").exists() else sorted((room / name).rglob("*.py"))
    found = set()
    for path in paths:
        for node in imports_of(path):
            if f"{node.module}.".startswith(package):
                below = f"{node.module}.".removeprefix(package)
                found |= {below.split(".")[0]} if below else {alias.name for alias in node.names}
    return found - {name}


def disorder(room: Path) -> list[str]:
    """Return the errors in a package's list."""
    names = listed(room)
    wrong = [f"{name} is not listed, or not there" for name in sorted({*names} ^ inhabitants(room))]
    if len(names) != len({*names}):
        wrong.append("a name is listed twice")
    return wrong + [
        f"{name} is listed before {late}"
        for position, name in enumerate(names)
        for late in sorted(imported(room, name) - {*names[:position]})
    ]


def test_each_room_lists_its_files_in_reading_order() -> None:
    assert len(ROOMS) > 50
    assert {room.relative_to(ROOT).as_posix(): wrong for room in ROOMS if (wrong := disorder(room))} == {}
