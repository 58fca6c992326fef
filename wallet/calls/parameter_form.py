"""The form of a parameter's change: its name and its new value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from runtime.frame.parameter import Parameter, ParameterChange
from wallet.calls.form import ArgumentForm, ArgumentPlace, Style

NEAR = 0.6
"""The least similarity of a name that is suggested."""


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

    def read(self, given: Any, place: ArgumentPlace) -> ParameterChange:
        """Return the change of a named parameter, with the value in the parameter's form."""
        if not isinstance(given, dict) or len(given) != 1:
            place.refuse(self, given, f"write {self.sketch}")
        ((name, value),) = given.items()
        name = self.named(name, place)
        known = self.of[name]
        return ParameterChange(known.declaration, known.form.read(value, place.inside(f".{name}")))

    def named(self, name: str, place: ArgumentPlace) -> str:
        """Return the full name of a parameter, from that or from its unambiguous part after the pallet's name."""
        if name in self.of:
            return name
        # The name alone is enough while only one pallet has a parameter of that name.
        meant = [full for full in self.of if full.rpartition(".")[2] == name]
        if len(meant) == 1:
            return meant[0]
        if meant:
            place.refuse(self, name, f"several pallets have one: {', '.join(meant)}")
        # A constant exists, so "no such parameter" would mislead.
        fixed = [full for full in self.constants if name in {full, full.rpartition(".")[2]}]
        if fixed:
            place.refuse(self, name, f"{', '.join(sorted(fixed))} is a constant: the genesis fixes it")
        near = get_close_matches(name, self.of, n=1, cutoff=NEAR)
        return place.refuse(self, name, f"there is no such parameter{f'; did you mean {near[0]}?' if near else ''}")

    def written(self, value: ParameterChange, style: Style) -> dict[str, Any]:
        """Return the value under the parameter's name."""
        name = value.parameter.name
        return {name: self.of[name].form.written(value.value, style)}
