"""A file before anything is posted: split into few units, taken up again; without a chain."""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder_models import write_encoder
from error_codes import raises_code
from gpu_tasks.batches.outcomes import FRAME_BYTES
from gpu_tasks.batches.requests import PRICED, REQUESTS_MAX, decode_requests, encode_requests, price_of, work_of
from gpu_tasks.client.buyer import Buyer
from gpu_tasks.client.offers.listing import ServiceError
from gpu_tasks.client.units.file_plan import FilePlan, FileWish, Sold, buyer_of, plan_file, room_of, settings_of_buyer
from gpu_tasks.client.units.lines import (
    LINES_MAX,
    LIST_BYTES,
    BatchFileError,
    FileForm,
    LineLoad,
    UnitLines,
    UnitRoom,
    load_of,
    split,
)
from gpu_tasks.client.units.posting import PostError
from gpu_tasks.client.units.run_record import BatchRecord
from gpu_tasks.data.unit_output import answers_bytes
from gpu_tasks.market.inference.services import UNIT_COMMIT_WINDOW_MAX, ServiceTerms, commit_window_of
from gpu_tasks.workloads import model_forms
from gpu_tasks.workloads.embed_int8.conformance import small_model
from gpu_tasks.workloads.embed_int8.request import WORKLOAD_NAME as ENCODER
from gpu_tasks.workloads.model_forms import form_named
from planned_file import SOLD, WISH, planned, wanted

# Units are few, alike, within their room, and the same each time.


FORM = model_forms.form_named("decoder-int8:ogpu-bytes")
WIDE = UnitRoom(rate=1_000, input_share=0, bond_free=10**12)


def loads_of(*tokens: int, size: int = 10, tokens_in: int = 0) -> list[LineLoad]:
    return [LineLoad(number, size, tokens_in, each, each) for number, each in enumerate(tokens, 1)]


def price_cap(loads: list[LineLoad], unit: UnitLines, room: UnitRoom) -> int:
    of_unit = loads[unit.first : unit.first + unit.count]
    return price_of(room.rate, sum(work_of(room.input_share, load.tokens_in, load.tokens_out) for load in of_unit))


def sizes(loads: list[LineLoad], room: UnitRoom) -> list[int]:
    return [unit.count for unit in split(loads, room)]


def test_what_a_request_weighs() -> None:
    request = FORM.encode("Once", 16, {}, bytes(32))
    assert load_of(7, request, FORM) == LineLoad(7, len(request), 4, 16, FORM.output_bytes(request))


def test_no_request_is_no_unit() -> None:
    assert split([], WIDE) == []


def test_the_count_of_a_unit_is_bounded() -> None:
    assert sizes(loads_of(*[1] * REQUESTS_MAX), WIDE) == [REQUESTS_MAX]
    assert sizes(loads_of(*[1] * (REQUESTS_MAX + 1)), WIDE) == [2_049, 2_048]


def test_a_price_is_a_collateral_that_devices_have() -> None:
    """A grain a token, and ten free: 30 tokens are three units, though a million would pass all other limits."""
    room = UnitRoom(rate=1_000, input_share=0, bond_free=10)
    loads = loads_of(*[1] * 30)
    assert sizes(loads, room) == [10, 10, 10]
    assert [price_cap(loads, unit, room) for unit in split(loads, room)] == [10, 10, 10]
    assert sizes(loads_of(*[1] * 31), room) == [8, 8, 8, 7]
    assert sizes(loads_of(*[10]), room) == [1]
    with pytest.raises(BatchFileError, match="line 2 alone costs up to 11 grains"):
        split(loads_of(1, 11), room)


def test_what_is_read_is_paid_too() -> None:
    room = UnitRoom(rate=1_000, input_share=500_000, bond_free=10)
    assert sizes(loads_of(*[1] * 10, tokens_in=2), room) == [5, 5]
    assert sizes(loads_of(*[1] * 10, tokens_in=2), UnitRoom(rate=1_000, input_share=0, bond_free=10)) == [10]


