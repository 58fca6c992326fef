"""CPU that the hooks of both markets take in a block with 10, 1,000 and 4,000 open tasks, and as many open units.

Run: python -m benchmarks.crowds          about a minute

`idle`: nothing is due, the mean of the blocks. `due`: the time of all tasks ends in one block, and they end a few in
each; the worst block. `of_10` is 4,000 over 10: flat is one.
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import mean
from typing import Any

from benchmarks.figures import Figures, report
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.types import Weight
from scripts.chains.crowds import add_tasks, add_units, crowd_chain

CROWDS = (10, 1_000, 4_000)
IDLE_BLOCKS = 12
DUE_BLOCKS = 8
MILLISECONDS = 1e3


def measure() -> Figures:
    """Milliseconds of both hooks together, for each crowd."""
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
    with _timed() as taken:
        chain.blocks(deadline - chain.height)
        idle = mean(taken) * 2 * MILLISECONDS  # two hooks in each block
        taken.clear()
        chain.blocks(DUE_BLOCKS)
    both = [first + second for first, second in zip(taken[::2], taken[1::2], strict=True)]
    return idle, max(both) * MILLISECONDS


@contextmanager
def _timed() -> Iterator[list[float]]:
    """CPU seconds of each call of either hook."""
    taken: list[float] = []
    hooks: dict[Any, Any] = {market: market.on_initialize for market in (TrainingMarket, InferenceMarket)}

    def timed(market: Any) -> Weight:
        next(
            market.overlay.reader.keys(b"\xff" * 64), None
        )  # a state in memory sorts its keys once, and no database does
        started = time.process_time()
        weight: Weight = hooks[type(market)](market)
        taken.append(time.process_time() - started)
        return weight

    for market in hooks:
        market.on_initialize = timed
    gc.collect()
    gc.disable()  # all that the crowd is made of lies in this process: on a node it lies on the disk
    try:
        yield taken
    finally:
        gc.enable()
        for market, hook in hooks.items():
            market.on_initialize = hook


if __name__ == "__main__":
    report(measure)
