"""A device whose whole part in a unit was taken by a miss leaves, and the unit still ends: no hook may fail for it."""

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState
from market_chain import Keys, MarketChain, attach, attestation, commit, named_keys, signed, terms

RIGHT = b"R" * 32
LONG_ENOUGH = 120  # blocks, for every window


def racing() -> tuple[MarketChain, bytes, Unit, list[Keys]]:
    chain = MarketChain(named_keys(5))
    chain.blocks(3)
    (unit_id,) = chain.post(terms(racers=2))
    while chain.unit(unit_id).state is UnitState.QUEUED:
        chain.block()
    unit = chain.unit(unit_id)
    return chain, unit_id, unit, [chain.keys_of(racer.owner) for racer in unit.racers]


def leave(chain: MarketChain, keys: Keys) -> None:
    chain.block(
        signed(keys.stash, InferenceMarket.withdraw_offer(device=keys.device, service=0)),
        signed(keys.stash, Devices.unregister_device(device=keys.device)),
    )
    assert chain.now()[Devices].devices[keys.device] is None


def test_a_silent_racer_leaves_during_the_dispute() -> None:
    chain, unit_id, unit, (silent, honest) = racing()
    chain.block(*(commit(each, unit_id, unit, RIGHT) for each in (silent, honest)))
    chain.blocks(1)
    chain.block(attach(attestation(honest, unit_id, unit, RIGHT)))
    while not chain.happened(ev.UnitDisputed):
        chain.block()
    leave(chain, silent)
    chain.blocks(LONG_ENOUGH)
    assert chain.unit(unit_id).state in {UnitState.REFUNDED, UnitState.SETTLED}


def test_an_idle_racer_leaves_before_the_reveals() -> None:
    chain, unit_id, unit, (idle, honest) = racing()
    assert unit.round is not None
    while chain.height < unit.round.drawn_at + 26:
        chain.block()
    chain.block(commit(honest, unit_id, unit, RIGHT))
    while not chain.happened(ev.RaceMissed):
        chain.block()
    leave(chain, idle)
    chain.blocks(LONG_ENOUGH)
    assert chain.unit(unit_id).state is not UnitState.RACING
