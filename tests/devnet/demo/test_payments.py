"""The demo's payments: one wait for all answered units, and a failure for each unit that is not paid as it should."""

import json
from pathlib import Path
from typing import Any

import pytest

from devnet.demo.payments import ANSWERED, settle
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, NodeLayout, Ports
from devnet.stage.actors import purchase
from devnet.stage.actors.purchase import AnsweredUnit
from devnet.stage.network import Stage
from devnet.stage.report import Narrator

TRACE = {"times_paid": 1, "attestation": "0x02", "payee": "Dave", "cost": "0.001 oGPU"}
MEMBERS = (NodeLayout("Alice", True, Ports(1, 2, 3, 4), ""),)


def settled(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *, fails: bool = False, **changed: Any
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the reports of a question and a batch after their payments, and the followed units."""
    watched: list[str] = []

    def run(_: Stage, command: str, *words: str, is_shown: bool = True) -> str:
        if command == "unit watch":
            watched.extend(words[: words.index("--key")])
            if fails:
                raise DevnetError("`ogpu unit watch` failed")
            return ""
        assert words[0] in watched, "a unit has its whole trace once it has ended"
        return json.dumps({"unit": words[0], "state": "settled", "posted_in_block": 3, "ended_in_block": 9})

    monkeypatch.setattr(Stage, "ogpu", run)
    monkeypatch.setattr(purchase, "trace_unit", lambda _, row, __: row | TRACE | changed)
    reports: dict[str, dict[str, Any]] = {
        "question": {ANSWERED: AnsweredUnit("0x01", 3, ["a"], ["b"]), "failures": ["wrong"]},
        "search": {"left_out": "no network", "failures": []},
        "batch": {ANSWERED: AnsweredUnit("0x02", 4, ["a", "c"], ["b", "d"]), "failures": []},
    }
    settle(Stage(Devnet(folder, MEMBERS), Narrator(1)), reports)
    return reports, watched


def test_all_answers_are_followed_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    reports, watched = settled(monkeypatch, tmp_path)
    assert watched == ["0x01", "0x02"]
    assert {name: report["failures"] for name, report in reports.items()} == {
        "question": ["wrong"], "search": [], "batch": [],
    }  # fmt: skip
    assert (reports["batch"]["blocks"], reports["batch"]["completion"]) == (6, "b")
    assert not any(ANSWERED in report for report in reports.values())
    assert "batch: Dave was paid 0.001 oGPU, 6 blocks after the post" in capsys.readouterr().out


@pytest.mark.parametrize("changed", [{"times_paid": 2}, {"attestation": None}, {"payee": "Eve"}, {"fails": True}])
def test_each_unit_that_is_not_paid_as_it_should_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: dict[str, Any]
) -> None:
    reports, _ = settled(monkeypatch, tmp_path, **changed)
    assert {name: len(report["failures"]) for name, report in reports.items()} == {
        "question": 2, "search": 0, "batch": 1,
    }  # fmt: skip


def test_without_answers_nothing_is_followed(tmp_path: Path) -> None:
    reports: dict[str, dict[str, Any]] = {"question": {"failures": ["no answer"]}}
    settle(Stage(Devnet(tmp_path, MEMBERS), Narrator(1)), reports)
    assert reports == {"question": {"failures": ["no answer"]}}
