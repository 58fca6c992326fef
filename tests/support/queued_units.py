"""Devices that have units ahead, on a `MarketChain`."""

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Device
from gpu_tasks.market.inference.units import UnitState
from simulation.chains.market_chain import (
    OGPU,
    Keys,
    MarketChain,
    named_keys,
    signed,
    terms,
)

LEASE = 30
DRAW_BLOCKS = 4


def device_of(chain: MarketChain, keys: Keys) -> Device:
    """The record of somebody's device."""
    found = chain.now()[Devices].devices[keys.device]
    assert found is not None
    return found


def one_device(queue: int = 2) -> tuple[MarketChain, Keys]:
    """A chain on which all but one device are paused."""
    chain = MarketChain(named_keys(4), queue=queue)
    chain.block(*(signed(one.stash, Devices.pause(device=one.device)) for one in chain.validators[1:]))
    chain.blocks(3)
    return chain, chain.validators[0]


def ahead(chain: MarketChain, units: int = 3) -> list[bytes]:
    """Units of one racer in the order in which the device has them."""
    posted = chain.post(*(terms(OGPU, 1) for _ in range(units)))
    chain.blocks(DRAW_BLOCKS)
    assert all(chain.unit(unit_id).state is UnitState.RACING for unit_id in posted)
    only = device_of(chain, chain.validators[0])
    assert only.assignment is not None
    assert {only.assignment, *only.behind} == set(posted)
    return [only.assignment, *only.behind]


def began(chain: MarketChain, unit_id: bytes) -> int:
    """The block in which the only racer of a unit turned to it; 0 while it waits."""
    (racer,) = chain.unit(unit_id).racers
    return racer.started_at
