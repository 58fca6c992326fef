"""From the bytes of a YAML file to a tree of texts, each with its line, without guessed types or expansions.

Invariant: a scalar is its text, so `no` is no truth value and `1e3` no number until a declaration parses it. Anchors,
aliases and tags are refused, so a file means no more than it shows. Repeated keys and a second document are refused
too. Size, depth and number of nodes are bounded, and the parser stops at the first bound. Of hostile files of the
greatest size, the most expensive took a sixth of a second and 1 MB.

The library's own scanner and parser run in Python, never in C, so that messages are the same everywhere.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn, Self

import yaml

from gpu_tasks.tasks.problems import Problem, TaskFileError, shown

FILE_BYTES_MAX = 32 * 1024
DEPTH_MAX = 8
NODES_MAX = 2_000
UNANCHORED = "write the value in each place"


class Scalar(str):
    """A text with its place."""

    __slots__ = ("is_plain", "line")
    line: int
    is_plain: bool
    """True if the text has no quotes."""

    def __new__(cls, text: str, line: int, *, is_plain: bool = True) -> Self:
        """Take the text and its line, counted from 1."""
        made = super().__new__(cls, text)
        made.line, made.is_plain = line, is_plain
        return made


class Listing(list["FileNode"]):
    """The items of brackets, or of dashes."""

    def __init__(self, items: Iterable["FileNode"], line: int) -> None:
        """Take the items and the line, counted from 1."""
        super().__init__(items)
        self.line = line


class Table(dict[Scalar, "FileNode"]):
    """Keys with their values, in the order of the file, without repeated keys."""

    def __init__(self, entries: Iterable[tuple[Scalar, "FileNode"]], line: int) -> None:
        """Take the entries and the line, counted from 1."""
        super().__init__(entries)
        self.line = line


FileNode = Scalar | Listing | Table


def line_at(tree: FileNode, path: Sequence[str]) -> int:
    """Return the line of a key, or of the nearest key above it."""
    line = tree.line
    for name in path:
        key = next((key for key in tree if key == name), None) if isinstance(tree, Table) else None
        if key is None or not isinstance(tree, Table):
            break
        line, tree = key.line, tree[key]
    return line


def parse(data: bytes, file: str, depth_max: int = DEPTH_MAX, unanchored: str = UNANCHORED) -> FileNode:
    """Parse the one document of a file. Raise TaskFileError, with the line, for anything else.

    `unanchored` says how to write a file without anchors.
    """
    if len(data) > FILE_BYTES_MAX:
        _refuse(
            file, 1, "too_large", f"the file has more than {FILE_BYTES_MAX:,} bytes; put large inputs into other files"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse(file, data.count(b"\n", 0, error.start) + 1, "not_utf8", "the file is not UTF-8; save it as UTF-8")
    try:
        return _Composer(yaml.parse(text, Loader=yaml.SafeLoader), file, depth_max, unanchored).document()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        _refuse(file, line, "wrong_letters", f"YAML does not allow the character {error.character:#x}; remove it")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        _refuse(
            file,
            line,
            "not_yaml",
            f"invalid YAML: {(error.problem or 'the file ends too early')[:80]} (column {column}); indent keys with "
            "spaces, write a space after each colon, and quote texts with a colon",
        )


def _refuse(file: str, line: int, code: str, text: str) -> NoReturn:
    raise TaskFileError(file, [Problem(line, "", text, code)]) from None


class _Composer:
    """Builds the tree from the library's events, which the library makes one by one on demand."""

    def __init__(self, events: Iterator[yaml.Event], file: str, depth_max: int, unanchored: str) -> None:
        self._events, self._file, self._depth_max, self._nodes = events, file, depth_max, 0
        self._unanchored = unanchored

    def document(self) -> FileNode:
        """Return the one document, after a check that nothing follows it."""
        next(self._events)  # The start of the stream
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            _refuse(self._file, 1, "empty", "the file is empty; begin with `apiVersion: ogpu/v1`")
        node = self._node(next(self._events), 1)
        next(self._events)  # The end of the document
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            text = "a second document begins here; put each task into its own file"
            _refuse(self._file, _line(after), "second_document", text)
        return node

    def _node(self, event: yaml.Event, depth: int) -> FileNode:
        self._nodes += 1
        line = _line(event)
        # Checked before the node is built, so that a hostile file stops at the bound.
        if self._nodes > NODES_MAX:
            _refuse(self._file, line, "too_many_values", f"the file has more than {NODES_MAX:,} values; shorten it")
        if depth > self._depth_max:
            text = f"the file has more than {self._depth_max} nested levels; no key needs as many"
            _refuse(self._file, line, "too_deep", text)
        self._require_plain_words(event, line)
        match event:
            case yaml.ScalarEvent():
                return Scalar(event.value, line, is_plain=event.style is None)
            case yaml.SequenceStartEvent():
                return Listing(self._items(depth), line)
            case yaml.MappingStartEvent():
                return Table(self._entries(depth), line)
            case _:
                raise AssertionError("a node begins with a scalar, a sequence or a mapping")

    def _require_plain_words(self, event: yaml.Event, line: int) -> None:
        """Refuse names for parts of the file, and types."""
        # Nested aliases can expand a short file without bound ("billion laughs").
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            text = f"anchors and aliases (& and *) are not allowed; {self._unanchored}"
            _refuse(self._file, line, "anchor", text)
        if getattr(event, "tag", None) is not None:
            text = "tags (words that begin with !) are not allowed; put the text in quotes"
            _refuse(self._file, line, "tag", text)

    def _items(self, depth: int) -> Iterator[FileNode]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, depth + 1)

    def _entries(self, depth: int) -> Iterator[tuple[Scalar, FileNode]]:
        first: dict[str, int] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                _refuse(self._file, key.line, "key_not_word", "a key must be a single word; write lists after a colon")
            # PyYAML's own constructor silently keeps the last of repeated keys.
            if key in first:
                _refuse(
                    self._file,
                    key.line,
                    "repeated_key",
                    f"the key {shown(key)} repeats line {first[key]}; remove one of the two",
                )
            first[key] = key.line
            yield key, self._node(next(self._events), depth + 1)


def _line(event: yaml.Event) -> int:
    line: int = event.start_mark.line + 1
    return line
