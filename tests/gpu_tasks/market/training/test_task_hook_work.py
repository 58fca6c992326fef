"""The hooks' cost with 10, 1,000 and 4,000 open tasks and units, counted in storage reads and pieces."""

import pytest

from benchmarks.crowds import add_tasks, add_units, crowd_chain
from counted_reads import HookRun, most_reads, watched_hook
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import HEIGHT_BUDGET, STEP_WEIGHT, TrainingMarket, step_weight
from runtime.frame.schedule import TAKE_WEIGHT

CROWDS = (10, 1_000, pytest.param(4_000, marks=pytest.mark.nightly))
IDLE_READS = 16
"""The reads of the tasks' hook when nothing is due: cursors, the height, and the newest final block."""
UNITS_IDLE_READS = 40
READS_OF_AN_END = 40
"""The reads of a task without bids that ends: its record, its holds, its schedule entries."""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[HookRun]]:
    """Record the runs of each hook."""
    return {pallet.__name__: watched_hook(monkeypatch, pallet) for pallet in (TrainingMarket, InferenceMarket)}


@pytest.mark.parametrize("count", CROWDS)
def test_tasks_and_units_that_wait_cost_no_block_anything(reads: dict[str, list[HookRun]], count: int) -> None:
    chain = crowd_chain()
    add_units(chain, count)
    add_tasks(chain, count, chain.height + 1_000)
    assert chain.now()[InferenceMarket].open_unit_count.get() == count
    assert chain.now()[TrainingMarket].open_task_count.get() == count + 1
    for counted in reads.values():
        counted.clear()
    chain.blocks(6)
    assert most_reads(reads["TrainingMarket"]) <= IDLE_READS
    assert most_reads(reads["InferenceMarket"]) <= UNITS_IDLE_READS


@pytest.mark.parametrize("count", CROWDS)
def test_tasks_that_are_all_due_at_once_end_a_few_in_each_block(reads: dict[str, list[HookRun]], count: int) -> None:
    chain = crowd_chain()
    names = add_tasks(chain, count, chain.height + 1)
    each = (step_weight(1) + TAKE_WEIGHT).ref_time
    in_a_block = -(-HEIGHT_BUDGET.ref_time // each)
    assert STEP_WEIGHT.ref_time < each
    chain.block()
    reads["TrainingMarket"].clear()
    left = count
    while left:
        chain.block()
        market = chain.now()[TrainingMarket]
        still = market.open_task_count.get() - 1
        assert left - still == min(left, in_a_block)
        left = still
    assert most_reads(reads["TrainingMarket"]) <= IDLE_READS + in_a_block * READS_OF_AN_END
    assert len(reads["TrainingMarket"]) == -(-count // in_a_block)
    ended = [chain.now()[TrainingMarket].tasks[task_id] for task_id in names]
    assert all(task is not None and task.state is TaskState.ENDED for task in ended)
