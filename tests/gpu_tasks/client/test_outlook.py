"""The numbers that a plan goes by: the chain's where it sells tasks, else those that its market begins with."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from genesis.chain import runtime_of
from genesis.parameters import CONSENSUS
from genesis.presets import load_spec
from gpu_tasks.client.offers.outlook import auction_numbers, bidding_devices, slot_ms, standby_of
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.rules import DEFAULT_RULES, TaskRules
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.plan import AuctionNumbers, TaskPlan
from runtime.frame.api import Apis
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from simulation.chains.market_chain import GENESIS_HASH, OGPU, MarketChain, named_keys
from state_node import StateNode
from task_chain import TaskChain, an_order, numbers_of
from wallet.client import ChainClient


def numbers(pallets: tuple[Any, ...], values: dict[Any, int]) -> AuctionNumbers:
    """As read of a chain with these pallets, whose parameters have these values by their items."""

    async def read(item: Any, *, at: bytes) -> int:
        assert at == bytes(32)
        return values[item]

    client = SimpleNamespace(runtime=SimpleNamespace(pallets=pallets), read=read)
    return asyncio.run(auction_numbers(cast("ChainClient", client), bytes(32)))


def test_a_chain_that_sells_tasks_says_them() -> None:
    market = TaskChain(constants={"TrainingMarket.trace_fee_ppm": 20_000}).market
    values = {parameter.item: getattr(market, name) for name, parameter in TrainingMarket.parameters.items()}
    assert numbers((System, TrainingMarket), values) == numbers_of(market)
    assert market.rules(an_order(segments=8)) != DEFAULT_RULES


def test_each_window_and_fee_is_its_own_number() -> None:
    values = {parameter.item: place for place, parameter in enumerate(TrainingMarket.parameters.values(), 1)}
    places = {name: place for place, name in enumerate(TrainingMarket.parameters, 1)}
    found = numbers((System, TrainingMarket), values)
    names = ("commit_blocks", "reveal_blocks", "start_blocks", "task_deposit", "step_fee", "interval_blocks_max")
    read = (found.commit, found.reveal, found.start, found.deposit, found.step_fee, found.interval_max)
    assert read == tuple(places[name] for name in names)


def test_of_a_chain_that_sells_none_they_are_the_defaults() -> None:
    found = numbers((System,), {})
    assert (found.commit, found.reveal, found.start) == (12, 12, 10)
    assert isinstance(found.rules, TaskRules)
    assert found.rules.audit_rate_ppm == TrainingMarket.trace_audit_ppm.default


def test_devices_are_as_the_chain_judges_them() -> None:
    """Who may be elected, what each class has to be bonded with, and what each owner can spend, by one state."""
    least = {"Devices.consumer_bond_min": 2 * OGPU, "Devices.datacenter_bond_min": 3 * OGPU}
    chain = MarketChain(named_keys(4), constants=least)
    first, second, banned = chain.validators[:3]
    devices = chain.now()[Devices]
    bonds = {DeviceClass.CPU: devices.cpu_bond_min, DeviceClass.CONSUMER: devices.consumer_bond_min}
    bonds[DeviceClass.DATACENTER] = devices.datacenter_bond_min
    assert len(set(bonds.values())) == 3

    def changed(bound: Bound) -> None:
        for keys, kind in ((first, DeviceClass.CONSUMER), (second, DeviceClass.DATACENTER)):
            known = bound[Devices].devices[keys.device]
            assert known is not None
            bound[Devices].devices[keys.device] = replace(known, kind=kind)
        bound[TrustStake].tombstones[banned.stash] = 1

    chain.block(changed)
    node = StateNode({chain.height: chain.state})
    client = ChainClient(node, Apis(chain.runtime, ()), GENESIS_HASH, "Development")
    found = {each.owner: each for each in asyncio.run(bidding_devices(client, chain.height.to_bytes(32, "big")))}
    assert len(found) == 4
    assert {each.bond_min for each in found.values()} == set(bonds.values())
    assert all(each.bond_min == bonds[each.kind] for each in found.values())
    assert [owner for owner, each in found.items() if not each.is_candidate] == [banned.stash]
    balances = chain.now()[Balances]
    assert all(each.spendable == balances.spendable_balance(owner) for owner, each in found.items())


def test_a_slot_is_as_long_as_the_chain_s_rules_say() -> None:
    spec = load_spec("dev")
    client = SimpleNamespace(runtime=runtime_of(spec))
    assert slot_ms(cast("ChainClient", client)) == CONSENSUS[spec.parameters].slot_ms


@pytest.mark.parametrize(
    ("is_of_replicas", "has_standby", "says"),
    [(True, False, "none: of copies most decide"), (False, True, "yes"), (False, False, "perhaps none")],
)
def test_nobody_is_said_to_stand_by_for_copies(is_of_replicas: bool, has_standby: bool, says: str) -> None:
    plan = SimpleNamespace(is_of_replicas=is_of_replicas, has_standby=has_standby)
    assert standby_of(cast(TaskPlan, plan)) == says
