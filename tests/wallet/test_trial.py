"""Dry runs over the state of a lying node: a clear message for any answer, and nothing more."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest

from error_codes import raises_code
from genesis.chain import runtime_of
from genesis.presets import load_spec
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Device, DeviceClass
from runtime.encoding.codec import codec
from runtime.frame.api import Apis
from runtime.frame.call import FREE, Call, PostDispatch
from runtime.frame.parameter import ParameterChange
from runtime.frame.runtime import Bound
from runtime.pallets.chain_parameters import ChainParameters
from runtime.pallets.staking.stakers import UNLOCKING_MAX
from runtime.pallets.staking.trust_stake import TrustStake, withdraw_weight
from runtime.pallets.sudo import Sudo
from runtime.pallets.transaction_payment import TransactionPayment
from runtime.state.overlay import Memory
from wallet import trial
from wallet.client import PAGE_KEYS, ChainClient
from wallet.rpc import OddAnswerError, RpcConnection
from wallet.trial import TrialError, attempt, over_state

SIGNER, DEVICE = b"s" * 32, b"d" * 32
UNREGISTER = Devices.unregister_device(device=DEVICE)

RUNTIME = runtime_of(load_spec("dev"))


class LyingNode(RpcConnection):
    """Answers every storage query with `answer`, or with the key's value in `values`."""

    def __init__(self, answer: Any = None, values: dict[bytes, bytes] | None = None) -> None:
        self.url = "ws://liar"
        self.answer, self.values = answer, values or {}
        self.asked: list[int] = []

    async def call(self, method: str, *params: Any) -> Any:
        if method != "state_queryStorageAt":
            return "0x" + "00" * 32
        self.asked.append(len(params[0]))
        return [{"changes": [[key, self._value(key)] for key in params[0]]}]

    def _value(self, key: str) -> Any:
        known = self.values.get(bytes.fromhex(key[2:]))
        return self.answer if known is None else "0x" + known.hex()


def tried(node: LyingNode, call: Call = UNREGISTER) -> Any:
    client = ChainClient(node, Apis(RUNTIME, ()), b"g" * 32, "Development")
    return asyncio.run(attempt(client, [call], SIGNER))


@pytest.mark.parametrize("answer", ["0xzz", 7, {"a": []}, ""])
def test_answers_that_are_no_bytes_are_told_in_a_sentence(answer: Any) -> None:
    with raises_code(OddAnswerError, "odd_answer"):
        tried(LyingNode(answer))


@pytest.mark.parametrize("answer", ["0x00", "0x" + "ff" * 1000])
def test_values_that_are_none_are_told_in_a_sentence(answer: str) -> None:
    with raises_code(TrialError, "node_answer_unusable"):
        tried(LyingNode(answer))


def test_a_state_that_breaks_what_always_holds_is_told_in_a_sentence() -> None:
    item = RUNTIME.item(Devices.devices)
    device = Device(SIGNER, DeviceClass.CPU, b"u" * 32, 10, 1, 1)  # no lock anywhere bears its bond out
    with raises_code(TrialError, "node_answer_unusable"):
        tried(LyingNode(values={item.key(DEVICE): codec(Device).encode(device)}))


def test_the_fee_comes_back_as_far_as_the_chain_pays_it_back() -> None:
    bound, call = RUNTIME.at(Memory({})), TrustStake.withdraw_unbonded()
    lighter, heavier = withdraw_weight(1), withdraw_weight(2 * UNLOCKING_MAX)
    payment = bound[TransactionPayment]
    less = payment.fee(9, call.weight).total - payment.fee(9, lighter).total
    assert [
        trial._returned(bound, call, done, 10_000_000)
        for done in (PostDispatch(), FREE, PostDispatch(True, lighter), PostDispatch(True, heavier))
    ] == [0, 10_000_000, less, 0]
    assert less > 0


def test_a_state_without_the_device_is_a_refusal() -> None:
    assert "UnknownDevice" in (tried(LyingNode()).refusal or "")


def test_a_trial_fetches_a_bounded_number_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "READS_MAX", 0)
    with raises_code(TrialError, "trial_too_large"):
        tried(LyingNode())


def test_all_parameters_are_one_question() -> None:
    change = ParameterChange(TransactionPayment.base_fee, 3_000)
    node = LyingNode(values={RUNTIME.item(Sudo.key).key(): SIGNER})
    assert tried(node, Sudo.sudo(call=ChainParameters.set_parameter(change=change))).refusal is None
    assert sorted(node.asked)[-2:] == [1, len(RUNTIME.parameters.items)]


class ListingNode:
    """Serves a map of `entries` entries, and counts the requests."""

    def __init__(self, count: int) -> None:
        self.runtime, self.genesis_hash = RUNTIME, bytes(32)
        bound = RUNTIME.at(Memory())
        for number in range(count):
            bound[Devices].devices_of[SIGNER, number.to_bytes(32, "big")] = True
        self.state = Memory().updated(bound.overlay.changes())
        self.listed: list[int] = []

    async def raw(self, keys: Sequence[bytes], *, at: bytes) -> dict[bytes, bytes | None]:
        return {key: self.state.get(key) for key in keys}

    async def raw_keys(self, prefix: bytes, *, at: bytes, most: int) -> list[bytes]:
        found = list(islice(self.state.keys(prefix), PAGE_KEYS * (most // PAGE_KEYS + 1)))
        self.listed.append(len(found))
        return found


def listed(node: ListingNode, most: int) -> int:
    def work(bound: Bound) -> int:
        return len(list(islice(bound.overlay.keys(RUNTIME.item(Devices.devices_of).prefix), most)))

    client: Any = node
    return asyncio.run(over_state(client, bytes(32), work))


@pytest.mark.parametrize(
    ("count", "taken", "asked"),
    [
        (0, 10, [0]),
        (7, 10, [7]),
        (100, 1_000, [100]),
        (3_000, 10, [500]),
        (3_000, 500, [500]),
        (3_000, 501, [500, 1_500]),
        (1_900, 2_000, [500, 1_500, 1_900]),
    ],
)
def test_a_list_is_fetched_as_far_as_it_is_read(count: int, taken: int, asked: list[int]) -> None:
    node = ListingNode(count)
    assert listed(node, taken) == min(count, taken)
    assert node.listed == asked


def test_a_list_that_is_read_beyond_the_bound_ends_the_trial() -> None:
    with raises_code(TrialError, "trial_too_large"):
        listed(ListingNode(9_000), 9_000)
