"""The numbers that a plan goes by: the chain's where it sells tasks, else those that its market begins with."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from gpu_tasks.client.planning import auction_numbers
from gpu_tasks.market.training.rules import DEFAULT_RULES, TaskRules
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.plan import AuctionNumbers
from runtime.pallets.system import System
from task_chain import TaskChain, numbers_of
from wallet.client import ChainClient


def numbers(pallets: tuple[Any, ...], values: dict[Any, int]) -> AuctionNumbers:
    """As read of a chain with these pallets, whose parameters have these values by their items."""

    async def read(item: Any, *, at: bytes) -> int:
        assert at == bytes(32)
        return values[item]

    client = SimpleNamespace(runtime=SimpleNamespace(pallets=pallets), read=read)
    return asyncio.run(auction_numbers(cast("ChainClient", client), bytes(32)))


def test_a_chain_that_sells_tasks_says_them() -> None:
    market = TaskChain(constants={"TrainingMarket.trace_fee_ppm": 20_000}).market
    values = {parameter.item: getattr(market, name) for name, parameter in TrainingMarket.parameters.items()}
    assert numbers((System, TrainingMarket), values) == numbers_of(market)
    assert market.rules(has_trace=True) != DEFAULT_RULES


def test_of_a_chain_that_sells_none_they_are_the_defaults() -> None:
    found = numbers((System,), {})
    assert (found.commit, found.reveal, found.start) == (12, 12, 10)
    assert isinstance(found.rules, TaskRules)
    assert found.rules.audit_rate_ppm == TrainingMarket.trace_audit_ppm.default
