"""Numbers every type that metadata mentions, each once: the portable registry of scale-info."""

from collections.abc import Mapping

from runtime import metadata_schema as schema
from runtime import type_info as info
from runtime.type_info import TypeInfo


class PortableRegistry:
    """Types in the order in which they were first mentioned; their numbers are their places."""

    def __init__(self, outer: Mapping[str, TypeInfo]) -> None:
        """`outer` resolves the names of `Reference` shapes; such types may contain each other."""
        self._outer = outer
        self._ids: dict[TypeInfo, int] = {}
        self._entries: list[schema.TypeEntry | None] = []

    def number(self, one: TypeInfo) -> int:  # deterministic: as deep as our own declarations
        """The number of a type; it and all that it contains are in the registry afterwards."""
        if isinstance(one.shape, info.Reference):
            one = self._outer[one.shape.name]
        known = self._ids.get(one)
        if known is not None:
            return known
        place = self._ids[one] = len(self._entries)
        self._entries.append(None)  # taken before descending, so that a type may contain itself
        params = tuple(schema.TypeParameter(name, None if of is None else self.number(of)) for name, of in one.params)
        self._entries[place] = schema.TypeEntry(place, one.path, params, self._definition(one.shape), one.docs)
        return place

    def entries(self) -> tuple[schema.TypeEntry, ...]:
        """Every type, by number."""
        return tuple(entry for entry in self._entries if entry is not None)

    def _definition(self, shape: info.Shape) -> schema.TypeDef:
        match shape:
            case info.Composite(fields):
                return schema.CompositeDef(self._fields(fields))
            case info.Variants(variants):
                return schema.VariantDef(tuple(self._variant(one) for one in variants))
            case info.Sequence(of):
                return schema.SequenceDef(self.number(of))
            case info.Array(length, of):
                return schema.ArrayDef(length, self.number(of))
            case info.Tuple(parts):
                return schema.TupleDef(tuple(self.number(part) for part in parts))
            case info.Primitive(name):
                return schema.PrimitiveDef(schema.PrimitiveName[name])
            case info.Compact(of):
                return schema.CompactDef(self.number(of))
            case info.Reference(name):
                raise TypeError(f"{name} refers to a reference")

    def _fields(self, fields: tuple[info.Field, ...]) -> tuple[schema.FieldShape, ...]:
        return tuple(
            schema.FieldShape(one.name, self.number(one.type), one.type_name or None, one.docs) for one in fields
        )

    def _variant(self, one: info.Variant) -> schema.VariantShape:
        return schema.VariantShape(one.name, self._fields(one.fields), one.index, one.docs)
