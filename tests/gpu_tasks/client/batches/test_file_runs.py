"""A file on its way: units that end in every way, stores that serve nothing, runs that go on; without a chain."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tasks.batches.outcomes import Completed, RefusedRequest
from gpu_tasks.batches.work import PRICED
from gpu_tasks.client.batches.lines import FileForm
from gpu_tasks.client.batches.record import BatchRecord
from gpu_tasks.client.batches.result_files import ResultFiles
from gpu_tasks.client.batches.writing import LineWriter
from gpu_tasks.client.file_runs import answers as answering
from gpu_tasks.client.file_runs.answers import TRIES, FileAnswers
from gpu_tasks.client.file_runs.plan import FilePlan, FileWish, plan_file, room_of
from gpu_tasks.client.posting import PostError, Wish
from gpu_tasks.client.results import ResultError
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.services import UNIT_LEASE_MAX, ServiceTerms, lease_of
from gpu_tasks.market.inference.units import Refund, UnitState
from gpu_tasks.workloads.registry import form_named

FORM = form_named("textgen-int8")
SOLD = ServiceTerms(
    b"writer", FORM.workload_id, FORM.model_id, 1, 10**9, ramp=0, lease=30, tokens_max=256, input_share=250_000, pace=64
)
WISH = Wish(0, 8, {}, 1, 1_000_000, 2)
UNITS = [bytes([number]) * 32 for number in range(3)]


def wanted(folder: Path, text: str = "a\nb\nc\nd\ne\n") -> FileWish:
    return FileWish(BytesIO(text.encode()), None, folder / "out", folder / "errors", folder / "records")


def planned(wish: FileWish, price_max: int = 10**9) -> FilePlan:
    async def usual() -> int:
        return price_max

    return asyncio.run(plan_file(b"g" * 32, b"a" * 32, WISH, wish, FORM, SOLD, usual))


def test_a_file_that_is_taken_up_asks_the_same_with_the_same_chance(tmp_path: Path) -> None:
    first = planned(wanted(tmp_path))
    assert [unit.count for unit in first.wishes(WISH, SOLD)] == [2, 2, 1]
    assert [name.text for name in first.names()] == ["2 requests, lines 1 to 2", "2 requests, lines 3 to 4", "line 5"]
    assert planned(wanted(tmp_path)).wishes(WISH, SOLD) != first.wishes(WISH, SOLD), "nobody has begun it"
    with BatchRecord.open(tmp_path / "records", *first.record_of) as record:
        record.begin(first.plan)
    again = planned(wanted(tmp_path), price_max=1)
    assert again.wishes(WISH, SOLD) == first.wishes(WISH, SOLD), "whatever devices have free by now"
    assert planned(wanted(tmp_path, "a\nb\n")).record_of != first.record_of
    assert first.postings_of != first.record_of, "each record has a lock of its own"


def test_a_file_of_no_request_is_refused_with_the_first_reason(tmp_path: Path) -> None:
    with pytest.raises(PostError, match=r"no line of the file is a request; line 1: .*prompt"):
        planned(wanted(tmp_path, '{"id": "x"}\n'))


def test_a_unit_has_no_longer_lease_than_the_chain_gives() -> None:
    room = room_of(WISH, replace(SOLD, pace=1), 10**18)
    assert lease_of(replace(SOLD, pace=1), room.work_max) <= UNIT_LEASE_MAX
    assert lease_of(replace(SOLD, pace=1), room.work_max + 2 * PRICED // WISH.rate_max) >= UNIT_LEASE_MAX
    assert room_of(WISH, replace(SOLD, pace=0), 7).bond_free == 7


class Ends:
    """A chain on which the units of a file end as told, and stores that serve some of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.states: dict[bytes, Any] = dict.fromkeys(UNITS, SimpleNamespace(state=UnitState.RACING))
        self.served: set[bytes] = set(UNITS)
        self.looks = 0
        self.plan = planned(wanted(folder))
        self.folder = folder
        with BatchRecord.open(folder / "records", *self.plan.record_of) as record:
            record.begin(self.plan.plan)
            for place, unit in enumerate(UNITS):
                record.note_posted(place, unit.hex())
        monkeypatch.setattr(answering, "moments", self._moments)
        monkeypatch.setattr(answering, "paid_output", self._paid)
        monkeypatch.setattr(answering, "cost_of", lambda _: 5)
        monkeypatch.setattr(market_reads, "units", self._units)
        monkeypatch.setattr(market_reads, "is_development", lambda _: True)

    async def _moments(self, client: object) -> AsyncIterator[None]:
        for _ in range(3 * TRIES):
            self.looks += 1
            yield
        raise AssertionError("it would look for ever")

    async def _units(self, client: object, ids: list[bytes], at: bytes) -> list[Any]:
        return [self.states[unit] for unit in ids]

    async def _paid(self, client: object, blobs: object, key: object, unit_id: bytes, *_: object) -> Any:
        if unit_id not in self.served:
            raise ResultError("no provider serves it")
        count = len(self.plan.lines_of(UNITS.index(unit_id)))
        return SimpleNamespace(outcomes=[Completed(b"text", 1, 8), RefusedRequest()][:count])

    def settle(self, *places: int) -> None:
        for place in places:
            self.states[UNITS[place]] = SimpleNamespace(state=UnitState.SETTLED, is_refuted=False)

    def follow(self) -> tuple[list[int], list[tuple[int, int]]]:
        """The units that are left, and answered and failed of each that is written."""
        client: Any = SimpleNamespace(finalized=self._final)
        with BatchRecord.open(self.folder / "records", *self.plan.record_of) as record:
            with ResultFiles.take_up(self.folder / "out", self.folder / "errors", record.ends) as files:
                writer = LineWriter(FileForm.LINES, None, FORM.name, 0)
                run = FileAnswers(client, SimpleNamespace(), self.plan, record, files, writer, lambda _: None)  # type: ignore[arg-type]
                left = asyncio.run(run.follow())
            return left, [record.written[place] for place in sorted(record.written)]

    async def _final(self) -> bytes:
        return b"f" * 32

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]


