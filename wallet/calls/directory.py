"""The calls of a chain by name, with their arguments; and suggestions for an unknown name.

It needs no node: the pallets' declarations hold everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from runtime.frame.call import CALL_DEPTH_MAX, Call, CallMethod
from runtime.frame.pallet import Pallet
from wallet.calls.declared import Argument, arguments_of
from wallet.calls.form import ArgumentPlace, read_word
from wallet.errors import CallInputError

NEAR = 0.6
"""The least similarity of a name that is suggested: difflib's own measure and default."""
Method = CallMethod[Any, Any, Any]


def full_name(method: Method) -> str:
    """Return the name with the pallet's: `Balances.transfer_keep_alive`."""
    return f"{method.pallet.__name__}.{method.name}"


def require_pallets(call: Call, pallets: Sequence[type[Pallet]], chain: str) -> None:
    """Raise CallInputError unless the chain has the pallets of a call, and of the calls inside it.

    A live chain has no Sudo pallet, so nobody can call as Root.
    """
    for each in _calls_in(call):
        pallet = each.method.pallet
        if pallet not in pallets:
            raise CallInputError(
                f"the chain {chain} has no pallet {pallet.__name__}, so it has no {each.name}", code="pallet_missing"
            )


def _calls_in(call: Call) -> Iterator[Call]:
    yield call
    for argument in call.arguments:
        for inner in argument if isinstance(argument, list | tuple) else (argument,):
            if isinstance(inner, Call):
                yield from _calls_in(inner)


class Directory:
    """The pallets of a chain; `account` returns the account of a text."""

    def __init__(self, pallets: Sequence[type[Pallet]], account: Callable[[str], bytes]) -> None:
        self._pallets = {pallet.__name__: pallet for pallet in pallets if pallet.methods}
        self._account = account

    def methods(self, pallet: str = "") -> Iterator[Method]:
        """Yield every call, or every call of one pallet. Raise CallInputError if there is no such pallet."""
        if pallet and pallet not in self._pallets:
            raise CallInputError(_unknown("pallet", pallet, list(self._pallets)), code="unknown_pallet")
        for name, declared in self._pallets.items():
            if pallet in ("", name):
                yield from declared.methods

    def find(self, name: str) -> Method:
        """Return the call `Pallet.call`. Raise CallInputError with similar names, and all names, if there is none."""
        pallet, dot, call = name.partition(".")
        if not dot:
            raise CallInputError(
                f"{name!r} is not a call. Write Pallet.call, such as Balances.transfer_keep_alive", code="unknown_call"
            )
        methods = {method.name: method for method in self.methods(pallet)}
        if call not in methods:
            raise CallInputError(_unknown(f"call of {pallet}", call, list(methods)), code="unknown_call")
        return methods[call]

    def build(self, method: Method, words: Sequence[str]) -> Call:
        """Return the call with words of a command line as arguments, each `value` or `name=value`."""
        given = _assigned(full_name(method), arguments_of(method), words)
        nested = self._nested_at(2)
        values = []
        for argument in arguments_of(method):
            place = ArgumentPlace(argument.name, self._account, nested)
            values.append(read_word(argument.form, given[argument.name], place))
        return Call(method, tuple(values))

    def _nested_at(self, depth: int) -> Callable[[str, Any, ArgumentPlace], Call]:
        """Return a reader of calls that are nested `depth` deep, the outermost call counted."""

        def nested(name: str, given: Any, place: ArgumentPlace) -> Call:
            # The chain decodes no deeper calls.
            if depth > CALL_DEPTH_MAX:
                raise CallInputError(
                    f"argument {place.where} (call): calls hold calls at most {CALL_DEPTH_MAX} deep", code="too_deep"
                )
            method = self.find(name)
            arguments = arguments_of(method)
            names = [argument.name for argument in arguments]
            if isinstance(given, list) and len(given) == len(names):
                given = dict(zip(names, given, strict=True))
            # A call that gets signed has no default arguments.
            if not isinstance(given, dict) or set(given) != set(names):
                wanted = _listed(arguments)
                raise CallInputError(
                    f"argument {place.where} (call): name all its arguments: {wanted}", code="wrong_arguments"
                )
            inner = replace(place, call=self._nested_at(depth + 1))
            values = [each.form.read(given[each.name], inner.inside(f".{each.name}")) for each in arguments]
            return Call(method, tuple(values))

        return nested


def _listed(arguments: Sequence[Argument]) -> str:
    return ", ".join(f"{argument.name}: {argument.form.type_name}" for argument in arguments) or "none"


def _assigned(call: str, arguments: Sequence[Argument], words: Sequence[str]) -> dict[str, str]:
    """Return the words by the name of their argument."""
    names = [each.name for each in arguments]
    wanted = _listed(arguments)
    given: dict[str, str] = {}
    in_order = []
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or name not in names:
            # A value may contain `=` itself, so only a name that is similar to an argument's is an error.
            near = get_close_matches(name, names, n=1, cutoff=NEAR) if sign else []
            if near:
                raise CallInputError(
                    f"{call} has no argument {name!r}. Did you mean {near[0]}? Its arguments are {wanted}",
                    code="unknown_argument",
                )
            in_order.append(word)
        elif name in given:
            raise CallInputError(f"argument {name} of {call} is given twice", code="argument_given_twice")
        else:
            given[name] = value
    free = [name for name in names if name not in given]
    if len(in_order) > len(free):
        raise CallInputError(
            f"{in_order[len(free)]!r} is one argument too many for {call}. Its arguments are {wanted}",
            code="wrong_arguments",
        )
    given.update(zip(free, in_order, strict=False))
    missing = [name for name in names if name not in given]
    if missing:
        raise CallInputError(f"{call} lacks {', '.join(missing)}. Its arguments are {wanted}", code="wrong_arguments")
    return given


def _unknown(kind: str, name: str, names: list[str]) -> str:
    plain = {_plain(known): known for known in names}
    near = [plain[match] for match in get_close_matches(_plain(name), plain, n=3, cutoff=NEAR)]
    told = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(names)}"
    return f"there is no {kind} {name!r}. {told}"


def _plain(name: str) -> str:
    """Return a name in the form in which other tools' `transferKeepAlive` and `balances` match ours."""
    return name.replace("_", "").lower()
