"""The diagnosis of a machine, for each fault alone."""

import asyncio
import os
import resource
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.doctor import machine
from gpu_tasks.provider.execution.containers.ability import ContainerAbility
from gpu_tasks.provider.execution.diagnoses import Diagnosis, Grade
from gpu_tasks.provider.execution.executor import Executor, WorkerExecutor
from gpu_tasks.provider.execution.gpu import MIG, Hardware
from gpu_tasks.provider.execution.limits import limits_for
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.provider.execution.worker_start import workers_with
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.model_forms import form_named

CPU = Hardware("CPU (no GPU found)", "CPU-1", DeviceClass.CPU, 0, None)
CARD = Hardware("Some GPU", "GPU-1", DeviceClass.DATACENTER, 81_920, 0, "560.1")


def named(found: list[Diagnosis]) -> dict[str, Diagnosis]:
    return {each.check: each for each in found}


def found_here(path: Path, check: str) -> Diagnosis:
    return named(machine.system_diagnoses(path, Sandbox("/usr/bin/bwrap"), None))[check]


@pytest.mark.parametrize(("user", "grade"), [(0, Grade.WEAK), (1000, Grade.GOOD)])
def test_root_is_warned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, grade: Grade) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert found_here(tmp_path, "user").grade is grade


@pytest.mark.parametrize(("user", "says"), [(0, "containers can have"), (1000, "containers cannot have")])
def test_who_offers_containers_is_told_what_root_gives_and_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, says: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    (found,) = (each for each in machine.system_diagnoses(tmp_path, None, "", are_offered=True) if each.check == "user")
    assert (found.grade, says in found.says) == (Grade.WEAK, True)
    assert "workers' processes" in found.says
    assert ("root" in found.todo) == bool(user), "nobody is told to be what it is"


@pytest.mark.parametrize(
    ("free", "grade"), [(machine.DISK_BYTES_LEAST - 1, Grade.WEAK), (machine.DISK_BYTES_LEAST, Grade.GOOD)]
)
def test_a_full_disk_is_warned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, grade: Grade) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert found_here(tmp_path, "disk").grade is grade


def test_a_folder_that_is_not_there_or_not_ours_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found_here(tmp_path / "none", "disk").grade is Grade.BAD
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = found_here(tmp_path, "disk")
    assert found.grade is Grade.BAD
    assert "not writable" in found.says


def test_too_few_files_are_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    found = found_here(tmp_path, "open files")
    assert found.grade is Grade.BAD
    assert "256" in found.says


def test_a_machine_without_walls_is_warned_with_the_reason(tmp_path: Path) -> None:
    found = named(machine.system_diagnoses(tmp_path, None, "bwrap is not installed"))["sandbox"]
    assert (found.grade, found.says) == (Grade.WEAK, "bwrap is not installed")
    assert found_here(tmp_path, "sandbox").grade is Grade.GOOD


def test_gpus_are_listed_and_their_lack_is_warned() -> None:
    (card,) = machine.hardware_diagnoses([CARD])
    assert card.grade is Grade.GOOD
    assert card.says == "Some GPU, 81,920 MiB, driver 560.1"
    unknown, sliced = machine.hardware_diagnoses(
        [replace(CARD, memory_mib=0, limits="the driver does not report its memory"), replace(CARD, limits=MIG)]
    )
    assert unknown.grade is sliced.grade is Grade.WEAK
    assert "memory unknown" in unknown.says
    assert "nvidia-smi -mig 0" in sliced.todo
    (none,) = machine.hardware_diagnoses([CPU])
    assert none.grade is Grade.WEAK
    assert "NVML" in none.says


def test_each_worker_is_tried_with_the_backend_of_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    async def noted(check: str, hardware: Hardware, form: WorkloadForm, make: object, by: str) -> Diagnosis:
        tried.append(by)
        return Diagnosis(check, Grade.GOOD, "")

    form = form_named("decoder-int8:ogpu-bytes")
    assert form is not None
    monkeypatch.setattr(machine, "_worker", noted)
    asyncio.run(machine.worker_diagnoses([CPU, CARD], [form], workers_with("torch-cuda"), "torch-cuda"))
    assert tried == ["numpy", "torch-cuda:0"]


def test_a_lost_card_among_several_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "lost_gpus", lambda: ["GPU 1: GPU is lost"])
    kept, lost = machine.hardware_diagnoses([CARD])
    assert (kept.grade, lost.grade) == (Grade.GOOD, Grade.BAD)
    assert "GPU 1" in lost.says


def test_what_docker_lacks_is_a_warning() -> None:
    """No work that is sold so far runs in it."""
    items = (
        Diagnosis("engine", Grade.GOOD, "28.2"),
        Diagnosis("seccomp", Grade.WEAK, "off", "switch it on"),
        Diagnosis("storage", Grade.BAD, "vfs", "use overlay2"),
    )
    ability = ContainerAbility(items, "storage: vfs")
    found = machine.container_diagnoses(ability, are_offered=False)
    assert [(each.check, each.grade, each.says, each.todo) for each in found] == [
        ("Docker, engine", Grade.GOOD, "28.2", ""),
        ("Docker, seccomp", Grade.WEAK, "off", "switch it on"),
        ("Docker, storage", Grade.WEAK, "vfs", "use overlay2"),
    ]
    offered = machine.container_diagnoses(ability, are_offered=True)
    assert [each.grade for each in offered] == [Grade.GOOD, Grade.WEAK, Grade.BAD]


def test_workers_are_tried_on_each_device() -> None:
    form = form_named("matmul-hash")

    def make(hardware: Hardware, form: WorkloadForm) -> Executor:
        broken = WorkerExecutor([sys.executable, "-c", "print('no')"], limits_for("numpy"))
        return workers_with("numpy")(hardware, form) if hardware is CPU else broken

    right, wrong = asyncio.run(machine.worker_diagnoses([CPU, CARD], [form], make))
    assert (right.check, right.grade) == ("matmul-hash on device 0", Grade.GOOD)
    assert (wrong.check, wrong.grade) == ("matmul-hash on device 1", Grade.BAD)
    assert "worker" in wrong.says
