"""`ogpu-devnet` commands: the chosen process, and the end of `up` when another command has ended all processes."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from devnet.launcher import commands, layout, lifecycle, processes, status
from devnet.launcher.cli import ogpu_devnet
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.launcher.processes import Process
from error_codes import ended_code
from genesis.presets import load_spec


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Devnet:
    """Return a devnet with a broker, with or without Mosquitto installed. Nothing is started here."""
    monkeypatch.setattr(layout, "broker_program", lambda: "/usr/sbin/mosquitto")
    return layout.create(tmp_path / "net", 2, providers=True, any_ports=True)


def run(net: Devnet, *words: str) -> Any:
    return CliRunner().invoke(ogpu_devnet, ["--folder", str(net.folder), *words])


def test_a_devnet_keeps_its_sample(net: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "up", lambda *_, **__: [])
    monkeypatch.setattr(commands, "_show", lambda _: None)
    assert ended_code(run(net, "--json", "up", "--detach", "--sample", "3")) == "other_devnet"
    new = ["--folder", str(tmp_path / "new"), "up", "--any-ports", "--detach"]
    results = [CliRunner().invoke(ogpu_devnet, [*new, *more]) for more in (["--sample", "3"], [], ["--sample", "4"])]
    assert [result.exit_code for result in results] == [0, 0, 2]
    assert layout.load(tmp_path / "new").sample == 3


@pytest.mark.parametrize("providers", [True, False])
def test_providers_of_a_new_devnet_sell_every_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, providers: bool
) -> None:
    monkeypatch.setattr(lifecycle, "up", lambda *_, **__: [])
    monkeypatch.setattr(commands, "_show", lambda _: None)
    words = ["--folder", str(tmp_path / "new"), "up", "--any-ports", "--detach", *["--providers"] * providers]
    assert CliRunner().invoke(ogpu_devnet, words).exit_code == 0
    patch = load_spec(layout.load(tmp_path / "new").chain_spec.read_bytes()).patch
    assert patch is not None
    assert (len(patch["inferenceMarket"]["services"]) > 1) is providers


def test_a_new_devnet_has_the_seats_and_epochs_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "up", lambda *_, **__: [])
    monkeypatch.setattr(commands, "_show", lambda _: None)
    words = ["up", "--any-ports", "--detach", "-n", "3", "--seats", "2"]
    for folder, more, parameters in (("usual", [], "devnet"), ("fast", ["--fast"], layout.FAST)):
        assert CliRunner().invoke(ogpu_devnet, ["--folder", str(tmp_path / folder), *words, *more]).exit_code == 0
        net = layout.load(tmp_path / folder)
        spec = load_spec(net.chain_spec.read_bytes())
        assert spec.patch is not None
        assert (len(net.members), spec.patch["chainParameters"]["TrustStake.validator_count"], spec.parameters) == (
            3,
            2,
            parameters,
        )


@pytest.mark.parametrize(("name", "label"), [("bob", "Bob"), ("Alice", "Alice"), ("bob/Provider", "Bob/provider")])
def test_a_node_and_the_provider_beside_it_have_names(net: Devnet, name: str, label: str) -> None:
    assert lifecycle.process_named(net, name).label == label


def test_a_name_that_is_none_is_answered_with_those_that_are(net: Devnet) -> None:
    for command in ("kill", "restart", "logs"):
        said = run(net, command, "alcie").stderr
        assert "Did you mean Alice?" in said
        assert "Alice/provider, Bob/provider, broker, Alice, Bob" in said


def test_the_broker_is_awaited_where_it_is_started_again(net: Devnet, monkeypatch: pytest.MonkeyPatch) -> None:
    awaited: list[Devnet] = []
    for what in ("stop", "start"):
        monkeypatch.setattr(processes, what, lambda *_, **__: 7)
    monkeypatch.setattr(lifecycle, "wait_for_broker", awaited.append)
    assert "started broker" in run(net, "restart", "broker").output
    assert len(awaited) == 1


def test_providers_are_told_of_the_broker_and_of_what_stands_before_it(
    net: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ("--mqtt", f"mqtt://127.0.0.1:{net.broker_port}")
    assert lifecycle.provider_process(net, net.members[0]).arguments[-2:] == told
    behind = layout.before_broker(net, 12_345)
    assert layout.load(net.folder) == behind
    assert lifecycle.provider_process(behind, net.members[0]).arguments[-1] == "mqtt://127.0.0.1:12345"
    assert lifecycle.brokers(behind)[0].arguments == (str(net.broker_port), str(net.folder / "broker"))
    monkeypatch.setattr(layout, "broker_program", lambda: None)
    without = layout.create(tmp_path / "without", 1, providers=True, any_ports=True)
    assert lifecycle.provider_process(without, without.members[0]).arguments[-1] == "run"
    assert lifecycle.brokers(without) == ()


def test_a_provider_is_killed_and_started_again(net: Devnet, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, str]] = []

    def noted(what: str) -> Any:
        def note(process: Process, **_: Any) -> int:
            done.append((what, process.label))
            return 7

        return note

    for what in ("kill", "stop", "start"):
        monkeypatch.setattr(processes, what, noted(what))
    monkeypatch.setattr(lifecycle, "wait_for_provider", lambda _net, who: done.append(("awaited", who.name)))
    monkeypatch.setattr(lifecycle, "wait_for_node", lambda _net, who: done.append(("awaited node", who.name)))
    back = f"`ogpu-devnet --folder {net.folder} restart Bob/provider` brings it back"
    assert back in run(net, "kill", "bob/provider").output
    assert "started Bob/provider" in run(net, "restart", "bob/provider").output
    assert run(net, "restart", "bob").exit_code == 0
    assert done == [
        ("kill", "Bob/provider"), ("stop", "Bob/provider"), ("start", "Bob/provider"), ("awaited", "Bob"),
        ("stop", "Bob"), ("start", "Bob"), ("awaited node", "Bob"),
    ]  # fmt: skip


def test_status_says_whether_the_provider_beside_a_node_runs(net: Devnet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "running", lambda process: 7 if process.label == "Alice/provider" else None)
    monkeypatch.setattr(commands, "_watch", Mock(side_effect=AssertionError("a program reads one object")))
    alice, bob = json.loads(run(net, "status", "--json", "--watch").stdout)
    assert [(each["name"], each["provider"]) for each in (alice, bob)] == [("Alice", "runs"), ("Bob", "down")]
    shown = run(net, "status").output
    assert "provider" in shown
    assert "runs" in shown
    without = layout.create(net.folder.parent / "other", 1, providers=False, any_ports=True)
    assert json.loads(run(without, "status", "--json").stdout)[0]["provider"] is None


@pytest.mark.parametrize(
    ("validators", "said"),
    [
        (2, "//Eve, //Ferdie (`ogpu unit post ... --key //Ferdie`)"),
        (6, "//Grace, //Heidi (`ogpu unit post ... --key //Heidi`)"),
    ],
)
def test_up_says_whose_money_customers_may_spend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validators: int, said: str
) -> None:
    monkeypatch.setattr(lifecycle, "up", lambda *_, **__: None)
    found = layout.create(tmp_path / "other", validators, any_ports=True)
    shown = run(found, "up", "--detach").output
    assert "1000000 oGPU" in shown
    assert said in shown
    assert f"running; `ogpu-devnet --folder {found.folder} status` shows it" in shown
    monkeypatch.setenv("OGPU_DEVNET", str(found.folder))
    assert "running; `ogpu-devnet status` shows it" in run(found, "up", "--detach").output


def test_who_watches_what_somebody_else_ended_is_told_and_ends(net: Devnet, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([True, True, False])

    async def nobody(_net: Devnet) -> list[Any]:
        return []

    monkeypatch.setattr(commands, "REFRESH_SECONDS", 0)
    monkeypatch.setattr(status, "ask_all", nobody)
    monkeypatch.setattr(lifecycle, "up", lambda _net, **_: [])
    monkeypatch.setattr(lifecycle, "runs", lambda _net: next(left))
    shown = run(net, "up")
    assert shown.exit_code == 0, shown.exception
    assert "another command took the devnet down" in shown.output
    assert next(left, None) is None


def test_what_runs_is_a_node_or_a_provider(net: Devnet, monkeypatch: pytest.MonkeyPatch) -> None:
    for label, expected in (("Bob/provider", True), ("Alice", True), ("nobody", False)):
        monkeypatch.setattr(processes, "running", lambda each, label=label: 7 if each.label == label else None)
        assert lifecycle.runs(net) is expected
    with pytest.raises(DevnetError):
        lifecycle.process_named(net, "")


def test_a_folder_with_other_files_is_refused_since_purge_would_remove_them(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("kept")
    result = CliRunner().invoke(ogpu_devnet, ["--folder", str(tmp_path), "--json", "up", "--detach"])
    assert (result.exit_code, ended_code(result)) == (2, "folder_not_empty")
    assert [path.name for path in tmp_path.iterdir()] == ["other.txt"]


def test_a_folder_that_cannot_be_made_and_too_many_seats_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in ("file", "file/in"):
        words_of_up = ["--json", "--folder", str(tmp_path / place), "up", "--detach"]
        assert ended_code(CliRunner().invoke(ogpu_devnet, words_of_up)) == "folder_unusable"
    words_of_up = ["--json", "--folder", str(tmp_path / "new"), "up", "--detach", "-n", "2", "--seats", "5"]
    assert ended_code(CliRunner().invoke(ogpu_devnet, words_of_up)) == "too_many_seats"


def test_a_provider_of_a_devnet_without_any_is_answered_with_the_option(tmp_path: Path) -> None:
    without = layout.create(tmp_path / "without", 1, any_ports=True)
    assert "--providers" in run(without, "logs", "Alice/provider").stderr
    assert "--providers" not in run(without, "logs", "Bob").stderr


def test_another_number_of_validators_is_refused(net: Devnet) -> None:
    assert ended_code(run(net, "--json", "up", "--detach", "-n", "3")) == "other_devnet"
