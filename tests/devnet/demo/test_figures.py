"""What the devnet's programs compute from what they saw."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devnet.demo import purchase
from devnet.launcher.errors import DevnetError
from devnet.measuring import crash_checks
from devnet.measuring.latency import Latencies, percentile, slot_of


@given(st.lists(st.integers(0, 10_000), min_size=1), st.integers(1, 100))
def test_percentile_is_a_value_that_enough_others_do_not_exceed(values: list[int], percent: int) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 < percent * len(values)


def test_figures_of_nothing_are_no_figures() -> None:
    assert percentile([], 99) is None
    assert Latencies(1000).figures()["final"] == {"p50_ms": None, "p99_ms": None, "blocks": 0}


def test_a_header_without_a_slot_has_none() -> None:
    assert slot_of({"digest": {"logs": []}}) is None
    assert slot_of({"digest": {"logs": ["0xff"]}}) is None


def test_a_node_that_goes_back_has_lost_something() -> None:
    observed = crash_checks.Observed()
    for number in (3, 4, 4, 7):
        observed._take("Alice", {"number": number, "hash": f"0x{number}"})
    assert observed.lost == []
    observed._take("Alice", {"number": 6, "hash": "0x6"})
    observed._take("Bob", {"number": 1, "hash": "0x1"})
    assert observed.lost == ["Alice was at final block 7 and then at 6"]
    assert observed.finals[4] == {"0x4"}


def test_prompts_are_repeated_when_there_are_too_few(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("one\n\n  two\n")
    assert purchase.read_prompts(file, 5) == ["one", "  two", "one", "  two", "one"]
    assert purchase.read_prompts(file, 1) == ["one"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe"])
def test_a_file_without_prompts_is_said_to_be_one(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "prompts.txt"
    file.write_bytes(content)
    with pytest.raises(DevnetError, match="prompt"):
        purchase.read_prompts(file, 20)
    with pytest.raises(DevnetError, match="PROMPTS names a text file"):
        purchase.read_prompts(tmp_path / "nothing", 20)


def test_there_are_default_prompts_for_every_unit_of_the_demo() -> None:
    assert len(set(purchase.read_prompts(purchase.DEFAULT_PROMPTS, 20))) == 20
