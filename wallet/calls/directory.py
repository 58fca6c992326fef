"""The calls of a chain by name, with their arguments; and suggestions for an unknown name.

It needs no node: the pallets' declarations hold everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from runtime.frame.call import CALL_DEPTH_MAX, Call, CallMethod
from runtime.frame.pallet import Pallet
from wallet.calls.declared import Argument, arguments_of
from wallet.calls.form import ArgumentPlace, read_word
from wallet.errors import CallInputError
from wallet.suggestions import suggestion, suggestions

Method = CallMethod[Any, Any, Any]


def full_name(method: Method) -> str:
    """Return the name with the pallet's: `Balances.transfer_keep_alive`."""
    return f"{method.pallet.__name__}.{method.name}"


def require_pallets(call: Call, pallets: Sequence[type[Pallet]], chain_name: str) -> None:
    """Raise CallInputError unless the chain has the pallets of a call, and of the calls inside it.

    A live chain has no Sudo pallet, so nobody can call as Root.
    """
    for contained_call in _calls_in(call):
        pallet = contained_call.method.pallet
        if pallet not in pallets:
            raise CallInputError(
                f"the chain {chain_name} has no pallet {pallet.__name__}, so it has no {contained_call.name}",
                code="pallet_missing",
            )


def _calls_in(call: Call) -> Iterator[Call]:
    yield call
    for argument in call.arguments:
        for nested_value in argument if isinstance(argument, list | tuple) else (argument,):
            if isinstance(nested_value, Call):
                yield from _calls_in(nested_value)


class Directory:
    """The pallets of a chain; `account` returns the account of a text."""

    def __init__(self, pallets: Sequence[type[Pallet]], account: Callable[[str], bytes]) -> None:
        self._pallets = {pallet.__name__: pallet for pallet in pallets if pallet.methods}
        self._account = account

    def methods(self, pallet: str = "") -> Iterator[Method]:
        """Yield every call, or every call of one pallet. Raise CallInputError if there is no such pallet."""
        if pallet and pallet not in self._pallets:
            raise CallInputError(_unknown("pallet", pallet, list(self._pallets)), code="unknown_pallet")
        for pallet_name, declared in self._pallets.items():
            if pallet in ("", pallet_name):
                yield from declared.methods

    def find(self, name: str) -> Method:
        """Return the call `Pallet.call`. Raise CallInputError with similar names, and all names, if there is none."""
        pallet_name, separator, call_name = name.partition(".")
        if not separator:
            raise CallInputError(
                f"{name!r} is not a call. Write Pallet.call, such as Balances.transfer_keep_alive", code="unknown_call"
            )
        methods_by_name = {method.name: method for method in self.methods(pallet_name)}
        if call_name not in methods_by_name:
            raise CallInputError(
                _unknown(f"call of {pallet_name}", call_name, list(methods_by_name)), code="unknown_call"
            )
        return methods_by_name[call_name]

    def build(self, method: Method, words: Sequence[str]) -> Call:
        """Return the call with words of a command line as arguments, each `value` or `name=value`."""
        words_by_argument = _assigned(full_name(method), arguments_of(method), words)
        read_nested_call = self._nested_at(2)
        argument_values = []
        for argument in arguments_of(method):
            argument_place = ArgumentPlace(argument.name, self._account, read_nested_call)
            argument_values.append(read_word(argument.form, words_by_argument[argument.name], argument_place))
        return Call(method, tuple(argument_values))

    def _nested_at(self, depth: int) -> Callable[[str, Any, ArgumentPlace], Call]:
        """Return a reader of calls that are nested `depth` deep, the outermost call counted."""

        def nested(call_name: str, json_value: Any, argument_place: ArgumentPlace) -> Call:
            # The chain decodes no deeper calls.
            if depth > CALL_DEPTH_MAX:
                raise CallInputError(
                    f"argument {argument_place.where} (call): calls hold calls at most {CALL_DEPTH_MAX} deep",
                    code="too_deep",
                )
            method = self.find(call_name)
            arguments = arguments_of(method)
            argument_names = [argument.name for argument in arguments]
            if isinstance(json_value, list) and len(json_value) == len(argument_names):
                json_value = dict(zip(argument_names, json_value, strict=True))
            # A call that gets signed has no default arguments.
            if not isinstance(json_value, dict) or set(json_value) != set(argument_names):
                expected_arguments = _listed(arguments)
                raise CallInputError(
                    f"argument {argument_place.where} (call): name all its arguments: {expected_arguments}",
                    code="wrong_arguments",
                )
            inner_place = replace(argument_place, call=self._nested_at(depth + 1))
            argument_values = [
                inner_argument.form.read(json_value[inner_argument.name], inner_place.inside(f".{inner_argument.name}"))
                for inner_argument in arguments
            ]
            return Call(method, tuple(argument_values))

        return nested


def _listed(arguments: Sequence[Argument]) -> str:
    return ", ".join(f"{argument.name}: {argument.form.type_name}" for argument in arguments) or "none"


def _assigned(call_name: str, arguments: Sequence[Argument], typed_words: Sequence[str]) -> dict[str, str]:
    """Return the words by the name of their argument."""
    argument_names = [argument.name for argument in arguments]
    expected_arguments = _listed(arguments)
    words_by_name: dict[str, str] = {}
    in_order = []
    for typed_word in typed_words:
        argument_name, equals_sign, argument_word = typed_word.partition("=")
        if not equals_sign or argument_name not in argument_names:
            # A value may contain `=` itself, so only a name that is similar to an argument's is an error.
            similar_name = suggestion(argument_name, argument_names) if equals_sign else None
            if similar_name is not None:
                raise CallInputError(
                    f"{call_name} has no argument {argument_name!r}. Did you mean {similar_name}? Its arguments "
                    f"are {expected_arguments}",
                    code="unknown_argument",
                )
            in_order.append(typed_word)
        elif argument_name in words_by_name:
            raise CallInputError(f"argument {argument_name} of {call_name} is given twice", code="argument_given_twice")
        else:
            words_by_name[argument_name] = argument_word
    unassigned_names = [argument_name for argument_name in argument_names if argument_name not in words_by_name]
    if len(in_order) > len(unassigned_names):
        raise CallInputError(
            f"{in_order[len(unassigned_names)]!r} is one argument too many for {call_name}. Its arguments are "
            f"{expected_arguments}",
            code="wrong_arguments",
        )
    words_by_name.update(zip(unassigned_names, in_order, strict=False))
    missing_names = [argument_name for argument_name in argument_names if argument_name not in words_by_name]
    if missing_names:
        raise CallInputError(
            f"{call_name} lacks {', '.join(missing_names)}. Its arguments are {expected_arguments}",
            code="wrong_arguments",
        )
    return words_by_name


def _unknown(noun_phrase: str, name: str, known_names: list[str]) -> str:
    similar_names = suggestions(name, known_names)
    advice_text = (
        f"Did you mean {' or '.join(similar_names)}?" if similar_names else f"There are: {', '.join(known_names)}"
    )
    return f"there is no {noun_phrase} {name!r}. {advice_text}"
