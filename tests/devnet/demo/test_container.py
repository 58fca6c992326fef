"""The demo's container: its provider, the reasons if it does not run, and the failures of the demo."""

import contextlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devnet.demo import container
from devnet.demo.container import DemoEngine, DemoProgram, engine_for, write_task
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, NodeLayout, Ports
from devnet.stage.actors import task_sale
from devnet.stage.actors.task_sale import TaskSale
from devnet.stage.network import Stage
from devnet.stage.report import Narrator
from genesis import dev_accounts
from gpu_tasks.client.tasks.orders import load_any
from gpu_tasks.market.training.money import TaskOutcome

CHARLIE = dev_accounts.stash("Charlie")
GOOD = {"exit": 0, "outcome": TaskOutcome.TIME_OVER, "count": b"7\n", "paid": 90}


def ended(monkeypatch: pytest.MonkeyPatch, folder: Path, *, sells: Any = None, **changed: Any) -> dict[str, Any]:
    """Return the demo's report of a container that ended this way."""
    good: dict[str, Any] = GOOD | changed
    slot = SimpleNamespace(provider=CHARLIE, result=SimpleNamespace(metric=good["exit"]))

    def ask(_: Stage, __: TaskSale, command: str, *words: str, is_shown: bool = False) -> str:
        if command == "task show":
            paid = {"party": "provider", "paid": {"grains": str(good["paid"])}}
            return json.dumps({"payments": [paid, {"party": "customer", "paid": {"grains": "5"}}]})
        with tarfile.open(words[-1], "w") as archive:
            header = tarfile.TarInfo("count")
            header.size = len(good["count"])
            archive.addfile(header, io.BytesIO(good["count"]))
        return ""

    monkeypatch.setattr(container, "busybox_files", lambda: ())
    monkeypatch.setattr(task_sale, "sell_task", sells or (lambda *_: TaskSale(b"t" * 32)))
    monkeypatch.setattr(task_sale, "ask_about_task", ask)
    monkeypatch.setattr(task_sale, "record", lambda *_: SimpleNamespace(slots=(slot,), outcome=good["outcome"]))
    net = Devnet(folder, (NodeLayout("Alice", True, Ports(1, 2, 3, 4), ""),))
    return DemoProgram(Stage(net, Narrator(1)), DemoEngine("unix:///nowhere")).wait_for_end()


def test_a_container_that_ran_is_told_with_what_it_paid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = ended(monkeypatch, tmp_path)
    assert (report["failures"], report["provider"], report["earned_grains"]) == ([], "Charlie", "90")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"exit": 1}, "ended as"),
        ({"outcome": TaskOutcome.LEFT}, "ended as"),
        ({"count": b"8\n"}, "left"),
        ({"paid": 0}, "not paid"),
    ],
)
def test_one_that_did_not_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    assert [said in failure for failure in ended(monkeypatch, tmp_path, **changed)["failures"]] == [True]


def test_a_program_of_its_customer_that_fails_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: Any) -> TaskSale:
        raise DevnetError("`ogpu task submit` failed")

    (failure,) = ended(monkeypatch, tmp_path, sells=fails)["failures"]
    assert "`ogpu task submit` failed" in failure


def test_without_an_engine_it_is_left_out_and_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setattr(container, "why_no_engine", lambda: "not installed: dockerd (apt-get install docker.io)")
    with engine_for(stays_running=False) as engine:
        report = DemoProgram(Stage(Devnet(tmp_path, ()), Narrator(1)), engine).wait_for_end()
    assert report["failures"] == []
    assert "apt-get install docker.io" in report["left_out"]
    assert "left out: not installed: dockerd" in capsys.readouterr().out


def test_an_engine_of_its_own_is_not_left_running_with_the_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[Path] = []

    @contextlib.contextmanager
    def own(folder: Path) -> Iterator[str]:
        started.append(folder)
        yield "unix:///own"

    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setattr(container, "why_no_engine", lambda: "")
    monkeypatch.setattr(container, "why_no_program", lambda: "")
    monkeypatch.setattr(container, "own_engine", own)
    with engine_for(stays_running=True) as engine:
        assert "end with it" in engine.missing_reason
    assert not started
    with engine_for(stays_running=False) as engine:
        assert engine == DemoEngine("unix:///own")
    assert len(started) == 1


def test_its_task_is_one_that_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(container, "busybox_files", lambda: ())
    loaded = load_any(write_task(tmp_path / "job"))
    assert loaded.image is not None
    assert container.EXPECTED_OUTPUTS["count"].strip() == str(len(container.INPUT_TEXT.split())).encode()
