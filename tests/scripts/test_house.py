"""The figures of the code base, over small ones written here."""

import ast
from pathlib import Path

import pytest

from scripts.house.__main__ import sizes_of
from scripts.house.imports import arrows_between, circles, import_graph, without_shortcuts
from scripts.house.tree import Module, names_of_several_classes, read_modules

HALL = """
from __future__ import annotations
from typing import TYPE_CHECKING
from runtime import door
if TYPE_CHECKING:
    from runtime.roof import Roof
"""
DOOR = "class Door:\n    pass\n"
ROOF = "from runtime import hall\n"


@pytest.fixture
def house(tmp_path: Path) -> dict[str, Module]:
    folder = tmp_path / "runtime"
    folder.mkdir()
    for name, text in {"__init__": "", "hall": HALL, "door": DOOR, "roof": ROOF}.items():
        (folder / f"{name}.py").write_text(text)
    return read_modules(tmp_path, ("runtime",))


def test_imports_for_the_type_checker_make_circles_too(house: dict[str, Module]) -> None:
    graph = import_graph(house)
    assert graph["runtime.hall"] == {"runtime.door", "runtime.roof"}
    assert circles(graph) == [["runtime.hall", "runtime.roof"]]
    del graph["runtime.roof"], graph["runtime.hall"]
    assert circles(graph) == []


def test_arrows_that_others_stand_for_are_left_out() -> None:
    graph = {"a.x": {"b.y", "c.z"}, "b.y": {"c.z"}, "c.z": set()}
    arrows = arrows_between(graph, ["a", "b", "c"])
    assert arrows == {("a", "b"), ("a", "c"), ("b", "c")}
    assert without_shortcuts(arrows) == {("a", "b"), ("b", "c")}


def test_a_file_belongs_to_the_innermost_room() -> None:
    graph = {"a.inner.x": {"a.y"}, "a.y": set()}
    assert arrows_between(graph, ["a", "a.inner"]) == {("a.inner", "a")}


def test_class_names_with_two_meanings(house: dict[str, Module]) -> None:
    twin = Module("runtime.twin", Path("runtime/twin.py"), DOOR, ast.parse(DOOR))
    assert names_of_several_classes({**house, "runtime.twin": twin}) == {"Door": ["runtime.door", "runtime.twin"]}


def test_sizes_count_tools_and_tests_apart_and_nothing_that_was_made(tmp_path: Path) -> None:
    files = {"runtime/pallets/a.py": 3, "scripts/b.py": 1, "tests/runtime/test_a.py": 5, "out/c.py": 7, ".venv/d.py": 9}
    for name, lines in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n" * lines)
    assert {outside: sorted(found) for outside, found in sizes_of(tmp_path).items()} == {True: [1, 3], False: [5]}
