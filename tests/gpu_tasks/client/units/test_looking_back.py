"""Answers written while claimed: the same command tells the end of each claim, and marks refuted answers once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gpu_tasks.client.cli import main
from gpu_tasks.client.units.answers import FileAnswers
from gpu_tasks.client.units.result_lines import LineAnswer, UnitPlace
from gpu_tasks.client.units.run_record import BatchRecord, runs_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.units import Refund, Unit, UnitState

pytestmark = pytest.mark.usefixtures("stored_nowhere")

PAID = 7


class AnsweredFile:
    """Five lines in three units, whose second line is no request of the workload; what became of its units later."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, lines: Sequence[str]) -> None:
        self.out, self.file, self.records = folder / "out", folder / "file", folder / "records"
        self.errors = folder / "out.errors"
        self.file.write_text("".join(f"{line}\n" for line in lines))
        self.refuted: set[int] = set()
        self.undecided: set[int] = set()
        self.claimed: set[int] = set()
        self.forgotten: set[int] = set()
        self.looks: list[int] = []
        """The number of units in each read."""
        self._units = market_reads.units
        monkeypatch.setattr(FileAnswers, "follow", _answered)

    async def units(self, client: Any, ids: Sequence[bytes], at: bytes | None = None) -> list[Unit | None]:
        """As the chain has them, but ended."""
        self.looks.append(len(ids))
        (record,) = runs_of(self.records)
        place_of = {unit: place for place, unit in record.posted.items()}
        found: list[Unit | None] = []
        for unit_id, unit in zip(ids, await self._units(client, ids, at), strict=True):
            assert unit is not None
            place = place_of[unit_id.hex()]
            ended = replace(unit, state=UnitState.SETTLED, paid=PAID)
            if place in self.claimed:
                ended = replace(unit, state=UnitState.CLAIMED)
            elif place in self.refuted | self.undecided:
                refund = Refund.REFUTED if place in self.refuted else Refund.INCONCLUSIVE
                ended = replace(unit, state=UnitState.REFUNDED, refund=refund)
            found.append(None if place in self.forgotten else ended)
        return found

    def post(self, url: str) -> Result:
        words = ["--key", "//Bob", "--racers", "3", "--anyway", "--max-tokens", "8", "--batch", "2", "--yes"]
        where = ["--out", str(self.out), "--postings", str(self.records)]
        return CliRunner().invoke(main, ["--url", url, "--json", "unit", "post", str(self.file), *where, *words])

    def again(self, url: str, monkeypatch: pytest.MonkeyPatch) -> Result:
        """The same command, once all is answered."""
        with monkeypatch.context() as patch:
            patch.setattr(market_reads, "units", self.units)
            return self.post(url)

    def marked(self, code: str = "answer_refuted") -> list[dict[str, Any]]:
        """Return the rows of the error file with this code."""
        rows = [json.loads(line) for line in self.errors.read_text().splitlines()]
        return [row for row in rows if row["error"] and row["error"]["code"] == code]


async def _answered(self: FileAnswers, enough: int = 0) -> list[int]:
    """Write answers to all that is posted and claimed, but for the second line."""
    for place in self._record.to_write():
        unit_id = bytes.fromhex(self._record.posted[place])
        (posted,) = await market_reads.units(self._client, [unit_id])
        assert posted is not None
        claimed = replace(posted, state=UnitState.CLAIMED)
        lines = [(line, UnitPlace(unit_id, index)) for index, line in enumerate(self._plan.lines_of(place))]
        answers = [self._writer.answered(line, LineAnswer("text", 1, 8), at) for line, at in lines if line.number != 2]
        errors = [self._writer.rejected(line, at) for line, at in lines if line.number == 2]
        self._write(place, answers, errors, claimed)
    return []


def openai_line(number: int) -> str:
    body = {"model": "decoder-int8:ogpu-bytes", "prompt": "Once"}
    return json.dumps({"custom_id": f"r{number}", "method": "POST", "url": "/v1/completions", "body": body})


