"""The published schema equals the declarations, and accepts the same files."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from gpu_tasks.tasks.declarations import Section
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.task_kinds import FORMS, task_schema
from gpu_tasks.tasks.training_task import TrainingFile, read_task
from gpu_tasks.tasks.yaml_tree import FileNode, Listing, Scalar, parse
from scripts import task_schema as script

# The part of JSON Schema that task files need, written a second time: a validator's verdict on a document.
KINDS = {"string": str, "integer": int, "number": int, "boolean": bool, "object": dict, "array": list}
KNOWN = {
    "$schema", "$id", "title", "description", "default", "type", "pattern", "maxLength", "enum", "minimum", "maximum",
    "properties", "required", "additionalProperties", "propertyNames", "maxProperties", "items", "minItems", "maxItems",
    "uniqueItems",
}  # fmt: skip


def document(node: FileNode) -> Any:
    """Return a tree as any YAML reader sees it: numbers and truth values from plain texts."""
    match node:
        case Scalar():
            if not node.is_plain:
                return str(node)
            if re.fullmatch("[-+]?[0-9]+", node):
                return int(node)
            return {"true": True, "false": False, "~": None, "null": None, "": None}.get(str(node), str(node))
        case Listing():
            return [document(item) for item in node]
        case _:
            return {str(key): document(value) for key, value in node.items()}


def is_valid(schema: dict[str, Any], value: Any) -> bool:
    """Return True if a document keeps to a schema, which uses only known keywords."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(type(value) is KINDS[kind] for kind in kinds):
        return False
    match value:
        case str():
            pattern = re.compile(schema.get("pattern", ""))
            is_short = len(value) <= schema.get("maxLength", len(value))
            return bool(pattern.search(value)) and is_short and value in schema.get("enum", [value])
        case bool():
            return True
        case int():
            return value in range(schema.get("minimum", value), schema.get("maximum", value) + 1)
        case list():
            texts = [repr(item) for item in value]
            is_counted = schema["minItems"] <= len(value) <= schema["maxItems"] and len(set(texts)) == len(texts)
            return is_counted and all(is_valid(schema["items"], item) for item in value)
        case _:
            return _has_keys(schema, value)


def _has_keys(schema: dict[str, Any], value: dict[str, Any]) -> bool:
    known, others = schema.get("properties", {}), schema["additionalProperties"]
    if len(value) > schema.get("maxProperties", len(value)) or not set(schema.get("required", ())) <= set(value):
        return False
    names = {"type": "string", **schema.get("propertyNames", {})}
    for name, held in value.items():
        shape = known.get(name, others)
        if shape is False or not is_valid(names, name) or not is_valid(shape, held):
            return False
    return True


ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
SCHEMA = task_schema()
WORDS = "maxPrice maxprice 1oGPU true 7 cpu x 0.5oGPU/h 90m 0x12 classes '7' [] {}".split()


def is_taken(text: str) -> bool:
    try:
        read_task(text.encode(), "task.yaml")
    except TaskFileError:
        return False
    return True


def is_in_schema(text: str) -> bool:
    return is_valid(SCHEMA, document(parse(text.encode(), "task.yaml")))


@pytest.mark.parametrize("kind", script.PAGES)
def test_the_published_schema_is_what_the_declarations_say(kind: str) -> None:
    assert script.PAGES[kind].read_text(encoding="utf-8") == script.text(kind)
    assert script.main() == 0


@pytest.mark.parametrize("name", ["job", "lease"])
def test_the_schemas_of_containers_take_their_examples_and_no_slip(name: str) -> None:
    text = (ROOT / "examples" / "containers" / f"{name}.yaml").read_text(encoding="utf-8")
    schema = task_schema(name.capitalize())
    assert is_valid(schema, document(parse(text.encode(), "task.yaml")))
    for was, becomes in (("image:", "imag:"), ("@sha256:", ":"), ("maxPrice:", "price:"), ("cpu:", "cpus:")):
        assert was in text
        assert not is_valid(schema, document(parse(text.replace(was, becomes).encode(), "task.yaml")))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_schema_takes_every_example(path: Path) -> None:
    assert is_in_schema(path.read_text(encoding="utf-8"))


@given(st.data())
def test_what_the_reader_takes_the_schema_takes(data: st.DataObject) -> None:
    """Examples with a few words changed: both refuse most, and the schema alone refuses none."""
    words = data.draw(st.sampled_from(EXAMPLES)).read_text(encoding="utf-8").split(" ")
    for _ in range(data.draw(st.integers(1, 2))):
        words[data.draw(st.integers(0, len(words) - 1))] = data.draw(st.sampled_from(WORDS))
    text = " ".join(words)
    if is_taken(text):
        assert is_in_schema(text), text


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("kind: TrainingTask", "kind: Task"),
        ("maxPrice:", "maxprice:"),
        ("1 oGPU,", "-1,"),
        ("1 oGPU,", "1 USD,"),
        ("[consumer, datacenter]", "gpu"),
        ("[consumer, datacenter]", "[]"),
        ("[consumer, datacenter]", "[cpu, cpu]"),
        ("devices: 2", "devices: 33"),
        ("devices: 2", "devices: '2'"),
        ("{name: gang}", "{}"),
        ("{name: gang}", "{name: Gang}"),
        ("5400 blocks", "5400"),
    ],
)
def test_both_refuse(was: str, becomes: str) -> None:
    text = (ROOT / "examples" / "gang.yaml").read_text(encoding="utf-8")
    assert was in text
    assert is_in_schema(text)
    assert not is_in_schema(text.replace(was, becomes, 1))
    assert not is_taken(text.replace(was, becomes, 1))


@pytest.mark.parametrize("kind", FORMS)
def test_defaults_keep_to_the_schema_and_every_key_is_explained(kind: str) -> None:
    def look(section: type[Section], shape: dict[str, Any]) -> None:
        assert set(shape["properties"]) == set(section.keys())
        assert shape["additionalProperties"] is False
        for name, field in section.keys().items():
            described = shape["properties"][name]
            assert field.description
            assert described["description"] == field.description
            assert (name in shape.get("required", ())) is field.is_required()
            if "default" in described:
                assert is_valid(described, described["default"])
            if below := below_of(field):
                look(below, described)

    look(FORMS[kind], task_schema(kind))


def test_the_page_names_every_key_with_its_default() -> None:
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| `")}

    def look(section: type[Section], path: str) -> None:
        for name, field in section.keys().items():
            if below := below_of(field):
                look(below, f"{path}{name}.")
            else:
                row = rows[f"`{path}{name}`"]
                default = "" if field.is_required() else str(field.default or "").lower()
                assert default == "0 grains" or default.split(" ")[0] in row, row  # of grains the chain has a least
                assert not field.is_required() or "required" in row

    look(TrainingFile, "")


def below_of(field: FieldInfo) -> type[Section] | None:
    """Return the section under a key, if there is one."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None
