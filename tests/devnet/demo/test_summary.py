"""The bars of the demo fail where they should: each with a record that breaks it."""

from typing import Any

import pytest

from devnet.demo import summary

PAID = {"unit": "0x01", "state": "settled", "times_paid": 1, "completion": "x", "attestation": "0x02", "payee": "Alice"}
SLASHED = [{"provider": "Eve"}]


def test_a_demo_that_went_well_has_no_failure() -> None:
    assert summary.failures_of([PAID], SLASHED, 1, []) == []


@pytest.mark.parametrize(
    ("change", "slashed", "said"),
    [
        ({"times_paid": 2}, SLASHED, "paid 2 times"),
        ({"times_paid": 0, "state": "refunded"}, SLASHED, "refunded"),
        ({"completion": None}, SLASHED, "no completion"),
        ({"attestation": None}, SLASHED, "no attestation"),
        ({"payee": "Eve"}, SLASHED, "paid the cheat"),
        ({}, [], "not slashed"),
        ({}, [{"provider": "Bob"}, *SLASHED], "Bob is honest"),
    ],
)
def test_a_demo_that_did_not_says_why(change: dict[str, Any], slashed: list[dict[str, Any]], said: str) -> None:
    assert any(said in failure for failure in summary.failures_of([PAID | change], slashed, 1, []))


def test_a_missing_unit_and_a_wrong_sum_are_failures() -> None:
    assert len(summary.failures_of([PAID], SLASHED, 2, ["a sum"])) == 2