@pytest.mark.parametrize("form", ["lines", "jsonl", "openai"])
def test_what_was_found_wrong_since_is_told_and_marked_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    lines = {
        "lines": [f"text {number}" for number in range(1, 6)],
        "jsonl": [json.dumps({"prompt": "Once", "id": f"r{number}"}) for number in range(1, 6)],
        "openai": [openai_line(number) for number in range(1, 6)],
    }[form]
    made = AnsweredFile(tmp_path, monkeypatch, lines)
    first = made.post(url)
    assert "1 request has no answer" in first.stderr
    before = made.out.read_bytes()
    made.claimed = {0, 1, 2}
    quiet = made.again(url, monkeypatch)
    assert "the payment of 3 units waits for a check" in quiet.stderr
    assert (made.out.read_bytes(), made.marked()) == (before, [])
    made.refuted, made.claimed, made.forgotten = {0, 1}, set(), {2}
    told = made.again(url, monkeypatch)
    assert told.exit_code == 1
    assert f"3 answers in {made.out} did not pass their check" in told.stderr
    assert "4 requests have no answer" in told.stderr
    assert "(3)" in told.stderr
    assert made.out.read_bytes() == before, "the file of results stays as it is"
    names = [row["custom_id"] if form == "openai" else row["index"] for row in made.marked()]
    assert names == (["r1", "r3", "r4"] if form == "openai" else [1, 3, 4]), "the second had its error before"
    facts = json.loads(told.stdout)
    if form == "openai":
        assert facts["request_counts"] == {"total": 5, "completed": 1, "failed": 4}
    else:
        found = {name: facts[name] for name in ("answered", "failed", "found_wrong")}
        assert found == {"answered": 1, "failed": 4, "found_wrong": 3}
        assert facts["paid"]["grains"] == "0", "the price of refuted results came back"
    errors = made.errors.read_bytes()
    once_more = made.again(url, monkeypatch)
    assert (made.errors.read_bytes(), made.out.read_bytes()) == (errors, before)
    assert "did not pass" not in once_more.stderr
    assert "(3)" in once_more.stderr
    assert made.looks[-1] == 1, "who was found wrong is not asked about again"


def test_the_cost_of_units_that_passed_and_answers_that_nobody_checked_are_noted_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = AnsweredFile(tmp_path, monkeypatch, [f"text {number}" for number in range(1, 6)])
    made.post(url)
    made.claimed, made.undecided = {1}, {2}
    facts = json.loads(made.again(url, monkeypatch).stdout)
    assert (facts["paid"]["grains"], facts["still_checked"], facts["found_wrong"]) == (str(PAID), 1, 1)
    assert ([row["index"] for row in made.marked("answer_unchecked")], made.marked()) == ([5], [])
    made.claimed = set()
    facts = json.loads(made.again(url, monkeypatch).stdout)
    assert (facts["paid"]["grains"], facts["still_checked"], made.looks) == (str(2 * PAID), 0, [3, 1])
    made.again(url, monkeypatch)
    assert made.looks == [3, 1], "the end of a claim is asked for once"


def test_broken_off_between_the_marks_and_their_entry_each_stands_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = AnsweredFile(tmp_path, monkeypatch, [f"text {number}" for number in range(1, 6)])

    class BrokenOffError(Exception):
        """The process ends here."""

    def breaks(*_: object) -> None:
        raise BrokenOffError

    made.post(url)
    made.refuted = {0, 1, 2}
    with monkeypatch.context() as patch:
        patch.setattr(BatchRecord, "note_refuted", breaks)
        assert isinstance(made.again(url, monkeypatch).exception, BrokenOffError)
    assert [row["index"] for row in made.marked()] == [1]
    made.again(url, monkeypatch)
    assert [row["index"] for row in made.marked()] == [1, 3, 4, 5]


def test_a_line_that_somebody_wrote_into_the_results_is_passed_over(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = AnsweredFile(tmp_path, monkeypatch, ["a", "b", "c"])
    made.post(url)
    whole = made.out.read_bytes()
    first, _, rest = whole.partition(b"\n")
    made.out.write_bytes(b"#" * len(first) + b"\n" + rest)
    made.refuted = {0, 1}
    assert "1 answers in" in made.again(url, monkeypatch).stderr
