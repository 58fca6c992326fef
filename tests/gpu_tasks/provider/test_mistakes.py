"""Mistakes of operators: each is refused before anything is sent, with the problem and the remedy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.services import Service, ServiceTerms
from gpu_tasks.provider.commands import doctor, offers, register
from gpu_tasks.provider.commands.options import own_devices
from gpu_tasks.provider.execution.diagnoses import Diagnosis, bad
from gpu_tasks.provider.registration import FIRST_ASK, Planned, Registration, check_device_bond, registration_calls
from provider_runner import Operator
from wallet.amounts import GRAINS_PER_OGPU
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet_runner import chain

JOIN = ["register", "--yes", "--key", "//Eve", "--bond", "1000", "--node-keys", "//Eve"]


@pytest.fixture(scope="module")
def eve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    folder = tmp_path_factory.mktemp("chain")
    with chain(folder) as url:
        yield Operator(folder, url, "Eve")


@pytest.fixture
def alice(eve: Operator) -> Operator:
    return Operator(eve.folder, eve.options[1], "Alice")


@pytest.mark.parametrize("ask", ["0", "20.00000001", "1000"])
@pytest.mark.parametrize("trial", [[], ["--dry-run"]])
def test_an_ask_that_no_unit_can_meet_is_refused(eve: Operator, alice: Operator, ask: str, trial: list[str]) -> None:
    device = alice.answer("status")["devices"][0]["device"]
    for said in (
        eve.refusal(*JOIN, "--ask", ask, *trial),
        alice.refusal("offer", device, "--service", "0", "--ask", ask, *trial),
    ):
        assert f"--ask {ask}" in said
        assert "20 oGPU" in said


def test_asks_within_the_bounds_are_taken(eve: Operator, alice: Operator) -> None:
    device = alice.answer("status")["devices"][0]["device"]
    for ask in ("0.00000001", "20"):
        joined = eve.run(*JOIN, "--ask", ask, "--dry-run")
        assert json.loads(joined.stdout)["refused"] is None
        assert ("pays 0.01 to 20 oGPU" in joined.stderr) is (ask != "20"), "such a unit pays more than was asked"
        assert alice.answer("offer", device, "--service", "0", "--ask", ask, "--dry-run")["refused"] is None


def test_the_first_ask_is_no_higher_than_what_a_unit_can_pay(eve: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    asks: list[int] = []

    async def noted(client: ChainClient, wanted: Registration) -> list[Planned]:
        planned = await registration_calls(client, wanted)
        asks.extend(step.call.named_arguments["ask"] for step in planned if "ask" in step.call.named_arguments)
        return planned

    monkeypatch.setattr(register, "registration_calls", noted)
    eve.answer(*JOIN, "--dry-run")
    monkeypatch.setattr(register, "FIRST_ASK", 21 * GRAINS_PER_OGPU)
    eve.answer(*JOIN, "--dry-run")
    assert asks == [FIRST_ASK, 20 * GRAINS_PER_OGPU]


def test_a_device_whose_bond_has_fallen_below_the_least_is_not_resumed(
    alice: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fallen(client: ChainClient, key: Keypair) -> list[DeviceStatus]:
        found = await own_devices(client, key)
        return [replace(status, device=replace(status.device, bond=1, is_paused=True)) for status in found]

    monkeypatch.setattr(offers, "own_devices", fallen)
    assert "class cpu" in alice.refusal("resume", "--dry-run")


@pytest.mark.parametrize("trial", [[], ["--dry-run"]])
def test_a_bond_below_the_least_names_it_and_the_class(eve: Operator, trial: list[str]) -> None:
    said = eve.refusal(*JOIN, "--device-bond", "0.5", *trial)
    assert "class cpu" in said
    assert "1 oGPU" in said
    assert eve.answer(*JOIN, "--device-bond", "1", "--dry-run")["refused"] is None


def test_a_service_that_there_is_not_is_refused_with_those_that_there_are(eve: Operator, alice: Operator) -> None:
    device = alice.answer("status")["devices"][0]["device"]
    for said in (
        eve.refusal(*JOIN, "--service", "99", "--dry-run"),
        alice.refusal("offer", device, "--service", "99", "--ask", "1", "--dry-run"),
    ):
        assert "no service 99" in said
        assert "service 0 (" in said
        assert "20 oGPU" in said


@pytest.mark.parametrize(("count", "shown"), [(1, 1), (8, 8), (9, 8), (20, 8)])
def test_no_more_services_are_listed_than_fit_a_line(count: int, shown: int) -> None:
    terms = ServiceTerms(b"reversed", bytes(32), bytes(32), 1, 2, 1, 30, 64)
    listed = register._listed({number: Service(bytes(32), terms, 0) for number in range(count)})
    assert listed.count("reversed") == shown
    assert (f"{count - shown} more" in listed) is (count > shown)
    assert "reversed" not in register._listed({})


@pytest.mark.parametrize("kind", DeviceClass)
def test_the_least_bond_is_that_of_the_devices_class(kind: DeviceClass) -> None:
    least = {Devices.cpu_bond_min.item: 5, Devices.consumer_bond_min.item: 6, Devices.datacenter_bond_min.item: 7}
    found = [5, 6, 7][kind]

    async def read(item: Any) -> int:
        return least[item]

    client: Any = SimpleNamespace(read=read)
    asyncio.run(check_device_bond(client, kind, found))
    with pytest.raises(WalletError):
        asyncio.run(check_device_bond(client, kind, found - 1))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("203.0.113.7:9750", "http://203.0.113.7:9750"),
        ("http://203.0.113.7:9750/", "http://203.0.113.7:9750"),
        ("https://gpu.example.org/blobs?x#y", "https://gpu.example.org"),
        ("http://me:secret@gpu.example.org:1", "http://gpu.example.org:1"),
        ("gpu.example.org", "http://gpu.example.org"),
        ("//", None),
        ("http://", None),
        ("ftp://gpu.example.org", None),
        ("http://gpu.example.org:99999", None),
        ("http://[::1", None),
        ("", None),
    ],
)
def test_an_endpoint_of_another_form_is_refused_with_the_one_that_is_meant(
    eve: Operator, given: str, meant: str | None
) -> None:
    said = eve.refusal(*JOIN, "--endpoint", given, "--dry-run")
    assert (f"Did you mean {meant}?" in said) is (meant is not None)
    assert meant is not None or "did you mean" not in said


def test_a_workload_of_units_needs_no_policy(eve: Operator) -> None:
    for name in ("matmul-hash", "decoder-int8", "decoder-int8:any"):
        assert "ogpu-provider offer" in eve.refusal("policy", "--kind", name)
    assert "train-int8" in eve.refusal("policy", "--kind", "train-int9"), "another name is a slip of the pen"


def test_doctor_says_that_no_node_answers_before_it_tries_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*given: object) -> list[Diagnosis]:
        assert given[-1] == "reference"
        return [bad("workers", "tried", "")]

    monkeypatch.setattr(doctor, "worker_diagnoses", never)
    answer = Operator(tmp_path, "ws://127.0.0.1:1", "Alice").run("doctor", "--backend", "reference")
    assert answer.exit_code == 1
    assert "no node answers" in answer.stderr
