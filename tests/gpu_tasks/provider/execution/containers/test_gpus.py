"""The requests to a container engine and to NVIDIA's toolkit for a task with a GPU. The toolkit is a stub."""

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devnet.launcher.dockerd import own_engine, why_no_engine
from devnet.launcher.folder import DevnetError
from devnet.launcher.made_images import MadeImage, busybox_files

docker = pytest.importorskip("docker", reason="the library docker is not installed")

from gpu_tasks.provider.execution.containers import programs  # noqa: E402 docker may be missing
from gpu_tasks.provider.execution.containers.engine import open_engine  # noqa: E402 as above
from gpu_tasks.provider.execution.containers.refusals import ContainerRefusedError  # noqa: E402 as above
from gpu_tasks.provider.execution.containers.run import EndReason  # noqa: E402 as above
from gpu_tasks.provider.execution.containers.spec import (  # noqa: E402 as above
    MIB,
    ContainerLimits,
    ContainerPolicy,
    ContainerSpec,
)
from gpu_tasks.provider.execution.containers.workspaces import WorkspaceKind  # noqa: E402 as above

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
GPUS = ("GPU-11111111-aaaa", "GPU-22222222-bbbb")
STUB_HOOK = """#!/bin/sh
# A stand-in for NVIDIA's hook, which an engine runs before a container begins: it writes down what it is told.
cat > {folder}/state.json
bundle=$(sed 's/.*"bundle":"\\([^"]*\\)".*/\\1/' {folder}/state.json)
cp "$bundle/config.json" {folder}/config.json
"""
STUB_TOOLKIT = "#!/bin/sh\necho NVIDIA Container Toolkit CLI version {version}\n"
LIMITS = ContainerLimits(memory_bytes=64 * MIB, wall_seconds=30, workspace_bytes=4 * MIB, output_bytes=4 * MIB)


def stub(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stubs")
    stub(folder / "nvidia-container-runtime-hook", STUB_HOOK.format(folder=folder))
    return folder


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, stubs: Path) -> Iterator[str]:
    if why := why_no_engine():
        pytest.skip(f"no container engine: {why}")
    try:
        busybox_files()
    except DevnetError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{stubs}{os.pathsep}{os.environ['PATH']}")
        with own_engine(tmp_path_factory.mktemp("engine") / "d") as found:
            yield found


def spec(*gpus: str) -> ContainerSpec:
    image = MadeImage(busybox_files()).archive()
    return ContainerSpec("task-0", image, ("sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES"), gpus=gpus, limits=LIMITS)


def run(folder: Path, address: str, asked: ContainerSpec) -> tuple[dict[str, Any], list[str]]:
    """Return the engine's description of the container, and its program's output."""

    async def scene() -> tuple[dict[str, Any], list[str]]:
        policy = ContainerPolicy(any_archive=True, gpus=GPUS)
        engine = await open_engine(folder, policy, address, WorkspaceKind.MEMORY)
        try:
            container = await engine.start(asked)
            client = docker.APIClient(base_url=address, version="auto", timeout=60)
            made = client.inspect_container(container.name)
            client.close()
            end = await engine.wait(container)
            assert end.reason is EndReason.EXITED
            return made, [line.text for line in container.log.lines]
        finally:
            await engine.close()

    return asyncio.run(scene())


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a toolkit of an accepted version."""
    path = tmp_path / "bin" / "nvidia-ctk"
    path.parent.mkdir()
    stub(path, STUB_TOOLKIT.format(version="1.17.8"))
    stub(path.with_name("nvidia-container-runtime-hook"), "#!/bin/sh\n")  # the engine's own is beside: see `stubs`
    monkeypatch.setattr(programs, "_SYSTEM_PATH", f"{path.parent}:{programs._SYSTEM_PATH}")
    return path


@pytest.mark.usefixtures("toolkit")
def test_the_named_gpus_alone_are_asked_for_and_told_to_the_toolkit(tmp_path: Path, address: str, stubs: Path) -> None:
    made, said = run(tmp_path / "e", address, spec(GPUS[1]))
    (request,) = made["HostConfig"]["DeviceRequests"]
    assert (request["Driver"], request["DeviceIDs"], request["Count"]) == ("nvidia", [GPUS[1]], 0)
    assert request["Capabilities"] == [["gpu", "compute", "utility"]]
    environment = json.loads((stubs / "config.json").read_text())["process"]["env"]
    assert f"NVIDIA_VISIBLE_DEVICES={GPUS[1]}" in environment
    assert [line for line in environment if line.startswith("NVIDIA_DRIVER_CAPABILITIES=")] == [
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    ]
    assert said == [GPUS[1]]


@pytest.mark.usefixtures("toolkit")
def test_who_asks_for_none_gets_none(tmp_path: Path, address: str, stubs: Path) -> None:
    (stubs / "config.json").unlink(missing_ok=True)
    made, said = run(tmp_path / "e", address, spec())
    assert not made["HostConfig"]["DeviceRequests"]
    assert not (stubs / "config.json").exists()
    assert said == [""]


def test_a_toolkit_with_the_hole_gives_none(tmp_path: Path, address: str, toolkit: Path) -> None:
    stub(toolkit, STUB_TOOLKIT.format(version="1.17.7"))
    with pytest.raises(ContainerRefusedError, match="CVE-2025-23266"):
        run(tmp_path / "e", address, replace(spec(GPUS[0])))
