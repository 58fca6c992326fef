"""A step's cost does not depend on how many stand behind a validator: entries read and written, and their bytes."""

import pytest

from counted_reads import CountingReader
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import MarketChain, signed
from simulation.stakes.crowds import ALICE, PREPARED, SAVER, STEPS, Backed, backed

FEW, MANY = 10, 1_000
TRIED = {**STEPS, "compound": signed(SAVER.stash, TrustStake.compound(ALICE.stash))}


@pytest.fixture(scope="module")
def crowds() -> tuple[Backed, Backed]:
    """Two chains with as many delegators: behind the validator in question stand a few of them, or all."""
    return backed(FEW, MANY), backed(MANY, MANY)


def cost(crowd: Backed, name: str) -> tuple[int, int]:
    """Entries that a step reads and writes."""
    bound = PREPARED.get(name, MarketChain.now)(crowd.chain)
    bound.overlay.reader = reader = CountingReader(bound.overlay.reader)
    TRIED[name](bound)
    return reader.reads, len(bound.overlay.changes())


@pytest.mark.parametrize("name", TRIED)
def test_a_step_costs_the_same_whoever_stands_there(crowds: tuple[Backed, Backed], name: str) -> None:
    few, many = (cost(crowd, name) for crowd in crowds)
    assert few == many
    assert 0 < many[1] < 40


def test_a_delegator_is_one_record(crowds: tuple[Backed, Backed]) -> None:
    for each in crowds:
        assert each.bytes_each < 300
