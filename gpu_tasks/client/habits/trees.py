"""Others' YAML as plain texts, lists and tables: whoever asks for a shape gets it, or learns that it is another."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_tasks.client.habits.foreign import ForeignFileError
from gpu_tasks.tasks.problems import shown
from gpu_tasks.tasks.yaml_tree import UNANCHORED, FileNode, Listing, Scalar, Table, parse

DEPTH_MAX = 14
"""Of Akash's files: the model of a GPU stands eleven deep."""


Tree = str | None | list["Tree"] | dict[str, "Tree"]
"""None: a key that says nothing, as `~` or `null` without quotes do."""


def tree_of(data: bytes, file: str, unanchored: str = UNANCHORED) -> dict[str, Tree]:
    """A file's keys; TaskFileError for what is no YAML, or too much of it; ForeignFileError for other shapes."""
    return table_at(_plain(parse(data, file, DEPTH_MAX, unanchored)), file)


def line_of(tree: Tree) -> int | None:
    """The line that a text, or the first text of a list or a table, stands in."""
    match tree:
        case Scalar():
            return tree.line
        case list() | dict():
            return line_of(next(iter(tree), None))
        case _:
            return None


def table_at(tree: Tree, where: str) -> dict[str, Tree]:
    """Keys; none where nothing stands; ForeignFileError."""
    if tree is None or tree == "":
        return {}
    if not isinstance(tree, dict):
        raise ForeignFileError(f"{where} is no table of keys: is this a file of another kind?", line_of(tree))
    return tree


def text_at(tree: Tree, where: str) -> str:
    """A text; empty where nothing stands; ForeignFileError."""
    if tree is None:
        return ""
    if not isinstance(tree, str):
        raise ForeignFileError(f"{where} is no single value", line_of(tree))
    return tree


def texts_at(tree: Tree, where: str) -> list[str]:
    """Texts of a list, or one alone; ForeignFileError."""
    if tree is None or tree == "":
        return []
    items = tree if isinstance(tree, list) else [tree]
    return [text_at(each, where) for each in items]


def pairs_at(tree: Tree, where: str) -> Iterator[tuple[str, str | None]]:
    """Names with their values, of a table or of a list of NAME=VALUE; None: taken from the environment."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield name, None if value is None else text_at(value, f"{where}.{name}")
        return
    for text in texts_at(tree, where):
        name, is_set, value = text.partition("=")
        yield placed_like(name, text), value if is_set else None


def placed_like(part: str, text: str) -> str:
    """A part of a text, in the line of the whole."""
    return Scalar(part, text.line) if isinstance(text, Scalar) else part


def only_key(table: dict[str, Tree], named: str | None, where: str, option: str) -> str:
    """The key that was asked for, or the only one; ForeignFileError."""
    if named is not None and named not in table:
        raise ForeignFileError(f"{where} has no {shown(named)}: it has {_names(table)}")
    if named is None and len(table) != 1:
        raise ForeignFileError(
            f"{where} has {len(table)} of them, and a task is one: name one with {option}: {_names(table)}"
        )
    return named if named is not None else next(iter(table))


def _names(table: dict[str, Tree]) -> str:
    return ", ".join(shown(name) for name in list(table)[:20]) or "none"


def _plain(node: FileNode) -> Tree:
    match node:
        case Scalar():
            return None if node.is_plain and node in {"", "~", "null"} else node
        case Listing():
            return [_plain(each) for each in node]
        case Table():
            return {key: _plain(value) for key, value in node.items()}
