"""What a measured market is held to, and whose processor time counts as its."""

import re
from dataclasses import replace

import pytest

from devnet.proofs.market.family import is_of
from devnet.proofs.market.trades import BARS, Trade, failures_of

GOOD = Trade(
    requests=256, racers=1, units=4, settled=4, tokens=1_000, seconds=2.0, tokens_per_second=500, of_bare=0.6,
    blocks_p50=5, blocks_p95=9, paid_per_thousand=1.0, duties_per_thousand=1.0, cpu_seconds=3.0, bare_cpu_seconds=1.0,
)  # fmt: skip


def test_what_reaches_its_bar_passes() -> None:
    assert BARS == {(256, 1): 0.6, (256, 2): 0.3}
    assert failures_of([GOOD, replace(GOOD, racers=2, of_bare=0.3), replace(GOOD, requests=1, of_bare=0.01)]) == []


@pytest.mark.parametrize(
    ("trade", "says"),
    [
        (replace(GOOD, of_bare=0.59), "59 % of the bare tokens with 256 requests a unit and 1 racing: 60 are wanted"),
        (replace(GOOD, racers=2, of_bare=0.29), "29 % .* 2 racing: 30 are wanted"),
        (replace(GOOD, requests=1, settled=3), "1 of 4 units of 1 requests, 1 racing, were not settled"),
    ],
)
def test_what_does_not_is_said(trade: Trade, says: str) -> None:
    (failure,) = failures_of([GOOD, trade])
    assert re.search(says, failure)


def test_only_descendants_of_the_network_count() -> None:
    parents = {10: 1, 11: 10, 12: 11, 20: 1, 21: 20}
    assert [pid for pid in parents if is_of(pid, {10}, parents)] == [10, 11, 12]
    assert not is_of(99, {10}, parents)
