"""What a miss costs: of what the racer holds for the unit, burned, so that nobody lives on making others miss (B1)."""

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.money import collateral
from gpu_tasks.market.inference.units import UnitState
from runtime.pallets.balances import Balances
from runtime.pallets.pots import TREASURY
from simulation.chains.market_chain import (
    CUSTOMER,
    DEVICE_BOND,
    MarketChain,
    attach,
    attestation,
    commit,
    named_keys,
)
from unit_cases import RIGHT, matched


def test_where_all_racers_missed_a_hundredth_of_their_collateral_burns() -> None:
    """B1: an input that nobody could have makes all of them miss; its customer shall not live on that."""
    chain = MarketChain(named_keys(2))
    _, unit, racers = matched(chain)
    before, treasury = chain.owned(CUSTOMER.stash), chain.owned(TREASURY)
    burned = chain.now()[Balances].burned.get()
    while not chain.happened(ev.UnitRequeued):
        chain.block()
    taken = collateral(unit.rules, unit.price) // 100
    assert [missed.amount for missed in chain.happened(ev.RaceMissed)] == [taken] * 2
    assert [chain.owned(CUSTOMER.stash), chain.owned(TREASURY)] == [before, treasury]
    assert chain.now()[Balances].burned.get() - burned == 2 * taken
    for racer in racers:
        device = chain.now()[Devices].devices[racer.device]
        assert device is not None
        assert (device.bond, device.secured, device.is_paused) == (DEVICE_BOND - taken, 0, True)


def test_where_nobody_opens_what_it_committed_a_quarter_of_the_price_burns() -> None:
    chain = MarketChain(named_keys(2))
    unit_id, unit, racers = matched(chain)
    before = chain.owned(CUSTOMER.stash)
    chain.block(*(commit(one, unit_id, unit, RIGHT) for one in racers))
    chain.blocks(1 + 12)
    assert chain.unit(unit_id).state is UnitState.RACING, "it may still be opened"
    chain.block()
    assert [missed.amount for missed in chain.happened(ev.RaceMissed)] == [unit.price // 4] * 2
    assert chain.owned(CUSTOMER.stash) == before
    assert chain.unit(unit_id).state is UnitState.QUEUED


def test_so_it_does_beside_two_that_agreed() -> None:
    chain = MarketChain(named_keys(3))
    unit_id, unit, racers = matched(chain, racers=3)
    chain.block(*(commit(one, unit_id, unit, RIGHT) for one in racers))
    chain.blocks(1)
    chain.block(attach(*(attestation(one, unit_id, unit, RIGHT) for one in racers[:2])))
    while chain.unit(unit_id).state is UnitState.RACING:
        chain.block()
    (missed,) = chain.happened(ev.RaceMissed)
    assert (missed.provider, missed.amount) == (racers[2].stash, unit.price // 4)
    assert chain.unit(unit_id).state is UnitState.SETTLED
    devices = chain.now()[Devices]
    shown = [(racer.collateral, devices.collateral_of(racer.owner, unit_id)) for racer in chain.unit(unit_id).racers]
    assert all(says == holds for says, holds in shown), "a case that came of it would charge what is gone"


def test_a_racer_that_missed_beside_one_that_worked_pays_the_customer_nothing() -> None:
    chain = MarketChain(named_keys(2))
    unit_id, unit, (worked, idle) = matched(chain)
    before = chain.owned(CUSTOMER.stash)
    assert unit.round is not None
    while chain.height < unit.round.drawn_at + 28:  # so late that the lease ends before the close
        chain.block()
    chain.block(commit(worked, unit_id, unit, RIGHT))
    while not chain.happened(ev.RaceMissed):
        chain.block()
    (missed,) = chain.happened(ev.RaceMissed)
    assert (missed.provider, missed.amount) == (idle.stash, collateral(unit.rules, unit.price) // 100)
    assert chain.owned(CUSTOMER.stash) == before
