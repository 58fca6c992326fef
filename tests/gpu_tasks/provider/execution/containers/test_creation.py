from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.provider.execution.containers.creation import check_made, holder_config, task_config
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.containers.spec import ContainerSpec, ImageByDigest

pytest.importorskip("docker", reason="the library docker is not installed")

from error_codes import raises_code
from gpu_tasks.provider.execution.containers.ability import (
    _diagnose_limits,
    judge_gpus,
    judge_toolkit,
    why_unreachable,
)
from gpu_tasks.provider.execution.diagnoses import Grade

SPEC = ContainerSpec("task-0", ImageByDigest("a", "0" * 64), ("x",), {"A": "b"}, secrets={"key": b"hush"})
VOLUMES = {"in": "v-in", "out": "v-out", "secrets": "v-secrets", "workspace": "v-workspace"}


def config(spec: ContainerSpec = SPEC) -> dict[str, Any]:
    return task_config(spec, "sha256:1", VOLUMES, {"label": "x"}, "none", ())


def test_what_a_stranger_gets() -> None:
    made = config()
    host = made["HostConfig"]
    assert made["User"] == "65534:65534"
    assert made["Env"] == ["HOME=/workspace", "A=b"]
    assert made["Healthcheck"] == {"Test": ["NONE"]}
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["ReadonlyRootfs"]
    assert host["MemorySwap"] == host["Memory"] == SPEC.limits.memory_bytes
    assert host["PidsLimit"] == SPEC.limits.processes + 1
    assert host["NanoCpus"] == SPEC.limits.cpu_thousandths * 10**6
    assert host["NetworkMode"] == "none"
    assert host["LogConfig"] == {"Type": "none"}
    assert {mount["Target"] for mount in host["Mounts"] if mount["ReadOnly"]} == {"/in", "/secrets"}
    assert all(mount["Type"] == "volume" and mount["VolumeOptions"]["NoCopy"] for mount in host["Mounts"])
    assert "Binds" not in host
    assert "DeviceRequests" not in host


def test_secrets_are_in_nothing_that_the_engine_is_told() -> None:
    assert "hush" not in str(config())


def test_gpus_are_asked_for_by_their_identifiers() -> None:
    (request,) = config(replace(SPEC, gpus=("GPU-1", "GPU-2")))["HostConfig"]["DeviceRequests"]
    assert request == {
        "Driver": "nvidia", "DeviceIDs": ["GPU-1", "GPU-2"], "Capabilities": [["gpu", "compute", "utility"]],
    }  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [[], [{"DeviceIDs": ["GPU-2"]}], [{"DeviceIDs": ["GPU-1", "GPU-2"]}], [{"DeviceIDs": ["GPU-1"], "Count": -1}],
     [{"DeviceIDs": ["GPU-1"]}, {"Count": 1}]],
)  # fmt: skip
def test_other_gpus_than_those_that_were_asked_for_are_found(given: list[dict[str, Any]]) -> None:
    asked = config(replace(SPEC, gpus=("GPU-1",)))
    check_made(asked, [], found(DeviceRequests=asked["HostConfig"]["DeviceRequests"]))
    with raises_code(ContainerError, "other_gpu"):
        check_made(asked, [], found(DeviceRequests=given))


def test_the_holder_has_no_network_and_next_to_nothing() -> None:
    host = holder_config("sha256:1", VOLUMES, {})["HostConfig"]
    assert (host["NetworkMode"], host["PidsLimit"], host["CapDrop"]) == ("none", 32, ["ALL"])


def found(**changes: object) -> dict[str, Any]:
    made = config()
    mounts = [{"Type": "volume", "Name": name} for name in VOLUMES.values()]
    return {"HostConfig": {**made["HostConfig"], **changes}, "Config": {"User": made["User"]}, "Mounts": mounts}


def test_what_was_asked_for_was_made() -> None:
    check_made(config(), None, found())
    check_made(config(), [], found())


