"""Numbers every type that metadata mentions, each once: the portable registry of scale-info."""

from collections.abc import Mapping

from runtime.encoding import type_info as info
from runtime.encoding.type_info import TypeInfo
from runtime.interface import metadata_schema as schema


class PortableRegistry:
    """Types in the order in which they were first mentioned; their numbers are their places."""

    def __init__(self, outer: Mapping[str, TypeInfo]) -> None:
        """`outer` resolves the names of `Reference` shapes; such types may contain each other."""
        self._outer = outer
        self._ids: dict[TypeInfo, int] = {}
        self._entries: list[schema.TypeEntry | None] = []

    def number(self, described: TypeInfo) -> int:  # deterministic: as deep as our own declarations
        """The number of a type; it and all that it contains are in the registry afterwards."""
        if isinstance(described.shape, info.ReferenceShape):
            described = self._outer[described.shape.name]
        known = self._ids.get(described)
        if known is not None:
            return known
        place = self._ids[described] = len(self._entries)
        self._entries.append(None)  # taken before descending, so that a type may contain itself
        params = []
        for name, parameter in described.params:
            params.append(schema.TypeParameter(name, None if parameter is None else self.number(parameter)))
        definition = self._definition(described.shape)
        self._entries[place] = schema.TypeEntry(place, described.path, tuple(params), definition, described.docs)
        return place

    def entries(self) -> tuple[schema.TypeEntry, ...]:
        """Every type, by number."""
        return tuple(entry for entry in self._entries if entry is not None)

    def _definition(self, shape: info.Shape) -> schema.TypeDef:
        match shape:
            case info.CompositeShape(fields):
                return schema.CompositeDef(self._fields(fields))
            case info.VariantsShape(variants):
                return schema.VariantDef(tuple(self._variant(variant) for variant in variants))
            case info.SequenceShape(of):
                return schema.SequenceDef(self.number(of))
            case info.ArrayShape(length, of):
                return schema.ArrayDef(length, self.number(of))
            case info.TupleShape(parts):
                return schema.TupleDef(tuple(self.number(part) for part in parts))
            case info.PrimitiveShape(name):
                return schema.PrimitiveDef(schema.PrimitiveName[name])
            case info.CompactShape(of):
                return schema.CompactDef(self.number(of))
            case info.ReferenceShape(name):
                raise TypeError(f"{name} refers to a reference")

    def _fields(self, fields: tuple[info.FieldInfo, ...]) -> tuple[schema.FieldShape, ...]:
        return tuple(
            schema.FieldShape(field.name, self.number(field.type), field.type_name or None, field.docs)
            for field in fields
        )

    def _variant(self, variant: info.VariantInfo) -> schema.VariantShape:
        return schema.VariantShape(variant.name, self._fields(variant.fields), variant.index, variant.docs)
