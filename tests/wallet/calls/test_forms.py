"""Values by type: accepted texts, refusals with their messages, and a round trip of every call."""

import contextlib
import json
from functools import cache
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genesis.chain import runtime_for
from gpu_tasks.market.devices.records import DeviceClass
from runtime.cryptography import ss58
from runtime.encoding.codec import U8, U32, Bounded, Fixed
from runtime.encoding.types import AccountId, Balance, MultiAddress
from runtime.frame.call import CALL_DEPTH_MAX, Call
from runtime.frame.parameter import ParameterChange
from wallet.calls.declared import CallForm, arguments_of, form_of, written_arguments
from wallet.calls.directory import Directory, Method, full_name
from wallet.calls.form import ArgumentForm, ArgumentPlace, Style, read_word, written_word
from wallet.calls.nested_forms import ListForm, OptionalForm, StructureForm, TupleForm, UnionForm
from wallet.calls.parameter_form import ParameterForm
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
from wallet.errors import CallInputError, WalletError

RUNTIME = runtime_for("devnet", is_development=True)
METHODS: tuple[Method, ...] = tuple(method for pallet in RUNTIME.pallets for method in pallet.methods)
ALICE = bytes(range(32))


def account(text: str) -> bytes:
    if text == "alice":
        return ALICE
    try:
        return ss58.account_from_text(text)
    except ValueError as error:
        raise WalletError(f"{text!r} is no account ({error})") from None


DIRECTORY = Directory(RUNTIME.pallets, account)


def no_call(_name: str, _arguments: Any, _place: ArgumentPlace) -> Call:
    raise AssertionError


def read(annotation: Any, word: str) -> Any:
    return read_word(form_of(annotation), word, ArgumentPlace("it", account, no_call))


@pytest.mark.parametrize(
    ("annotation", "word", "value"),
    [
        (U8, "0", 0),
        (U8, "255", 255),
        (U32, "1_000", 1000),
        (Balance, "7", 7),
        (Balance, "1.5oGPU", 150_000_000),
        (Balance, "1.5 ogpu", 150_000_000),
        (Balance, "50 grains", 50),
        (bool, "true", True),
        (bool, "False", False),
        (MultiAddress, "alice", ALICE),
        (AccountId, "0x" + ALICE.hex(), ALICE),
        (AccountId, ss58.encode(ALICE), ALICE),
        (Annotated[bytes, Fixed(2)], "0x0aFF", b"\x0a\xff"),
        (Annotated[bytes, Bounded(9)], "0x", b""),
        (Annotated[bytes, Bounded(9)], "äh", "äh".encode()),
        (Annotated[bytes, Bounded(9)], "[1]", b"[1]"),
        (Annotated[str, Bounded(9)], "äh", "äh"),
        (U8 | None, "null", None),
        (U8 | None, "3", 3),
        (DeviceClass, "cpu", DeviceClass.CPU),
        (Annotated[tuple[U8, ...], Bounded(3)], '[1, "2"]', (1, 2)),
        (tuple[U8, bool], "[1, true]", (1, True)),
        (Annotated[tuple[Balance, ...], Bounded(3)], '["1oGPU", 2]', (100_000_000, 2)),
    ],
)  # fmt: skip
def test_reads(annotation: Any, word: str, value: Any) -> None:
    assert read(annotation, word) == value


@pytest.mark.parametrize(
    ("annotation", "word", "sentence"),
    [
        (U8, "256", "argument it (u8): 256 cannot be read: it goes from 0 to 255"),
        (U8, "-1", "argument it (u8): '-1' cannot be read: write a whole number in digits"),
        (U8, "1.0", "'1.0' cannot be read: write a whole number in digits"),
        (U8, "1oGPU", "'1oGPU' cannot be read"),
        (U8, "", "'' cannot be read"),
        (U8, "9" * 5000, "cannot be read"),
        (U8, "_".join(["9" * 80] * 100), "cannot be read"),
        (Balance, "1.5", "argument it (Balance): '1.5' cannot be read: write grains in digits, or an amount with its"),
        (Balance, "1,5oGPU", "'1,5oGPU' is not an amount"),
        (Balance, "22000000oGPU", "21,000,000"),
        (bool, "yes", "argument it (bool): 'yes' cannot be read: write true or false"),
        (AccountId, "nobody", "argument it (account): 'nobody' is no account"),
        (Annotated[bytes, Fixed(2)], "0x00", "argument it ([u8; 2]): '0x00' cannot be read: it has 2 bytes, these"),
        (Annotated[bytes, Fixed(2)], "ab", "write 0x and 4 hex digits"),
        (Annotated[bytes, Bounded(2)], "0xxx", "argument it (bytes): '0xxx' cannot be read: after 0x come hex digits"),
        (Annotated[bytes, Bounded(2)], "abc", "at most 2 bytes are allowed, these are 3"),
        (Annotated[bytes, Bounded(2)], "\udcff", "it is not text"),
        (Annotated[str, Bounded(2)], "äh", "at most 2 bytes are allowed, these are 3"),
        (DeviceClass, "TPU", "argument it (DeviceClass): 'TPU' cannot be read: write one of "),
        (Annotated[tuple[U8, ...], Bounded(1)], "[1, 2]", "argument it (list of u8): [1, 2] cannot be read: at most 1"),
        (Annotated[tuple[U8, ...], Bounded(1)], "[", "it is not JSON"),
        (Annotated[tuple[U8, ...], Bounded(1)], "1", "write a JSON list of at most 1"),
        (Annotated[tuple[U8, ...], Bounded(1)], "[1.5]", "argument it[0] (u8): '1.5' cannot be read"),
        (Annotated[tuple[U8, ...], Bounded(1)], "[true]", "argument it[0] (u8): true cannot be read"),
        (Annotated[tuple[U8, ...], Bounded(1)], "[" * 100_000, "it is not JSON"),
        (tuple[U8, bool], "[1]", "write a JSON list [u8, bool]"),
    ],
)
def test_refuses_with_the_argument_its_type_and_what_was_given(annotation: Any, word: str, sentence: str) -> None:
    with pytest.raises(CallInputError) as raised:
        read(annotation, word)
    assert sentence in str(raised.value)
    assert len(str(raised.value)) < 300


