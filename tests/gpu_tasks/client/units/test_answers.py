"""A file in progress: units with every ending, stores without data, and awaited answers. There is no chain."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_tasks.batches.outcomes import Completed, RefusedRequest
from gpu_tasks.client.units import answers, result_lines
from gpu_tasks.client.units import answers as answering
from gpu_tasks.client.units.answers import (
    FETCHED_AT_ONCE,
    INPUTS_AT_ONCE,
    TRIES,
    TRIES_MAX,
    FileAnswers,
    PaidOutcomes,
    RunStop,
    standing_of,
)
from gpu_tasks.client.units.costs import UnitSums
from gpu_tasks.client.units.lines import FileForm
from gpu_tasks.client.units.result_lines import LineWriter, ResultFiles
from gpu_tasks.client.units.results import ResultError
from gpu_tasks.client.units.run_record import BatchRecord, state_of
from gpu_tasks.client.units.wait_reasons import AWAITS_DRAW
from gpu_tasks.data import market_reads
from gpu_tasks.data.side_by_side import all_side_by_side
from gpu_tasks.market.inference.units import Racer, Refund, Unit, UnitState, UnitTerms
from gpu_tasks.market.rounds import Round
from planned_file import FORM, planned, wanted
from runtime.frame.call import Call

# A file on its way: units that end in every way, stores that serve nothing, runs that go on; without a chain.


UNITS = [bytes([number]) * 32 for number in range(3)]
LOOKS_MAX = 2**TRIES
QUEUED = SimpleNamespace(state=UnitState.QUEUED, refund=None)
REFUNDED = SimpleNamespace(state=UnitState.REFUNDED, refund=Refund.CANCELLED, ended_at=9)


class Ends:
    """A chain on which the units of a file end as told, and stores that serve some of them."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, folder: Path, posted: int = 3, window: str | None = None
    ) -> None:
        self.states: dict[bytes, Any] = dict.fromkeys(UNITS, SimpleNamespace(state=UnitState.RACING))
        self.served: set[bytes] = set(UNITS)
        self.looks = self.inputs = 0
        self.asked: list[tuple[int, int]] = []
        """In which look which unit was asked for."""
        self.heard: list[tuple[int, str]] = []
        self.calls: list[list[bytes]] = []
        """The units that were taken back, call by call."""
        self.drawn: set[bytes] = set()
        """Units that are drawn before they can be taken back."""
        self.plan = planned(wanted(folder, window=window))
        self.folder = folder
        with BatchRecord.open(folder / "records", *self.plan.record_of) as record:
            record.begin(self.plan.plan)
            for place, unit in enumerate(UNITS[:posted]):
                record.note_posted(place, unit.hex(), UnitSums(10, 1, 3))
        monkeypatch.setattr(answering, "moments", self._moments)
        monkeypatch.setattr(answers, "salt_of", self._salt)
        monkeypatch.setattr(answers, "outcomes_served", self._paid)
        monkeypatch.setattr(market_reads, "providers", self._providers)
        monkeypatch.setattr(answering, "paid_and_returned", lambda _: (5, 2))
        monkeypatch.setattr(answering, "standing_of", self._standing)
        monkeypatch.setattr(market_reads, "units", self._units)
        monkeypatch.setattr(market_reads, "is_development", lambda _: True)

    async def _moments(self, client: object) -> AsyncIterator[None]:
        for _ in range(3 * LOOKS_MAX):
            self.looks += 1
            yield
        raise AssertionError("it would look for ever")

    async def _units(self, client: object, ids: list[bytes], at: bytes) -> list[Any]:
        return [self.states[unit] for unit in ids]

    async def _providers(self, client: object, at: bytes) -> dict[bytes, Any]:
        return {}

    async def _salt(self, blobs: object, key: object, unit: object, providers: object) -> bytes:
        self.inputs += 1
        return b"s" * 32

    async def _paid(
        self, client: object, blobs: object, key: object, unit_id: bytes, unit: object, salt: bytes, *_: object
    ) -> Any:
        assert salt == b"s" * 32
        self.asked.append((self.looks, UNITS.index(unit_id)))
        if unit_id not in self.served:
            raise ResultError("no provider serves it")
        count = len(self.plan.lines_of(UNITS.index(unit_id)))
        return (Completed(b"text", 1, 8), RefusedRequest())[:count]

    def settle(self, *places: int) -> None:
        for place in places:
            self.states[UNITS[place]] = SimpleNamespace(state=UnitState.SETTLED)

    def follow(self, enough: int = 0) -> tuple[list[int], list[tuple[int, int]]]:
        """The units that are left, and answered and failed of each that is written."""
        client: Any = SimpleNamespace(finalized=self._final)
        with BatchRecord.open(self.folder / "records", *self.plan.record_of) as record:
            with ResultFiles.take_up(self.folder / "out", self.folder / "errors", record.ends) as files:
                writer = LineWriter(FileForm.LINES, None, FORM.name, 0)
                key: Any = SimpleNamespace()
                stop = RunStop(record, self._take_back)
                run = FileAnswers(client, key, self.plan, record, files, writer, stop, self._hear)
                left = asyncio.run(run.follow(enough))
            return left, [record.written[place] for place in sorted(record.written)]

    async def _take_back(self, call: Call) -> int:
        units = [inner.named_arguments["unit"] for inner in call.named_arguments["calls"]]
        self.calls.append(units)
        for unit in units:
            if unit not in self.drawn:
                self.states[unit] = REFUNDED
        return 4

    def record(self) -> BatchRecord:
        """As it is on the disk now."""
        found = BatchRecord.look(self.folder / "records", *self.plan.record_of)
        assert found is not None
        return found

    async def _standing(self, client: object, units: list[Any], not_posted: int, final: bytes) -> str:
        return f"{len(units)} open, {not_posted} not posted"

    def _hear(self, found: answering.AnswersSoFar, standing: str) -> None:
        self.heard.append((found.answered, standing))

    async def _final(self) -> bytes:
        return b"f" * 32

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]


