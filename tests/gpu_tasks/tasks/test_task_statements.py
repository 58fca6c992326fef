"""A task's statements in blocks: each counts only with its step, root, provider and place."""

import re
from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.training.tasks import Task
from gpu_tasks.tasks.task_statements import Holding, StatedStep, TaskBlocks, check_statements
from simulation.chains.market_chain import CUSTOMER
from task_chain import RIGHT, awarded, work


@pytest.fixture(scope="module")
def task() -> Task:
    """Return a task with a milestone that its customer holds, and a result."""
    chain, _ = awarded()
    work(chain, chain.alice, milestones=3)
    chain.finish(chain.alice)
    return chain.now()


def blocks(task: Task) -> TaskBlocks:
    provider = task.slots[0].provider
    said = StatedStep(7, 0, provider, 3, RIGHT), StatedStep(9, 0, provider, None, RIGHT)
    return TaskBlocks(1, 20, is_whole=True, statements=said, holdings=(Holding(8, CUSTOMER.stash, 3),))


def test_what_the_record_says_is_found(task: Task) -> None:
    check = check_statements(task, blocks(task))
    assert check.is_right
    assert re.findall("[0-9]+", check.says) == ["3", "0", "7", "0", "9", "3", "8"]  # Milestone or slot, then the block


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("changed", [{"place": 1}, {"by": b"x" * 32}, {"number": 2}, {"root": b"x" * 32}], ids=str)
def test_less_is_not_found(task: Task, number: int, changed: dict[str, Any]) -> None:
    found = blocks(task)
    statements = list(found.statements)
    statements[number] = replace(statements[number], **changed)
    check = check_statements(task, replace(found, statements=statements))
    assert check.is_right is False
    assert re.findall("[0-9]+", check.says)[:2] == ["1", "20"]
    assert check_statements(task, replace(found, statements=statements, is_whole=False)).is_right is None


@pytest.mark.parametrize("changed", [{"by": b"x" * 32}, {"number": 2}], ids=str)
def test_a_holding_is_its_holder_s(task: Task, changed: dict[str, Any]) -> None:
    found = blocks(task)
    check = check_statements(task, replace(found, holdings=[replace(found.holdings[0], **changed)]))
    assert check.is_right is False
    assert check.says.endswith(": milestone 3 held")


def test_where_nothing_is_stated_nothing_is_missing() -> None:
    chain, _ = awarded()
    check = check_statements(chain.now(), TaskBlocks(1, 20, is_whole=True, statements=(), holdings=()))
    assert (check.is_right, check.says) == (None, "none yet")
