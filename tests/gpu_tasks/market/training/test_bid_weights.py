"""What bids prepay is what the hook charges for them: to be read, set free and dropped."""

import pytest

from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import PREPAID_BY_A_BID, READ_BID_WEIGHT, TrainingMarket
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.types import Weight
from simulation.chains.market_chain import OGPU
from task_chain import TaskChain, an_offer


@pytest.fixture
def charged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the hook has charged to each block, in reference time."""
    found: list[int] = []
    hook = TrainingMarket.on_initialize

    def watched(market: TrainingMarket) -> Weight:
        weight = hook(market)
        found.append(weight.ref_time)
        return weight

    monkeypatch.setattr(TrainingMarket, "on_initialize", watched)
    return found


def life_of(bids: int, charged: list[int]) -> tuple[int, int]:
    """A task with so many bids that its customer takes back when it is awarded, until nothing is left of it.

    What the block of the award was charged, and all blocks together.
    """
    chain = TaskChain(size=7)
    chain.submit()
    charged.clear()
    offers = {keys: an_offer((place + 1) * OGPU) for place, keys in enumerate(chain.keys[:bids])}
    chain.auction(offers)
    assert chain.state() is TaskState.STARTING
    award = charged[-1]
    chain.cancel()
    while chain.market.tasks[chain.task] is not None:
        chain.block()
    return award, sum(charged)


def test_three_bids_more_are_charged_what_they_have_prepaid(charged: list[int]) -> None:
    few_award, few = life_of(2, charged)
    many_award, many = life_of(5, charged)
    assert many_award - few_award == 3 * READ_BID_WEIGHT.ref_time
    assert many - few == 3 * PREPAID_BY_A_BID.ref_time


def test_a_commitment_weighs_its_call_and_what_the_bid_prepays() -> None:
    chain = TaskChain(size=7)
    chain.submit()
    call = chain.commit_call(chain.alice, an_offer(OGPU))
    assert call.weight.ref_time == (WEIGHTS["TrainingMarket.commit_bid"] + PREPAID_BY_A_BID).ref_time
