"""A seat and a batch with a requested tree in `ogpu-provider status`: the progress of each."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.courts.cases import CaseKind, CaseRules, CaseStage, CaseTerms, CourtCase, JudgeSeat
from gpu_tasks.market.courts.courts_api import CaseStatus, SeatStatus
from gpu_tasks.market.courts.opinions import Answered, Statement
from gpu_tasks.market.leaf_disputes.disputes import LeafDispute, LeafDisputeStage, Side
from gpu_tasks.market.leaf_disputes.leaf_disputes_api import LeafDisputeStatus
from gpu_tasks.provider.commands.status import dispute_row, seat_row
from wallet.amounts import Grains

TERMS = CaseTerms(b"c" * 32, 100, 5, 100, 0, 1_900, 0, 3, 30, (), ())
RULES = CaseRules(50_000, 33, 20, 12, 20)
CASE = CourtCase(10, CaseKind.DISPUTE, TERMS, 50, 2_000, RULES, None, CaseStage.COMMITTEE, 9)
SEAT = JudgeSeat(1, 1, 2_000, bytes(32))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "nothing yet"),
        ({"commitment": bytes(32)}, "committed"),
        ({"commitment": bytes(32), "statement": Statement(Answered(bytes(32)), bytes(32))}, "opened"),
    ],
)
def test_a_seat_is_shown_with_what_its_judge_has_done(changed: dict[str, Any], said: str) -> None:
    status = SeatStatus(b"i" * 32, replace(SEAT, **changed), CaseStatus(CASE, 30, 0, 0))
    assert seat_row(status) == {
        "case": b"i" * 32, "bench": "committee", "held": Grains(2_000), "stage": "committee", "said": said,
    }  # fmt: skip


SIDES = (Side(b"r" * 32, (b"a" * 32,)), Side(b"o" * 32, (b"b" * 32,), has_shown=True))
DISPUTE = LeafDispute(3, 200, SIDES, 100, LeafDisputeStage.SUBTREES, deadline=140)


@pytest.mark.parametrize(
    ("changed", "asked_for"),
    [
        ({}, "upper nodes"),
        ({"stage": LeafDisputeStage.LEAVES, "subtree": 1}, "leaves 64 to 127"),
        ({"stage": LeafDisputeStage.LEAVES, "subtree": 3}, "leaves 192 to 199"),
    ],
)
@pytest.mark.parametrize(("stash", "shown"), [(b"a" * 32, False), (b"b" * 32, True)])
def test_a_batch_is_shown_with_what_is_asked_for_and_until_when(
    changed: dict[str, Any], asked_for: str, stash: bytes, shown: bool
) -> None:
    status = LeafDisputeStatus(b"u" * 32, replace(DISPUTE, **changed))
    assert dispute_row(status, stash) == {
        "batch": b"u" * 32, "asked_for": asked_for, "until_block": 140, "shown": shown,
    }  # fmt: skip
