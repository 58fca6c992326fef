"""The judgement of an engine by its own description: its GPUs, and the remedy for a missing limit."""

from __future__ import annotations

import asyncio
import gc
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("docker", reason="the library docker is not installed")

from gpu_tasks.provider.execution.containers import ability
from gpu_tasks.provider.execution.containers.ability import (
    DELEGATE,
    HOOK,
    _diagnose_limits,
    judge_gpus,
    look_at_engine,
    why_unreachable,
)
from gpu_tasks.provider.execution.diagnoses import Diagnosis, Grade

FIRST_GPU = {"Source": "cdi", "ID": "nvidia.com/gpu=0"}
ROOTLESS = {"SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"]}


@pytest.mark.parametrize(
    ("info", "has_hook", "standing"),
    [
        ({}, False, Grade.WEAK),
        ({}, True, Grade.GOOD),
        ({"Runtimes": {"nvidia": {}}}, False, Grade.GOOD),
        ({"Runtimes": {"runc": {}}}, False, Grade.WEAK),
        ({"DiscoveredDevices": [{"ID": "amd.com/gpu=0"}, FIRST_GPU]}, False, Grade.GOOD),
        ({"DiscoveredDevices": [{"ID": "amd.com/gpu=0"}]}, False, Grade.WEAK),
        ({"DiscoveredDevices": None, "Runtimes": None}, False, Grade.WEAK),
        ({"DiscoveredDevices": ["nvidia.com/gpu=0", None]}, False, Grade.WEAK),
    ],
)
def test_an_engine_gives_gpus_by_its_runtime_cdi_or_the_hook(
    info: dict[str, Any], *, has_hook: bool, standing: Grade
) -> None:
    found = judge_gpus(info, "toolkit 1.17.8", has_hook=has_hook)
    assert found.grade is standing
    assert bool(found.todo) is (standing is Grade.WEAK)


@pytest.mark.parametrize(
    ("toolkit", "info", "there", "gives"),
    [
        (Grade.GOOD, {"Runtimes": {"runc": {}}, "SecurityOptions": None}, set[str](), False),
        (Grade.GOOD, {}, {HOOK}, True),
        (Grade.GOOD, {"Runtimes": {"nvidia": {}}}, set[str](), True),
        (Grade.WEAK, {"Runtimes": {"nvidia": {}}}, {HOOK}, False),
    ],
)
def test_gpus_take_a_sufficient_toolkit_and_an_engine_that_knows_it(
    monkeypatch: pytest.MonkeyPatch, toolkit: Grade, info: dict[str, Any], there: set[str], *, gives: bool
) -> None:
    async def found(*_: object) -> Any:
        return info

    async def opened(_: str) -> Any:
        return SimpleNamespace(call=found, close=found)

    async def judged() -> Diagnosis:
        return Diagnosis("GPUs", toolkit, "toolkit 1.17.8")

    async def outward() -> str:
        return "no route"

    for name, stand_in in {
        "why_unreachable": lambda _: None, "open_door": opened, "_diagnose_toolkit": judged,
        "why_not_outbound": outward, "is_there": there.__contains__,
    }.items():  # fmt: skip
        monkeypatch.setattr(ability, name, stand_in)
    looked_at = asyncio.run(look_at_engine())
    assert bool(looked_at.why_no_gpu) is not gives
    assert looked_at.why_no_outbound == "no route"


@pytest.mark.parametrize(
    ("info", "lacking", "is_delegated"),
    [
        ({"MemoryLimit": True, "CpuCfsQuota": True, "PidsLimit": True, "CgroupVersion": "2"}, [], False),
        ({"MemoryLimit": True, "CpuCfsQuota": True, "PidsLimit": True, "CgroupVersion": "1"}, ["swap"], False),
        ({"SwapLimit": True, "CpuCfsQuota": True, "PidsLimit": True}, ["memory"], False),
        ({"MemoryLimit": True, "CgroupVersion": "2", **ROOTLESS}, ["CPU", "processes"], True),
    ],
)
def test_a_limit_that_is_not_enforced_is_missing_with_its_remedy(
    info: dict[str, Any], lacking: list[str], *, is_delegated: bool
) -> None:
    missing = [item for item in _diagnose_limits(info) if item.grade is Grade.BAD]
    assert [item.check.removeprefix("limit of ") for item in missing] == lacking
    assert [item.todo == DELEGATE for item in missing] == [is_delegated] * len(lacking)
    assert all(item.todo for item in missing)
    boots = [item.check for item in missing if "cgroup_enable" in item.todo]
    assert boots == ([] if is_delegated else [item.check for item in missing])


@pytest.mark.parametrize(
    ("there", "named"),
    [
        ({"docker"}, ["dockerd", "containerd", "runc"]),
        ({"docker", "dockerd"}, ["containerd", "runc"]),
        ({"dockerd", "containerd"}, ["runc"]),
        ({"docker", "dockerd", "containerd", "runc"}, ["/nowhere/engine.sock"]),
    ],
)
def test_the_missing_part_of_an_engine_is_named(
    monkeypatch: pytest.MonkeyPatch, there: set[str], named: list[str]
) -> None:
    monkeypatch.setattr(ability, "is_there", there.__contains__)
    monkeypatch.setattr(shutil, "which", lambda name: name if name in there - {"dockerd"} else None)
    item = why_unreachable("unix:///nowhere/engine.sock")
    assert item is not None
    said = item.says.replace(",", " ").split()
    parts = {"docker", "dockerd", "containerd", "runc", "/nowhere/engine.sock"}
    assert [word for word in said if word in parts] == named


def test_a_socket_that_nobody_serves_is_an_engine_without_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind(str(path))
    (item,) = asyncio.run(look_at_engine(f"unix://{path}")).items
    assert (item.check, item.grade) == ("engine", Grade.BAD)
    assert str(path) in item.says
    gc.collect()  # a socket left open is a warning, and fails this test
