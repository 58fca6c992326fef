"""Why a unit was refunded: its record says so until it is dropped."""

from dataclasses import replace

import pytest

from gpu_tasks.client.units.results import REASONS, why_refunded
from gpu_tasks.market.inference.units import Refund, Unit, UnitState, UnitTerms

REFUNDED = Unit(
    0, b"c" * 32, UnitTerms(5, 2, b"i" * 32, b"h" * 32, 1, 8), 0, 0, 0, 9, 9, UnitState.REFUNDED, ended_at=30
)


@pytest.mark.parametrize("refund", Refund)
def test_the_record_says_why(refund: Refund) -> None:
    assert why_refunded(replace(REFUNDED, refund=refund)) == f"refunded in block 30: {REASONS[refund]}"
