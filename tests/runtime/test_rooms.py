"""Every room says what is in it: its docstring lists its files, in an order in which they can be read."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = sorted(path.parent for package in ("runtime", "genesis") for path in (ROOT / package).rglob("__init__.py"))


def listed(room: Path) -> list[str]:
    """The first words of the indented lines of a room's docstring."""
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    table = text.partition(":\n\n")[2]
    return [line.split()[0] for line in table.splitlines() if line.strip()]


def inhabitants(room: Path) -> set[str]:
    files = {path.stem for path in room.glob("*.py")} - {"__init__"}
    return files | {path.parent.name for path in room.glob("*/__init__.py")}


def imported(room: Path, name: str) -> set[str]:
    """What a file or room inside a room imports from its siblings."""
    package = ".".join(room.relative_to(ROOT).parts) + "."
    paths = [room / f"{name}.py"] if (room / f"{name}.py").exists() else sorted((room / name).rglob("*.py"))
    found = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and f"{node.module}.".startswith(package):
                below = f"{node.module}.".removeprefix(package)
                found |= {below.split(".")[0]} if below else {alias.name for alias in node.names}
    return found - {name}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(ROOT).as_posix())
def test_a_room_lists_its_files_in_reading_order(room: Path) -> None:
    names = listed(room)
    assert sorted(names) == sorted(inhabitants(room))
    for position, name in enumerate(names):
        assert imported(room, name) <= set(names[:position]), f"{name} is listed before what it imports"
