"""Who stands for something of a unit stays until no case about it can come any more: leaving early changes nothing."""

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.events import DeviceBusy
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState
from runtime.pallets.staking.slashing import part
from simulation.chains.market_chain import (
    Keys,
    MarketChain,
    attach,
    attestation,
    commit,
    named_keys,
    refused,
    signed,
    terms,
)
from unit_cases import RIGHT, matched


def racing(**numbers: int) -> tuple[MarketChain, bytes, Unit, list[Keys]]:
    constants = {f"InferenceMarket.{name}": value for name, value in numbers.items()}
    chain = MarketChain(named_keys(5), constants=constants)
    return chain, *matched(chain)


def leaving(chain: MarketChain, keys: Keys) -> None:
    """The device may not leave now."""
    withdraw = InferenceMarket.withdraw_offer(device=keys.device, service=0)
    if chain.now()[InferenceMarket].offers[0, keys.device] is not None:
        chain.block(signed(keys.stash, withdraw))
    chain.block(refused(keys.stash, Devices.unregister_device(device=keys.device), DeviceBusy))


def test_d6_a_silent_racer_cannot_leave_before_the_case_is_over() -> None:
    chain, unit_id, unit, (silent, honest) = racing()
    chain.block(*(commit(each, unit_id, unit, RIGHT) for each in (silent, honest)))
    chain.blocks(1)
    chain.block(attach(attestation(honest, unit_id, unit, RIGHT)))
    while not chain.happened(ev.UnitDisputed):
        chain.block()
    leaving(chain, silent)
    while chain.unit(unit_id).state is UnitState.JUDGING:
        chain.block()
    chain.block(signed(silent.stash, Devices.unregister_device(device=silent.device)))
    assert chain.now()[Devices].devices[silent.device] is None


def test_nor_who_is_paid_before_it_is_known_whether_there_is_an_audit() -> None:
    chain, unit_id, unit, racers = racing()
    chain.block(*(commit(each, unit_id, unit, RIGHT) for each in racers))
    chain.blocks(1)
    chain.block(attach(*(attestation(each, unit_id, unit, RIGHT) for each in racers)))
    assert chain.unit(unit_id).is_watched
    leaving(chain, racers[0])
    while chain.unit(unit_id).is_watched:
        chain.block()
    chain.block(signed(racers[0].stash, Devices.unregister_device(device=racers[0].device)))


@pytest.mark.parametrize("penalty", ["default", "greatest"])
def test_nor_an_idle_racer_before_the_reveals(penalty: str) -> None:
    chain, unit_id, unit, (idle, honest) = racing(idle_penalty=getattr(InferenceMarket.idle_penalty, penalty))
    assert unit.round is not None
    while chain.height < unit.round.drawn_at + 26:
        chain.block()
    chain.block(commit(honest, unit_id, unit, RIGHT))
    while not chain.happened(ev.RaceMissed):
        chain.block()
    leaving(chain, idle)
    assert chain.unit(unit_id).state is not UnitState.REFUNDED
    while not chain.happened(ev.UnitRequeued):
        chain.block()


def test_the_least_collateral_is_never_all_burned() -> None:
    """A collateral is a grain at least; of none is everything taken, whatever the parameter."""
    assert all(part(grains, InferenceMarket.idle_penalty.greatest) < grains for grains in (1, 2, 10**6, 10**23))


def test_a_unit_is_drawn_however_short_the_queue_may_be() -> None:
    chain = MarketChain(
        named_keys(3), constants={"InferenceMarket.queue_blocks": InferenceMarket.queue_blocks.least}, final_lag=4
    )
    (unit_id,) = chain.post(terms(racers=1))
    while chain.unit(unit_id).state is UnitState.QUEUED:
        chain.block()
    assert chain.unit(unit_id).state is UnitState.RACING