# --- every call of the chain


def test_every_argument_of_every_call_says_how_to_write_it() -> None:
    for method in METHODS:
        for argument in arguments_of(method):
            assert argument.form.type_name, full_name(method)
            assert argument.form.how_to_write, full_name(method)
            assert "None" not in argument.form.sketch, full_name(method)


TRICKY = st.sampled_from(["null", "0xgg", "name=value", "[]", "", "{", "ä", "true"]).map(str.encode)


def plain_values(form: ArgumentForm) -> st.SearchStrategy[Any]:
    match form:
        case WholeForm(_, size) | AmountForm(_, size):
            return st.integers(0, (1 << 8 * size) - 1)
        case FlagForm():
            return st.booleans()
        case AccountForm():
            return st.binary(min_size=32, max_size=32)
        case FixedBytesForm(_, length):
            return st.binary(min_size=length, max_size=length)
        case BytesForm(_, limit):
            return st.binary(max_size=min(limit, 40)) | TRICKY
        case TextForm(_, limit):
            return st.text(max_size=limit // 4)
        case ChoiceForm(_, names):
            return st.sampled_from(list(names))
        case _:
            raise AssertionError(form)


def values(form: ArgumentForm, depth: int) -> st.SearchStrategy[Any]:
    """Yield values for an argument of a call at nesting `depth`."""
    match form:
        case OptionalForm(of):
            return st.none() | values(of, depth)
        case ListForm(of, limit):
            return st.lists(values(of, depth), max_size=min(limit, 3)).map(tuple)
        case TupleForm(parts):
            return st.tuples(*(values(part, depth) for part in parts))
        case StructureForm(_, make, members):
            return st.builds(make, *(values(part, depth) for _, part in members))
        case UnionForm(structures):
            return st.one_of([values(each, depth) for each in structures])
        case ParameterForm(of):
            changes = [(known.declaration, values(known.form, depth)) for known in of.values()]
            return st.one_of([st.builds(ParameterChange, st.just(declared), drawn) for declared, drawn in changes])
        case CallForm():
            return st.sampled_from(inner_methods(depth + 1)).flatmap(lambda method: calls(method, depth + 1))
        case _:
            return plain_values(form)


def inner_methods(depth: int) -> list[Method]:
    """At the innermost level, only calls without inner calls."""
    holding = ("Utility", "Sudo") if depth == CALL_DEPTH_MAX else ()
    return [method for method in METHODS if method.pallet.__name__ not in holding]


@cache  # a strategy is built and checked once, not for each example
def calls(method: Method, depth: int = 1) -> st.SearchStrategy[Call]:
    arguments = st.tuples(*(values(argument.form, depth) for argument in arguments_of(method)))
    return arguments.map(lambda drawn: Call(method, drawn))


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("method", METHODS, ids=full_name)
@settings(max_examples=settings().max_examples // 4)  # for each of over a hundred calls
@given(data=st.data())
def test_every_call_is_read_back_from_its_own_words(method: Method, style: Style, data: st.DataObject) -> None:
    call = data.draw(calls(method))
    words = [
        f"{argument.name}={written_word(argument.form, value, style)}"
        for argument, value in zip(arguments_of(method), call.arguments, strict=True)
    ]
    built = DIRECTORY.build(method, words)
    assert built == call
    assert RUNTIME.call_codec.decode(RUNTIME.call_codec.encode(built)) == call
    json.dumps(written_arguments(call, style), allow_nan=False)


@given(words=st.lists(st.text(max_size=30) | st.sampled_from(["[]", "{}", "null", "0x", "1"]), max_size=5))
def test_any_words_make_a_call_or_a_sentence(words: list[str]) -> None:
    for method in METHODS:
        with contextlib.suppress(CallInputError):
            RUNTIME.call_codec.encode(DIRECTORY.build(method, words))
