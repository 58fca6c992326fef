"""Sections of a task file as pydantic models: texts are parsed strictly, and errors name file, line and remedy.

Invariant: parser and schema come from the same declaration, and an error lists all problems at once. A file with
problems gives no values. pydantic converts nothing by itself: the reader of its `Word` parses every text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from gpu_tasks.tasks.problems import Problem, TaskFileError, shown, unknown
from gpu_tasks.tasks.quantities import QuantityError
from gpu_tasks.tasks.yaml_tree import FileNode, Scalar, line_at
from wallet.errors import CodedError, code_of

VALUE_LETTERS_MAX = 300
"""The usual limit of a value. Readers may look at each letter more than once."""
PLACE_LETTERS_MAX = 20
"""The most letters of a name from the file in a problem's place."""
JsonSchema = dict[str, Any]


class FormError(CodedError, ValueError):
    """A part of a file has the wrong form for its key. The message says what the key takes and what to do."""


@dataclass(frozen=True, slots=True)
class Word:
    """The annotation of a field that is written as a text: its parser, and its schema."""

    read: Callable[[str], Any]
    """Raises QuantityError, with the accepted form, for another text."""
    schema: Mapping[str, Any]
    needs_no_quotes: bool = False
    """True for numbers and truth values, which in quotes are texts to every other YAML reader."""
    letters_max: int = VALUE_LETTERS_MAX
    too_long: str = "shorten it"
    """The advice for a longer value."""

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read_value)

    def __get_pydantic_json_schema__(self, _core: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchema:
        return dict(self.schema)

    def _read_value(self, node: object) -> Any:
        if node is None or isinstance(node, int):  # A default is a value already; files contain only texts
            return node
        if not isinstance(node, str):
            raise FormError("takes a single value; write it after the colon", code="not_single")
        is_plain = isinstance(node, Scalar) and node.is_plain
        # The null values of YAML.
        if is_plain and node in {"", "~", "null"}:
            raise FormError("has no value; give one, or remove the line", code="no_value")
        # Before the parser, which may look at each letter more than once.
        if len(node) > self.letters_max:
            raise FormError(f"is longer than {self.letters_max:,} letters; {self.too_long}", code="too_long")
        if self.needs_no_quotes and not is_plain:
            # Every other YAML reader takes a quoted number for a text, so the published schema refuses it too.
            raise FormError(f"is not a text; write {node[:20]} without quotes", code="in_quotes")
        try:
            return self.read(str(node))
        except QuantityError as error:
            raise FormError(f"{shown(node)} {error}", code=error.code) from None


@dataclass(frozen=True, slots=True)
class WordList:
    """The annotation of a tuple that is written in brackets, without duplicates unless these have a meaning."""

    most: int
    may_repeat: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = core_schema.no_info_after_validator_function(self._require_distinct, handler(source))
        return core_schema.no_info_before_validator_function(self._require_list, schema)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        return {**handler(core), "minItems": 1, "maxItems": self.most, "uniqueItems": not self.may_repeat}

    def _require_list(self, node: object) -> object:
        # An empty tuple is a default. A file cannot give an empty list.
        if node != () and (not isinstance(node, list) or not 1 <= len(node) <= self.most):
            raise FormError(
                f"takes a list of 1 to {self.most} values; write it as [first, second]", code="list_expected"
            )
        return node

    def _require_distinct(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self.may_repeat and len(set(values)) < len(values):
            raise FormError("has a value twice; remove one of them", code="repeated_value")
        return values


@dataclass(frozen=True, slots=True)
class NamedWords:
    """The annotation of a dictionary with names from the file."""

    name: Word
    value: Word
    most: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._require_names, handler(source))

    def __get_pydantic_json_schema__(self, _core: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchema:
        names, values = dict(self.name.schema), dict(self.value.schema)
        return {
            "type": "object", "propertyNames": names,
            "additionalProperties": values, "maxProperties": self.most,
        }  # fmt: skip

    def _require_names(self, node: object) -> object:
        if not isinstance(node, dict):
            raise FormError(
                "takes names with values; write `name: value` on indented lines below it", code="names_expected"
            )
        if len(node) > self.most:
            raise FormError(f"has {len(node)} names, and at most {self.most} are allowed", code="too_many_names")
        return node


def written(text: str) -> Any:
    """Return a default in the form of the file, so that it is parsed like the file's own texts."""
    return text


class Section(BaseModel):
    """Declared keys. A field's alias is its key in the file, and its description is shown to people."""

    # An unknown key is refused: a limit with a slip in its name would limit nothing.
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _require_keys(cls, node: object) -> object:
        # A default is a section already.
        if not isinstance(node, dict | cls):
            raise FormError(
                f"takes keys; write them on indented lines below it: {', '.join(cls.keys())}", code="keys_expected"
            )
        return node

    @classmethod
    def keys(cls) -> dict[str, FieldInfo]:
        """Return the fields by the keys of the file."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    @classmethod
    def joined(cls, *sections: "Section", **others: Any) -> Self:
        """Return the fields of several sections in one, with `others` in place of theirs."""
        joined_values = {name: value for section in sections for name, value in section}
        # Without a second validation: the values are parsed, and a parser takes only texts.
        return cls.model_construct(**joined_values | others)


SectionT = TypeVar("SectionT", bound=Section)


def read_section(section: type[SectionT], tree: FileNode, name: str) -> SectionT:
    """Parse a file's tree. Raise TaskFileError with all its problems."""
    try:
        return section.model_validate(tree)
    except ValidationError as error:
        # On the same line, a missing key comes after the unknown key that was probably meant for it
        errors = sorted(error.errors(include_url=False), key=lambda details: details["type"] == "missing")
        raise TaskFileError(name, [_problem(section, tree, details) for details in errors]) from None


def schema_of(section: type[Section]) -> JsonSchema:
    """Return the JSON Schema of a section, with the sections below it in place."""
    model = section.model_json_schema()
    definitions = model.pop("$defs", {})

    def plain(part: JsonSchema, description: str | None) -> JsonSchema:
        resolved = {**definitions.get(part.pop("$ref", "").rpartition("/")[2], {}), **part}
        titles = {"description": description} if description else {}
        kept = {name: value for name, value in resolved.items() if name not in {"title", "description"}}
        if kept.get("default", 0) in (None, [], {}):
            del kept["default"]
        if "properties" in kept:
            kept["properties"] = {
                name: plain(value, value.get("description")) for name, value in kept["properties"].items()
            }
        return titles | kept

    return plain(model, None)


def _problem(section: type[Section], tree: FileNode, details: ErrorDetails) -> Problem:
    """Return an error as a problem of the file. Errors of our own validators have their texts already."""
    # pydantic's path also has indices of lists, and a mark for a dictionary's key.
    path = [part for part in details["loc"] if isinstance(part, str) and part != "[key]"]
    line, kind = getattr(details["input"], "line", 0), details["type"]
    if kind in {"missing", "extra_forbidden"}:
        name = path.pop()
        known = _known_keys_at(section, path)
        if kind == "missing":
            text, code = (
                f"the key {name} is missing: {known[name].description}; add it",
                "missing_key",
            )
        else:
            line, text = (
                line_at(tree, [*path, name]),
                unknown("key", name, list(known)),
            )
            code = "unknown_key"
    else:
        error = details["ctx"]["error"]
        text, code = str(error), code_of(error)
    return Problem(
        line or line_at(tree, path),
        # Cut, because the file chooses these names, and messages repeat them.
        ".".join(part[:PLACE_LETTERS_MAX] for part in path),
        text,
        code,
    )


def _known_keys_at(section: type[Section], path: list[str]) -> dict[str, FieldInfo]:
    """Return the keys of the section that a path leads to."""
    known = section.keys()
    for name in path:
        current: Any = known[name].annotation
        known = current.keys()
    return known
