"""What a file may say: keys, what stands behind each, and its default; read strictly, and shown as JSON Schema.

Always: reading and schema come from the same declaration. Whoever reads goes on after a problem, so that all of them
are said at once; a value of a file with problems is never used.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.tasks.problems import Problem, shown, unknown
from gpu_tasks.tasks.quantities import QuantityError
from gpu_tasks.tasks.yaml_tree import FileNode, Listing, Scalar, Table

VALUE_LETTERS_MAX = 300
"""The usual limit of a value; readers may look at each letter more than once."""


@dataclass(frozen=True, slots=True)
class Word:
    """A text that means something: how it is read, and how the schema describes it."""

    read: Callable[[str], Any]
    """QuantityError says what the key takes and why a text is none."""
    schema: Mapping[str, Any]
    needs_no_quotes: bool = False
    """A number or a truth value: in quotes it is a text to every other reader of YAML."""
    letters_max: int = VALUE_LETTERS_MAX
    too_long: str = "shorten it"
    """The advice for a longer value."""


@dataclass(frozen=True, slots=True)
class WordList:
    """Several, in brackets; none stands twice, unless that means something."""

    word: Word
    most: int
    may_repeat: bool = False


@dataclass(frozen=True, slots=True)
class NamedWords:
    """Texts by names that the file chooses."""

    name: Word
    word: Word
    most: int


@dataclass(frozen=True, slots=True)
class KeySection:
    """Keys that are declared."""

    keys: tuple["FileKey", ...]


KeyForm = Word | WordList | NamedWords | KeySection


@dataclass(frozen=True, slots=True)
class FileKey:
    """A key, what it is for, and what it means where it is left out."""

    name: str
    form: KeyForm
    doc: str
    default: str | None = None
    """As the file would say it. None: there is nothing to say it with, or it depends on other keys."""
    is_required: bool = False


@dataclass(slots=True)
class FileReading:
    """What was found while a file was read: problems, and in which line each key stands."""

    problems: list[Problem] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)

    def refuse(self, line: int, where: str, text: str) -> None:
        """Note a problem, and go on."""
        self.problems.append(Problem(line, where, text))


def read_section(section: KeySection, node: FileNode, where: str, reading: FileReading) -> dict[str, Any]:
    """Every key's value, defaults included; sections as further dictionaries. Problems are noted in `reading`."""
    if not isinstance(node, Table):
        reading.refuse(node.line, where, f"takes keys: {_names(section)}; put them under it, indented")
        return {}
    given: dict[str, FileNode] = {}
    for key, value in node.entries:
        if key.text in {known.name for known in section.keys}:
            given[key.text] = value
            reading.lines[_path(where, key.text)] = key.line
        else:
            reading.refuse(key.line, where, unknown("key", key.text, [known.name for known in section.keys]))
    return {key.name: _value(key, given.get(key.name), node.line, where, reading) for key in section.keys}


def schema_of(form: KeyForm) -> dict[str, Any]:
    """JSON Schema of what a form takes."""
    match form:
        case Word():
            return dict(form.schema)
        case WordList():
            return {
                "type": "array",
                "items": schema_of(form.word),
                "minItems": 1,
                "maxItems": form.most,
                "uniqueItems": not form.may_repeat,
            }
        case NamedWords():
            names, values = dict(form.name.schema), schema_of(form.word)
            return {
                "type": "object", "propertyNames": names, "additionalProperties": values, "maxProperties": form.most,
            }  # fmt: skip
        case KeySection():
            required = [key.name for key in form.keys if key.is_required]
            return {
                "type": "object",
                "properties": {key.name: _described(key) for key in form.keys},
                **({"required": required} if required else {}),
                "additionalProperties": False,
            }


def _described(key: FileKey) -> dict[str, Any]:
    shape = schema_of(key.form)
    if key.default is None:
        return {"description": key.doc, **shape}
    kinds = {"integer": int(key.default) if key.default.isdigit() else 0, "boolean": key.default == "true"}
    return {"description": key.doc, **shape, "default": kinds.get(str(shape.get("type")), key.default)}


def _value(key: FileKey, node: FileNode | None, line: int, where: str, reading: FileReading) -> Any:
    path = _path(where, key.name)
    if node is not None:
        return _read(key.form, node, path, reading)
    if key.is_required:
        reading.refuse(line, where, f"lacks {key.name}: {key.doc}; add it")
        return None
    if isinstance(key.form, KeySection):
        return read_section(key.form, Table((), line), path, reading)
    if isinstance(key.form, NamedWords):
        return {}
    return None if key.default is None else _read(key.form, Scalar(key.default, line), path, reading)


def _read(form: KeyForm, node: FileNode, path: str, reading: FileReading) -> Any:
    match form:
        case Word():
            return _word(form, node, path, reading)
        case WordList():
            return tuple(_each(form, node, path, reading))
        case NamedWords():
            return _named(form, node, path, reading)
        case KeySection():
            return read_section(form, node, path, reading)


def _word(word: Word, node: FileNode, path: str, reading: FileReading) -> Any:
    if not isinstance(node, Scalar):
        reading.refuse(node.line, path, "takes a single value; write it behind the colon")
    elif node.is_plain and node.text in {"", "~", "null"}:
        reading.refuse(node.line, path, "says nothing; give it a value, or leave the line out")
    elif len(node.text) > word.letters_max:
        reading.refuse(node.line, path, f"is longer than {word.letters_max:,} letters; {word.too_long}")
    elif word.needs_no_quotes and not node.is_plain:
        reading.refuse(node.line, path, f"is no text; write {node.text[:20]} without quotes")
    else:
        try:
            return word.read(node.text)
        except QuantityError as error:
            reading.refuse(node.line, path, f"{shown(node.text)}: it {error}")
    return None


def _each(words: WordList, node: FileNode, path: str, reading: FileReading) -> list[Any]:
    if not isinstance(node, Listing) or not 1 <= len(node.items) <= words.most:
        reading.refuse(node.line, path, f"takes a list of 1 to {words.most}; write them in brackets, with commas")
        return []
    found = [_word(words.word, item, path, reading) for item in node.items]
    if not words.may_repeat and len(set(found)) < len(found) and None not in found:
        reading.refuse(node.line, path, "names something twice; leave one of them")
    return found


def _named(named: NamedWords, node: FileNode, path: str, reading: FileReading) -> dict[str, Any]:
    if not isinstance(node, Table):
        reading.refuse(node.line, path, "takes names with values; write `name: value` under it, indented")
        return {}
    if len(node.entries) > named.most:
        reading.refuse(node.line, path, f"takes at most {named.most} names, not {len(node.entries)}")
        return {}
    found = {}
    for key, value in node.entries:
        place = _path(path, key.text[:20])
        reading.lines[place] = key.line
        _word(named.name, Scalar(key.text, key.line), place, reading)
        found[key.text] = _word(named.word, value, place, reading)
    return found


def _names(section: KeySection) -> str:
    return ", ".join(key.name for key in section.keys)


def _path(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
