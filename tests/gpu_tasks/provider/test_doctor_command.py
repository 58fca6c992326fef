"""`ogpu-provider doctor` on a development chain: a real RPC server, a real blob store, real workers."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from click.testing import CliRunner

from blob_servers import serving
from cli.wallet.program import main as wallet
from genesis import dev_accounts
from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.services import Offer
from gpu_tasks.provider.cli import main
from gpu_tasks.provider.commands import doctor
from gpu_tasks.provider.doctor.chain import _devices, _funds_diagnosis
from gpu_tasks.provider.duties.resumer import BY_OPERATOR
from gpu_tasks.provider.execution import worker_start
from gpu_tasks.provider.execution.containers.ability import ContainerAbility
from gpu_tasks.provider.execution.diagnoses import Diagnosis, Grade
from gpu_tasks.workloads.model_forms import PACKAGE_FORMS
from gpu_tasks.workloads.train_int8.form import TrainingForm
from provider_chain import fake_processor
from provider_runner import Operator
from runtime.cryptography import ss58
from simulation.chains.market_chain import OGPU
from wallet import verified
from wallet_runner import chain

KEYS = ["--node-keys", "//Eve"]
ENGINE = "unix:///elsewhere/docker.sock"
JOIN = ["register", "--yes", "--key", "//Eve", "--bond", "1000", "--device-bond", "100", *KEYS]


@pytest.fixture(autouse=True)
def _one_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try workers of one workload only, because each start costs a second."""
    monkeypatch.setattr(doctor, "PACKAGE_FORMS", (TrainingForm(),))


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "chain").mkdir()
    with chain(tmp_path / "chain") as url:
        yield url


def examined(operator: Operator, *options: str, code: int) -> dict[str, Any]:
    answer = operator.run("doctor", *options)
    assert answer.exit_code == code, answer.output
    return {row["check"]: row for row in json.loads(answer.stdout)}


def device_row(rows: dict[str, Any]) -> Any:
    (row,) = [row for check, row in rows.items() if check.startswith("0x")]
    return row


@pytest.mark.parametrize(("free", "grade"), [(5, Grade.GOOD), (4, Grade.BAD), (0, Grade.BAD)])
async def test_the_stash_needs_the_collateral_of_all_proofs(free: int, grade: Grade) -> None:
    live_chain: Any = SimpleNamespace(spendable=AsyncMock(return_value=free))
    assert (await _funds_diagnosis(live_chain, 5)).grade is grade


def test_an_only_processor_is_here_whatever_its_identifier() -> None:
    """As in `run`: a processor of a development chain's genesis has not the identifier of the base path."""
    device = Device(b"o" * 32, DeviceClass.CPU, fake_processor("genesis").uuid_hash, OGPU, 1, 1)
    status = DeviceStatus(b"a" * 32, device, ((0, Offer(1, 0)),))
    (found,) = _devices([status], [fake_processor("here")], str)
    assert found.grade is Grade.GOOD
    assert [each.grade for each in _devices([status], [], str)] == [Grade.BAD]
    two = [status, replace(status, id=b"b" * 32)]
    assert [each.grade for each in _devices(two, [fake_processor("here")], str)] == [Grade.BAD] * 2


def test_a_machine_alone_is_examined_without_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGE_FORMS", PACKAGE_FORMS)
    rows = examined(Operator(tmp_path, "ws://127.0.0.1:1", "Alice"), "--offline", code=0)
    assert {rows[f"{form.name} on device 0"]["grade"] for form in PACKAGE_FORMS} == {"ok"}
    assert not {"chain", "key", "node"} & set(rows)
    table = Operator(tmp_path, "ws://127.0.0.1:1", "Alice").run("doctor", "--offline", as_json=False).output
    assert "the published results" in table


