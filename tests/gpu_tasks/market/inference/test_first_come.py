"""Who waits longest is served first, whatever its unit is called, and however many others come behind it."""

import random

import pytest

from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.inference import InferenceMarket
from market_agents import Agent, Habit
from simulation.chains.market_chain import CUSTOMER, OGPU, MarketChain, named_keys, signed, terms

LATE_BLOCKS = 30
"""Who is drawn in vain just before a slot is freed comes after those who are drawn once it is."""


def most_overtaken(chain: MarketChain, *, units: int, blocks: int) -> tuple[int, int]:
    """So many units are posted in each block: by how many blocks a younger one came first, and how many were drawn."""
    agents = [Agent(keys, Habit.HONEST, random.Random(place)) for place, keys in enumerate(chain.validators)]
    waiting: dict[bytes, int] = {}
    most = drawn = 0
    for _ in range(blocks):
        wanted = (terms(OGPU, 1, chain.height),) * units
        post = signed(CUSTOMER.stash, InferenceMarket.post(service=0, units=wanted))
        seen = len(chain.all_events)
        chain.block(post, *(step for agent in agents for step in agent.steps(chain)))
        for event in chain.all_events[seen:]:
            if isinstance(event, ev.UnitPosted):
                waiting[event.unit] = chain.height
            elif isinstance(event, ev.UnitMatched) and event.unit in waiting:
                posted, drawn = waiting.pop(event.unit), drawn + 1
                most = max(most, posted - min(waiting.values(), default=posted))
    return most, drawn


@pytest.mark.parametrize(("validators", "units"), [(2, 1), (4, 1), (4, 2), (6, 3)])
def test_a_market_that_is_full_serves_who_came_first(validators: int, units: int) -> None:
    """Drawn in the order of hashes, one of four units waited for 241 blocks beside customers who kept coming."""
    chain = MarketChain(named_keys(validators))
    chain.blocks(3)
    most, drawn = most_overtaken(chain, units=units, blocks=60)
    assert drawn > 10
    assert most <= LATE_BLOCKS
