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
def arguments_of(call_method: CallMethod[Any, Any, Any]) -> tuple[Argument, ...]:
    """Return the arguments of a call, in order."""
    # A trailing underscore only avoids one of Python's keywords, as in `from_`.
    return tuple(
        Argument(argument_name.rstrip("_"), form_of(type_hint))
        for argument_name, type_hint in call_method.hints().items()
    )


def written_arguments(call: Call, style: Style) -> dict[str, Any]:
    """Return the arguments of a call by name, as JSON values."""
    argument_values = zip(arguments_of(call.method), call.arguments, strict=True)
    return {argument.name: argument.form.written(argument_value, style) for argument, argument_value in argument_values}


@dataclass(frozen=True)
class CallForm:
    """A call inside a call. Its arguments have the forms of its own declaration."""

    type_name = "call"
    is_structured = True
    how_to_write = 'JSON: {"Pallet.call": {"argument": value}}'
    sketch = '{"Pallet.call": {"argument": value}}'

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> Call:
        """Return the named call; its arguments are an object or a list."""
        if not isinstance(json_value, dict) or len(json_value) != 1:
            argument_place.refuse(self, json_value, f"write {self.sketch}")
        ((call_name, arguments),) = json_value.items()
        return argument_place.call(call_name, arguments, argument_place.inside(f".{call_name}"))

    def written(self, nested_call: Call, style: Style) -> dict[str, Any]:
        """Return the call under its name, with its arguments under theirs."""
        return {nested_call.name: written_arguments(nested_call, style)}


def form_of(annotation: Any) -> ArgumentForm:
    """Return the form of a declared type. Raise TypeError if the type has no form."""
    if annotation == MultiAddress:
        return AccountForm("account")
    generic_origin = get_origin(annotation)
    if generic_origin is Annotated:
        plain_type, *annotations = get_args(annotation)
        return _marked(plain_type, annotations)
    if generic_origin in (Union, UnionType):
        return _optional(annotation)
    if generic_origin is tuple:
        return TupleForm(tuple(form_of(member_type) for member_type in get_args(annotation)))
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
    parameters_by_name = {}
    for pallet in PALLETS:
        type_hints = pallet.hints()
        for attribute, parameter in pallet.parameters.items():
            parameters_by_name[parameter.name] = DeclaredParameter(
                parameter, form_of(get_args(type_hints[attribute])[0])
            )
    return parameters_by_name


@lru_cache(maxsize=1)
def _constants() -> frozenset[str]:
    """Return the name of every constant of the chain."""
    return frozenset(f"{pallet.__name__}.{constant_name}" for pallet in PALLETS for constant_name in pallet.constants)


def _optional(annotation: Any) -> ArgumentForm:
    other_types = [member_type for member_type in get_args(annotation) if member_type is not NoneType]
    if len(other_types) != 1:
        raise TypeError(f"{annotation!r}: mark a union of variants with Tagged")
    return OptionalForm(form_of(other_types[0]))


def _marked(plain_type: Any, annotations: Sequence[Any]) -> ArgumentForm:
    shape_types = (UInt, Compact, Fixed, Bounded, Sorted, Tagged)
    shape_mark = next((annotation for annotation in annotations if isinstance(annotation, shape_types)), None)
    type_name = next((annotation.text for annotation in annotations if isinstance(annotation, TypeName)), "")
    match shape_mark:
        case UInt(size_bytes) | Compact(size_bytes):
            return (
                AmountForm(type_name, size_bytes)
                if type_name == AMOUNT
                else WholeForm(type_name or f"u{8 * size_bytes}", size_bytes)
            )
        case Fixed(length_bytes):
            return (
                AccountForm("account")
                if type_name == ACCOUNT
                else FixedBytesForm(type_name or f"[u8; {length_bytes}]", length_bytes)
            )
        case Bounded(maximum) if plain_type is bytes:
            return BytesForm("bytes", maximum)
        case Bounded(maximum) if plain_type is str:
            return TextForm("text", maximum)
        case Bounded(maximum) | Sorted(maximum):
            return ListForm(form_of(get_args(plain_type)[0]), maximum)
        case Tagged():
            # A closed union names its variants, an open one gets them from pallets, and a single class is its own.
            variant_types = get_args(plain_type) or _alternatives(plain_type) or (plain_type,)
            return UnionForm(tuple(_structure(variant, variant.__variant_name__) for variant in variant_types))
        case _:
            return form_of(plain_type)


def _alternatives(union: type) -> tuple[Any, ...]:
    """Return the variants that the chain's pallets add to an open union."""
    return tuple(
        variant_type for pallet in PALLETS for variant_type in pallet.variants if issubclass(variant_type, union)
    )


def _structure(declared: Any, structure_name: str) -> StructureForm:
    type_hints = get_type_hints(declared, include_extras=True)
    members = tuple((field.name.rstrip("_"), form_of(type_hints[field.name])) for field in fields(declared))
    return StructureForm(structure_name, declared, members)