@pytest.mark.parametrize(("given", "environment"), [(True, False), (False, True)])
def test_the_engine_is_looked_at_where_run_would_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool, environment: bool
) -> None:
    asked: list[str] = []

    async def look(address: str) -> ContainerAbility:
        asked.append(address)
        items = (Diagnosis("engine", Grade.BAD, "away", "start it"),)
        return ContainerAbility(items, "engine: away")

    monkeypatch.setattr(doctor, "look_at_engine", look)
    if environment:
        monkeypatch.setenv("DOCKER_HOST", ENGINE)
    operator = Operator(tmp_path, "ws://127.0.0.1:1", "Alice")
    options = ["--offline", *(["--engine", ENGINE] if given else [])]
    rows = examined(operator, *options, code=0)
    assert (asked, rows["Docker, engine"]["grade"]) == ([ENGINE], "warning")
    operator.answer("policy", "--kind", "container", "--image", "ghcr.io/a/b")
    assert examined(operator, *options, code=1)["Docker, engine"]["grade"] == "problem", "its policy offers containers"
    assert rows.keys().isdisjoint({"Docker, images of tasks"})
    told = examined(operator, *options, code=1)["Docker, images of tasks"]["says"]
    assert told.startswith("0 fetched ")


def test_a_node_that_is_away_is_said(tmp_path: Path) -> None:
    rows = examined(Operator(tmp_path, "ws://127.0.0.1:1", "Alice"), code=1)
    assert rows["chain"]["grade"] == "problem"
    assert "no node answers" in rows["chain"]["says"]


def test_a_key_that_is_not_there_is_said(tmp_path: Path) -> None:
    given = ["--provider-key", str(tmp_path / "none.json"), "--base-path", str(tmp_path), "--json"]
    answer = CliRunner().invoke(main, [*given, "doctor"])
    assert answer.exit_code == 1
    (row,) = [row for row in json.loads(answer.stdout) if row["check"] == "key"]
    assert "no key file" in row["says"]
    assert row["says"] in answer.stderr, "said before the workers are tried"


def test_a_gpu_backend_without_a_gpu_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_start, "find_spec", lambda _: object())
    rows = examined(Operator(tmp_path, "ws://127.0.0.1:9", "Alice"), "--offline", "--backend", "torch-cuda", code=1)
    assert rows["workers"]["grade"] == "problem"


@pytest.fixture
def _in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a clock at which the played node's blocks, of the first slots, look new."""
    monkeypatch.setattr(verified, "system_clock_ms", lambda: 0)


def test_a_chain_that_stands_is_found(tmp_path: Path, url: str) -> None:
    row = examined(Operator(tmp_path, url, "Alice"), code=1)["node"]
    assert row["grade"] == "problem"
    assert "slots old" in row["says"]


@pytest.mark.usefixtures("_in_time")
def test_a_device_that_nobody_serves_is_found(tmp_path: Path, url: str) -> None:
    rows = examined(Operator(tmp_path, url, "Alice"), code=1)
    assert (rows["key"]["grade"], rows["node"]["grade"], rows["funds"]["grade"]) == ("ok", "ok", "ok")
    assert device_row(rows)["grade"] == "ok"
    assert rows["blob store"]["grade"] == "problem"
    assert "cannot be reached" in rows["blob store"]["says"]


@pytest.mark.usefixtures("_in_time")
def test_a_provider_that_lacks_nothing_is_told_so(tmp_path: Path, url: str) -> None:
    eve = Operator(tmp_path, url, "Eve")
    assert examined(eve, code=1)["chain"]["says"].count("is no provider key on")
    with serving(tmp_path / "blobs") as endpoint:
        eve.answer(*JOIN, "--endpoint", endpoint)
        rows = examined(eve, code=0)
        assert device_row(rows)["grade"] == "ok"
        assert rows["blob store"]["says"] == f"{endpoint} answers, as seen from here"
        eve.answer("pause")
        row = device_row(examined(eve, code=0))
        assert row["grade"] == "warning"
        assert BY_OPERATOR in row["says"]


@pytest.mark.usefixtures("_in_time")
def test_a_key_that_cannot_cover_a_duty_call_is_found(tmp_path: Path, url: str) -> None:
    poor = Operator(tmp_path, url, "Gina")  # a key that no genesis gave anything
    address = ss58.encode(dev_accounts.key("Gina", "provider"))

    def sent(*command: str) -> None:
        made = CliRunner().invoke(wallet, ["--url", url, *command, "--key", "//Eve", "--yes"])
        assert made.exit_code == 0, made.output

    sent("stake", "1000")
    sent("validate", "//Eve", address)
    register = ("register", "--key", "//Eve", "--device-bond", "100")
    for more, grade in (("0.09999999", "problem"), ("0.00000001", "ok")):
        sent("send", address, more)
        assert examined(poor, code=1)["key's funds"]["grade"] == grade
        assert ("to_the_provider_key" in poor.answer(*register, "--dry-run")) == (grade == "problem")
