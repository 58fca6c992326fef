"""A real engine: `dockerd` in a folder, without a network. Skipped elsewhere, with the reason."""

import asyncio
import contextlib
import io
import tarfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devnet.launcher.dockerd import own_engine, why_no_engine
from devnet.launcher.folder import DevnetError
from devnet.launcher.made_images import ImageFile, MadeImage, busybox_files

docker = pytest.importorskip("docker", reason="the library docker is not installed")

from gpu_tasks.provider.execution.containers.ability import look_at_engine  # noqa: E402 docker may be missing
from gpu_tasks.provider.execution.containers.engine import ContainerEngine, open_engine  # noqa: E402 as above
from gpu_tasks.provider.execution.containers.outputs import OutputLimits  # noqa: E402 as above
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError  # noqa: E402
from gpu_tasks.provider.execution.containers.run import EndReason  # noqa: E402 as above
from gpu_tasks.provider.execution.containers.spec import (  # noqa: E402 as above
    MIB,
    ContainerLimits,
    ContainerPolicy,
    ContainerSpec,
    ImageByDigest,
    NetworkAccess,
)
from gpu_tasks.provider.execution.containers.workspaces import WorkspaceKind, best_kind  # noqa: E402 as above
from gpu_tasks.provider.execution.diagnoses import Grade  # noqa: E402

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
POLICY = ContainerPolicy(any_archive=True, outbound=True, gpus=("GPU-1",))
LIMITS = ContainerLimits(memory_bytes=64 * MIB, wall_seconds=30, workspace_bytes=4 * MIB, output_bytes=4 * MIB)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if why := why_no_engine():
        pytest.skip(f"no container engine: {why}")
    try:
        busybox_files()
    except DevnetError as error:
        pytest.skip(str(error))
    with own_engine(tmp_path_factory.mktemp("engine") / "d") as found:
        yield found


@pytest.fixture(params=list(WorkspaceKind), ids=lambda kind: kind.value)
def kind(request: pytest.FixtureRequest) -> WorkspaceKind:
    if request.param is WorkspaceKind.FILE and best_kind() is not WorkspaceKind.FILE:
        pytest.skip("no losetup, mkfs.ext4 or loop devices")
    found: WorkspaceKind = request.param
    return found


def task(*command: str, **changes: Any) -> ContainerSpec:
    return replace(ContainerSpec("task-0", MadeImage(busybox_files()).archive(), command, limits=LIMITS), **changes)


def shell(script: str, **changes: Any) -> ContainerSpec:
    return task("sh", "-c", script, **changes)


@contextlib.asynccontextmanager
async def an_engine(
    folder: Path, address: str, kind: WorkspaceKind | None = WorkspaceKind.MEMORY
) -> AsyncIterator[ContainerEngine]:
    """Yield an engine that leaves nothing behind."""
    engine = await open_engine(folder, POLICY, address, kind)
    try:
        yield engine
    finally:
        await engine.close()
    assert things(address) == []


def things(address: str) -> list[str]:
    """Containers and volumes of the engine."""
    client = docker.APIClient(base_url=address, version="auto", timeout=60)
    return [str(found) for found in (*client.containers(all=True), *(client.volumes()["Volumes"] or []))]


async def test_a_program_from_its_inputs_to_its_outputs(tmp_path: Path, address: str, kind: WorkspaceKind) -> None:
    async with an_engine(tmp_path / "e", address, kind) as engine:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "x").write_text("folder")
        script = "cat /in/a /in/data/x /secrets/k >/out/all; mkdir /out/d; echo $A >/out/d/env; echo said; "
        script += "echo err >&2; exit 3"
        spec = shell(
            script, environment={"A": "b"}, secrets={"k": b"secret"}, inputs={"a": b"input", "data": tmp_path / "data"}
        )
        container = await engine.start(spec)
        followed = [line.text async for line in container.log.follow()]
        end = await engine.wait(container)
        assert (end.reason, end.exit_code) == (EndReason.EXITED, 3)
        assert sorted(followed) == ["err", "said"]
        sink = io.BytesIO()
        archive = await engine.outputs(container, sink)
        assert archive.files == 2
        with tarfile.open(fileobj=io.BytesIO(sink.getvalue())) as found:
            contents = {name: found.extractfile(name) for name in ("all", "d/env")}
            assert {name: file.read() for name, file in contents.items() if file} == {
                "all": b"inputfoldersecret",
                "d/env": b"b\n",
            }
        await engine.remove(container)
        assert "said" in (tmp_path / "e" / "container-logs" / "task-0.log").read_text()


