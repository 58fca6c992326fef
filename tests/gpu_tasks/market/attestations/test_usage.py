"""Usage in attestations: impossible values are refused, possible ones are admitted."""

from dataclasses import replace

import pytest

from gpu_tasks.market.attestations.usage import (
    CORES_MAX,
    MEMORY_BYTES_MAX,
    METER_SLACK_MS,
    MS_PER_BLOCK_MAX,
    WATTS_MAX,
    WORK_PER_MS_MAX,
    Usage,
    impossible_usage,
)

BLOCKS, WALL = 3, 10_000
METERED = WALL + METER_SLACK_MS
MOST = Usage(
    work_units=METERED * WORK_PER_MS_MAX,
    gpu_ms=METERED,
    energy_mj=METERED * WATTS_MAX,
    cpu_ms=METERED * CORES_MAX,
    wall_ms=WALL,
    memory_peak_bytes=MEMORY_BYTES_MAX,
)
LONGEST = (BLOCKS + 1) * MS_PER_BLOCK_MAX


def test_nothing_and_the_most_are_possible() -> None:
    assert impossible_usage(Usage(0, 0, 0, 0, 0, 0), 0) == ""
    assert impossible_usage(MOST, BLOCKS) == ""
    assert impossible_usage(replace(MOST, wall_ms=LONGEST), BLOCKS) == ""


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("work_units", "work"),
        ("gpu_ms", "GPU time"),
        ("energy_mj", "energy"),
        ("cpu_ms", "processor time"),
        ("memory_peak_bytes", "memory"),
    ],
)
def test_a_grain_more_is_not(name: str, what: str) -> None:
    said = impossible_usage(replace(MOST, **{name: getattr(MOST, name) + 1}), BLOCKS)
    assert said == f"impossible {what}"


def test_no_more_time_passed_than_an_hour_for_each_block() -> None:
    assert impossible_usage(replace(MOST, wall_ms=LONGEST + 1), BLOCKS) == "impossible time"
    assert impossible_usage(replace(MOST, wall_ms=MS_PER_BLOCK_MAX + 1), 0) == "impossible time"
