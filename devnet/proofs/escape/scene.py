"""An engine with a provider's things around it, how a stranger's program is run there, and what an attempt is."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import secrets
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import docker

from devnet.launcher.folder import DevnetError
from devnet.launcher.made_images import ImageFile, MadeImage, busybox_files
from devnet.launcher.processes import every_process, stat_fields
from devnet.stage.registry import client_of, pushed, registry
from gpu_tasks.provider.execution.containers.engine import ContainerEngine, open_engine
from gpu_tasks.provider.execution.containers.run import ContainerEnd, RunningContainer
from gpu_tasks.provider.execution.containers.spec import (
    MIB,
    ContainerLimits,
    ContainerPolicy,
    ContainerSpec,
    ImageArchive,
)

PROBE_SOURCE = Path(__file__).with_name("probe.c")


def probe_files(folder: Path) -> tuple[ImageFile, ...]:
    """The program that tries the kernel, compiled here; DevnetError without a C compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise DevnetError("there is no gcc: apt-get install gcc libc6-dev")
    target = folder / "probe"
    done = subprocess.run(
        [compiler, "-static", "-O1", "-o", str(target), str(PROBE_SOURCE)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DevnetError(f"the probe does not compile: {done.stderr[-500:]}")
    content = target.read_bytes()
    return (
        ImageFile("bin/probe", content),
        ImageFile("bin/probe-as-root", content, 0o6755),
        ImageFile("image-disk", mode=0o666, device=(tarfile.BLKTYPE, 254, 0)),
        ImageFile("image-memory", mode=0o666, device=(tarfile.CHRTYPE, 1, 1)),
    )


LIMITS = ContainerLimits(
    cpu_thousandths=500,
    memory_bytes=64 * MIB,
    processes=32,
    wall_seconds=20,
    log_bytes=64 * 1024,
    workspace_bytes=16 * MIB,
    output_bytes=16 * MIB,
    output_files=100,
    input_bytes=MIB,
    tmp_bytes=4 * MIB,
    open_files=256,
)
REGISTRY_PORT = 5000
T = TypeVar("T")
REPOSITORY, OTHER_REPOSITORY = (f"localhost:{REGISTRY_PORT}/{name}" for name in ("stranger", "other"))
POLICY = ContainerPolicy(images=(REPOSITORY,), any_archive=True, outbound=True)


@dataclass(frozen=True, slots=True)
class RanProgram:
    """How a program ended, and what it said."""

    end: ContainerEnd
    text: str

    def done(self) -> list[str]:
        """What the probe managed to do."""
        return [line.removesuffix(": DONE") for line in self.text.splitlines() if line.endswith(": DONE")]

    def refused(self) -> int:
        """How much it was refused."""
        return sum(": refused " in line for line in self.text.splitlines())

    def number(self, word: str) -> int:
        """The last number after a word; -1 where it was never said."""
        found = [line.split()[1] for line in self.text.splitlines() if line.split()[:1] == [word]]
        return int(found[-1]) if found else -1


@dataclass(slots=True)
class EscapeScene:
    """What attempts work with."""

    engine: ContainerEngine
    address: str
    folder: Path
    image: ImageArchive
    registry_digest: str
    """Of the same image, in a registry that runs here."""
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    """What no stranger may ever read: it stands in the provider's key file."""
    count: int = 0

    @property
    def key_file(self) -> Path:
        """The provider's."""
        return self.folder / "provider.key"

    def spec(self, *command: str, **options: Any) -> ContainerSpec:
        """A program; `limits` are changes of the scene's."""
        self.count += 1
        limits = replace(LIMITS, **options.pop("limits", {}))
        return ContainerSpec(
            f"escape-{self.count}", options.pop("image", self.image), command, limits=limits, **options
        )

    @contextlib.asynccontextmanager
    async def container(self, *command: str, **options: Any) -> AsyncIterator[RunningContainer]:
        """A program that runs while the block does."""
        container = await self.engine.start(self.spec(*command, **options))
        try:
            yield container
        finally:
            await self.engine.remove(container)

    async def run(self, *command: str, **options: Any) -> RanProgram:
        """A program, to its end."""
        async with self.container(*command, **options) as container:
            return await self.ended(container)

    async def ended(self, container: RunningContainer) -> RanProgram:
        """How a program ends."""
        end = await self.engine.wait(container)
        return RanProgram(end, "\n".join(line.text for line in container.log.lines))

    async def ask_engine(self, work: Callable[[docker.APIClient], T]) -> T:
        """What the engine says, asked beside the provider."""
        return await asyncio.to_thread(lambda: work(client_of(self.address)))

    async def shell(self, script: str, **options: Any) -> RanProgram:
        """Lines of a shell."""
        return await self.run("sh", "-c", script, **options)


@contextlib.asynccontextmanager
async def scene_at(address: str, folder: Path) -> AsyncIterator[EscapeScene]:
    """Open an engine with the folder of a provider, and a registry beside it."""
    image = MadeImage((*busybox_files(), *probe_files(folder))).archive()
    with registry(folder, REGISTRY_PORT):
        digest = await asyncio.to_thread(pushed, address, image, REPOSITORY, OTHER_REPOSITORY)
        async with _provider(address, folder, image, digest) as scene:
            yield scene


@contextlib.asynccontextmanager
async def _provider(address: str, folder: Path, image: ImageArchive, digest: str) -> AsyncIterator[EscapeScene]:
    engine = await open_engine(folder / "provider", POLICY, address)
    try:
        scene = EscapeScene(engine, address, folder, image, digest)
        scene.key_file.write_text(scene.secret)
        scene.key_file.chmod(0o600)
        yield scene
    finally:
        await engine.close()


def used_disk(folder: Path) -> int:
    """Bytes that lie below a folder, what is mounted there left out; others of the machine may write meanwhile."""
    command = ["du", "-skx", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout.split()[0]) * 1_024


def process_count() -> int:
    """All that this machine, or this run's part of it, has."""
    return sum(1 for _ in every_process())


def resident_bytes(pid: int | None = None) -> int:
    """Memory of a process, this one by default; 0 if it is gone."""
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def cpu_seconds(pid: int | None = None) -> float:
    """User and system time of a process, this one by default; 0 if it is gone."""
    fields = stat_fields(pid or os.getpid())
    return 0.0 if fields is None else (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pid_of(program: str) -> int | None:
    """The first process with that name."""
    for pid, _ in every_process():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == program:
                return pid
    return None


@dataclass(slots=True)
class EscapeChecks:
    """What was looked at, and what did not hold."""

    held: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    def that(self, holds: object, what: str, seen: object = "") -> None:
        """Note a bar; `seen` says what there was instead."""
        (self.held if holds else self.misses).append(f"{what}: {str(seen)[:300]}" if str(seen) else what)


TryEscape = Callable[[EscapeScene, EscapeChecks], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class EscapeAttempt:
    """One way to leave."""

    name: str
    tries: str
    act: TryEscape


def attempt(act: TryEscape) -> EscapeAttempt:
    """Make an attempt of a coroutine function: its name is the function's, what it tries is its docstring."""
    return EscapeAttempt(getattr(act, "__name__", ""), " ".join((inspect.getdoc(act) or "").split()), act)