@pytest.mark.parametrize(
    "change",
    [
        {"Memory": 0},
        {"MemorySwap": -1},
        {"ReadonlyRootfs": False},
        {"PidsLimit": None},
        {"NanoCpus": 0},
        {"CapDrop": None},
        {"SecurityOpt": None},
        {"NetworkMode": "bridge"},
        {"IpcMode": "host"},
        {"Privileged": True},
        {"Binds": ["/:/host"]},
        {"CapAdd": ["SYS_ADMIN"]},
        {"PidMode": "host"},
        {"UsernsMode": "host"},
        {"Devices": [{"PathOnHost": "/dev/kvm"}]},
    ],
)
def test_an_engine_that_made_something_else(change: dict[str, object]) -> None:
    is_door = change.keys() <= {"Privileged", "Binds", "CapAdd", "PidMode", "UsernsMode", "Devices"}
    with raises_code(ContainerError, "machine_reachable" if is_door else "limit_changed"):
        check_made(config(), None, found(**change))


def test_an_engine_that_drops_a_limit_and_warns() -> None:
    with raises_code(ContainerError, "limit_discarded"):
        check_made(config(), ["Your kernel does not support swap limit capabilities. Limitation discarded."], found())
    strange = found()
    strange["Mounts"].append({"Type": "volume", "Name": "of-the-image"})
    with raises_code(ContainerError, "folder_mounted"):
        check_made(config(), None, strange)
    strange = found()
    strange["Config"]["User"] = "0"
    with raises_code(ContainerError, "machine_reachable"):
        check_made(config(), None, strange)


@pytest.mark.parametrize(
    ("said", "is_good"),
    [
        ("NVIDIA Container Toolkit CLI version 1.17.8\ncommit: x", True),
        ("NVIDIA Container Toolkit CLI version 1.18.0-rc.1", True),
        ("NVIDIA Container Toolkit CLI version 2.0.0", True),
        ("NVIDIA Container Toolkit CLI version 1.17.8-rc.1", False),
        ("NVIDIA Container Toolkit CLI version 1.17.7", False),
        ("NVIDIA Container Toolkit CLI version 1.9.10", False),
        ("unknown", False),
    ],
)
def test_the_toolkits_version(said: str, is_good: bool) -> None:
    assert (judge_toolkit(said).grade is Grade.GOOD) == is_good


@pytest.mark.parametrize(
    ("info", "has_hook", "is_good"),
    [
        ({}, False, False),
        ({"Runtimes": None, "DiscoveredDevices": None}, False, False),
        ({"Runtimes": {"runc": {}, "io.containerd.runc.v2": {}}}, False, False),
        ({"Runtimes": {"runc": {}, "nvidia": {"path": "nvidia-container-runtime"}}}, False, True),
        ({"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]}, False, True),
        ({"DiscoveredDevices": [{"Source": "cdi", "ID": "amd.com/gpu=all"}, "odd"]}, False, False),
        ({"Runtimes": {"runc": {}}}, True, True),
    ],
)
def test_a_good_toolkit_is_not_enough_where_the_engine_gives_no_gpus(
    info: dict[str, object], has_hook: bool, is_good: bool
) -> None:
    found = judge_gpus(info, "NVIDIA's container toolkit 1.17.8", has_hook=has_hook)
    assert (found.grade is Grade.GOOD) == is_good
    assert is_good or "nvidia-ctk runtime configure" in found.todo


@pytest.mark.parametrize(("options", "advice"), [(["name=rootless"], "Delegate="), ([], "cgroup_enable=memory")])
def test_an_engine_without_root_is_told_to_have_controllers_delegated(options: list[str], advice: str) -> None:
    info = {"SecurityOptions": ["name=seccomp,profile=builtin", *options], "CgroupVersion": "2", "PidsLimit": True}
    items = {item.check: item for item in _diagnose_limits(info)}
    assert advice in items["limit of memory"].todo
    assert items["limit of processes"].grade is Grade.GOOD


def test_a_socket_that_is_not_there() -> None:
    item = why_unreachable("unix:///nowhere/engine.sock")
    assert item is not None
    assert item.grade is Grade.BAD
    assert item.todo
