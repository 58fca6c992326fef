"""Figures computed from observations of a devnet."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devnet.stage import report
from devnet.stage.measuring.final_blocks import ObservedFinals
from devnet.stage.measuring.latency import Latencies, percentile, slot_of


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
    observed = ObservedFinals()
    for number in (3, 4, 4, 7):
        observed._take_final("Alice", {"number": number, "hash": f"0x{number}"})
    assert observed.lost == []
    observed._take_final("Alice", {"number": 6, "hash": "0x6"})
    observed._take_final("Bob", {"number": 1, "hash": "0x1"})
    assert observed.lost == ["Alice was at final block 7 and then at 6"]
    assert observed.finals[4] == {"0x4"}


def test_a_node_without_its_database_may_go_back_once() -> None:
    observed = ObservedFinals(may_fall={"Alice"})
    for number in (7, 7, 2, 3):
        observed._take_final("Alice", {"number": number, "hash": f"0x{number}"})
    assert (observed.lost, observed.highest, observed.may_fall) == ([], {"Alice": 3}, set())
    observed._take_final("Alice", {"number": 1, "hash": "0x1"})
    assert observed.lost == ["Alice was at final block 3 and then at 1"]


def test_a_report_is_json_in_the_folder_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = report.write_report("some", {"text": "é", "failures": []})
    assert path == Path("out") / "some.json"
    assert json.loads(path.read_text(encoding="utf-8")) == {"text": "é", "failures": []}
