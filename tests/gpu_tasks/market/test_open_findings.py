"""Attacks on the market that once worked: each test checks the defence."""

from gpu_tasks.market.inference.units import UnitState
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import OGPU, MarketChain, commit, named_keys, terms
from unit_cases import RIGHT, post_unit

PATIENCE = 40
"""Blocks after which a unit is drawn, or never will be."""


def drawn(chain: MarketChain) -> bytes:
    """Return a unit of one racer, which must race."""
    unit_id = post_unit(chain, service=0, price=OGPU, racers=1)
    assert unit_id is not None
    for _ in range(PATIENCE):
        if chain.unit(unit_id).state is not UnitState.QUEUED:
            break
        chain.block()
    assert chain.unit(unit_id).state is UnitState.RACING
    return unit_id


# A device that is freed after the beacon was known was drawn by it.
def test_a_freed_device_enters_no_draw_whose_beacon_is_known() -> None:
    chain = MarketChain(named_keys(1), final_lag=3)
    (racer,) = chain.validators
    chain.blocks(5)
    busy = drawn(chain)
    (waiting,) = chain.post(terms(racers=1, sealed_at=chain.height - chain.final_lag))
    recorded = chain.unit(waiting).recorded_at
    while chain.now()[Beacon].value_at(recorded + 2) is None:
        chain.block()
    freed_at = chain.height + 1
    chain.block(commit(racer, busy, chain.unit(busy), RIGHT))
    chain.blocks(3)
    unit = chain.unit(waiting)
    assert unit.state is not UnitState.RACING or unit.recorded_at >= freed_at
