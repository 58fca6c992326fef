"""Records of tasks for tests of decisions that need a record alone."""

from dataclasses import replace
from typing import Any

from gpu_tasks.market.training.rules import DEFAULT_RULES
from gpu_tasks.market.training.tasks import Task, TaskState, TaskWindows
from gpu_tasks.market.training.terms import TaskTerms
from task_chain import PRICE, an_order

WINDOWS = TaskWindows(12, 12, 10, 10, 8, 7_200)


def a_task(**changed: Any) -> Task:
    """Return a task of eight segments and four milestones that takes bids, with these fields in its order."""
    order = an_order(segments=8, milestones=4, run_blocks=20)
    of_order = {
        name: changed.pop(name)
        for name in list(changed)
        if hasattr(order, name) and name not in ("milestones", "slots")
    }
    order = replace(order, **of_order, milestones=changed.get("milestones", 4))
    terms = TaskTerms(PRICE, changed.pop("time_value_of_terms", PRICE // 400), PRICE // 4, 100, 19 * PRICE)
    fields: dict[str, Any] = {
        "customer": b"c" * 32, "order": order, "rules": DEFAULT_RULES, "windows": WINDOWS,
        "state": TaskState.COMMITTING, "submitted_at": 1, "deadline": 13, "terms": terms, "milestones": 4, **changed,
    }  # fmt: skip
    return Task(**fields)
