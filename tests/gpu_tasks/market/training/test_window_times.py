"""The windows of tasks in seconds: what the page says of both sets of numbers, and that what must fit in does so."""

from pathlib import Path

import pytest

from genesis.parameters import CONSENSUS, numbers
from gpu_tasks.data.run_states import STATE_BYTES_MAX
from gpu_tasks.data.sealing import BLOB_BYTES_MAX
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.tasks.bid_terms import COMMIT_BLOCKS_LEAST, WINDOW_BLOCKS_LEAST

PAGE = (Path(__file__).parents[4] / "docs" / "training.md").read_text(encoding="utf-8")
WINDOWS = (
    "commit_blocks", "reveal_blocks", "start_blocks", "grace_blocks", "ask_blocks", "dispute_blocks", "accept_blocks",
    "show_blocks", "task_keep",
)  # fmt: skip
FETCHING = ("start_blocks", "grace_blocks", "ask_blocks", "show_blocks")
LINE_BYTES_PER_SECOND = 1_000_000 // 8
"""Of a line of 1 Mbit/s."""


def blocks(preset: str, window: str) -> int:
    found: int = numbers(preset).get(f"TrainingMarket.{window}", getattr(TrainingMarket, window).default)
    return found


def seconds(preset: str, window: str) -> int:
    """Where each slot has a block."""
    return blocks(preset, window) * CONSENSUS[preset].slot_ms // 1_000


def in_words(span: int) -> str:
    for unit, length in (("h", 3_600), ("min", 60)):
        if span % length == 0:
            return f"{span // length} {unit}"
    return f"{span} s"


@pytest.mark.parametrize("window", WINDOWS)
def test_the_page_says_how_long_a_window_is(window: str) -> None:
    times = [in_words(seconds(preset, window)) for preset in ("devnet", "mainnet")]
    assert f"| `{window}` | {' | '.join(times)} |" in PAGE


def test_the_page_says_how_large_a_blob_is_and_how_much_rarer_blocks_may_be() -> None:
    assert f"{BLOB_BYTES_MAX:,} bytes at most" in PAGE
    assert BLOB_BYTES_MAX / LINE_BYTES_PER_SECOND < 9
    assert STATE_BYTES_MAX <= 1_000_000
    assert CONSENSUS["mainnet"].heartbeat_slots == 10
    assert "every tenth slot" in PAGE


def test_mainnet_leaves_a_slow_line_time_for_a_blob_to_come_and_to_go() -> None:
    for window in FETCHING:
        assert seconds("mainnet", window) > 60 > 2 * BLOB_BYTES_MAX / LINE_BYTES_PER_SECOND
    assert seconds("mainnet", "commit_blocks") > 2 * BLOB_BYTES_MAX / LINE_BYTES_PER_SECOND
    assert seconds("mainnet", "dispute_blocks") >= 3_600


@pytest.mark.parametrize("preset", CONSENSUS)
def test_providers_find_every_window_long_enough_to_bid(preset: str) -> None:
    assert all(blocks(preset, window) >= WINDOW_BLOCKS_LEAST for window in WINDOWS)
    assert blocks(preset, "commit_blocks") > COMMIT_BLOCKS_LEAST
