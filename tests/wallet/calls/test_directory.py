"""Calls by name, arguments by place and by name, calls inside calls."""

import json
from typing import Any

import pytest

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
    with pytest.raises(CallInputError, match="calls hold calls 4 deep at most"):
        build("Utility.batch", batches(CALL_DEPTH_MAX + 1))


@pytest.mark.parametrize(
    ("name", "words", "sentence"),
    [
        ("Balance.burn", (), "there is no pallet 'Balance'; did you mean Balances? there are System, Timestamp"),
        ("Zzz.burn", (), "there is no pallet 'Zzz'; there are System"),
        ("Balances.transferKeepAlive", (), "did you mean transfer_keep_alive"),
        ("Balances", (), "'Balances' is no call: write Pallet.call"),
        ("Balances.burn", ("1",), "Balances.burn lacks keep_alive; its arguments are value: Balance, keep_alive: bool"),
        ("Balances.burn", ("1", "true", "x"), "'x' is one argument too many for Balances.burn"),
        ("Balances.burn", ("value=1", "value=2", "true"), "argument value of Balances.burn is given twice"),
        ("Balances.burn", ("vlaue=1", "true"), "Balances.burn has no argument 'vlaue'; did you mean value?"),
        ("TrustStake.chill", ("x",), "'x' is one argument too many for TrustStake.chill; its arguments are none"),
        ("Sudo.sudo", ("{}",), 'argument call (call): {} cannot be read: write {"Pallet.call": {"argument": value}}'),
        ("Sudo.sudo", ('{"System.remrk": {}}',), "there is no call of System 'remrk'; did you mean remark"),
        ("Sudo.sudo", ('{"Balances.burn": {"value": 1}}',), "argument call.Balances.burn (call): its arguments are"),
        ("Sudo.sudo", ('{"Balances.burn": 1}',), "write all by name"),
        ("Sudo.sudo", ('{"System.remark": ["a"], "System.remark": ["b"]}',), "'System.remark' stands there twice"),
        ("InferenceMarket.post", ("0", '[{"racers": 1}]'), "argument units[0] (UnitTerms): "),
        ("InferenceMarket.post", ("0", '[{"no": 1}]'), "it has no member 'no'; there are price_max"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_one_sentence(name: str, words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CallInputError) as raised:
        build(name, *words)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
