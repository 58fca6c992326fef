"""Measured figures: rows of the growing parts, and the cases that miss their bar."""

from types import SimpleNamespace
from typing import Any

from benchmarks.weights.__main__ import missed
from benchmarks.weights.findings import LEAST_NANOSECONDS, SLACK_NANOSECONDS, Findings, Ratio, line
from runtime.frame.weights import EXTRINSIC_BASE
from runtime.pallets.balances import Balances

METER: Any = SimpleNamespace()
TRANSFER = Balances.transfer_keep_alive(dest=bytes(32), value=1)


def test_a_line_through_few_and_many() -> None:
    assert line("A.b", "part", {1: 110.0, 201: 20_110.0}) == {"A.b": LEAST_NANOSECONDS, "A.b part": 100.0}
    assert line("A.b", "part", {0: 5_000.0, 10: 45_000.0}) == {"A.b": 5_000.0, "A.b part": 4_000.0}


def test_a_call_that_comes_by_thousands_is_compared_with_its_whole_extrinsic_and_gives_no_row() -> None:
    declared = (EXTRINSIC_BASE.ref_time + TRANSFER.weight.ref_time) / 1_000
    by_itself = declared + TRANSFER.weight.ref_time / 1_000
    found = Findings(SimpleNamespace(call=lambda *_: by_itself - EXTRINSIC_BASE.ref_time / 1_000))  # type: ignore[arg-type]
    found.alone(bytes(32), TRANSFER)
    assert found.ratios == {"Balances.transfer_keep_alive by itself": Ratio(by_itself, declared)}
    assert not found.rows


def test_what_takes_more_than_it_may_is_named() -> None:
    found = Findings(METER)
    found.ratios = {
        "light": Ratio(1_490_000.0, 1_000_000.0),
        "heavy": Ratio(1_510_000.0, 1_000_000.0),
        "tiny": Ratio(SLACK_NANOSECONDS, 100.0),
        "a hook's first work": Ratio(900_000.0, 100_000.0, 1_000_000.0),
    }
    found.figures = {"good_share_of_slot": 0.75, "bad_share_of_slot": 0.76, "bad_count": 1e6}
    (over, share) = missed(found)
    assert over.startswith("heavy: 1.51 times its weight")
    assert share.startswith("bad_share_of_slot: 0.76")
