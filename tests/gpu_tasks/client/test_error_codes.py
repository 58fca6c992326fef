"""A program tells the causes of errors apart by their codes."""

import ast
import inspect
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from wallet.errors import CodedError

ROOT = Path(__file__).parents[3]
ROOMS = ("gpu_tasks/client", "gpu_tasks/data")


def without_code(module: ModuleType) -> Iterator[tuple[str, int]]:
    """Yield the name and the line of each error that a module makes without a code of its own."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            made = getattr(module, node.func.id, None)
            is_error = isinstance(made, type) and issubclass(made, CodedError)
            if is_error and not any(each.arg == "code" for each in node.keywords):
                yield node.func.id, node.lineno


def test_the_code_of_a_class_stands_for_one_cause() -> None:
    places = defaultdict(list)
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            for made, line in without_code(import_module(name)):
                places[made].append(f"{path.relative_to(ROOT)}:{line}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