def test_bytes_and_answers_have_room() -> None:
    room = UnitRoom(rate=1, input_share=0, bond_free=10**9, bytes_max=LIST_BYTES + 3 * (10 + LIST_BYTES))
    assert sizes(loads_of(*[1] * 6), room) == [3, 3]
    with pytest.raises(BatchFileError, match="line 1 alone has 60 bytes"):
        split(loads_of(1, size=60), room)
    room = UnitRoom(rate=1, input_share=0, bond_free=10**9, answers_max=FRAME_BYTES + 2 * (4 + FRAME_BYTES))
    assert sizes(loads_of(*[4] * 6), room) == [2, 2, 2]
    assert sizes(loads_of(24), room) == [1], "one frame less"
    with pytest.raises(BatchFileError, match="line 1 alone asks for up to 25 bytes"):
        split(loads_of(25), room)


def test_units_are_alike_in_work_not_in_count() -> None:
    assert sizes(loads_of(9, 1, 1, 1, 1, 1, 1, 1, 1, 1), UnitRoom(rate=1_000, input_share=0, bond_free=17)) == [1, 9]


LOADS = st.lists(
    st.builds(LineLoad, st.just(1), st.integers(0, 40), st.integers(0, 9), st.integers(1, 9), st.integers(0, 9)),
    max_size=40,
)
ROOMS = st.builds(
    UnitRoom,
    rate=st.integers(1, 3_000),
    input_share=st.integers(0, 1_000_000),
    bond_free=st.integers(60, 500),
    requests_max=st.integers(1, 9),
    bytes_max=st.integers(60, 400),
    answers_max=st.integers(9 + 2 * FRAME_BYTES, 200),
)


def greedy(loads: list[LineLoad], room: UnitRoom, most: int) -> int | None:
    """Return the number of units if each is as full as possible and none costs more than `most`."""
    units, part = 0, list[LineLoad]()
    for load in loads:
        if not part or not is_within([*part, load], room, most):
            units, part = units + 1, []
        part.append(load)
        if not is_within(part, room, most):
            return None
    return units


def is_within(part: list[LineLoad], room: UnitRoom, most: int) -> bool:
    return (
        price_cap(part, UnitLines(0, len(part)), room) <= most
        and len(part) <= room.requests_max
        and sum(load.request_bytes + LIST_BYTES for load in part) + LIST_BYTES <= room.bytes_max
        and answers_bytes(load.output_bytes for load in part) <= room.answers_max
    )


@given(LOADS, ROOMS)
def test_units_are_in_order_within_their_room_fewest_and_alike(loads: list[LineLoad], room: UnitRoom) -> None:
    units = split(loads, room)
    assert [place for unit in units for place in range(unit.first, unit.first + unit.count)] == list(range(len(loads)))
    parts = [loads[unit.first : unit.first + unit.count] for unit in units]
    assert all(parts)
    assert all(is_within(part, room, room.bond_free) for part in parts)
    assert len(units) == greedy(loads, room, room.bond_free)
    dearest = max((price_cap(loads, unit, room) for unit in units), default=0)
    fewer = greedy(loads, room, dearest - 1)
    assert not loads or fewer is None or fewer > len(units), "as many units could be cheaper, each"
    assert units == split(loads, room)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=30))
def test_the_bytes_of_a_unit_are_never_more_than_was_reckoned(requests: list[bytes]) -> None:
    assert len(encode_requests(requests)) <= LIST_BYTES + sum(len(each) + LIST_BYTES for each in requests)


@pytest.mark.nightly
def test_a_full_file_of_single_units_is_split() -> None:
    loads = loads_of(*range(1, LINES_MAX + 1))
    room = UnitRoom(rate=1_000, input_share=0, bond_free=LINES_MAX)
    units = split(loads, room)
    assert len(units) == greedy(loads, room, LINES_MAX)


