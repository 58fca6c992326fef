"""The style of the house as a test: short files, short functions, every module says what it is for."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.house.style import bound_names

ROOT = Path(__file__).parent.parent
PACKAGES = ("runtime", "consensus", "gpu_tasks", "genesis", "wallet", "http_server", "node", "devnet")
FOLDERS = (*PACKAGES, "scripts", "benchmarks", "tests")
LINES_OF_A_FILE_MAX = 600
LINES_OF_A_FUNCTION_MAX = 60
BARE_NAME = "one"
DRAWERS = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}

MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_is_tidy(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.count("\n")
    assert lines <= LINES_OF_A_FILE_MAX, f"{lines} lines: split by idea"
    assert ast.get_docstring(tree) or path.is_relative_to(ROOT / "tests"), "the module does not say what it is for"
    long = {
        function.name: function.end_lineno - function.lineno + 1
        for function in functions(tree)
        if function.end_lineno is not None and function.end_lineno - function.lineno >= LINES_OF_A_FUNCTION_MAX
    }
    assert not long, f"functions over {LINES_OF_A_FUNCTION_MAX} lines"


@pytest.mark.parametrize("path", [path for path in MODULES if path.relative_to(ROOT).parts[0] in PACKAGES], ids=name_of)
def test_things_are_called_by_their_nouns(path: Path) -> None:
    """A device, a unit and a peer that are all called `one` make a reader look up which."""
    text = path.read_text(encoding="utf-8")
    assert BARE_NAME not in bound_names(ast.parse(text)), f"`{BARE_NAME}` is the name of nothing: use the noun"
    assert "for the type checker" not in text, "`known(value, Error)` returns the narrowed value"


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
