"""The bars of a batch whose provider was killed in the middle."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from devnet.proofs.batch_kills import KilledBatch, answered_once, failures_of

GOOD = KilledBatch(
    requests=4_096, kills=dict.fromkeys(("25 %", "60 %", "committed", "samples to show"), 9), finished=4_096,
    settled_for="Alice", is_refuted=False, is_checked=True, attempts=1, answered=4_096, posted=1,
)  # fmt: skip


def test_what_holds_every_bar_passes() -> None:
    assert failures_of(GOOD) == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"settled_for": "queued"}, "settled for queued"),
        ({"attempts": 2}, "drawn 2 times"),
        ({"is_refuted": True}, "refuted"),
        ({"is_checked": False}, "no check of its claim passed"),
        ({"repeated": 1}, "1 finished requests were computed again"),
        ({"answered": 4_095}, "4,095 of 4,096 requests are answered once"),
        ({"collateral_lost": 7}, "7 grains of its collateral are gone"),
        ({"posted": 2}, "2 units were posted"),
        ({"kills": {"25 %": 1}}, "killed 1 times, not 4: 25 %"),
    ],
)
def test_what_does_not_is_said(changed: dict[str, Any], says: str) -> None:
    (failure,) = failures_of(replace(GOOD, **changed))
    assert re.search(says, failure)


def test_an_answer_that_is_none_or_stands_twice_is_not_counted() -> None:
    rows = [{"index": 0, "output": "a"}, {"index": 1, "output": None}, {"index": 2, "output": "b"}]
    assert answered_once(json.dumps({"answers": rows})) == 2
    assert answered_once(json.dumps({"answers": [*rows, rows[0]]})) == 1
