"""A whole market, seeded: honest, slow, lying and declining providers; every grain counted after every block."""

import random
from collections import Counter

import pytest

from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference import intake
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.schedules import EXPIRY_BUDGET, EXPIRY_WEIGHT, HEIGHT_BUDGET, STEP_WEIGHT
from gpu_tasks.market.inference.units import Refund, unit_id_of
from market_agents import Agent, Habit, right_root
from nightly_but import nightly_but
from runtime.encoding.types import Weight
from runtime.frame.errors import InvalidBlock
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    OGPU,
    MarketChain,
    named_keys,
    signed,
    terms,
    tolerant,
)

HABITS = (Habit.HONEST, Habit.HONEST, Habit.HONEST, Habit.HONEST, Habit.SLOW, Habit.LIAR, Habit.DECLINER)
BLOCKS = 150


def simulate(
    seed: int, habits: tuple[Habit, ...], blocks: int = BLOCKS, queue: int | None = None, rate: int = 100_000
) -> tuple[MarketChain, list[Agent]]:
    """Run a market under load for `blocks` blocks, with queues of `queue` units and checks at this rate."""
    chance = random.Random(seed)
    ahead = seed % 4 if queue is None else queue
    numbers, lag = {"ResultClaims.check_rate": rate}, chance.randint(1, 4)
    chain = MarketChain(named_keys(len(habits)), constants=numbers, final_lag=lag, chance=chance, queue=ahead)
    agents = [Agent(keys, habit, chance) for keys, habit in zip(chain.validators, habits, strict=True)]
    chain.blocks(6)
    for _ in range(blocks):
        steps = [tolerant(step, InvalidBlock) for agent in agents for step in agent.steps(chain)]
        chance.shuffle(steps)
        if chance.random() < 0.4:
            one = terms(chance.randint(OGPU // 10, OGPU), chance.randint(1, 3), max(0, chain.height - 10))
            steps.append(tolerant(signed(CUSTOMER.stash, InferenceMarket.post(service=0, units=(one,)))))
        chain.block(*steps, author=chance.choice(chain.validators))
    return chain, agents


@pytest.mark.parametrize("seed", nightly_but(1, range(4)))
def test_the_right_are_paid_and_the_honest_never_slashed(seed: int) -> None:
    chain, agents = simulate(seed, HABITS)
    by_stash = {agent.keys.stash: agent.habit for agent in agents}
    assert chain.happened(ev.UnitSettled)
    for slashed in chain.happened(ev.ProviderSlashed):
        assert by_stash[slashed.provider] in (Habit.LIAR, Habit.SLOW), "a slow one shows its samples too late"
    for missed in chain.happened(ev.RaceMissed):
        assert by_stash[missed.provider] in (Habit.SLOW, Habit.DECLINER)
    paid = Counter(settled.unit for settled in chain.happened(ev.UnitSettled))
    assert all(count == 1 for count in paid.values())


@pytest.mark.parametrize("seed", nightly_but(1, range(3)))
def test_where_every_request_is_checked_no_wrong_result_is_paid(seed: int) -> None:
    chain, _ = simulate(seed, (*HABITS, *[Habit.HONEST] * 5), rate=1_000_000)
    assert chain.happened(ev.UnitSettled)
    assert all(settled.output_root == right_root(settled.unit) for settled in chain.happened(ev.UnitSettled))


def test_more_units_than_a_block_may_look_at() -> None:
    chain = MarketChain(named_keys(2), constants={"InferenceMarket.queue_blocks": 20, "InferenceMarket.unit_keep": 60})
    chain.blocks(3)
    post = signed(CUSTOMER.stash, InferenceMarket.post(service=0, units=(terms(OGPU // 100, 3),) * 32))
    for _ in range(3):
        chain.block(*[post] * 2)
    assert chain.now()[InferenceMarket].open_unit_count.get() == 192
    in_a_block = HEIGHT_BUDGET.ref_time // STEP_WEIGHT.ref_time + 1
    chain.blocks(17)
    for _ in range(4):
        before = len(chain.happened(ev.UnitRefunded))
        chain.block()
        assert len(chain.happened(ev.UnitRefunded)) - before <= in_a_block
    assert {refund.refund for refund in chain.happened(ev.UnitRefunded)} == {Refund.EXPIRED}
    assert chain.now()[InferenceMarket].open_unit_count.get() == 0


def test_records_that_go_cost_no_block_more_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units posted and cancelled at once cost little. Their lists, carried from block to block, halted the chain."""
    monkeypatch.setattr(intake, "ADMITTED_MAX", Weight(10**15))  # more than a block takes in: the records count here
    chain = MarketChain(named_keys(2), constants={"InferenceMarket.queue_blocks": 9, "InferenceMarket.unit_keep": 9})
    chain.blocks(3)
    post = signed(CUSTOMER.stash, InferenceMarket.post(service=0, units=(terms(OGPU // 100, 3),) * 32))
    for start in range(0, 5 * 256, 256):
        ids = [unit_id_of(GENESIS_HASH, CUSTOMER.stash, start + place) for place in range(256)]
        chain.block(*[post] * 8, *(signed(CUSTOMER.stash, InferenceMarket.cancel(unit=unit_id)) for unit_id in ids))
    in_a_block = EXPIRY_BUDGET.ref_time // EXPIRY_WEIGHT.ref_time + 1
    prefix, left = chain.runtime.item(InferenceMarket.expiring.waiting).prefix, 5 * 256
    for _ in range(20):
        bound = chain.block()
        dropped = [key for key in bound.overlay.changes() if key.startswith(prefix)]
        assert len(dropped) <= in_a_block
        left -= len(dropped)
    assert left == 0
    assert not list(chain.now()[InferenceMarket].units.keys())
