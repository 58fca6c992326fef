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

    def _read_value(self, file_node: object) -> Any:
        if file_node is None or isinstance(file_node, int):  # A default is a value already; files contain only texts
            return file_node
        if not isinstance(file_node, str):
            raise FormError("takes a single value; write it after the colon", code="not_single")
        is_plain = isinstance(file_node, Scalar) and file_node.is_plain
        # The null values of YAML.
        if is_plain and file_node in {"", "~", "null"}:
            raise FormError("has no value; give one, or remove the line", code="no_value")
        # Before the parser, which may look at each letter more than once.
        if len(file_node) > self.letters_max:
            raise FormError(f"is longer than {self.letters_max:,} letters; {self.too_long}", code="too_long")
        if self.needs_no_quotes and not is_plain:
            # Every other YAML reader takes a quoted number for a text, so the published schema refuses it too.
            raise FormError(f"is not a text; write {file_node[:20]} without quotes", code="in_quotes")
        try:
            return self.read(str(file_node))
        except QuantityError as word_error:
            raise FormError(f"{shown(file_node)} {word_error}", code=word_error.code) from None


@dataclass(frozen=True, slots=True)
class WordList:
    """The annotation of a tuple that is written in brackets, without duplicates unless these have a meaning."""

    most: int
    may_repeat: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        list_schema = core_schema.no_info_after_validator_function(self._require_distinct, handler(source))
        return core_schema.no_info_before_validator_function(self._require_list, list_schema)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        return {**handler(core), "minItems": 1, "maxItems": self.most, "uniqueItems": not self.may_repeat}

    def _require_list(self, file_node: object) -> object:
        # An empty tuple is a default. A file cannot give an empty list.
        if file_node != () and (not isinstance(file_node, list) or not 1 <= len(file_node) <= self.most):
            raise FormError(
                f"takes a list of 1 to {self.most} values; write it as [first, second]", code="list_expected"
            )
        return file_node

    def _require_distinct(self, read_values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self.may_repeat and len(set(read_values)) < len(read_values):
            raise FormError("has a value twice; remove one of them", code="repeated_value")
        return read_values


@dataclass(frozen=True, slots=True)
class NamedWords:
    """The annotation of a dictionary with names from the file."""

    name: Word
    value: Word
    most: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._require_names, handler(source))

    def __get_pydantic_json_schema__(self, _core: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchema:
        name_schema, value_schema = dict(self.name.schema), dict(self.value.schema)
        return {
            "type": "object", "propertyNames": name_schema,
            "additionalProperties": value_schema, "maxProperties": self.most,
        }  # fmt: skip

    def _require_names(self, file_node: object) -> object:
        if not isinstance(file_node, dict):
            raise FormError(
                "takes names with values; write `name: value` on indented lines below it", code="names_expected"
            )
        if len(file_node) > self.most:
            raise FormError(f"has {len(file_node)} names, and at most {self.most} are allowed", code="too_many_names")
        return file_node


def written(default_text: str) -> Any:
    """Return a default in the form of the file, so that it is parsed like the file's own texts."""
    return default_text


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
        return {model_field.alias or field_name: model_field for field_name, model_field in cls.model_fields.items()}

    @classmethod
    def joined(cls, *sections: "Section", **other_values: Any) -> Self:
        """Return the fields of several sections in one, with `other_values` in place of theirs."""
        joined_values = {field_name: field_value for section in sections for field_name, field_value in section}
        # Without a second validation: the values are parsed, and a parser takes only texts.
        return cls.model_construct(**joined_values | other_values)


SectionT = TypeVar("SectionT", bound=Section)


def read_section(section_type: type[SectionT], file_tree: FileNode, file_name: str) -> SectionT:
    """Parse a file's tree. Raise TaskFileError with all its problems."""
    try:
        return section_type.model_validate(file_tree)
    except ValidationError as validation_error:
        # On the same line, a missing key comes after the unknown key that was probably meant for it
        sorted_errors = sorted(
            validation_error.errors(include_url=False), key=lambda error_details: error_details["type"] == "missing"
        )
        raise TaskFileError(
            file_name, [_problem(section_type, file_tree, error_details) for error_details in sorted_errors]
        ) from None


def schema_of(section_type: type[Section]) -> JsonSchema:
    """Return the JSON Schema of a section, with the sections below it in place."""
    model_schema = section_type.model_json_schema()
    definitions = model_schema.pop("$defs", {})

    def plain(schema_part: JsonSchema, description: str | None) -> JsonSchema:
        resolved_part = {**definitions.get(schema_part.pop("$ref", "").rpartition("/")[2], {}), **schema_part}
        titles = {"description": description} if description else {}
        kept_schema = {
            property_name: property_schema
            for property_name, property_schema in resolved_part.items()
            if property_name not in {"title", "description"}
        }
        if kept_schema.get("default", 0) in (None, [], {}):
            del kept_schema["default"]
        if "properties" in kept_schema:
            kept_schema["properties"] = {
                property_name: plain(property_schema, property_schema.get("description"))
                for property_name, property_schema in kept_schema["properties"].items()
            }
        return titles | kept_schema

    return plain(model_schema, None)


def _problem(section_type: type[Section], file_tree: FileNode, error_details: ErrorDetails) -> Problem:
    """Return an error as a problem of the file. Errors of our own validators have their texts already."""
    # pydantic's path also has indices of lists, and a mark for a dictionary's key.
    key_path = [
        location_part
        for location_part in error_details["loc"]
        if isinstance(location_part, str) and location_part != "[key]"
    ]
    line_number, error_kind = getattr(error_details["input"], "line", 0), error_details["type"]
    if error_kind in {"missing", "extra_forbidden"}:
        key_name = key_path.pop()
        known_keys = _known_keys_at(section_type, key_path)
        if error_kind == "missing":
            problem_text, problem_code = (
                f"the key {key_name} is missing: {known_keys[key_name].description}; add it",
                "missing_key",
            )
        else:
            line_number, problem_text = (
                line_at(file_tree, [*key_path, key_name]),
                unknown("key", key_name, list(known_keys)),
            )
            problem_code = "unknown_key"
    else:
        word_error = error_details["ctx"]["error"]
        problem_text, problem_code = str(word_error), code_of(word_error)
    return Problem(
        line_number or line_at(file_tree, key_path),
        # Cut, because the file chooses these names, and messages repeat them.
        ".".join(location_part[:PLACE_LETTERS_MAX] for location_part in key_path),
        problem_text,
        problem_code,
    )


def _known_keys_at(section_type: type[Section], key_path: list[str]) -> dict[str, FieldInfo]:
    """Return the keys of the section that a path leads to."""
    known_keys = section_type.keys()
    for key_name in key_path:
        current_section: Any = known_keys[key_name].annotation
        known_keys = current_section.keys()
    return known_keys
