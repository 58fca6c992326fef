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

    def read(self, given: Any, place: ArgumentPlace) -> Any:
        """Return the value, or None for null."""
        # `null` also as a word: the command line has no JSON null.
        return None if given in (None, "null") else self.of.read(given, place)

    def written(self, value: Any, style: Style) -> Any:
        """Return the value, or null."""
        return None if value is None else self.of.written(value, style)


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

    def read(self, given: Any, place: ArgumentPlace) -> tuple[Any, ...]:
        """Return the value of each item."""
        if not isinstance(given, list):
            place.refuse(self, given, f"write a {self.how_to_write}")
        if len(given) > self.limit:
            place.refuse(self, given, f"at most {self.limit} are allowed, these are {len(given)}")
        return tuple(self.of.read(item, place.inside(f"[{number}]")) for number, item in enumerate(given))

    def written(self, value: tuple[Any, ...], style: Style) -> list[Any]:
        """Return the text of each item."""
        return [self.of.written(item, style) for item in value]


@dataclass(frozen=True)
class TupleForm:
    """A list with one item for each form."""

    of: tuple[ArgumentForm, ...]

    is_structured = True

    @property
    def type_name(self) -> str:
        """The types in brackets."""
        return f"({', '.join(part.type_name for part in self.of)})"

    @property
    def how_to_write(self) -> str:
        """The sketch."""
        return f"JSON: {self.sketch}"

    @property
    def sketch(self) -> str:
        """Each part."""
        return f"[{', '.join(part.sketch for part in self.of)}]"

    def read(self, given: Any, place: ArgumentPlace) -> tuple[Any, ...]:
        """Return each item's value by its form."""
        if not isinstance(given, list) or len(given) != len(self.of):
            place.refuse(self, given, f"write a JSON list {self.sketch}")
        pairs = enumerate(zip(self.of, given, strict=True))
        return tuple(part.read(item, place.inside(f"[{number}]")) for number, (part, item) in pairs)

    def written(self, value: tuple[Any, ...], style: Style) -> list[Any]:
        """Return each item's text by its form."""
        return [part.written(item, style) for part, item in zip(self.of, value, strict=True)]


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
        return "{" + ", ".join(f'"{name}": {part.sketch}' for name, part in self.members) + "}"

    def read(self, given: Any, place: ArgumentPlace) -> Any:
        """Return the structure from all members and no others; optional members may be missing."""
        if not isinstance(given, dict):
            place.refuse(self, given, f"write a JSON object {self.sketch}")
        names = [name for name, _ in self.members]
        unknown = [name for name in given if name not in names]
        missing = [name for name, part in self.members if name not in given and not isinstance(part, OptionalForm)]
        # An unknown member may be a misspelt optional one, which would otherwise silently be null.
        if unknown:
            place.refuse(self, given, f"it has no member {unknown[0]!r}; there are {', '.join(names) or 'none'}")
        if missing:
            place.refuse(self, given, f"it lacks {', '.join(missing)}")
        return self.make(*(part.read(given.get(name), place.inside(f".{name}")) for name, part in self.members))

    def written(self, value: Any, style: Style) -> dict[str, Any]:
        """Return the members by name."""
        # The attributes' own names, because members drop a trailing underscore.
        attributes = type(value).__match_args__
        pairs = zip(attributes, self.members, strict=True)
        return {name: part.written(getattr(value, attribute), style) for attribute, (name, part) in pairs}


@dataclass(frozen=True)
class UnionForm:
    """One of several structures: `{"Name": {members}}`, or the bare name if it has no members."""

    of: tuple[StructureForm, ...]

    is_structured = True

    @property
    def type_name(self) -> str:
        """The alternatives."""
        return " or ".join(each.type_name for each in self.of)

    @property
    def how_to_write(self) -> str:
        """The sketch."""
        return f"JSON: {self.sketch}"

    @property
    def sketch(self) -> str:
        """Each alternative."""
        return " or ".join(_alternative(each) for each in self.of)

    def read(self, given: Any, place: ArgumentPlace) -> Any:
        """Return the named alternative."""
        if isinstance(given, str):
            # A bare name means an alternative without members.
            given = {given: {}}
        known = {each.type_name: each for each in self.of}
        if not isinstance(given, dict) or len(given) != 1 or not known.keys() & given.keys():
            place.refuse(self, given, f"write {self.sketch}")
        ((name, members),) = given.items()
        return known[name].read(members, place.inside(f".{name}"))

    def written(self, value: Any, style: Style) -> Any:
        """Return the alternative under its name."""
        taken = next(each for each in self.of if each.make is type(value))
        return {taken.type_name: taken.written(value, style)} if taken.members else taken.type_name


def _alternative(form: StructureForm) -> str:
    return f'{{"{form.type_name}": {form.sketch}}}' if form.members else f'"{form.type_name}"'
