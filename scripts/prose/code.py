"""Measures of the code beside its texts: comments per 100 lines, and the length of names."""

import ast
import io
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scripts.house.tree import bound_names

NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True, slots=True)
class CodeFigures:
    """The measures of a group of files."""

    code_lines: int
    comments_per_100: float
    name_letters: float
    """Mean length of a bound name: variables, parameters, functions, classes, attributes of `self`."""


def measure_code(root: Path, paths: Iterable[str]) -> CodeFigures:
    """Count a group of files of a checkout."""
    code = comments = names = letters = 0
    for path in paths:
        source = (root / path).read_text(encoding="utf-8")
        tree = ast.parse(source)
        lines, found = _lines(source)
        code += len(lines - _docstring_lines(tree))
        comments += found
        # `_` names nothing: it stands for a value that nobody uses.
        for name in filter(None, (name.strip("_") for name in bound_names(tree))):
            names += 1
            letters += len(name)
    return CodeFigures(code, round(100 * comments / max(code, 1), 2), round(letters / max(names, 1), 2))


def _lines(source: str) -> tuple[set[int], int]:
    """Return the lines that hold code or docstrings, and the number of comments; consecutive lines are one comment."""
    lines: set[int] = set()
    comments, last = 0, -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        first, end = token.start[0], token.end[0]
        if token.type not in NOT_CODE:
            lines.update(range(first, end + 1))
        elif token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# type:", "# fmt:", "#!")):
            comments += first != last + 1
            last = first
    return lines, comments


def _docstring_lines(tree: ast.AST) -> set[int]:
    """Return the lines of strings that stand alone."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
