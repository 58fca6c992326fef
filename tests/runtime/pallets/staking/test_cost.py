"""A step's cost is independent of a validator's number of delegators: entries read and written, and their bytes."""

from copy import copy
from typing import cast

import pytest

from counted_reads import CountingReader
from runtime.state.overlay import Memory
from simulation.chains.market_chain import MarketChain
from simulation.stakes.crowds import PREPARED, STEPS, Backed, backed

FEW, MANY = 10, 1_000


@pytest.fixture(scope="module")
def crowds() -> list[Backed]:
    return [backed(count, MANY) for count in (FEW, MANY)]


def cost(crowd: Backed, name: str) -> tuple[int, int]:
    """Return the entries that a step reads and writes."""
    chain, reader = copy(crowd.chain), CountingReader(crowd.chain.state)
    chain.state = cast("Memory", reader)
    bound = PREPARED.get(name, MarketChain.now)(chain)
    before, written = reader.reads, len(bound.overlay.changes())
    STEPS[name](bound)
    return reader.reads - before, len(bound.overlay.changes()) - written


@pytest.mark.parametrize("name", STEPS)
def test_a_step_costs_the_same_whoever_stands_there(crowds: list[Backed], name: str) -> None:
    few, many = (cost(crowd, name) for crowd in crowds)
    assert few == many
    assert 0 < many[1] < 40


def test_a_delegator_is_one_record(crowds: list[Backed]) -> None:
    for crowd in crowds:
        assert crowd.bytes_each < 300
