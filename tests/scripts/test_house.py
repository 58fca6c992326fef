"""What the house's figures count, over small houses that are written here."""

import ast
from pathlib import Path

import pytest

from scripts.house.__main__ import sizes_of
from scripts.house.calls import Calls, Place
from scripts.house.imports import arrows_between, circles, files_per_folder, import_graph, without_shortcuts
from scripts.house.style import names_of_several_classes, style_of
from scripts.house.tree import Module, read_modules
from scripts.house.walk import walk

HALL = """
from __future__ import annotations
from typing import TYPE_CHECKING
from runtime import door
from runtime.door import open_door
if TYPE_CHECKING:
    from runtime.roof import Roof

class Hall:
    door: door.Door

    def __init__(self, roof: Roof) -> None:
        self.roof = roof

    def enter(self, guest: str) -> None:
        self.greet(guest)
        open_door(guest)
        self.roof.cover(guest)
        self.door.shut()

    def greet(self, guest: str) -> None:
        print(guest)
"""
DOOR = '''
def open_door(guest: str) -> None:
    """Open."""

class Door:
    def shut(self) -> None:
        open_door("")
'''
ROOF = '''
from runtime import hall

class Base:
    def cover(self, guest: str) -> None:
        """Cover."""

class Roof(Base):
    hall: "hall.Hall"
'''


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


def test_files_of_a_folder(house: dict[str, Module]) -> None:
    assert files_per_folder(house) == {Path("runtime"): 4}


def test_arrows_that_others_stand_for_are_left_out() -> None:
    graph = {"a.x": {"b.y", "c.z"}, "b.y": {"c.z"}, "c.z": set()}
    arrows = arrows_between(graph, ["a", "b", "c"])
    assert arrows == {("a", "b"), ("a", "c"), ("b", "c")}
    assert without_shortcuts(arrows) == {("a", "b"), ("b", "c")}


def test_a_file_belongs_to_the_innermost_room() -> None:
    graph = {"a.inner.x": {"a.y"}, "a.y": set()}
    assert arrows_between(graph, ["a", "a.inner"]) == {("a.inner", "a")}


def test_calls_are_resolved_through_imports_attributes_and_bases(house: dict[str, Module]) -> None:
    calls = Calls(house)
    made = list(calls.made_by(Place("runtime.hall", "Hall", "enter")))
    assert made == [
        Place("runtime.hall", "Hall", "greet"),
        Place("runtime.door", "", "open_door"),
        Place("runtime.roof", "Base", "cover"),
        Place("runtime.door", "Door", "shut"),
    ]


def test_a_walk_counts_what_stays_and_what_leads_back(house: dict[str, Module]) -> None:
    found = walk(Calls(house), Place("runtime.hall", "Hall", "enter"))
    # greet stays, open_door and cover go on, shut leads back into the door's file and its call stays there
    assert (found.calls, found.stays, found.returns, found.files) == (5, 2, 1, 3)


def test_style_counts_what_it_names() -> None:
    text = (
        '"""Docstring."""\n'
        "# why\n"
        "# --- a rule\n"
        "def shown(one: int) -> int:  # beside code\n"
        "    assert one  # for the type checker\n"
        "    return [value for value in (1, 2)][0] if one else 0\n"
    )
    tree = Module("m", Path("m.py"), text, ast.parse(text))
    style = style_of([tree])
    assert (style.code_lines, style.comments_per_100) == (3, 33.33)
    assert (style.ternaries_per_100, style.comprehensions_per_100) == (33.33, 33.33)
    assert (style.bindings_of_one, style.asserts_for_the_type_checker, style.asserts_per_function) == (1, 1, 1.0)
    assert style.name_length_mean == round((len("shown") + len("one") + len("value")) / 3, 2)


def test_class_names_with_two_meanings(house: dict[str, Module]) -> None:
    twin = Module("runtime.twin", Path("runtime/twin.py"), DOOR, ast.parse(DOOR))
    assert names_of_several_classes({**house, "runtime.twin": twin}) == {"Door": ["runtime.door", "runtime.twin"]}


def test_sizes_count_tools_and_tests_apart_and_nothing_that_was_made(tmp_path: Path) -> None:
    files = {"runtime/pallets/a.py": 3, "scripts/b.py": 1, "tests/runtime/test_a.py": 5, "out/c.py": 7, ".venv/d.py": 9}
    for name, lines in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n" * lines)
    assert {outside: sorted(found) for outside, found in sizes_of(tmp_path).items()} == {True: [1, 3], False: [5]}
