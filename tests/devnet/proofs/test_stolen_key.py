"""The judgement of budgets on a devnet: facts that break one bar each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from devnet.proofs.stolen_key import course, theft
from devnet.proofs.stolen_key.course import BudgetCourse
from devnet.proofs.stolen_key.theft import Theft, Tried

REFUSED = {"unit": "not_delegate", "session": "not_delegate", "chat": "not_delegate"}
USED = BudgetCourse("Blue.", "settled", 2, "day_cap", REFUSED, 9, 5, 700, 700, 700)
ROBBED = Theft([Tried("a transfer", "NotAllowed", "NotAllowed")], 2, 6, 8, 6, 8, 4, 1, 3, 0)


@pytest.mark.parametrize(
    ("facts", "failures_of", "count"),
    [
        (USED, course.failures_of, 0),
        (replace(USED, answer=""), course.failures_of, 1),
        (replace(USED, unit_state="refunded"), course.failures_of, 1),
        (replace(USED, refused_at_cap=None), course.failures_of, 1),
        (replace(USED, refused_after_revoke=REFUSED | {"chat": None}), course.failures_of, 1),
        (replace(USED, claimed_after_blocks=31), course.failures_of, 1),
        (replace(USED, claimed_after_blocks=None), course.failures_of, 1),
        (replace(USED, explained=699), course.failures_of, 1),
        (replace(USED, owner_lost=701), course.failures_of, 1),
        (ROBBED, theft.failures_of, 0),
        (replace(ROBBED, tried=[Tried("a transfer", "NotAllowed", "success")]), theft.failures_of, 1),
        (replace(ROBBED, taken=9), theft.failures_of, 1),
        (replace(ROBBED, taken_in_day=7), theft.failures_of, 1),
        (replace(ROBBED, to_thief=1), theft.failures_of, 1),
        (replace(ROBBED, lost=9), theft.failures_of, 1),
    ],
)
def test_each_broken_bar_is_one_failure(facts: Any, failures_of: Callable[[Any], Iterator[str]], count: int) -> None:
    assert len(list(failures_of(facts))) == count
