"""Crowds of open tasks and units on a chain of both markets, for what the hooks take of a block with so many of them.

Tasks are copies of one that was submitted, whose money they do not have; units are posted, for less than anybody asks.
"""

from dataclasses import replace

from gpu_tasks.market.inference.inference import UNITS_PER_POST_MAX, InferenceMarket
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.cryptography.hashing import blake2_256
from scripts.chains.market_chain import CUSTOMER, OGPU, MarketChain, named_keys, signed, terms

CHEAP = OGPU // 100
ORDER = TaskOrder(
    task_hash=b"t" * 32, workload=b"w" * 32, input_root=b"i" * 32, input_blob=b"b" * 32, sealed_at=0, classes=0b111,
    milestones=4, segments=0, run_blocks=4, price_max=OGPU, time_value=None, loss=None, blocks_max=100,
    collateral_min=0, slots=1, is_homogeneous=False, auctions=2,
)  # fmt: skip


def crowd_chain() -> MarketChain:
    """Both markets, and a task that takes bids for long."""
    numbers = {"TrainingMarket.commit_blocks": 50_000}
    chain = MarketChain(named_keys(4), [], numbers, check=lambda _bound, _issued: None)
    chain.blocks(2)
    chain.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=ORDER)))
    return chain


def add_tasks(chain: MarketChain, count: int, deadline: int) -> list[bytes]:
    """So many open tasks without bids, whose time for them ends at a height."""
    bound = chain.now()
    market = bound[TrainingMarket]
    model = _first(market)
    names = [blake2_256(b"crowd" + number.to_bytes(4, "big")) for number in range(count)]
    for task_id in names:
        market.put(task_id, replace(model, deadline=deadline, deposit=0))
        market.on_sale[task_id] = True
    market.open_tasks.set(market.open_tasks.get() + count)
    chain.state = chain.state.updated(bound.overlay.changes())
    return names


def add_units(chain: MarketChain, count: int) -> None:
    """So many open units that sleep: a few posts in each block, and the blocks that look for racers in vain."""
    posts = [InferenceMarket.post(service=0, units=(terms(CHEAP, 1),) * size) for size in _sizes(count)]
    for first in range(0, len(posts), 3):
        chain.block(*(signed(CUSTOMER.stash, post) for post in posts[first : first + 3]))
    chain.blocks(12)


def _first(market: TrainingMarket) -> Task:
    return next(task for _, task in market.tasks.items() if task is not None)


def _sizes(count: int) -> list[int]:
    full, rest = divmod(count, UNITS_PER_POST_MAX)
    return [UNITS_PER_POST_MAX] * full + [rest] * bool(rest)
