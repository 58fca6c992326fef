"""ARCHITECTURE.md shows the imports between the rooms, and leads to every file."""

import ast
import re
from pathlib import Path

import pytest

from scripts.house.imports import circles, import_graph
from scripts.house.picture import DOCUMENT, HOUSES, PICTURE, pictures
from scripts.house.tree import PACKAGES, Module, names_of_several_classes, read_modules, statements

ROOT = Path(__file__).parent.parent
TEXT = DOCUMENT.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    return read_modules(ROOT)


def test_pictures_equal_the_imports(modules: dict[str, Module]) -> None:
    """After an intended change: `python -m scripts.house.picture --write`, and look at the new picture."""
    assert {match["name"]: match["body"] for match in PICTURE.finditer(TEXT)} == pictures(modules)


def test_no_file_stands_in_a_circle(modules: dict[str, Module]) -> None:
    assert circles(import_graph(modules)) == []


def test_a_class_name_means_one_thing(modules: dict[str, Module]) -> None:
    assert names_of_several_classes(modules) == {}


def test_every_room_stands_on_the_map(modules: dict[str, Module]) -> None:
    rooms = {f"{module.path.parent}/" for module in modules.values()}
    named = set(re.findall(r"^\| `([\w/]+/)`", TEXT, re.MULTILINE))
    assert rooms - named == {"gpu_tasks/"}  # a folder of folders
    assert {room.split("/")[0] for room in rooms} == set(PACKAGES)
    assert named >= {f"{package.replace('.', '/')}/" for package in HOUSES}


def test_no_tool_needs_the_tests() -> None:
    """Code shared by tests and tools has its own room, so that a tool runs without the tests on its path."""
    of_tests = {path.stem for path in (ROOT / "tests").rglob("*.py")}
    tools = [
        path for folder in ("simulation", "scripts", "benchmarks", "devnet") for path in (ROOT / folder).rglob("*.py")
    ]
    assert len(tools) > 100
    assert {str(path.relative_to(ROOT)): found for path in tools if (found := imported_from(path) & of_tests)} == {}


def imported_from(path: Path) -> set[str]:
    """Return the packages and modules that a file names first in its imports."""
    nodes = list(statements(ast.parse(path.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {name.split(".")[0] for name in names}


def test_paths_in_the_map_and_in_the_answers_exist() -> None:
    """Every path of the repository in backticks exists."""
    paths = re.findall(r"`((?:[\w.]+/)+[\w.]*)`", TEXT)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists() and not path.startswith("out/")] == []
