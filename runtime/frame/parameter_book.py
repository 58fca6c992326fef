"""All parameters of a runtime together: by name, at genesis, and as a state has them.

Always: what a book changes stays within bounds and breaks no relation; `changed` values are those after the block under
execution, which its pallets do not go by yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.frame.parameter import Parameter
from runtime.frame.relations import Relation
from runtime.frame.storage import StorageValue
from runtime.state.overlay import Overlay


@dataclass(frozen=True, slots=True)
class ParameterTable:
    """The parameters of a runtime with their compiled items, and what holds between them and its constants."""

    parameters: Mapping[str, Parameter[Any]]
    items: Mapping[str, StorageValue[Any]]
    fixed: Mapping[str, int]
    """Constants that are numbers, and numbers of consensus: what relations may name besides parameters."""
    relations: Sequence[Relation] = ()

    def __post_init__(self) -> None:
        """ValueError for a value beyond bounds, or for a relation about a number that nobody declares."""
        for name, item in self.items.items():
            self._check(name, item.default)
        known = {**self.items, **self.fixed}
        unknown = [
            f"{relation.name}: {name}" for relation in self.relations for name in relation.names() if name not in known
        ]
        if unknown:
            raise ValueError(f"no such number: {'; '.join(unknown)}")

    def values_at_genesis(self, given: Mapping[str, int]) -> dict[str, int]:
        """Every parameter by name: as `given`, else the chain's default. ValueError for what does not fit."""
        unknown = [name for name in given if name not in self.parameters]
        if unknown:
            named = (f"{name}, which is a constant" if name in self.fixed else name for name in unknown)
            raise ValueError(f"no such parameter: {'; '.join(named)}")
        for name, value in given.items():
            self._check(name, value)
        return {name: given.get(name, item.default) for name, item in self.items.items()}

    def genesis(self, given: Mapping[str, int]) -> dict[bytes, bytes]:
        """The entries of block 0; ValueError where a value is beyond its bounds or breaks a relation."""
        values = self.values_at_genesis(given)
        self.check(values)
        return {self.items[name].prefix: self.items[name].value_codec.encode(value) for name, value in values.items()}

    def check(self, values: Mapping[str, int]) -> None:
        """ValueError for a value beyond its bounds, and for the relations that do not hold, with their numbers."""
        for name, value in values.items():
            self._check(name, value)
        broken = self.broken(values)
        if broken:
            known = {**self.fixed, **values}
            raise ValueError("; ".join(f"{relation.explained(known)}, which must hold" for relation in broken))

    def broken(self, values: Mapping[str, int]) -> tuple[Relation, ...]:
        """The relations that these values of the parameters do not keep to."""
        known = {**self.fixed, **values}
        return tuple(relation for relation in self.relations if not relation.holds(known))

    def _check(self, name: str, value: int) -> None:
        parameter = self.parameters[name]
        if not parameter.holds(value):
            frozen = ", where it is frozen" if parameter.is_frozen else ""
            raise ValueError(
                f"{name} is {value}, beyond {parameter.least} to {parameter.greatest} {parameter.unit}{frozen}"
            )


class ParameterBook:
    """The parameters over one state under execution."""

    def __init__(self, table: ParameterTable, overlay: Overlay) -> None:
        self._table = table
        self._overlay = overlay

    def changed(self) -> dict[str, int]:
        """Every value by name, with the changes of this block."""
        return {name: self._stored(item) for name, item in self._table.items.items()}

    def broken_by(self, parameter: Parameter[Any], value: int) -> tuple[Relation, ...]:
        """The relations that would not hold if a parameter had this value beside what this block changed before."""
        return self._table.broken({**self.changed(), parameter.name: value})

    def change(self, parameter: Parameter[Any], value: int) -> int:
        """Write a value, which holds from the next block on; the value before."""
        assert parameter.holds(value), "a value lies within its bounds"
        assert not parameter.is_frozen, "a frozen parameter has one value"
        item = self._table.items[parameter.name]
        before = self._stored(item)
        self._overlay.store(item.prefix, item.value_codec.encode(value), value)
        return before

    def _stored(self, item: StorageValue[Any]) -> int:
        value: int | None = self._overlay.load(item.prefix, item.decode)
        return int(item.default) if value is None else value
