"""The sources of a checkout as syntax trees, and the names in them, without running any code."""

import ast
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = (
    "runtime",
    "consensus",
    "gpu_tasks",
    "genesis",
    "durable",
    "wallet",
    "cli",
    "http_server",
    "streams",
    "node",
    "devnet",
)


@dataclass(frozen=True, slots=True)
class Module:
    """One file: its dotted name, path, text and tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self.text.count("\n")


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield every statement at any depth, outer ones first.

    Expressions contain no statements. Skipping them is five times as fast.
    """
    waiting: deque[ast.AST] = deque([tree])
    while waiting:
        node = waiting.popleft()
        if isinstance(node, ast.stmt):
            yield node
        waiting.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))


def read_modules(root: Path, folders: tuple[str, ...] = PACKAGES) -> dict[str, Module]:
    """Return the modules below these folders of a checkout, by dotted name, in order."""
    modules = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            relative = path.relative_to(root).with_suffix("")
            name = ".".join(relative.parts).removesuffix(".__init__")
            text = path.read_text(encoding="utf-8")
            modules[name] = Module(name, path.relative_to(root), text, ast.parse(text))
    return modules


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Yield every name that is bound: variables, parameters, functions, classes, attributes of `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            if node.arg not in ("self", "cls"):
                yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def names_of_several_classes(modules: Mapping[str, Module]) -> dict[str, list[str]]:
    """Return public class names and type aliases with definitions in two or more modules."""
    homes = defaultdict(list)
    for name, module in modules.items():
        for node in module.tree.body:
            defined = _type_defined(node)
            if defined and not defined.startswith("_"):
                homes[defined].append(name)
    return {defined: sorted(places) for defined, places in sorted(homes.items()) if len(places) > 1}


def _type_defined(node: ast.stmt) -> str:
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        return name if name[0].isupper() and not name.isupper() else ""
    return ""
