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
        for number_name, storage_item in self.items.items():
            self._check(number_name, storage_item.default)
        # At start, so that a misspelt relation cannot pass for one that holds.
        known_numbers = {**self.items, **self.fixed}
        unknown_names = [
            f"{relation.name}: {number_name}"
            for relation in self.relations
            for number_name in relation.names()
            if number_name not in known_numbers
        ]
        if unknown_names:
            raise ValueError(f"no such number: {'; '.join(unknown_names)}")

    def values_at_genesis(self, given_values: Mapping[str, int]) -> dict[str, int]:
        """Return every parameter by name: as `given_values`, else the chain's default.

        Raise ValueError for an unknown name or a value out of bounds.
        """
        unknown_names = [parameter_name for parameter_name in given_values if parameter_name not in self.parameters]
        if unknown_names:
            unknown_texts = (
                f"{parameter_name}, which is a constant" if parameter_name in self.fixed else parameter_name
                for parameter_name in unknown_names
            )
            raise ValueError(f"no such parameter: {'; '.join(unknown_texts)}")
        for parameter_name, given_value in given_values.items():
            self._check(parameter_name, given_value)
        return {
            parameter_name: given_values.get(parameter_name, storage_item.default)
            for parameter_name, storage_item in self.items.items()
        }

    def genesis(self, given_values: Mapping[str, int]) -> dict[bytes, bytes]:
        """Return the entries of block 0. Raise ValueError if a value is out of bounds or breaks a relation."""
        genesis_values = self.values_at_genesis(given_values)
        self.check(genesis_values)
        return {
            self.items[parameter_name].prefix: self.items[parameter_name].value_codec.encode(genesis_value)
            for parameter_name, genesis_value in genesis_values.items()
        }

    def check(self, values: Mapping[str, int]) -> None:
        """Raise ValueError for a value out of bounds, and for broken relations, with their numbers."""
        for parameter_name, parameter_value in values.items():
            self._check(parameter_name, parameter_value)
        broken_relations = self.broken(values)
        if broken_relations:
            known_numbers = {**self.fixed, **values}
            raise ValueError(
                "; ".join(f"{relation.explained(known_numbers)}, which must hold" for relation in broken_relations)
            )

    def broken(self, values: Mapping[str, int]) -> tuple[Relation, ...]:
        """Return the relations that these values of the parameters break."""
        known_numbers = {**self.fixed, **values}
        return tuple(relation for relation in self.relations if not relation.holds(known_numbers))

    def _check(self, parameter_name: str, parameter_value: int) -> None:
        parameter = self.parameters[parameter_name]
        if not parameter.holds(parameter_value):
            frozen_text = "(frozen)" if parameter.is_frozen else ""
            raise ValueError(
                f"{parameter_name} is {parameter_value}, outside {parameter.least} to {parameter.greatest} "
                f"{parameter.unit}{frozen_text}"
            )


class ParameterBook:
    """The parameters over one state under execution."""

    def __init__(self, table: ParameterTable, overlay: Overlay) -> None:
        self._table = table
        self._overlay = overlay

    def changed(self) -> dict[str, int]:
        """Return every value by name, with the changes of this block."""
        return {
            parameter_name: self._stored(storage_item) for parameter_name, storage_item in self._table.items.items()
        }

    def broken_by(self, parameter: Parameter[Any], new_value: int) -> tuple[Relation, ...]:
        """Return the relations that would break if a parameter had this value, beside this block's earlier changes."""
        return self._table.broken({**self.changed(), parameter.name: new_value})

    def change(self, parameter: Parameter[Any], new_value: int) -> int:
        """Write a value, which takes effect with the next block. Return the previous value."""
        # The call has checked both, and names the error to its sender.
        assert parameter.holds(new_value), "a value lies within its bounds"
        assert not parameter.is_frozen, "a frozen parameter has one value"
        storage_item = self._table.items[parameter.name]
        previous_value = self._stored(storage_item)
        self._overlay.store(storage_item.prefix, storage_item.value_codec.encode(new_value), new_value)
        return previous_value

    def _stored(self, storage_item: StorageValue[Any]) -> int:
        stored_value: int | None = self._overlay.load(storage_item.prefix, storage_item.decode)
        return int(storage_item.default) if stored_value is None else stored_value