def test_units_end_in_every_way_and_each_line_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends(monkeypatch, tmp_path)
    ends.settle(0)
    refunded = SimpleNamespace(state=UnitState.REFUNDED, refund=Refund.EXPIRED, ended_at=9)
    ends.states |= {UNITS[1]: refunded, UNITS[2]: None}
    assert ends.follow() == ([], [(1, 1), (0, 2), (0, 1)])
    assert [line["index"] for line in ends.lines("out")] == [1]
    told = {line["index"]: line["error"] for line in ends.lines("errors")}
    assert sorted(told) == [2, 3, 4, 5]
    assert told[2]["code"] == "invalid_request"
    assert "refunded in block 9: no result within" in told[3]["message"]
    assert "has forgotten this unit" in told[5]["message"]
    assert ends.record().total == UnitSums(30, 3, 9, 10, 4), "of the one that the chain forgot, nothing is known"
    assert ends.follow() == ([], [(1, 1), (0, 2), (0, 1)]), "nothing is left to ask for"


def test_few_enough_open_units_are_a_reason_to_post_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends(monkeypatch, tmp_path)
    ends.settle(1)
    assert ends.follow(2) == ([0, 2], [(1, 1)])
    assert (ends.looks, "ended" in ends.record().times) == (1, False)
    assert ends.heard == [(1, "2 open, 0 not posted")]
    ends.settle(0, 2)
    assert ends.follow() == ([], [(1, 1), (1, 1), (1, 0)])


def test_a_claimed_answer_is_written_at_once_and_its_claim_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = Ends(monkeypatch, tmp_path)
    ends.settle(0, 2)
    ends.states[UNITS[1]] = SimpleNamespace(state=UnitState.CLAIMED, refund=None)
    assert ends.follow() == ([], [(1, 1), (1, 1), (1, 0)])
    record = ends.record()
    assert (record.claimed, "ended" in record.times) == ({1}, True)


