"""The form of a change of a parameter: its name and the value that it shall have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from runtime.frame.parameter import Parameter, ParameterChange
from wallet.calls.form import ArgumentForm, ArgumentPlace, Style

NEAR = 0.6
"""How alike a name must be to be offered instead."""


@dataclass(frozen=True, slots=True)
class DeclaredParameter:
    """A parameter, and how its values are written."""

    declaration: Parameter[Any]
    form: ArgumentForm


@dataclass(frozen=True)
class ParameterForm:
    """`{"Pallet.parameter": value}`."""

    of: Mapping[str, DeclaredParameter]

    type_name = "parameter"
    is_structured = True
    how_to_write = 'JSON: {"Pallet.parameter": value}'
    sketch = '{"Pallet.parameter": value}'

    def read(self, given: Any, place: ArgumentPlace) -> ParameterChange:
        """The parameter by its name, and its value in that one's form."""
        if not isinstance(given, dict) or len(given) != 1:
            place.refuse(self, given, f"write {self.sketch}")
        ((name, value),) = given.items()
        if name not in self.of:
            near = get_close_matches(name, self.of, n=1, cutoff=NEAR)
            meant = f"; did you mean {near[0]}?" if near else ""
            place.refuse(self, name, f"there is no such parameter{meant}")
        known = self.of[name]
        return ParameterChange(known.declaration, known.form.read(value, place.inside(f".{name}")))

    def written(self, value: ParameterChange, style: Style) -> dict[str, Any]:
        """The value under the parameter's name."""
        name = value.parameter.name
        return {name: self.of[name].form.written(value.value, style)}
