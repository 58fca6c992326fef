"""As much of JSON Schema as task files need, written down a second time: what a validator would say of a document."""

import re
from typing import Any

from gpu_tasks.tasks.yaml_tree import FileNode, Listing, Scalar

KINDS = {"string": str, "integer": int, "number": int, "boolean": bool, "object": dict, "array": list}
KNOWN = {
    "$schema", "$id", "title", "description", "default", "type", "pattern", "maxLength", "enum", "minimum", "maximum",
    "properties", "required", "additionalProperties", "propertyNames", "maxProperties", "items", "minItems", "maxItems",
    "uniqueItems",
}  # fmt: skip


def document(node: FileNode) -> Any:
    """What any reader of YAML makes of a tree: numbers and truth values of plain texts."""
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
    """Whether a document keeps to a schema, which uses nothing that is not known here."""
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
