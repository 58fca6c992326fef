"""What became of tasks, as `ogpu history` lists them: states as Slurm's, exit codes, blocks that were worked."""

from dataclasses import replace
from typing import Any

import pytest

from cli.output import Account
from gpu_tasks.client.tasks import records
from gpu_tasks.client.tasks.records import (
    HISTORY_COLUMNS,
    HISTORY_STATES,
    ended_well,
    exit_code_of,
    history_row,
    slot_rows,
)
from gpu_tasks.market.training.life.leaving import Stop
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.workloads.registry import form_named
from replica_chain import replicated
from simulation.chains.market_chain import OGPU
from task_chain import WRONG, TaskChain, a_result, awarded, finish_and_accept, time_order, with_offers, work
from wallet.amounts import Grains


def begun(**order: Any) -> TaskChain:
    """Four intervals of three blocks, which Alice has begun."""
    chain = TaskChain()
    wanted = {**time_order(), **order}
    chain.submit(**wanted)
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, blocks=wanted["blocks_max"]))
    chain.start(chain.alice)
    return chain


def end(chain: TaskChain, exit_code: int) -> None:
    """The program ends in the third block after its start."""
    chain.blocks(2)
    result = replace(a_result(chain.alice), metric=exit_code)
    chain.do(chain.alice, TrainingMarket.finish(task=chain.task, place=0, result=result))


def row(chain: TaskChain) -> dict[str, Any]:
    found = history_row(chain.task, chain.now())
    assert tuple(found) == HISTORY_COLUMNS
    assert found["state"] in HISTORY_STATES
    return found


@pytest.mark.parametrize(("exit_code", "state"), [(0, "completed"), (3, "failed")])
def test_a_job_went_as_its_exit_code_says(exit_code: int, state: str) -> None:
    chain = begun()
    running = row(chain)
    assert (running["state"], running["exit_code"], running["blocks"]) == ("running", None, None)
    end(chain, exit_code)
    task, found = chain.now(), row(chain)
    assert (found["kind"], found["state"], found["exit_code"]) == ("job", state, exit_code)
    assert ended_well(task) is (exit_code == 0)
    assert (found["submitted"], found["started"], found["blocks"]) == (task.submitted_at, task.started_at, 3)
    assert (found["provider"], found["price"]) == (Account(chain.alice.stash), Grains(7 * OGPU))
    assert (found["milestones"], found["outcome"]) == ("0/4", "time_over")


def test_a_lease_went_well_whatever_its_program_ended_with() -> None:
    chain = begun(**time_order(blocks_max=4, milestones=1, is_lease=True))
    chain.blocks(3)
    chain.do(chain.alice, TrainingMarket.finish(task=chain.task, place=0, result=a_result(chain.alice)))
    found = row(chain)
    assert (found["kind"], found["state"], found["exit_code"]) == ("lease", "completed", 7)
    assert ended_well(chain.now())


def test_what_its_customer_ended_is_cancelled() -> None:
    chain = TaskChain()
    chain.submit(**time_order())
    assert (row(chain)["state"], row(chain)["provider"], row(chain)["price"]) == ("pending", None, None)
    chain.cancel()
    assert row(chain)["state"] == "cancelled"
    stopped = begun()
    stopped.ask(TrainingMarket.amend(task=stopped.task, change=Stop()))
    assert (row(stopped)["state"], row(stopped)["outcome"]) == ("cancelled", "time_stopped")
    assert not ended_well(stopped.now())


def test_what_nobody_bid_for_or_whose_worker_left_has_failed() -> None:
    chain = TaskChain()
    chain.submit(**time_order(), auctions=1)
    chain.until(TaskState.ENDED)
    assert (row(chain)["state"], row(chain)["outcome"]) == ("failed", "no_award")
    left = begun(auctions=1)
    for keys in left.keys[:2]:
        left.do(keys, TrainingMarket.leave(task=left.task))
        if left.state() is not TaskState.ENDED:
            left.start(left.keys[1])
    assert (row(left)["state"], ended_well(left.now())) == ("failed", False)


def test_a_task_without_a_program_has_no_exit_code() -> None:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=3, counted=3)
    finish_and_accept(chain, chain.alice)
    found = row(chain)
    assert (found["state"], found["exit_code"], found["milestones"]) == ("completed", None, "4/4")
    assert ended_well(chain.now())


def test_of_copies_the_exit_code_is_that_of_who_most_agree_with() -> None:
    chain, _, _ = replicated()
    task = chain.now()
    told = [a_result(chain.keys[place], WRONG if place == 0 else b"r" * 32) for place in range(3)]
    slots = tuple(
        replace(slot, result=replace(told[place], metric=0 if place else 1),
                outcome=TaskOutcome.ON_TIME if place else TaskOutcome.OUTVOTED)
        for place, slot in enumerate(task.slots)
    )  # fmt: skip
    ended = replace(task, slots=slots, state=TaskState.ENDED, outcome=TaskOutcome.ON_TIME)
    assert exit_code_of(ended) == 0
    assert ended_well(ended)
    assert exit_code_of(replace(ended, slots=task.slots)) is None


def test_of_a_program_the_number_that_is_stated_is_its_exit_code_and_of_a_run_it_has_a_unit() -> None:
    chain = begun()
    end(chain, 3)
    (slot,) = slot_rows(chain.now(), {})
    assert (slot["exit_code"], slot["metric"], slot["metric_unit"]) == (3, None, None)
    chain, _ = awarded()
    work(chain, chain.alice, milestones=1, counted=1)
    training = replace(chain.now().order, workload=form_named("train-int8").workload_id)
    (slot,) = slot_rows(replace(chain.now(), order=training), {})
    assert slot["exit_code"] is None
    assert slot["metric"] is not None
    assert "bit" in slot["metric_unit"]


@pytest.mark.parametrize(("code", "says"), [(0, "done"), (3, "failed"), (records.EXIT_STOPPED, "time over")])
def test_a_job_that_ended_by_itself_is_not_called_out_of_time(code: int, says: str) -> None:
    chain = begun()
    end(chain, code)
    assert says in records.progress(chain.now())
    assert ("time over" in records.progress(chain.now())) == (says == "time over")
