"""Misses and leavers: the price of a miss, and devices that stay until they are liable for nothing."""

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.events import DeviceBusy
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral_of
from gpu_tasks.market.inference.units import Unit, UnitState
from runtime.pallets.balances import Balances
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.slashing import part
from simulation.chains.market_chain import CUSTOMER, DEVICE_BOND, Keys, MarketChain, named_keys, refused, signed, terms
from unit_cases import committed, concluded, matched, revealed

# --------------------------------------------------------------------------------------------------------------- misses


def test_where_all_racers_missed_a_hundredth_of_their_collateral_burns() -> None:
    """B1: an unavailable input makes all racers miss, and its customer must not profit from that."""
    chain = MarketChain(named_keys(2))
    _, unit, racers = matched(chain)
    before, treasury = chain.owned(CUSTOMER.stash), chain.owned(TREASURY)
    burned = chain.now()[Balances].burned.get()
    while not chain.happened(ev.UnitRequeued):
        chain.block()
    taken = collateral_of(unit) // 100
    assert [missed.amount for missed in chain.happened(ev.RaceMissed)] == [taken] * 2
    assert [chain.owned(CUSTOMER.stash), chain.owned(TREASURY)] == [before, treasury]
    assert chain.now()[Balances].burned.get() - burned == 2 * taken
    for racer in racers:
        device = chain.device(racer)
        assert (device.bond, device.secured, device.is_paused) == (DEVICE_BOND - taken, 0, True)


def test_where_nobody_opens_what_it_committed_a_quarter_of_the_price_burns() -> None:
    chain = MarketChain(named_keys(2))
    unit_id, unit, racers = matched(chain)
    before = chain.owned(CUSTOMER.stash)
    committed(chain, unit_id, racers)
    chain.blocks(1 + 12)
    assert chain.unit(unit_id).state is UnitState.RACING, "it may still be opened"
    chain.block()
    assert [missed.amount for missed in chain.happened(ev.RaceMissed)] == [unit.price // 4] * 2
    assert chain.owned(CUSTOMER.stash) == before
    assert chain.unit(unit_id).state is UnitState.QUEUED


# -------------------------------------------------------------------------------------------------------------- leaving


def racing(**numbers: int) -> tuple[MarketChain, bytes, Unit, list[Keys]]:
    constants = {f"InferenceMarket.{name}": value for name, value in numbers.items()}
    chain = MarketChain(named_keys(5), constants=constants)
    return chain, *matched(chain)


def leaving(chain: MarketChain, keys: Keys) -> None:
    """Check that the device may not leave yet."""
    withdraw = InferenceMarket.withdraw_offer(device=keys.device, service=0)
    if chain.now()[InferenceMarket].offers[0, keys.device] is not None:
        chain.block(signed(keys.stash, withdraw))
    chain.block(refused(keys.stash, Devices.unregister_device(device=keys.device), DeviceBusy))


def test_d6_a_silent_racer_pays_and_leaves_once_the_other_one_claims() -> None:
    chain, unit_id, unit, (silent, honest) = racing()
    committed(chain, unit_id, (silent, honest))
    chain.blocks(1)
    revealed(chain, unit_id, [honest])
    leaving(chain, silent)
    while not chain.happened(ev.ResultClaimed):
        chain.block()
    (missed,) = chain.happened(ev.RaceMissed)
    assert (missed.provider, missed.amount) == (silent.stash, unit.price // 4)
    chain.block(signed(silent.stash, Devices.unregister_device(device=silent.device)))
    assert chain.now()[Devices].devices[silent.device] is None
    assert concluded(chain, unit_id).state is UnitState.SETTLED


def test_the_winner_cannot_leave_before_its_claim_is_over_and_the_witness_can() -> None:
    chain, unit_id, _, racers = racing()
    committed(chain, unit_id, racers)
    chain.blocks(1)
    revealed(chain, unit_id, racers)
    leaving(chain, racers[0])
    leave = [InferenceMarket.withdraw_offer(device=racers[1].device, service=0)]
    chain.block(*(signed(racers[1].stash, call) for call in leave))
    chain.block(signed(racers[1].stash, Devices.unregister_device(device=racers[1].device)))
    assert concluded(chain, unit_id).state is UnitState.SETTLED
    (settled,) = chain.happened(ev.UnitSettled)
    assert settled.witness == racers[1].stash
    chain.block(signed(racers[0].stash, Devices.unregister_device(device=racers[0].device)))


@pytest.mark.parametrize("penalty", ["default", "greatest"])
def test_nor_an_idle_racer_before_the_reveals(penalty: str) -> None:
    chain, unit_id, unit, (idle, honest) = racing(idle_penalty=getattr(InferenceMarket.idle_penalty, penalty))
    assert unit.round is not None
    while chain.height < unit.round.drawn_at + 26:
        chain.block()
    committed(chain, unit_id, [honest])
    while not chain.happened(ev.RaceMissed):
        chain.block()
    leaving(chain, idle)
    assert chain.unit(unit_id).state is not UnitState.REFUNDED
    while not chain.happened(ev.UnitRequeued):
        chain.block()


def test_the_least_collateral_is_never_all_burned() -> None:
    """A collateral is at least a grain. No parameter burns all of it."""
    assert all(part(grains, InferenceMarket.idle_penalty.greatest) < grains for grains in (1, 2, 10**6, 10**23))


def test_a_unit_is_drawn_however_short_the_queue_may_be() -> None:
    chain = MarketChain(
        named_keys(3), constants={"InferenceMarket.queue_blocks": InferenceMarket.queue_blocks.least}, final_lag=4
    )
    (unit_id,) = chain.post(terms(racers=1))
    while chain.unit(unit_id).state is UnitState.QUEUED:
        chain.block()
    assert chain.unit(unit_id).state is UnitState.RACING
