"""The form of a declared type: the annotations of `@call` methods, read for people.

Invariant: every argument of every call of this chain has a form (a test checks all of them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from genesis.chain import PALLETS
from runtime.encoding.marks import Bounded, Compact, Fixed, Sorted, Tagged, TypeName, UInt
from runtime.encoding.types import MultiAddress
from runtime.frame.call import Call, CallMethod
from runtime.frame.parameter import ParameterChange
from wallet.calls.form import ArgumentForm, ArgumentPlace, Style
from wallet.calls.nested_forms import ListForm, OptionalForm, StructureForm, TupleForm, UnionForm
from wallet.calls.parameter_form import DeclaredParameter, ParameterForm
from wallet.calls.plain_forms import (
    AccountForm,
    AmountForm,
    BytesForm,
    ChoiceForm,
    FixedBytesForm,
    FlagForm,
    TextForm,
    WholeForm,
)

AMOUNT = "Balance"
ACCOUNT = "AccountId"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call."""

    name: str
    form: ArgumentForm


@lru_cache(maxsize=512)
def arguments_of(method: CallMethod[Any, Any, Any]) -> tuple[Argument, ...]:
    """Return the arguments of a call, in order."""
    # A trailing underscore only avoids one of Python's keywords, as in `from_`.
    return tuple(Argument(name.rstrip("_"), form_of(hint)) for name, hint in method.hints().items())


def written_arguments(call: Call, style: Style) -> dict[str, Any]:
    """Return the arguments of a call by name, as JSON values."""
    pairs = zip(arguments_of(call.method), call.arguments, strict=True)
    return {argument.name: argument.form.written(value, style) for argument, value in pairs}


@dataclass(frozen=True)
class CallForm:
    """A call inside a call. Its arguments have the forms of its own declaration."""

    type_name = "call"
    is_structured = True
    how_to_write = 'JSON: {"Pallet.call": {"argument": value}}'
    sketch = '{"Pallet.call": {"argument": value}}'

    def read(self, given: Any, place: ArgumentPlace) -> Call:
        """Return the named call; its arguments are an object or a list."""
        if not isinstance(given, dict) or len(given) != 1:
            place.refuse(self, given, f"write {self.sketch}")
        ((name, arguments),) = given.items()
        return place.call(name, arguments, place.inside(f".{name}"))

    def written(self, value: Call, style: Style) -> dict[str, Any]:
        """Return the call under its name, with its arguments under theirs."""
        return {value.name: written_arguments(value, style)}


def form_of(annotation: Any) -> ArgumentForm:
    """Return the form of a declared type. Raise TypeError if the type has no form."""
    if annotation == MultiAddress:
        return AccountForm("account")
    origin = get_origin(annotation)
    if origin is Annotated:
        plain, *marks = get_args(annotation)
        return _marked(plain, marks)
    if origin in (Union, UnionType):
        return _optional(annotation)
    if origin is tuple:
        return TupleForm(tuple(form_of(part) for part in get_args(annotation)))
    if annotation is bool:
        return FlagForm("bool")
    if annotation is Call:
        return CallForm()
    if annotation is ParameterChange:
        return ParameterForm(_parameters(), _constants())
    if isinstance(annotation, type) and issubclass(annotation, IntEnum):
        return ChoiceForm(annotation.__name__, annotation)
    if isinstance(annotation, type) and is_dataclass(annotation):
        return _structure(annotation, annotation.__name__)
    raise TypeError(f"{annotation!r} has no form that a person could type")


@lru_cache(maxsize=1)
def _parameters() -> dict[str, DeclaredParameter]:
    """Return every parameter of the chain by name, with the form of its value."""
    found = {}
    for pallet in PALLETS:
        hints = pallet.hints()
        for attribute, parameter in pallet.parameters.items():
            found[parameter.name] = DeclaredParameter(parameter, form_of(get_args(hints[attribute])[0]))
    return found


@lru_cache(maxsize=1)
def _constants() -> frozenset[str]:
    """Return the name of every constant of the chain."""
    return frozenset(f"{pallet.__name__}.{name}" for pallet in PALLETS for name in pallet.constants)


def _optional(annotation: Any) -> ArgumentForm:
    rest = [part for part in get_args(annotation) if part is not NoneType]
    if len(rest) != 1:
        raise TypeError(f"{annotation!r}: mark a union of variants with Tagged")
    return OptionalForm(form_of(rest[0]))


def _marked(plain: Any, marks: Sequence[Any]) -> ArgumentForm:
    kinds = (UInt, Compact, Fixed, Bounded, Sorted, Tagged)
    shape = next((mark for mark in marks if isinstance(mark, kinds)), None)
    name = next((mark.text for mark in marks if isinstance(mark, TypeName)), "")
    match shape:
        case UInt(size) | Compact(size):
            return AmountForm(name, size) if name == AMOUNT else WholeForm(name or f"u{8 * size}", size)
        case Fixed(length):
            return AccountForm("account") if name == ACCOUNT else FixedBytesForm(name or f"[u8; {length}]", length)
        case Bounded(limit) if plain is bytes:
            return BytesForm("bytes", limit)
        case Bounded(limit) if plain is str:
            return TextForm("text", limit)
        case Bounded(limit) | Sorted(limit):
            return ListForm(form_of(get_args(plain)[0]), limit)
        case Tagged():
            # A closed union names its variants, an open one gets them from pallets, and a single class is its own.
            classes = get_args(plain) or _alternatives(plain) or (plain,)
            return UnionForm(tuple(_structure(each, each.__variant_name__) for each in classes))
        case _:
            return form_of(plain)


def _alternatives(union: type) -> tuple[Any, ...]:
    """Return the variants that the chain's pallets add to an open union."""
    return tuple(kind for pallet in PALLETS for kind in pallet.variants if issubclass(kind, union))


def _structure(declared: Any, name: str) -> StructureForm:
    hints = get_type_hints(declared, include_extras=True)
    members = tuple((member.name.rstrip("_"), form_of(hints[member.name])) for member in fields(declared))
    return StructureForm(name, declared, members)
