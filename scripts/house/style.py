"""Style in the small, counted over syntax trees: what a reader meets per hundred lines."""

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.house.tree import Module, read_modules

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
TESTS_OF_FORM = ("test_tidy", "test_documents", "test_packaging", "test_architecture", "test_determinism_check")
BARE_NAME = "one"


@dataclass(frozen=True, slots=True)
class Style:
    """Figures of one set of files."""

    code_lines: int
    comments_per_100: float
    ternaries_per_100: float
    comprehensions_per_100: float
    name_length_mean: float
    asserts_per_function: float
    bindings_of_one: int
    asserts_for_the_type_checker: int


def style_of(modules: Iterable[Module]) -> Style:
    """Count."""
    modules = list(modules)
    code = comments = 0
    for module in modules:
        code_here, comments_here = _lines(module.text)
        code += code_here
        comments += comments_here
    nodes = [node for module in modules for node in ast.walk(module.tree)]
    names = [name for module in modules for name in bound_names(module.tree)]
    functions = sum(1 for module in modules for _ in module.functions())
    per_100 = 100 / max(1, code)
    return Style(
        code_lines=code,
        comments_per_100=round(comments * per_100, 2),
        ternaries_per_100=round(sum(isinstance(node, ast.IfExp) for node in nodes) * per_100, 2),
        comprehensions_per_100=round(sum(isinstance(node, COMPREHENSIONS) for node in nodes) * per_100, 2),
        name_length_mean=round(sum(map(len, names)) / max(1, len(names)), 2),
        asserts_per_function=round(sum(isinstance(node, ast.Assert) for node in nodes) / max(1, functions), 3),
        bindings_of_one=names.count(BARE_NAME),
        asserts_for_the_type_checker=sum(module.text.count("for the type checker") for module in modules),
    )


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Every name that is bound: variables, parameters, functions, classes, attributes of `self`."""
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


def _lines(text: str) -> tuple[int, int]:
    """Lines with code on them, docstrings left out; and comments of their own line, rules such as `# ---` left out."""
    code: set[int] = set()
    comments = 0
    docstrings = _docstring_lines(ast.parse(text))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            words = token.string.strip("#- ")
            is_rule = "---" in token.string or not words
            if not is_rule and token.line.lstrip().startswith("#"):
                comments += 1
        elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings), comments


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def names_of_several_classes(modules: Mapping[str, Module]) -> dict[str, list[str]]:
    """Public class names and type aliases that are defined in two modules or more."""
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


def tests_per_line(root: Path, source_lines: int) -> tuple[float, float]:
    """Lines of tests for each line of source: tests of behaviour, and tests of the form of files."""
    tests = read_modules(root, ("tests",))
    form = sum(module.lines for module in tests.values() if module.path.stem in TESTS_OF_FORM)
    behaviour = sum(module.lines for module in tests.values()) - form
    return round(behaviour / source_lines, 3), round(form / source_lines, 3)