def test_a_refuted_result_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends(monkeypatch, tmp_path)
    ends.settle(1, 2)
    ends.states[UNITS[0]] = SimpleNamespace(state=UnitState.REFUNDED, refund=Refund.REFUTED, ended_at=9)
    assert ends.follow() == ([], [(0, 2), (1, 1), (1, 0)])
    assert "a check refuted its result" in ends.lines("errors")[0]["error"]["message"]


def test_what_no_store_serves_is_left_for_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends(monkeypatch, tmp_path)
    ends.settle(0, 1, 2)
    ends.served.discard(UNITS[1])
    assert ends.follow() == ([1], [(1, 1), (1, 0)])
    assert [look for look, place in ends.asked if place == 1] == [1, 2, 4, 8, 16, 32], "more and more seldom"
    assert [look for look, place in ends.asked if place != 1] == [1, 1]
    assert ends.inputs == 3, "an input is fetched once"
    ends.served.add(UNITS[1])
    assert ends.follow() == ([], [(1, 1), (1, 1), (1, 0)])
    assert sorted(line["index"] for line in (*ends.lines("out"), *ends.lines("errors"))) == [1, 2, 3, 4, 5]


def test_a_unit_that_ends_later_is_asked_for_at_once_beside_one_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = Ends(monkeypatch, tmp_path)
    ends.settle(0, 1)
    ends.served.discard(UNITS[0])
    real = ends._units

    async def units(client: object, ids: list[bytes], at: bytes) -> list[Any]:
        if ends.looks == 5:
            ends.settle(2)
        if ends.looks == 11:
            ends.served.add(UNITS[0])
        return await real(client, ids, at)

    monkeypatch.setattr(market_reads, "units", units)
    assert ends.follow() == ([], [(1, 1), (1, 1), (1, 0)])
    assert ends.asked == [(1, 0), (1, 1), (2, 0), (4, 0), (5, 2), (8, 0), (16, 0)]


