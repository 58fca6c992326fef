"""CPU time of both markets' hooks in a block with 10, 1,000 and 4,000 open tasks and as many open units.

    Run: python -m benchmarks crowds          about a minute

`idle` is the mean over blocks in which nothing is due. `due` is the worst block after the bidding time of all tasks
ends in one block: the hook closes a few of them in each block. `of_10` is the figure of 4,000 over the figure of 10. A
constant cost gives 1.
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import mean
from typing import Any

from benchmarks.figures import Figures
from gpu_tasks.market.inference.inference import UNITS_PER_POST_MAX, InferenceMarket
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Weight
from simulation.chains.market_chain import CUSTOMER, OGPU, MarketChain, named_keys, signed, terms

CHEAP = OGPU // 100
ORDER = TaskOrder(
    task_hash=b"t" * 32, workload=b"w" * 32, input_root=b"i" * 32, input_blob=b"b" * 32, sealed_at=0, classes=0b111,
    milestones=4, segments=0, run_blocks=4, price_max=OGPU, time_value=None, loss=None, blocks_max=100,
    collateral_min=0, slots=1, auctions=2,
)  # fmt: skip


def crowd_chain() -> MarketChain:
    """Return a chain with both markets and one task that takes bids for 50,000 blocks."""
    numbers = {"TrainingMarket.commit_blocks": 50_000}
    chain = MarketChain(named_keys(4), [], numbers, check=lambda _bound, _issued: None)
    chain.blocks(2)
    chain.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=ORDER)))
    return chain


def add_tasks(chain: MarketChain, count: int, deadline: int) -> list[bytes]:
    """Add `count` open tasks without bids, whose bidding time ends at block `deadline`."""
    bound = chain.now()
    market = bound[TrainingMarket]
    model = _first(market)
    names = [blake2_256(b"crowd" + number.to_bytes(4, "big")) for number in range(count)]
    for task_id in names:
        market.put(task_id, replace(model, deadline=deadline, deposit=0))
        market.open_auctions[task_id] = True
    market.open_task_count.set(market.open_task_count.get() + count)
    chain.state = chain.state.updated(bound.overlay.changes())
    return names


def add_units(chain: MarketChain, count: int) -> None:
    """Add `count` open units that sleep: post them in several blocks, then run 12 blocks in which no racer is found."""
    posts = [InferenceMarket.post(service=0, units=(terms(CHEAP, 1),) * size) for size in _sizes(count)]
    for first in range(0, len(posts), 3):
        chain.block(*(signed(CUSTOMER.stash, post) for post in posts[first : first + 3]))
    chain.blocks(12)


def _first(market: TrainingMarket) -> Task:
    return next(task for _, task in market.tasks.items() if task is not None)


def _sizes(count: int) -> list[int]:
    full, rest = divmod(count, UNITS_PER_POST_MAX)
    return [UNITS_PER_POST_MAX] * full + [rest] * bool(rest)


CROWDS = (10, 1_000, 4_000)
IDLE_BLOCKS = 12
DUE_BLOCKS = 8
MILLISECONDS = 1e3


def measure() -> Figures:
    """Return the milliseconds of both hooks together, for each crowd."""
    figures: Figures = {}
    for count in CROWDS:
        idle, due = _taken(count)
        figures |= {f"idle_{count}_ms": idle, f"due_{count}_ms": due}
    few, many = CROWDS[0], CROWDS[-1]
    return figures | {"idle_of_10": figures[f"idle_{many}_ms"] / figures[f"idle_{few}_ms"]}


def _taken(count: int) -> tuple[float, float]:
    chain = crowd_chain()
    add_units(chain, count)
    deadline = chain.height + IDLE_BLOCKS
    add_tasks(chain, count, deadline)
    with timed(TrainingMarket, InferenceMarket) as taken:
        chain.blocks(deadline - chain.height)
        idle = mean(taken) * 2 * MILLISECONDS  # each block has two hooks
        taken.clear()
        chain.blocks(DUE_BLOCKS)
    both = [first + second for first, second in zip(taken[::2], taken[1::2], strict=True)]
    return idle, max(both) * MILLISECONDS


@contextmanager
def timed(*markets: Any) -> Iterator[list[float]]:
    """Note the CPU seconds of each call of these pallets' hooks."""
    taken: list[float] = []
    hooks = {market: market.on_initialize for market in markets}

    def hook(market: Any) -> Weight:
        next(
            market.overlay.reader.keys(b"\xff" * 64), None
        )  # a state in memory sorts its keys at the first listing, which a database never does
        started = time.process_time()
        weight: Weight = hooks[type(market)](market)
        taken.append(time.process_time() - started)
        return weight

    for market in hooks:
        market.on_initialize = hook
    gc.collect()
    gc.disable()  # the whole crowd lies in this process's memory, and on a node it lies on disk
    try:
        yield taken
    finally:
        gc.enable()
        for market, right in hooks.items():
            market.on_initialize = right