def test_units_end_in_every_way_and_each_line_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends(monkeypatch, tmp_path)
    ends.settle(0)
    refunded = SimpleNamespace(state=UnitState.REFUNDED, is_refuted=False, refund=Refund.EXPIRED, ended_at=9)
    ends.states |= {UNITS[1]: refunded, UNITS[2]: None}
    assert ends.follow() == ([], [(1, 1), (0, 2), (0, 1)])
    assert [line["index"] for line in ends.lines("out")] == [1]
    told = {line["index"]: line["error"] for line in ends.lines("errors")}
    assert sorted(told) == [2, 3, 4, 5]
    assert told[2]["code"] == "invalid_request"
    assert "refunded in block 9: no result in the time" in told[3]["message"]
    assert "has forgotten this unit" in told[5]["message"]
    assert ends.follow() == ([], [(1, 1), (0, 2), (0, 1)]), "nothing is left to ask for"


def test_a_refuted_result_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends(monkeypatch, tmp_path)
    ends.settle(1, 2)
    ends.states[UNITS[0]] = SimpleNamespace(state=UnitState.SETTLED, is_refuted=True)
    assert ends.follow() == ([], [(0, 2), (1, 1), (1, 0)])
    assert "an audit found its result wrong" in ends.lines("errors")[0]["error"]["message"]


def test_what_no_store_serves_is_left_for_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends(monkeypatch, tmp_path)
    ends.settle(0, 1, 2)
    ends.served.discard(UNITS[1])
    assert ends.follow() == ([1], [(1, 1), (1, 0)])
    assert ends.looks == TRIES
    ends.served.add(UNITS[1])
    assert ends.follow() == ([], [(1, 1), (1, 1), (1, 0)])
    assert sorted(line["index"] for line in (*ends.lines("out"), *ends.lines("errors"))) == [1, 2, 3, 4, 5]
