"""The form of a parameter's change: its name and its new value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime.frame.parameter import Parameter, ParameterChange
from wallet.calls.form import ArgumentForm, ArgumentPlace, Style
from wallet.suggestions import suggestion


@dataclass(frozen=True, slots=True)
class DeclaredParameter:
    """A parameter, and the form of its values."""

    declaration: Parameter[Any]
    form: ArgumentForm


@dataclass(frozen=True)
class ParameterForm:
    """`{"Pallet.parameter": value}`."""

    of: Mapping[str, DeclaredParameter]
    constants: frozenset[str] = frozenset()
    """The chain's constants by name, which no call changes."""

    type_name = "parameter"
    is_structured = True
    how_to_write = 'JSON: {"Pallet.parameter": value}'
    sketch = '{"Pallet.parameter": value}'

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> ParameterChange:
        """Return the change of a named parameter, with the value in the parameter's form."""
        if not isinstance(json_value, dict) or len(json_value) != 1:
            argument_place.refuse(self, json_value, f"write {self.sketch}")
        ((parameter_name, new_value),) = json_value.items()
        parameter_name = self.named(parameter_name, argument_place)
        declared = self.of[parameter_name]
        return ParameterChange(
            declared.declaration, declared.form.read(new_value, argument_place.inside(f".{parameter_name}"))
        )

    def named(self, typed_name: str, argument_place: ArgumentPlace) -> str:
        """Return the full name of a parameter, from that or from its unambiguous part after the pallet's name."""
        if typed_name in self.of:
            return typed_name
        # The name alone is enough while only one pallet has a parameter of that name.
        matching_names = [full_name for full_name in self.of if full_name.rpartition(".")[2] == typed_name]
        if len(matching_names) == 1:
            return matching_names[0]
        if matching_names:
            argument_place.refuse(self, typed_name, f"several pallets have one: {', '.join(matching_names)}")
        # A constant exists, so "no such parameter" would mislead.
        constant_names = [
            full_name for full_name in self.constants if typed_name in {full_name, full_name.rpartition(".")[2]}
        ]
        if constant_names:
            argument_place.refuse(
                self, typed_name, f"{', '.join(sorted(constant_names))} is a constant: the genesis fixes it"
            )
        similar_name = suggestion(typed_name, self.of)
        return argument_place.refuse(
            self,
            typed_name,
            f"there is no such parameter{f'; did you mean {similar_name}?' if similar_name else ''}",
        )

    def written(self, parameter_change: ParameterChange, style: Style) -> dict[str, Any]:
        """Return the value under the parameter's name."""
        parameter_name = parameter_change.parameter.name
        return {parameter_name: self.of[parameter_name].form.written(parameter_change.value, style)}
