"""All parameters of a runtime together: by name, at genesis, and in a state.

Invariant: changes by a book stay within bounds and break no relation. `changed` values include the block under
execution, whose pallets still use the old ones.
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
    """The parameters of a runtime with their compiled items, and the relations between them and its constants."""

    parameters: Mapping[str, Parameter[Any]]
    items: Mapping[str, StorageValue[Any]]
    fixed: Mapping[str, int]
    """The other numbers that relations may name: numeric constants, and numbers of consensus."""
    relations: Sequence[Relation] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a default out of bounds, or a relation about an undeclared number."""
        for name, item in self.items.items():
            self._check(name, item.default)
        # At start, so that a misspelt relation cannot pass for one that holds.
        known = {**self.items, **self.fixed}
        unknown = [
            f"{relation.name}: {name}" for relation in self.relations for name in relation.names() if name not in known
        ]
        if unknown:
            raise ValueError(f"no such number: {'; '.join(unknown)}")

    def values_at_genesis(self, given: Mapping[str, int]) -> dict[str, int]:
        """Return every parameter by name: as `given`, else the chain's default.

        Raise ValueError for an unknown name or a value out of bounds.
        """
        unknown = [name for name in given if name not in self.parameters]
        if unknown:
            texts = (f"{name}, which is a constant" if name in self.fixed else name for name in unknown)
            raise ValueError(f"no such parameter: {'; '.join(texts)}")
        for name, value in given.items():
            self._check(name, value)
        return {name: given.get(name, item.default) for name, item in self.items.items()}

    def genesis(self, given: Mapping[str, int]) -> dict[bytes, bytes]:
        """Return the entries of block 0. Raise ValueError if a value is out of bounds or breaks a relation."""
        values = self.values_at_genesis(given)
        self.check(values)
        return {self.items[name].prefix: self.items[name].value_codec.encode(value) for name, value in values.items()}

    def check(self, values: Mapping[str, int]) -> None:
        """Raise ValueError for a value out of bounds, and for broken relations, with their numbers."""
        for name, value in values.items():
            self._check(name, value)
        broken = self.broken(values)
        if broken:
            known = {**self.fixed, **values}
            raise ValueError("; ".join(f"{relation.explained(known)}, which must hold" for relation in broken))

    def broken(self, values: Mapping[str, int]) -> tuple[Relation, ...]:
        """Return the relations that these values of the parameters break."""
        known = {**self.fixed, **values}
        return tuple(relation for relation in self.relations if not relation.holds(known))

    def _check(self, name: str, value: int) -> None:
        parameter = self.parameters[name]
        if not parameter.holds(value):
            frozen = "(frozen)" if parameter.is_frozen else ""
            raise ValueError(
                f"{name} is {value}, outside {parameter.least} to {parameter.greatest} {parameter.unit}{frozen}"
            )


class ParameterBook:
    """The parameters over one state under execution."""

    def __init__(self, table: ParameterTable, overlay: Overlay) -> None:
        self._table = table
        self._overlay = overlay

    def changed(self) -> dict[str, int]:
        """Return every value by name, with the changes of this block."""
        return {name: self._stored(item) for name, item in self._table.items.items()}

    def broken_by(self, parameter: Parameter[Any], value: int) -> tuple[Relation, ...]:
        """Return the relations that would break if a parameter had this value, beside this block's earlier changes."""
        return self._table.broken({**self.changed(), parameter.name: value})

    def change(self, parameter: Parameter[Any], value: int) -> int:
        """Write a value, which takes effect with the next block. Return the previous value."""
        # The call has checked both, and names the error to its sender.
        assert parameter.holds(value), "a value lies within its bounds"
        assert not parameter.is_frozen, "a frozen parameter has one value"
        item = self._table.items[parameter.name]
        previous = self._stored(item)
        self._overlay.store(item.prefix, item.value_codec.encode(value), value)
        return previous

    def _stored(self, item: StorageValue[Any]) -> int:
        value: int | None = self._overlay.load(item.prefix, item.decode)
        return int(item.default) if value is None else value
