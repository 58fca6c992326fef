"""The runner of scenarios: its networks, its output and files, and its exit status."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devnet.launcher.folder import DevnetError
from devnet.stage.report import as_json, figures_of
from devnet.stage.scenario import LiveProof, ProofOption, ProofRun, Scenario, chosen_from, run

OPENED: list[str] = []


def network(name: str) -> Any:
    @contextmanager
    def opened(run: ProofRun) -> Iterator[ProofRun]:
        OPENED.append(f"{name} up")
        try:
            yield run
        finally:
            OPENED.append(f"{name} down")

    return opened


@dataclass(frozen=True)
class Facts:
    size: int
    name: bytes = b"\1"


FIRST, SECOND = network("first"), network("second")
PROOF = LiveProof(
    "some",
    "For a test.",
    [
        Scenario("a", "Of {size}", FIRST, lambda run: Facts(run.options.size), lambda _: []),
        Scenario("b", "Another", FIRST, lambda _: Facts(2), lambda facts: ["too small"] if facts.size < 3 else []),
        Scenario("c", "Elsewhere", SECOND, lambda _: {"failures": []}, lambda facts: facts["failures"]),
    ],
    lambda facts: f"{len(facts)} played",
    [ProofOption("--size", 5, "of something"), ProofOption("--loud", False, "or not")],
)


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    OPENED.clear()


def test_scenarios_in_a_row_share_a_network_and_each_is_taken_down(capsys: pytest.CaptureFixture[str]) -> None:
    assert PROOF.main([]) == 1
    assert OPENED == ["first up", "first down", "second up", "second down"]
    report = json.loads(Path("out/some.json").read_text(encoding="utf-8"))
    assert report["failures"] == ["b: too small"]
    assert report["scenarios"]["a"] == {"size": 5, "name": "0x01"}
    assert "some: 3 played; 1 failures" in capsys.readouterr().out


def test_names_choose_and_a_run_that_held_is_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert PROOF.main(["--only", "c,a", "--size", "7"]) == 0
    assert OPENED == ["second up", "second down", "first up", "first down"]
    assert "Of 7" in capsys.readouterr().out


def test_what_is_always_judged_is_judged_on_a_network_that_was_chosen() -> None:
    always = Scenario("z", "At last", FIRST, lambda _: Facts(9), lambda _: [], is_always_judged=True)
    proof = LiveProof("some", "", [*PROOF.scenarios, always], " ".join)
    for chosen, played in (("a", ["a", "z"]), ("c", ["c"]), ("a,c", ["a", "z", "c"]), ("z", ["z"])):
        assert [scenario.name for scenario in proof.parse(["--only", chosen]).only] == played


def test_a_network_is_taken_down_under_a_strike_that_fails() -> None:
    def fails(_: ProofRun) -> None:
        raise DevnetError("no block")

    proof = LiveProof("some", "", [Scenario("a", "", FIRST, fails)], str)
    with pytest.raises(DevnetError):
        proof.main([])
    assert OPENED == ["first up", "first down"]
    with pytest.raises(SystemExit) as ended:
        run(LiveProof("some", "", [Scenario("a", "", FIRST, fails)], str))
    assert ended.value.code not in (None, 0)


def test_entries_in_the_order_given_and_an_unknown_name_is_refused() -> None:
    assert chosen_from({"a": 1, "b": 2, "c": 3}, "letter")("c,a") == [3, 1]
    with pytest.raises(argparse.ArgumentTypeError, match=r"x, : there are a, b"):
        chosen_from({"a": 1, "b": 2}, "letter")("a,x,")


def test_facts_are_json_and_figures() -> None:
    assert as_json({1: {b"\2"}, "far": 2**60, "path": Path("x"), "none": None}) == {
        "1": ["0x02"],
        "far": str(2**60),
        "path": "x",
        "none": None,
    }
    assert figures_of(Facts(3)) == "size 3, name 0x01"
