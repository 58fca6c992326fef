"""What `ogpu-provider status` says of a seat: which case, what is held, how far the case and the judge are."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.courts.cases import CaseKind, CaseRules, CaseStage, CaseTerms, CourtCase, JudgeSeat
from gpu_tasks.market.courts.opinions import Answered, Statement
from gpu_tasks.market.courts_api import CaseStatus, SeatStatus
from gpu_tasks.provider.commands.showing import seat_row
from wallet.output import Grains

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