def test_who_does_not_answer_holds_nobody_up_and_so_many_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty units: of one the store drips, of one there is no input."""
    drips, places = asyncio.Event(), range(20)
    at_work = {"inputs": 0, "outputs": 0}
    most = dict(at_work)

    async def busy(what: str) -> None:
        at_work[what] += 1
        most[what] = max(most[what], at_work[what])
        await asyncio.sleep(0)
        at_work[what] -= 1

    async def salt_of(blobs: object, key: object, unit: int, providers: object) -> bytes:
        await busy("inputs")
        if unit == 7:
            raise ResultError("the input is gone")
        return bytes(32)

    async def served(client: object, blobs: object, key: object, unit_id: bytes, unit: int, *_: object) -> Any:
        await busy("outputs")
        if unit == 0:
            await drips.wait()
        return (RefusedRequest(),)

    async def main() -> dict[int, Any]:
        outcomes, found = PaidOutcomes(cast("Any", None), cast("Any", None)), {}

        async def fetch(place: int) -> None:
            found[place] = await outcomes.of(cast("Any", None), place, b"", cast("Any", place), {})
            if len(found) == len(places) - 1:
                drips.set()

        async with asyncio.timeout(10):
            await all_side_by_side([partial(fetch, place) for place in places], at_once=FETCHED_AT_ONCE)
        assert not outcomes.is_due(7)
        assert outcomes.is_due(0)
        return found

    monkeypatch.setattr(answers, "salt_of", salt_of)
    monkeypatch.setattr(answers, "outcomes_served", served)
    found = asyncio.run(main())
    assert list(found)[-1] == 0
    assert [place for place, outcomes in found.items() if outcomes is None] == [7]
    assert most["inputs"] == INPUTS_AT_ONCE
    assert most["outputs"] <= FETCHED_AT_ONCE


def test_a_disk_that_is_full_ends_the_run_whatever_else_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = Ends(monkeypatch, tmp_path)
    ends.settle(0, 1, 2)
    cancelled = []
    real = ends._paid

    async def paid(client: object, blobs: object, key: object, unit_id: bytes, *rest: Any) -> Any:
        if unit_id != UNITS[1]:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(unit_id)
        return await real(client, blobs, key, unit_id, *rest)

    def full(*_: object) -> None:
        raise result_lines.ResultFilesError("no room")

    monkeypatch.setattr(answers, "outcomes_served", paid)
    monkeypatch.setattr(result_lines, "_append_lines", full)
    with pytest.raises(result_lines.ResultFilesError, match="no room"):
        ends.follow()
    assert sorted(cancelled) == [UNITS[0], UNITS[2]]


def test_a_cancelled_run_takes_back_what_waits_and_keeps_what_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = Ends(monkeypatch, tmp_path, posted=2)
    ends.settle(0)
    ends.states[UNITS[1]] = QUEUED
    ends.record().ask_to_cancel()
    assert state_of(ends.record()).status == "cancelling"
    assert ends.follow() == ([], [(1, 1), (0, 2), (0, 1)])
    assert ends.calls == [[UNITS[1]]]
    assert [line["index"] for line in ends.lines("out")] == [1]
    told = {line["index"]: line["error"]["code"] for line in ends.lines("errors")}
    assert told == {2: "invalid_request", **dict.fromkeys((3, 4, 5), "batch_cancelled")}
    state = json.loads(state_of(ends.record()).json())
    assert (state["status"], state["request_counts"]) == ("cancelled", {"total": 5, "completed": 1, "failed": 4})
    assert 0 < state["created_at"] <= state["cancelling_at"] <= state["cancelled_at"]
    assert not ends.record().is_cancel_asked
    assert (ends.record().given_up, ends.record().total) == (3, UnitSums(20, 2, 6 + 4, 10, 4)), "with a fee"
    assert ends.follow() == ([], [(1, 1), (0, 2), (0, 1)]), "nothing is left to do"


def test_what_races_when_its_time_is_over_is_waited_for_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = Ends(monkeypatch, tmp_path, window="10m")
    ends.settle(0)
    ends.states |= {UNITS[1]: QUEUED, UNITS[2]: QUEUED}
    ends.drawn.add(UNITS[1])
    created = ends.plan.plan.created_at
    monkeypatch.setattr(time, "time", lambda: created + 600.0 if ends.looks else created + 1.0)
    real = ends._units

    async def units(client: object, ids: list[bytes], at: bytes) -> list[Any]:
        if ends.looks > 5:
            ends.settle(1)
        return await real(client, ids, at)

    monkeypatch.setattr(market_reads, "units", units)
    assert ends.follow() == ([], [(1, 1), (1, 1), (0, 1)])
    assert any("must end first; 1 open" in said for _, said in ends.heard), "why it goes on"
    assert [unit for call in ends.calls for unit in call].count(UNITS[1]) == TRIES_MAX, "no fee without end"
    assert [line["index"] for line in ends.lines("out")] == [1, 3]
    assert {line["index"]: line["error"]["code"] for line in ends.lines("errors")}[5] == "batch_expired"
    state = json.loads(state_of(ends.record()).json())
    assert (state["status"], state["completion_window"]) == ("expired", "10m")
    assert state["expires_at"] == created + 600 == state["expired_at"]


def test_a_run_that_is_answered_is_not_stopped_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends(monkeypatch, tmp_path, window="1s")
    ends.settle(0, 1, 2)
    created = ends.plan.plan.created_at
    monkeypatch.setattr(time, "time", lambda: created + 0.5)
    ends.follow()
    monkeypatch.setattr(time, "time", lambda: created + 99.0)
    ends.follow()
    assert ends.record().stopped is None
    assert state_of(ends.record()).status == "completed"


class BrokenOffError(Exception):
    """The process ends here."""


def test_broken_off_before_any_write_a_cancelled_run_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each commit of the record and each write of results; then the same again until it ends."""
    broken = 0
    for step in range(40):
        folder = tmp_path / str(step)
        folder.mkdir()
        with monkeypatch.context() as patch:
            ends = Ends(patch, folder, posted=2)
            ends.settle(0)
            ends.states[UNITS[1]] = QUEUED
            ends.record().ask_to_cancel()
            steps = iter(range(step))
            with patch.context() as tearing:
                _torn(tearing, steps)
                try:
                    ends.follow()
                    is_over = True
                except BrokenOffError:
                    is_over, broken = False, broken + 1
            assert ends.follow() == ([], [(1, 1), (0, 2), (0, 1)])
            assert [line["index"] for line in ends.lines("out")] == [1]
            told = [(line["index"], line["error"]["code"]) for line in ends.lines("errors")]
            assert sorted(told) == [(2, "invalid_request"), *((index, "batch_cancelled") for index in (3, 4, 5))]
            assert state_of(ends.record()).status == "cancelled"
        if is_over:
            break
    assert broken == 24, (
        "the stop, its fee, the end, and for three units two writes of results and a commit; before and after"
    )


