"""Calls by name, arguments by place and by name, calls inside calls."""

import json
from typing import Any

import pytest

from error_codes import raises_code
from genesis.chain import DEVELOPMENT_PALLETS, PALLETS
from runtime.frame.call import CALL_DEPTH_MAX
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from wallet.calls.directory import Directory, full_name
from wallet.errors import CallInputError

BOB = bytes([7]) * 32
DIRECTORY = Directory((*PALLETS, *DEVELOPMENT_PALLETS), lambda _text: BOB)


def build(name: str, *words: str) -> Any:
    return DIRECTORY.build(DIRECTORY.find(name), words)


@pytest.mark.parametrize("words", [("bob", "5"), ("value=5", "bob"), ("dest=bob", "value=5"), ("bob", "value=5")])
def test_arguments_by_place_and_by_name(words: tuple[str, ...]) -> None:
    assert build("Balances.transfer_keep_alive", *words) == Balances.transfer_keep_alive(dest=BOB, value=5)


def test_a_sign_of_equality_is_no_name_where_no_argument_is_called_so() -> None:
    assert build("System.remark", "x=y") == System.remark(remark=b"x=y")
    assert build("System.remark", "remark=remark=y") == System.remark(remark=b"remark=y")


def test_calls_inside_calls_by_name_and_by_place() -> None:
    inner = [{"System.remark": {"remark": "a"}}, {"Balances.burn": ["1oGPU", True]}, {"TrustStake.chill": {}}]
    made = build("Utility.batch", json.dumps(inner))
    remark, burn, chill = made.arguments[0]
    assert remark == System.remark(remark=b"a")
    assert burn == Balances.burn(value=10**8, keep_alive=True)
    assert full_name(chill.method) == "TrustStake.chill"


def batches(depth: int) -> str:
    inner: Any = {"System.remark": {"remark": "a"}}
    for _ in range(depth - 2):
        inner = {"Utility.batch": {"calls": [inner]}}
    return json.dumps([inner])


def test_calls_hold_calls_only_so_deep() -> None:
    made = build("Utility.batch", batches(CALL_DEPTH_MAX))
    assert made.method.name == Utility.batch(calls=()).method.name
    with raises_code(CallInputError, "too_deep"):
        build("Utility.batch", batches(CALL_DEPTH_MAX + 1))


@pytest.mark.parametrize(
    ("name", "words", "code", "named"),
    [
        ("Balance.burn", (), "unknown_pallet", "Balances?"),
        ("Zzz.burn", (), "unknown_pallet", "System, Timestamp"),
        ("Balances.transferKeepAlive", (), "unknown_call", "transfer_keep_alive"),
        ("Balances", (), "unknown_call", "Balances.transfer_keep_alive"),
        ("Balances.burn", ("1",), "wrong_arguments", "value: Balance, keep_alive: bool"),
        ("Balances.burn", ("1", "true", "x"), "wrong_arguments", "'x'"),
        ("Balances.burn", ("value=1", "value=2", "true"), "argument_given_twice", "value"),
        ("Balances.burn", ("vlaue=1", "true"), "unknown_argument", "value?"),
        ("TrustStake.chill", ("x",), "wrong_arguments", "none"),
        ("Sudo.sudo", ("{}",), "argument_unreadable", '{"Pallet.call": {"argument": value}}'),
        ("Sudo.sudo", ('{"System.remrk": {}}',), "unknown_call", "remark?"),
        ("Sudo.sudo", ('{"Balances.burn": {"value": 1}}',), "wrong_arguments", "call.Balances.burn"),
        ("Sudo.sudo", ('{"Balances.burn": 1}',), "wrong_arguments", "keep_alive"),
        ("Sudo.sudo", ('{"System.remark": ["a"], "System.remark": ["b"]}',), "argument_unreadable", "'System.remark'"),
        ("InferenceMarket.post", ("0", '[{"racers": 1}]'), "argument_unreadable", "units[0] (UnitTerms)"),
        ("InferenceMarket.post", ("0", '[{"no": 1}]'), "argument_unreadable", "price_max"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_one_sentence(name: str, words: tuple[str, ...], code: str, named: str) -> None:
    with pytest.raises(CallInputError) as raised:
        build(name, *words)
    assert raised.value.code == code
    assert named in str(raised.value)
    assert "\n" not in str(raised.value)
