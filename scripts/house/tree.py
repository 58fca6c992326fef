"""The sources of a checkout as syntax trees; nothing of them is run."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("runtime", "consensus", "gpu_tasks", "genesis", "wallet", "cli", "http_server", "node", "devnet")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """One file: its dotted name, path, text and tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return self.text.count("\n")

    def functions(self) -> Iterator[Function]:
        """Every function and method of the file."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


def read_modules(root: Path, folders: tuple[str, ...] = PACKAGES) -> dict[str, Module]:
    """The modules below these folders of a checkout, by dotted name, in order."""
    modules = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            relative = path.relative_to(root).with_suffix("")
            name = ".".join(relative.parts).removesuffix(".__init__")
            text = path.read_text(encoding="utf-8")
            modules[name] = Module(name, path.relative_to(root), text, ast.parse(text))
    return modules
