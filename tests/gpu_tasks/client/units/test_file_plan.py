"""A file before anything is posted: read, split, taken up again; without a chain."""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_tasks.batches.requests import PRICED, decode_requests
from gpu_tasks.client.units.file_plan import FilePlan, FileWish, Sold, plan_file, room_of
from gpu_tasks.client.units.lines import BatchFileError, FileForm
from gpu_tasks.client.units.posting import PostError
from gpu_tasks.client.units.run_record import BatchRecord
from gpu_tasks.market.inference.services import UNIT_LEASE_MAX, ServiceTerms, lease_of
from gpu_tasks.workloads.registry import form_named
from planned_file import SOLD, WISH, planned, wanted


def asked(plan: FilePlan) -> list[tuple[bytes, int, int, int, int]]:
    """What every unit says."""
    return [(unit.request, unit.count, unit.tokens_in, unit.tokens_max, unit.price_max) for unit in plan.units()]


def test_a_file_that_is_taken_up_asks_the_same_with_the_same_chance(tmp_path: Path) -> None:
    first = planned(wanted(tmp_path))
    assert [unit.count for unit in first.units()] == [2, 2, 1]
    assert [decode_requests(unit.request) for unit in first.units()[:2]] == [
        tuple(first.terms.request(line) for line in first.lines_of(place)) for place in range(2)
    ]
    assert [name.text for name in first.names()] == ["2 requests, lines 1 to 2", "2 requests, lines 3 to 4", "line 5"]
    assert asked(planned(wanted(tmp_path))) != asked(first), "nobody has begun it"
    assert not (tmp_path / "records").exists(), "and nothing is written for looking"
    with BatchRecord.open(tmp_path / "records", *first.record_of) as record:
        record.begin(first.plan)
    again = planned(wanted(tmp_path), price_max=1, is_sold=False)
    assert asked(again) == asked(first), "whatever devices have free by now, and whether the service is still there"
    assert planned(wanted(tmp_path, "a\nb\n")).record_of != first.record_of
    assert first.postings_of != first.record_of, "each record has a lock of its own"


def test_a_file_that_changes_is_not_asked_otherwise(tmp_path: Path) -> None:
    wish = wanted(tmp_path)
    plan = planned(wish)
    wish.stream.seek(2)
    wish.stream.write(b"B")
    assert [line.text for line in plan.lines_of(1)] == ["c", "d"]
    with pytest.raises(BatchFileError, match="changed while it was in use"):
        plan.lines_of(0)


def test_lines_are_found_again_under_their_numbers(tmp_path: Path) -> None:
    plan = planned(wanted(tmp_path, "\ufeffa\u2028b\r\n\nc\rd\n{\ne"))
    assert [[line.text for line in plan.lines_of(unit)] for unit in range(2)] == [["a\u2028b", "c\rd"], ["{", "e"]]
    assert [line.number for line in plan.lines_of(1)] == [4, 5]


def test_the_time_of_a_run_stays(tmp_path: Path) -> None:
    first = planned(wanted(tmp_path, window="10m"))
    with BatchRecord.open(tmp_path / "records", *first.record_of) as record:
        record.begin(first.plan)
    assert planned(wanted(tmp_path)).plan == planned(wanted(tmp_path, window="10m")).plan == first.plan
    with pytest.raises(PostError, match="begun with --completion-window 10m, which stays"):
        planned(wanted(tmp_path, window="24h"))


def test_the_class_of_a_run_stays(tmp_path: Path) -> None:
    first = planned(wanted(tmp_path), device_class="consumer")
    with BatchRecord.open(tmp_path / "records", *first.record_of) as record:
        record.begin(first.plan)
    again = planned(wanted(tmp_path), device_class="consumer")
    assert planned(wanted(tmp_path)).plan == again.plan == first.plan, "where none is named it is the one of before"
    for other in ("any", "datacenter"):
        with pytest.raises(PostError, match="begun with --class consumer, which stays"):
            planned(wanted(tmp_path), device_class=other)


def test_a_file_of_no_request_is_refused_with_the_first_reason(tmp_path: Path) -> None:
    with pytest.raises(PostError, match=r"no line of the file is a request; line 1: .*prompt"):
        planned(wanted(tmp_path, '{"id": "x"}\n'))


def test_a_unit_has_no_longer_lease_than_the_chain_gives() -> None:
    room = room_of(WISH, replace(SOLD, pace=1), 10**18)
    assert lease_of(replace(SOLD, pace=1), room.work_max) <= UNIT_LEASE_MAX
    assert lease_of(replace(SOLD, pace=1), room.work_max + 2 * PRICED // WISH.rate_max) >= UNIT_LEASE_MAX
    assert room_of(WISH, replace(SOLD, pace=0), 7).bond_free == 7


@pytest.mark.nightly
def test_a_large_file_is_never_in_memory(tmp_path: Path) -> None:
    """12 MB of requests: their places and weights are held, and what one unit asks while it is read."""
    train, path = form_named("train-int8"), tmp_path / "large"
    with path.open("wb") as stream:
        for number in range(3_072):
            stream.write(f"{number:>10}".encode() + b"text" * 1_000 + b"\n")
    sold = ServiceTerms(b"teacher", train.workload_id, train.model_id, 1, 10**9, ramp=0, lease=30, tokens_max=256)

    async def taught() -> Sold:
        return train, sold

    async def usual() -> int:
        return 10**12

    with path.open("rb") as file:
        wish = FileWish(file, FileForm.LINES, tmp_path / "out", tmp_path / "errors", tmp_path / "records")
        tracemalloc.start()
        try:
            small = dict.fromkeys(("context", "width", "hidden", "batch"), "1")
            asked = replace(WISH, batch=256, options=small)
            plan = asyncio.run(plan_file(b"g" * 32, b"a" * 32, asked, wish, taught, usual))
            sizes = [len(unit.request) for unit in plan.units()]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (len(sizes), sum(sizes) > 12_000_000) == (12, True)
    assert peak < 6_000_000
