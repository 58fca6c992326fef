"""The declared methods: each one beside its code, by `@method` or `@subscription`.

A handler's annotations are its parameters: `HashParameter`, `Hex`, `int`, `str`, lists of these, and `| None` for
optional ones. They are converted here, so a handler never sees a malformed value, and a client always learns which
parameter was wrong.
"""

from __future__ import annotations

import binascii
import inspect
import types
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NewType, TypeVar

from node.rpc.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Json, JsonRpcError

HashParameter = NewType("HashParameter", bytes)
"""32 bytes in hexadecimal."""
Hex = NewType("Hex", bytes)
"""Bytes in hexadecimal, with or without 0x: some public clients omit it."""

F = TypeVar("F", bound=Callable[..., Any])
Converter = Callable[[Json], Any]


class Safety(Enum):
    """The callers that a method allows: all of them, or only the operator on this machine."""

    SAFE = "safe"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True)
class Declaration:
    """A decorator's mark on a handler."""

    names: tuple[str, ...]
    safety: Safety
    notification: str | None = None
    unsubscribe: tuple[str, ...] = ()
    batch: str | None = None


@dataclass(frozen=True, slots=True)
class RpcMethod:
    """A method ready to be called; `notification` names the items of a subscription.

    `batch` takes the arguments of several calls, and returns for each its result or a `JsonRpcError`.
    """

    name: str
    handler: Callable[..., Any]
    parameters: tuple[tuple[str, Converter, bool], ...]
    safety: Safety
    notification: str | None
    batch: Callable[[list[list[Any]]], Awaitable[list[Json | JsonRpcError]]] | None = None

    def arguments(self, params: list[Json] | dict[str, Json]) -> list[Any]:
        """Convert JSON params, positional or by name, to the handler's arguments.

        Raise `JsonRpcError` if one is wrong.
        """
        if isinstance(params, dict):
            unknown_names = sorted(set(params) - {name for name, _, _ in self.parameters})
            if unknown_names:
                raise JsonRpcError(
                    INVALID_PARAMS, "Invalid params", f"{self.name} has no parameter {unknown_names[0]!r}"
                )
            params = [params.get(name) for name, _, _ in self.parameters]
        if len(params) > len(self.parameters):
            raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"{self.name} takes {len(self.parameters)} parameters")
        padded_params = [*params, *[None] * (len(self.parameters) - len(params))]
        return [
            self._converted(value, *parameter) for value, parameter in zip(padded_params, self.parameters, strict=True)
        ]

    def _converted(self, value: Json, name: str, converter: Converter, is_optional: bool) -> Any:
        if value is None and is_optional:
            return None
        try:
            return converter(value)
        except (ValueError, TypeError) as error:
            raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"{self.name}: {name}: {error}") from None


class Registry:
    """The methods by name, and the names that end a subscription."""

    def __init__(self, owners: Iterable[object] = ()) -> None:
        """Create it with every declared method of `owners`."""
        self.methods: dict[str, RpcMethod] = {}
        self.unsubscribers: set[str] = set()
        for owner in owners:
            self.collect(owner)

    def collect(self, owner: object) -> None:
        """Add every declared method of an object; a name that is declared twice is a bug."""
        for _, handler in inspect.getmembers(owner, callable):
            declaration = getattr(handler, "rpc", None)
            if isinstance(declaration, Declaration):
                batch_handler = getattr(owner, declaration.batch) if declaration.batch else None
                self._add_method(handler, declaration, batch_handler)

    def find(self, name: str, *, unsafe_allowed: bool) -> RpcMethod:
        """Return the method of this name; an unsafe one is hidden from callers without the right to it."""
        method = self.methods.get(name)
        if method is None or (method.safety is Safety.UNSAFE and not unsafe_allowed):
            # The answer repeats a stranger's text, so it is cut.
            raise JsonRpcError(METHOD_NOT_FOUND, "Method not found", name[:128])
        return method

    def names(self) -> list[str]:
        """Return every name that a client may call, in order."""
        return sorted([*self.methods, *self.unsubscribers])

    def _add_method(
        self, handler: Callable[..., Any], declaration: Declaration, batch_handler: Callable[..., Any] | None = None
    ) -> None:
        parameters = _parameters(handler)
        for method in declaration.names:
            if method in self.methods:
                raise ValueError(f"RPC method {method} is declared twice")
            self.methods[method] = RpcMethod(
                method, handler, parameters, declaration.safety, declaration.notification, batch_handler
            )
        self.unsubscribers.update(declaration.unsubscribe)


