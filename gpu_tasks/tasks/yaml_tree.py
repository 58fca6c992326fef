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

    def __new__(cls, scalar_text: str, line: int, *, is_plain: bool = True) -> Self:
        """Take the text and its line, counted from 1."""
        scalar = super().__new__(cls, scalar_text)
        scalar.line, scalar.is_plain = line, is_plain
        return scalar


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
        present_key = (
            next((present_key for present_key in tree if present_key == name), None)
            if isinstance(tree, Table)
            else None
        )
        if present_key is None or not isinstance(tree, Table):
            break
        line, tree = present_key.line, tree[present_key]
    return line


def parse(content: bytes, name: str, depth_max: int = DEPTH_MAX, unanchored: str = UNANCHORED) -> FileNode:
    """Parse the one document of a file. Raise TaskFileError, with the line, for anything else.

    `unanchored` says how to write a file without anchors.
    """
    # Before the library reads a letter: its scanner is in Python, and its time grows with the file.
    if len(content) > FILE_BYTES_MAX:
        _refuse(
            name,
            1,
            "too_large",
            f"the file has more than {FILE_BYTES_MAX:,} bytes; put large inputs into other files",
        )
    try:
        file_text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse(
            name,
            content.count(b"\n", 0, error.start) + 1,
            "not_utf8",
            "the file is not UTF-8; save it as UTF-8",
        )
    try:
        return _Composer(yaml.parse(file_text, Loader=yaml.SafeLoader), name, depth_max, unanchored).document()
    except yaml.reader.ReaderError as error:
        line = file_text.count("\n", 0, error.position) + 1
        _refuse(
            name,
            line,
            "wrong_letters",
            f"YAML does not allow the character {error.character:#x}; remove it",
        )
    except yaml.MarkedYAMLError as error:
        problem_mark = error.problem_mark
        line, column_number = (problem_mark.line + 1, problem_mark.column + 1) if problem_mark else (1, 1)
        _refuse(
            name,
            line,
            "not_yaml",
            f"invalid YAML: {(error.problem or 'the file ends too early')[:80]} (column {column_number}); "
            "indent keys with spaces, write a space after each colon, and quote texts with a colon",
        )


def _refuse(name: str, line: int, code: str, text: str) -> NoReturn:
    raise TaskFileError(name, [Problem(line, "", text, code)]) from None


class _Composer:
    """Builds the tree from the library's events, which the library makes one by one on demand."""

    def __init__(self, events: Iterator[yaml.Event], name: str, depth_max: int, unanchored: str) -> None:
        self._events, self._file, self._depth_max, self._nodes = events, name, depth_max, 0
        self._unanchored = unanchored

    def document(self) -> FileNode:
        """Return the one document, after a check that nothing follows it."""
        next(self._events)  # The start of the stream
        first_event = next(self._events)
        if isinstance(first_event, yaml.StreamEndEvent):
            _refuse(self._file, 1, "empty", "the file is empty; begin with `apiVersion: ogpu/v1`")
        root_node = self._compose_node(next(self._events), 1)
        next(self._events)  # The end of the document
        # A second document would be ignored without a word, and its task never submitted.
        next_event = next(self._events)
        if not isinstance(next_event, yaml.StreamEndEvent):
            text = "a second document begins here; put each task into its own file"
            _refuse(self._file, _line_of(next_event), "second_document", text)
        return root_node

    def _compose_node(self, node_event: yaml.Event, node_depth: int) -> FileNode:
        self._nodes += 1
        line = _line_of(node_event)
        # Checked before the node is built, so that a hostile file stops at the bound.
        if self._nodes > NODES_MAX:
            _refuse(self._file, line, "too_many_values", f"the file has more than {NODES_MAX:,} values; shorten it")
        # A small file of brackets would otherwise exhaust the stack.
        if node_depth > self._depth_max:
            text = f"the file has more than {self._depth_max} nested levels; no key needs as many"
            _refuse(self._file, line, "too_deep", text)
        self._require_plain_words(node_event, line)
        match node_event:
            case yaml.ScalarEvent():
                # The text as written: YAML 1.1 would make a truth value of `no` and a number of `1e3`.
                return Scalar(node_event.value, line, is_plain=node_event.style is None)
            case yaml.SequenceStartEvent():
                return Listing(self._items_of(node_depth), line)
            case yaml.MappingStartEvent():
                return Table(self._entries_of(node_depth), line)
            case _:
                raise AssertionError("a node begins with a scalar, a sequence or a mapping")

    def _require_plain_words(self, node_event: yaml.Event, line: int) -> None:
        """Refuse names for parts of the file, and types."""
        # Nested aliases can expand a short file without bound ("billion laughs").
        if isinstance(node_event, yaml.AliasEvent) or getattr(node_event, "anchor", None) is not None:
            text = f"anchors and aliases (& and *) are not allowed; {self._unanchored}"
            _refuse(self._file, line, "anchor", text)
        # A tag names a type that the reader should make of a text, and a scalar here is its text alone.
        if getattr(node_event, "tag", None) is not None:
            text = "tags (words that begin with !) are not allowed; put the text in quotes"
            _refuse(self._file, line, "tag", text)

    def _items_of(self, node_depth: int) -> Iterator[FileNode]:
        while not isinstance(item_event := next(self._events), yaml.SequenceEndEvent):
            yield self._compose_node(item_event, node_depth + 1)

    def _entries_of(self, node_depth: int) -> Iterator[tuple[Scalar, FileNode]]:
        first_line: dict[str, int] = {}
        while not isinstance(key_event := next(self._events), yaml.MappingEndEvent):
            entry_key = self._compose_node(key_event, node_depth + 1)
            if not isinstance(entry_key, Scalar):
                _refuse(
                    self._file, entry_key.line, "key_not_word", "a key must be a single word; write lists after a colon"
                )
            # PyYAML's own constructor silently keeps the last of repeated keys.
            if entry_key in first_line:
                _refuse(
                    self._file,
                    entry_key.line,
                    "repeated_key",
                    f"the key {shown(entry_key)} repeats line {first_line[entry_key]}; remove one of the two",
                )
            first_line[entry_key] = entry_key.line
            yield entry_key, self._compose_node(next(self._events), node_depth + 1)


def _line_of(yaml_event: yaml.Event) -> int:
    line: int = yaml_event.start_mark.line + 1
    return line