def _torn(monkeypatch: pytest.MonkeyPatch, steps: Iterator[int]) -> None:
    """Break off before the write after so many, counting twice: before it, and when it is done."""

    def step() -> None:
        if next(steps, None) is None:
            raise BrokenOffError

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*given: Any) -> Any:
            step()
            done = real(*given)
            step()
            return done

        return write

    changing = BatchRecord._changing

    @contextmanager
    def changing_between(*given: Any) -> Iterator[None]:
        step()
        with changing(*given):
            yield
        step()

    monkeypatch.setattr(BatchRecord, "_changing", changing_between)
    monkeypatch.setattr(result_lines, "_append_lines", around(result_lines._append_lines))


# What a file waits for while nothing of it has ended, from the records of its units.


QUEUED_OF_STANDING = Unit(0, b"b" * 32, UnitTerms(10, 2, b"i" * 32, b"h" * 32, 1, 8), 1, 1, 0, 1, 1)
DEVICES = [bytes([number]) * 32 for number in range(4)]


def racing(*devices: int, closed_at: int = 0) -> Unit:
    racers = tuple(Racer(DEVICES[device], DEVICES[device], 0) for device in devices)
    return replace(QUEUED_OF_STANDING, state=UnitState.RACING, racers=racers, round=Round(4, closed_at=closed_at))


BUSY = "busy: needs 2 free owners, 1 of 4 suitable is free"


def said(monkeypatch: pytest.MonkeyPatch, units: list[Unit], not_posted: int = 0, why: str = BUSY) -> str:
    async def look(client: object, queued: list[Unit], final: bytes) -> Any:
        assert all(unit.state is UnitState.QUEUED for unit in queued)
        return queued or None

    monkeypatch.setattr(answers, "look", look)
    monkeypatch.setattr(answers, "reason_queued", lambda *_: why)
    client: Any = None
    return asyncio.run(standing_of(client, units, not_posted, bytes(32)))


def test_units_are_counted_by_what_they_are_at(monkeypatch: pytest.MonkeyPatch) -> None:
    units = [
        QUEUED_OF_STANDING, QUEUED_OF_STANDING, QUEUED_OF_STANDING, racing(0, 1), racing(1, 2), racing(3, closed_at=9),
        replace(QUEUED_OF_STANDING, state=UnitState.DISPUTED),
    ]  # fmt: skip
    assert said(monkeypatch, units, 1_200) == (
        "units: 2 racing on 3 devices, 1 being opened and claimed, 1 in a dispute, 1,200 not posted yet, "
        "3 waiting for a draw (busy: needs 2 free owners, 1 of 4 suitable is free)"
    )


def test_what_there_is_none_of_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, [racing(2)]) == "units: 1 racing on 1 device"
    assert said(monkeypatch, [QUEUED_OF_STANDING], why=AWAITS_DRAW) == "units: 1 waiting for a draw"
    assert said(monkeypatch, []) == ""