async def test_programs_and_files_of_one_that_runs(tmp_path: Path, address: str) -> None:
    async with an_engine(tmp_path, address) as engine:
        container = await engine.start(shell("while :; do sleep 1; done"))
        inside = engine.inside
        said = await inside.run(container, ["sh", "-c", "id -u; echo err >&2; exit 5"], 20, 1_000)
        assert (said.exit_code, said.out, said.err, said.is_cut) == (5, b"65534\n", b"err\n", False)
        said = await inside.run(container, ["seq", "1000"], 20, 100)
        assert (len(said.out), said.is_cut) == (100, True)
        await inside.copy_in(container, "workspace", {"f": b"123"})
        assert (await inside.run(container, ["cat", "/workspace/f"], 20, 10)).out == b"123"
        await inside.copy_in(container, "workspace", {"model/weights": b"123"})
        sink = io.BytesIO()
        for path, names in (("/workspace/f", ["f"]), ("/workspace/model", ["model", "model/weights"])):
            sink = io.BytesIO()
            assert (await inside.copy_out(container, path, OutputLimits(2, 10), sink)).files == 1
            with tarfile.open(fileobj=io.BytesIO(sink.getvalue())) as found:
                assert found.getnames() == names
        for path in ("/etc", "/workspace/../etc", "out/../secrets", ""):
            with pytest.raises(ContainerRefusedError):
                await inside.copy_out(container, path, OutputLimits(1, 10), sink)
        with pytest.raises(ContainerRefusedError):
            await inside.copy_in(container, "in", {"f": b""})
        with pytest.raises(ContainerError, match="unfinished after"):
            await inside.run(container, ["sleep", "20"], 0.5, 10)


async def test_a_shell_on_a_terminal(tmp_path: Path, address: str) -> None:
    async with an_engine(tmp_path, address) as engine:
        container = await engine.start(task("sleep", "60"))
        opened = await engine.inside.open_program(container, ["sh"], is_terminal=True)
        await engine.inside.resize(opened, 24, 80)
        await opened.stream.write(b"echo $((6*7))\nexit\n")
        said = b""
        while piece := await asyncio.wait_for(opened.stream.read(), 20):
            said += piece
        opened.stream.close()
        assert b"42" in said


async def test_ends(tmp_path: Path, address: str) -> None:
    async with an_engine(tmp_path, address) as engine:
        late = await engine.start(
            shell("trap '' TERM; while :; do sleep 1; done", limits=replace(LIMITS, wall_seconds=1))
        )
        stopped = await engine.start(task("sleep", "60", container_id="task-1"))
        large = await engine.start(task("dd", "if=/dev/zero", "of=/dev/null", "bs=200M", container_id="task-2"))
        assert (await engine.stop(stopped, 20)).reason is EndReason.STOPPED
        assert (await engine.wait(late)).reason is EndReason.TIME_IS_UP
        assert (await engine.wait(large)).reason is EndReason.OUT_OF_MEMORY
        with pytest.raises(ContainerRefusedError) as refused:
            await engine.start(task("id"))
        assert refused.value.code == "container_exists"
        await engine.remove(late)
        missing = await engine.start(task("no-such-program"))
        assert (await engine.wait(missing)).exit_code == 127
        assert "no-such-program" in str(missing.log.lines[0])
        await engine.remove(missing)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"image": ImageByDigest("hub/a", "0" * 64)}, "list"),
        # An image without files: the list of cases is read also where no busybox is installed.
        ({"image": MadeImage((), {"Env": ["LD_PRELOAD=/x"]}).archive()}, "LD_PRELOAD"),
        ({"gpus": ("GPU-1",)}, "toolkit"),
        ({"network": NetworkAccess.OUTBOUND}, "network|rules"),
        ({"inputs": {"a": bytes(2 * MIB)}, "limits": replace(LIMITS, input_bytes=MIB)}, "input_bytes"),
    ],
)
async def test_what_does_not_start_leaves_nothing(
    tmp_path: Path, address: str, changes: dict[str, Any], why: str
) -> None:
    async with an_engine(tmp_path, address) as engine:
        with pytest.raises(ContainerError, match=why):
            await engine.start(replace(task("id"), **changes))
        assert things(address) == []


