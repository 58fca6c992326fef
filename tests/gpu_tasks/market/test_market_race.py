"""The life of a unit on a chain of the real pallets: posted, drawn, committed, revealed, paid."""

from market_chain import CUSTOMER, OGPU, MarketChain, attach, attestation, commit, named_keys, terms

from gpu_tasks.market import market_events as ev
from gpu_tasks.market.units import UnitState

RIGHT, WRONG = b"R" * 32, b"W" * 32


def test_two_agree_and_are_paid() -> None:
    chain = MarketChain(named_keys(4))
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    assert chain.unit(unit_id).state is UnitState.QUEUED
    while chain.unit(unit_id).state is UnitState.QUEUED:
        chain.block()
    assert chain.height == 4 + 3, "recorded at 4, drawn with the beacon of 6 in the first block that knows it is final"
    unit = chain.unit(unit_id)
    racers = [chain.keys_of(one.owner) for one in unit.racers]
    chain.block(*(commit(one, unit_id, unit, RIGHT) for one in racers))
    chain.block(attach(*(attestation(one, unit_id, unit, RIGHT) for one in racers)))
    (settled,) = chain.happened(ev.UnitSettled)
    assert (settled.winner, settled.witness) == (racers[0].stash, racers[1].stash)
    assert chain.unit(unit_id).state is UnitState.SETTLED
    assert settled.paid == settled.price * 13 // 10
    assert CUSTOMER.stash != settled.winner
    assert settled.price < OGPU