# A file before anything is posted: read, split, taken up again; without a chain.


def asked(plan: FilePlan) -> list[tuple[bytes, int, int, int, int]]:
    """Return the request and the terms of every unit."""
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
    with raises_code(BatchFileError, "file_changed"):
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


def test_a_run_names_its_model_by_the_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two models of a store can have one name. A run that goes on without its model has a reason."""
    monkeypatch.setenv("OGPU_MODELS", str(tmp_path / "models"))
    (tmp_path / "models").mkdir()
    models = (small_model(), replace(small_model(), layers=small_model().layers[::-1]))
    headers = [write_encoder(tmp_path / "draft", model) for model in models]
    for header, model in zip(headers, models, strict=True):
        write_encoder(tmp_path / "models" / f"{header.model_id.hex()}.ogpu-model", model)
    header = headers[0]
    form = model_forms.form_named(f"{ENCODER}:{header.model_id.hex()}")
    first = planned(wanted(tmp_path), form=form)
    assert first.terms.form.model_id == header.model_id
    with BatchRecord.open(tmp_path / "records", *first.record_of) as record:
        record.begin(first.plan)
    assert planned(wanted(tmp_path), is_sold=False).plan == first.plan
    (tmp_path / "models" / f"{header.model_id.hex()}.ogpu-model").unlink()
    with raises_code(ServiceError, "workload_unknown"):
        planned(wanted(tmp_path), is_sold=False)


def test_a_file_of_no_request_is_refused_with_the_first_reason(tmp_path: Path) -> None:
    with pytest.raises(PostError, match=r"no line of the file is a request. Line 1: .*prompt"):
        planned(wanted(tmp_path, '{"id": "x"}\n'))


def test_a_unit_has_no_longer_lease_than_the_chain_gives() -> None:
    room = room_of(WISH, replace(SOLD, pace=1), 10**18)
    assert commit_window_of(replace(SOLD, pace=1), room.work_max) <= UNIT_COMMIT_WINDOW_MAX
    assert (
        commit_window_of(replace(SOLD, pace=1), room.work_max + 2 * PRICED // WISH.rate_max) >= UNIT_COMMIT_WINDOW_MAX
    )
    assert room_of(WISH, replace(SOLD, pace=0), 7).bond_free == 7


@pytest.mark.nightly
def test_a_large_file_is_never_in_memory(tmp_path: Path) -> None:
    """12 MB of requests: memory has their places and weights, and one unit's requests while they are read."""
    train, path = form_named("train-int8"), tmp_path / "large"
    with path.open("wb") as stream:
        for number in range(3_072):
            stream.write(f"{number:>10}".encode() + b"text" * 1_000 + b"\n")
    sold = ServiceTerms(
        b"teacher", train.workload_id, train.model_id, 1, 10**9, ramp=0, commit_window=30, tokens_max=256
    )

    async def taught() -> Sold:
        return train, sold

    async def usual(*_: object) -> int:
        return 10**12

    with path.open("rb") as file:
        wish = FileWish(file, FileForm.LINES, tmp_path / "out", tmp_path / "errors", tmp_path / "records")
        tracemalloc.start()
        try:
            small = dict.fromkeys(("context", "width", "hidden", "batch"), "1")
            asked = replace(WISH, batch=256, options=small)
            plan = asyncio.run(plan_file(b"g" * 32, Buyer.alone(b"a" * 32), asked, wish, taught, usual))
            sizes = [len(unit.request) for unit in plan.units()]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (len(sizes), sum(sizes) > 12_000_000) == (12, True)
    assert peak < 6_000_000


@pytest.mark.parametrize("buyer", [Buyer.alone(b"a" * 32), Buyer(b"s" * 32, b"a" * 32, b"b" * 32, b"o" * 32)])
def test_a_run_keeps_its_buyer(buyer: Buyer) -> None:
    assert buyer_of(settings_of_buyer(buyer)) == buyer