def method(*method_names: str, safety: Safety = Safety.SAFE, batch_name: str | None = None) -> Callable[[F], F]:
    """Declare a request under one name and its aliases; `batch_name` names the method that answers several at once."""

    def mark(handler: F) -> F:
        handler.rpc = Declaration(method_names, safety, batch=batch_name)  # type: ignore[attr-defined]  # a mark for Registry
        return handler

    return mark


def subscription(*method_names: str, notification: str, unsubscribe: tuple[str, ...]) -> Callable[[F], F]:
    """Declare a subscription; its handler is an async generator of the items."""

    def mark(handler: F) -> F:
        handler.rpc = Declaration(method_names, Safety.SAFE, notification, unsubscribe)  # type: ignore[attr-defined]  # a mark
        return handler

    return mark


MethodHandler = Callable[..., Json | Awaitable[Json] | AsyncIterator[Json]]


def _parameters(handler: Callable[..., Any]) -> tuple[tuple[str, Converter, bool], ...]:
    hints = typing.get_type_hints(handler)
    return tuple((name, *_converter(hints[name])) for name in inspect.signature(handler).parameters)


def _converter(hint: Any) -> tuple[Converter, bool]:
    """Return the converter for an annotation, and whether the parameter is optional."""
    if typing.get_origin(hint) in {types.UnionType, typing.Union}:
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        converters = [_converter(kind)[0] for kind in kinds]
        return _first_that_fits(converters), len(kinds) < len(typing.get_args(hint))
    if typing.get_origin(hint) is list:
        return _list_of(_converter(typing.get_args(hint)[0])[0]), False
    return _CONVERTERS[hint], False


def _first_that_fits(converters: list[Converter]) -> Converter:
    def convert(value: Json) -> Any:
        for converter in converters[:-1]:
            try:
                return converter(value)
            except (ValueError, TypeError):
                continue
        return converters[-1](value)

    return convert


def _list_of(converter: Converter) -> Converter:
    def convert(value: Json) -> list[Any]:
        if not isinstance(value, list):
            raise TypeError("not a list")
        return [converter(item) for item in value]

    return convert


def _to_hex(value: Json) -> bytes:
    if not isinstance(value, str):
        raise TypeError("not a hexadecimal string")
    try:
        return binascii.unhexlify(value.removeprefix("0x"))
    except ValueError as error:  # an odd number of digits, or other characters
        raise ValueError(f"not a hexadecimal string: {str(error)[:100]}") from None


def _to_hash(value: Json) -> bytes:
    hash_bytes = _to_hex(value)
    if len(hash_bytes) != 32:
        raise ValueError("not 32 bytes")
    return hash_bytes


def _to_int(value: Json) -> int:
    # 0x and at most 16 digits: a u64.
    if isinstance(value, str) and value.startswith("0x") and len(value) <= 18:
        return int(value, 16)
    # An exact type: True is an int in Python.
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise TypeError("not a number from 0 to 2^64-1")
    return value


def _to_str(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _to_bool(value: Json) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not true or false")
    return value


_CONVERTERS: dict[Any, Converter] = {HashParameter: _to_hash, Hex: _to_hex, int: _to_int, str: _to_str, bool: _to_bool}
