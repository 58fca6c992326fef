"""The texts of a checkout by kind: help, messages, docstrings and comments, each with its place.

Everything is read from syntax trees, so that another checkout can be counted without its environment.
"""

import ast
import io
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

MESSAGE_WORDS_MIN = 4
"""A string of fewer words is an identifier, a format or a label rather than a sentence."""


class Kind(Enum):
    """A kind of text."""

    HELP = "help"
    MESSAGE = "messages"
    DOCSTRING = "docstrings"
    COMMENT = "comments"
    TEST_DOCSTRING = "docstrings of tests"


@dataclass(frozen=True, slots=True)
class Text:
    """One text and its place."""

    kind: Kind
    path: str
    line: int
    text: str


def read_texts(root: Path) -> list[Text]:
    """Return the texts of every tracked Python file of a checkout, by file and line."""
    return [text for path in tracked_files(root) for text in sorted(_texts_of(root, path), key=lambda text: text.line)]


def tracked_files(root: Path) -> list[str]:
    """Return the tracked Python files of a checkout, relative to it."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"],  # noqa: S607  # the git of the person who measures
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for path in listed.stdout.split() if (root / path).exists()]


def is_test(path: str) -> bool:
    """Return True for a file of the tests."""
    return path.startswith("tests/")


def _texts_of(root: Path, path: str) -> Iterator[Text]:
    source = (root / path).read_text(encoding="utf-8")
    tree = ast.parse(source)
    kind = Kind.TEST_DOCSTRING if is_test(path) else Kind.DOCSTRING
    for node, is_command in _docstrings(tree):
        yield Text(Kind.HELP if is_command else kind, path, node.lineno, str(node.value))
    if is_test(path):
        return
    for line, comment in _comments(source):
        yield Text(Kind.COMMENT, path, line, comment)
    for string_kind, string in _strings(tree):
        yield Text(string_kind, path, string.lineno, _written(string))


def _docstrings(tree: ast.AST) -> Iterator[tuple[ast.Constant, bool]]:
    """Yield each docstring, those of attributes included, and whether a command line shows it as help."""
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            body = getattr(node, name, [])
            for number, statement in enumerate(body if isinstance(body, list) else []):
                match statement:
                    case ast.Expr(value=ast.Constant(value=str()) as text):
                        yield text, number == 0 and _is_command(node)
                    case _:
                        pass


def _is_command(node: ast.AST) -> bool:
    """Return True for a function that a decorator makes a command or a group of one."""
    decorators = getattr(node, "decorator_list", [])
    names = {ast.unparse(decorator).split("(")[0].rsplit(".", 1)[-1] for decorator in decorators}
    return any("command" in name or "group" in name for name in names)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments for readers, without directives to tools."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("# ")
            if not text.startswith(("noqa", "type:", "pragma", "!")):
                yield token.start[0], text


def _strings(tree: ast.AST) -> Iterator[tuple[Kind, ast.expr]]:
    """Yield help lines and messages: keyword `help`, and all other strings of several words."""
    skipped = {node for node, _ in _docstrings(tree)}
    helps: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in {"help", "epilog", "short_help"}:
            helps.update(ast.walk(node.value))
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        is_string = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        if is_string and node not in skipped:
            assert isinstance(node, ast.expr)
            if len(_written(node).split()) >= MESSAGE_WORDS_MIN:
                yield (Kind.HELP if node in helps else Kind.MESSAGE), node
        else:
            pending.extend(ast.iter_child_nodes(node))


def _written(node: ast.expr) -> str:
    """Return a string as a reader sees it, X for each value that is put in."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)
        case _:
            return ""
