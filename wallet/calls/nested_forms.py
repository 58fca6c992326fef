"""Forms with parts, in JSON: options, lists, tuples, structures, unions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wallet.calls.form import ArgumentForm, ArgumentPlace, Style


@dataclass(frozen=True)
class OptionalForm:
    """A value, or null."""

    of: ArgumentForm

    @property
    def type_name(self) -> str:
        """The type of the value, or null."""
        return f"{self.of.type_name} or null"

    @property
    def how_to_write(self) -> str:
        """The value's instruction, or null."""
        return f"null, or {self.of.how_to_write}"

    @property
    def sketch(self) -> str:
        """The value's sketch, or null."""
        return f"{self.of.sketch} or null"

    @property
    def is_structured(self) -> bool:
        """True if the value's form is structured."""
        return self.of.is_structured

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> Any:
        """Return the value, or None for null."""
        # `null` also as a word: the command line has no JSON null.
        return None if json_value in (None, "null") else self.of.read(json_value, argument_place)

    def written(self, form_value: Any, style: Style) -> Any:
        """Return the value, or null."""
        return None if form_value is None else self.of.written(form_value, style)


@dataclass(frozen=True)
class ListForm:
    """A list of items of one form, up to a limit."""

    of: ArgumentForm
    limit: int

    is_structured = True

    @property
    def type_name(self) -> str:
        """The type of a list of the items."""
        return f"list of {self.of.type_name}"

    @property
    def how_to_write(self) -> str:
        """The limit and the items."""
        return f"JSON list of at most {self.limit}: {self.sketch}"

    @property
    def sketch(self) -> str:
        """A list with the first item's sketch."""
        return f"[{self.of.sketch}, ...]"

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> tuple[Any, ...]:
        """Return the value of each item."""
        if not isinstance(json_value, list):
            argument_place.refuse(self, json_value, f"write a {self.how_to_write}")
        if len(json_value) > self.limit:
            argument_place.refuse(self, json_value, f"at most {self.limit} are allowed, these are {len(json_value)}")
        return tuple(
            self.of.read(item_value, argument_place.inside(f"[{item_index}]"))
            for item_index, item_value in enumerate(json_value)
        )

    def written(self, list_items: tuple[Any, ...], style: Style) -> list[Any]:
        """Return the text of each item."""
        return [self.of.written(item_value, style) for item_value in list_items]


@dataclass(frozen=True)
class TupleForm:
    """A list with one item for each form."""

    of: tuple[ArgumentForm, ...]

    is_structured = True

    @property
    def type_name(self) -> str:
        """The types in brackets."""
        return f"({', '.join(member_form.type_name for member_form in self.of)})"

    @property
    def how_to_write(self) -> str:
        """The sketch."""
        return f"JSON: {self.sketch}"

    @property
    def sketch(self) -> str:
        """Each part."""
        return f"[{', '.join(member_form.sketch for member_form in self.of)}]"

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> tuple[Any, ...]:
        """Return each item's value by its form."""
        if not isinstance(json_value, list) or len(json_value) != len(self.of):
            argument_place.refuse(self, json_value, f"write a JSON list {self.sketch}")
        indexed_items = enumerate(zip(self.of, json_value, strict=True))
        return tuple(
            member_form.read(item_value, argument_place.inside(f"[{item_index}]"))
            for item_index, (member_form, item_value) in indexed_items
        )

    def written(self, tuple_items: tuple[Any, ...], style: Style) -> list[Any]:
        """Return each item's text by its form."""
        return [
            member_form.written(item_value, style) for member_form, item_value in zip(self.of, tuple_items, strict=True)
        ]


@dataclass(frozen=True)
class StructureForm:
    """A struct, or one alternative of a union: members by name, in the order of `make`'s arguments."""

    type_name: str
    make: type[Any]
    members: tuple[tuple[str, ArgumentForm], ...]

    is_structured = True

    @property
    def how_to_write(self) -> str:
        """The sketch."""
        return f"JSON: {self.sketch}"

    @property
    def sketch(self) -> str:
        """Each member."""
        return (
            "{" + ", ".join(f'"{member_name}": {member_form.sketch}' for member_name, member_form in self.members) + "}"
        )

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> Any:
        """Return the structure from all members and no others; optional members may be missing."""
        if not isinstance(json_value, dict):
            argument_place.refuse(self, json_value, f"write a JSON object {self.sketch}")
        member_names = [member_name for member_name, _ in self.members]
        unknown_names = [member_name for member_name in json_value if member_name not in member_names]
        missing_names = [
            member_name
            for member_name, member_form in self.members
            if member_name not in json_value and not isinstance(member_form, OptionalForm)
        ]
        # An unknown member may be a misspelt optional one, which would otherwise silently be null.
        if unknown_names:
            argument_place.refuse(
                self,
                json_value,
                f"it has no member {unknown_names[0]!r}; there are {', '.join(member_names) or 'none'}",
            )
        if missing_names:
            argument_place.refuse(self, json_value, f"it lacks {', '.join(missing_names)}")
        return self.make(
            *(
                member_form.read(json_value.get(member_name), argument_place.inside(f".{member_name}"))
                for member_name, member_form in self.members
            )
        )

    def written(self, form_value: Any, style: Style) -> dict[str, Any]:
        """Return the members by name."""
        # The attributes' own names, because members drop a trailing underscore.
        attributes = type(form_value).__match_args__
        member_values = zip(attributes, self.members, strict=True)
        return {
            member_name: member_form.written(getattr(form_value, attribute), style)
            for attribute, (member_name, member_form) in member_values
        }


@dataclass(frozen=True)
class UnionForm:
    """One of several structures: `{"Name": {members}}`, or the bare name if it has no members."""

    of: tuple[StructureForm, ...]

    is_structured = True

    @property
    def type_name(self) -> str:
        """The alternatives."""
        return " or ".join(alternative.type_name for alternative in self.of)

    @property
    def how_to_write(self) -> str:
        """The sketch."""
        return f"JSON: {self.sketch}"

    @property
    def sketch(self) -> str:
        """Each alternative."""
        return " or ".join(_alternative(alternative) for alternative in self.of)

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> Any:
        """Return the named alternative."""
        if isinstance(json_value, str):
            # A bare name means an alternative without members.
            json_value = {json_value: {}}
        alternatives = {alternative.type_name: alternative for alternative in self.of}
        if not isinstance(json_value, dict) or len(json_value) != 1 or not alternatives.keys() & json_value.keys():
            argument_place.refuse(self, json_value, f"write {self.sketch}")
        ((member_name, member_values),) = json_value.items()
        return alternatives[member_name].read(member_values, argument_place.inside(f".{member_name}"))

    def written(self, form_value: Any, style: Style) -> Any:
        """Return the alternative under its name."""
        chosen_form = next(alternative for alternative in self.of if alternative.make is type(form_value))
        return (
            {chosen_form.type_name: chosen_form.written(form_value, style)}
            if chosen_form.members
            else chosen_form.type_name
        )


def _alternative(structure_form: StructureForm) -> str:
    return (
        f'{{"{structure_form.type_name}": {structure_form.sketch}}}'
        if structure_form.members
        else f'"{structure_form.type_name}"'
    )
