"""The named numbers and the inequalities between them."""

from dataclasses import replace
from typing import Any, cast

import pytest

from consensus.parameters import DEVNET, MAINNET, SAMPLE_UNITS_MAX, SAMPLE_UNITS_MIN, Parameters

BROKEN = [
    ("skew_ms", 1_000, "skew_ms < slot_ms"),
    ("heartbeat_slots", 0, "heartbeat_slots >= 1"),
    ("epoch_blocks", 2, "epoch_blocks >= 3"),
    ("processing_max", 200, "processing_max < final_lag_max"),
    ("polls_max", 0, "polls_max >= 1"),
    ("poll_soft_ms", 2_000, "poll_interval_ms <= poll_soft_ms <= poll_timeout_ms"),
    ("poll_idle_interval_ms", 1, "poll_interval_ms <= poll_idle_interval_ms"),
    ("soft_wait_ms", 2_000, "soft_wait_ms < round_timeout_ms"),
    ("resend_ms", 3_000, "resend_ms <= round_timeout_ms"),
    ("override_skips", 0, "override_skips >= 1"),
    ("fetches_per_peer_max", 64, "fetches_per_peer_max < fetches_by_voters_max"),
    ("sample_units", 2, "3 <= sample_units <= 256"),
    ("sample_units", 257, "3 <= sample_units <= 256"),
    ("fetch_grace_ms", -1, "fetch_grace_ms >= 0"),
]


@pytest.mark.parametrize(("name", "value", "rule"), BROKEN)
def test_a_broken_rule_is_named(name: str, value: int, rule: str) -> None:
    with pytest.raises(ValueError, match=f"^{rule}"):
        replace(DEVNET, **cast(dict[str, Any], {name: value}))


@pytest.mark.parametrize(
    ("height", "epoch", "is_boundary"),
    [(0, 0, False), (1, 0, False), (59, 0, False), (60, 0, True), (61, 1, False), (120, 1, True), (121, 2, False)],
)
def test_epochs(height: int, epoch: int, is_boundary: bool) -> None:
    assert DEVNET.epoch_of(height) == epoch
    assert DEVNET.is_boundary(height) == is_boundary
    assert not is_boundary or DEVNET.boundary(epoch) == height


@pytest.mark.parametrize(("epoch", "height"), [(0, 0), (1, 40), (2, 100)])
def test_settled_height(epoch: int, height: int) -> None:
    assert DEVNET.settled_height(epoch) == height


def test_timeouts_double_up_to_a_low_cap() -> None:
    assert [DEVNET.round_timeout(skips) for skips in range(5)] == [2_000, 4_000, 8_000, 8_000, 8_000]
    assert MAINNET.round_timeout(99) == 32_000


def test_the_design_fixes_these() -> None:
    assert (DEVNET.slot_ms, DEVNET.heartbeat_slots, DEVNET.epoch_blocks) == (1_000, 1, 60)
    assert (MAINNET.slot_ms, MAINNET.heartbeat_slots, MAINNET.epoch_blocks) == (2_000, 10, 1_800)
    assert Parameters() == DEVNET


@pytest.mark.parametrize("units", [SAMPLE_UNITS_MIN, SAMPLE_UNITS_MAX])
def test_the_smallest_and_the_largest_sample_are_allowed(units: int) -> None:
    assert replace(DEVNET, sample_units=units).sample_units == units