async def test_an_id_is_started_once(tmp_path: Path, address: str) -> None:
    async with an_engine(tmp_path, address) as engine:
        both = await asyncio.gather(*(engine.start(task("sleep", "60")) for _ in range(2)), return_exceptions=True)
        assert [type(found).__name__ for found in both] == ["RunningContainer", "ContainerRefusedError"]
        assert len(things(address)) == 4  # the container, its holder and two volumes: the refusal removed nothing


async def test_who_is_cancelled_leaves_nothing(tmp_path: Path, address: str) -> None:
    async with an_engine(tmp_path, address) as engine:
        for delay in (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5):
            starting = asyncio.create_task(engine.start(task("sleep", "60")))
            await asyncio.sleep(delay)
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await engine.remove(await starting)  # on a quick machine it has started by now
            assert things(address) == []


async def test_the_next_daemon_removes_what_is_its_own(tmp_path: Path, address: str, kind: WorkspaceKind) -> None:
    client = docker.APIClient(base_url=address, version="auto", timeout=60)
    dead = await open_engine(tmp_path / "a", POLICY, address, kind)
    other = await open_engine(tmp_path / "b", POLICY, address, kind)
    await dead.start(task("sleep", "60", secrets={"k": b"x"}))
    alive = await other.start(task("sleep", "60"))
    # A stranger's container that bears our label, as one made from a customer's image would.
    owner = (tmp_path / "a" / "container-owner").read_text().strip()
    image = alive.spec.image.sha256
    labels = {"org.ogpu.owner": owner}
    config = {
        "Image": f"sha256:{image}",
        "Cmd": ["sleep", "60"],
        "Labels": labels,
        "HostConfig": {"NetworkMode": "none"},
    }
    client.create_container_from_config(config, name="a-strangers")
    again = await open_engine(tmp_path / "a", POLICY, address, kind)
    assert (again.leftovers.containers, again.leftovers.volumes) == (2, 3)
    assert again.leftovers.files == (2 if kind is WorkspaceKind.FILE else 0)
    assert not alive.end.done()
    names = [name for found in client.containers(all=True) for name in found["Names"]]
    assert "/a-strangers" in names
    client.remove_container("a-strangers", force=True)
    for engine in (again, other, dead):
        await engine.close()
    assert things(address) == []


def test_what_this_machine_can_do(address: str) -> None:
    ability = asyncio.run(look_at_engine(address))
    names = [item.check for item in ability.items]
    assert ability.why_not == ""
    assert len(set(names)) == len(names)
    assert all(item.says and (item.todo or item.grade is Grade.GOOD) for item in ability.items)
    assert {"engine", "storage", "limit of memory", "system calls", "user namespace", "GPUs", "network"} <= set(names)
    # Whether outbound can be had is the machine's: rules that another engine left count.
    network = next(item for item in ability.items if item.check == "network")
    assert network.grade is (Grade.WEAK if ability.why_no_outbound else Grade.GOOD)


async def test_images_of_tasks_go_when_their_room_is_wanted_and_the_operators_stay(
    tmp_path: Path, address: str
) -> None:
    made = [MadeImage((ImageFile("a", bytes([number]) * 3 * MIB),), {"Cmd": ["x"]}).archive() for number in range(4)]
    client = docker.APIClient(base_url=address, version="auto", timeout=60)
    policy = replace(POLICY, image_disk_bytes=8 * MIB)
    engine = await open_engine(tmp_path, policy, address, WorkspaceKind.MEMORY)
    try:
        for number, image in enumerate(made):
            spec = replace(task(), image=image, container_id=f"task-{number}")
            assert not await engine.has_image(spec)
            await engine.ready(spec)
            if number == 0:
                client.tag(f"sha256:{image.sha256}", "operator/own", "1")
            await engine.release(spec)
    finally:
        await engine.close()
    there = {image["Id"].removeprefix("sha256:") for image in client.images()}
    assert there & {image.sha256 for image in made} == {made[0].sha256, made[2].sha256, made[3].sha256}
    client.remove_image("operator/own:1")
    async with an_engine(tmp_path, address):
        pass
    for image in made[2:]:
        client.remove_image(f"sha256:{image.sha256}")
    client.close()
