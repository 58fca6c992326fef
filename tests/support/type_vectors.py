"""The wire form of every named type and storage item of a runtime, as text, so that a change is noticed.

After an intended change, `python tests/support/type_vectors.py` writes the vectors of the small chain.
"""

import json
import sys
from pathlib import Path

from runtime.frame.api import Apis
from runtime.interface.metadata import metadata
from runtime.interface.metadata_schema import (
    METADATA_V14,
    ArrayDef,
    CompactDef,
    CompositeDef,
    FieldShape,
    MapEntry,
    PrimitiveDef,
    SequenceDef,
    TupleDef,
    TypeEntry,
    VariantDef,
)

VECTORS = Path(__file__).parent.parent / "vectors" / "runtime_types.json"


class Describer:
    """Describes types by number, as text. A named type inside another appears by its name."""

    def __init__(self, types: tuple[TypeEntry, ...]) -> None:
        self._types = types

    def name(self, number: int) -> str:
        """Return a named type's name with its parameters, or any other type's form."""
        entry = self._types[number]
        if not entry.path:
            return self.form(number)
        params = [self.name(each.type) for each in entry.params if each.type is not None]
        return "::".join(entry.path) + (f"<{', '.join(params)}>" if params else "")

    def form(self, number: int) -> str:
        """Return a type's wire form."""
        match self._types[number].definition:
            case CompositeDef(fields):
                return "{" + self._fields(fields) + "}"
            case VariantDef(variants):
                return " | ".join(
                    f"{variant.index}: {variant.name}({self._fields(variant.fields)})" for variant in variants
                )
            case SequenceDef(of):
                return f"Vec<{self.name(of)}>"
            case ArrayDef(length, of):
                return f"[{self.name(of)}; {length}]"
            case TupleDef(parts):
                return f"({', '.join(self.name(part) for part in parts)})"
            case PrimitiveDef(primitive):
                return primitive.name
            case CompactDef(of):
                return f"Compact<{self.name(of)}>"

    def _fields(self, fields: tuple[FieldShape, ...]) -> str:
        return ", ".join(f"{each.name}: {self.name(each.type)}" for each in fields)


def vectors_of(apis: Apis) -> dict[str, dict[str, str]]:
    """Return the vectors of every named type and storage item of a chain."""
    described = METADATA_V14.decode(metadata(apis, 14)[5:])
    describer = Describer(described.types)
    types = {describer.name(entry.id): describer.form(entry.id) for entry in described.types if entry.path}
    items = {}
    for pallet in described.pallets:
        for entry in pallet.storage.entries if pallet.storage else ():
            if isinstance(entry.type, MapEntry):
                key = f"{list(entry.type.hashers)} {describer.name(entry.type.key)} -> "
                value = entry.type.value
            else:
                key = ""
                value = entry.type.type
            items[f"{pallet.name}.{entry.name}"] = f"{entry.modifier.name} {key}{describer.name(value)}"
    return {"storage": items, "types": dict(sorted(types.items()))}


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent.parent)]
    from small_chain import APIS

    VECTORS.write_text(json.dumps(vectors_of(APIS), indent=1) + "\n")
