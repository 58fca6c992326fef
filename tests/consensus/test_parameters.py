"""The named numbers and the inequalities between them."""

from dataclasses import replace
from typing import Any, cast

import pytest

from consensus.parameters import DEVNET, MAINNET, SAMPLE_UNITS_MAX, SAMPLE_UNITS_MIN, Parameters

BROKEN = [
    ("skew_ms", 1_000, "a clock may differ by less than a slot"),
    ("heartbeat_slots", 0, "a heartbeat comes at the earliest each slot"),
    ("epoch_blocks", 2, "an epoch has thirds: two make the seed, one settles it"),
    ("processing_max", 200, "the pipeline of soft blocks is shorter than the tolerated lag of finality"),
    ("polls_max", 0, "at least one poll may be open"),
    ("poll_soft_ms", 2_000, "a poll starts, ends softly and times out in this order"),
    ("poll_idle_interval_ms", 1, "fruitless polls come at most as often as fruitful ones"),
    ("soft_wait_ms", 2_000, "preference may decide before a skip does"),
    ("resend_ms", 3_000, "lost votes are repeated before the round gives up"),
    ("override_skips", 0, "own acceptance is respected at the first skip at least"),
    ("fetches_per_peer_max", 64, "one peer cannot fill the list of wanted blocks"),
    ("sample_units", 2, "a sample has 3 to 256 units"),
    ("sample_units", 257, "a sample has 3 to 256 units"),
    ("fetch_grace_ms", -1, "fetch_grace_ms is not negative"),
]


@pytest.mark.parametrize(("name", "value", "sentence"), BROKEN)
def test_each_rule_is_a_sentence(name: str, value: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
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
