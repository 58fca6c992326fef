"""The code style as a test: short files, short functions, and a docstring for every module."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.house.tree import PACKAGES, bound_names, statements

ROOT = Path(__file__).parent.parent
FOLDERS = (*PACKAGES, "simulation", "scripts", "benchmarks", "tests")
LINES_OF_A_FILE_MAX = 600
LINES_OF_A_FUNCTION_MAX = 60
BARE_NAME = "one"
DRAWERS = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}

MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in statements(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def untidiness(path: Path) -> Iterator[str]:
    """Yield each thing that is wrong with the file at `path`."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    folder = path.relative_to(ROOT).parts[0]
    if (lines := text.count("\n")) > LINES_OF_A_FILE_MAX:
        yield f"{lines} lines: split by idea"
    if folder != "tests" and not ast.get_docstring(tree):
        yield "no docstring says what the module is for"
    for function in functions(tree):
        if function.end_lineno is not None and function.end_lineno - function.lineno >= LINES_OF_A_FUNCTION_MAX:
            yield f"{function.name} has over {LINES_OF_A_FUNCTION_MAX} lines"
    if folder in PACKAGES and re.search(rf"\b{BARE_NAME}\b", text) and BARE_NAME in bound_names(tree):
        yield f"`{BARE_NAME}` names nothing: use the noun"
    if folder in PACKAGES and "for the type checker" in text:
        yield "`known(value, Error)` returns the narrowed value"


def test_every_file_is_tidy() -> None:
    assert len(MODULES) > 1_000
    assert {name_of(path): wrong for path in MODULES if (wrong := list(untidiness(path)))} == {}


@pytest.mark.parametrize(
    ("text", "wrongs"),
    [
        ("x = 1\n" * 601, 2),  # too long, and no docstring
        ('"""A module."""\n\n\ndef f():\n' + "    x = 1\n" * 60, 1),
        ('"""A module."""\none = 1\n', 1),
        ('"""A module."""\nx = 1\n', 0),
    ],
)
def test_each_untidiness_is_seen(text: str, wrongs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / "node" / "file.py"
    path.parent.mkdir()
    path.write_text(text)
    assert len(list(untidiness(path))) == wrongs


def test_no_module_is_a_drawer() -> None:
    parts = {part for path in MODULES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert parts.isdisjoint(DRAWERS)


def test_every_folder_of_a_package_is_a_package() -> None:
    missing = {name_of(path.parent) for path in MODULES if path.relative_to(ROOT).parts[0] in PACKAGES}
    missing -= {name_of(path.parent) for path in MODULES if path.name == "__init__.py"}
    assert not missing, "without __init__.py, tools disagree on what belongs to the package"


def test_no_package_among_the_tests() -> None:
    """In importlib mode an __init__.py makes pytest import tests/node as `node`."""
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_only_production_code_in_the_packages() -> None:
    assert not [name_of(path) for package in PACKAGES for path in (ROOT / package).rglob("test_*.py")]
