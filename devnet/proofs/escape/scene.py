"""An engine and a provider's files, the execution of a stranger's program there, and the definition of an attempt."""

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
from devnet.stage.registry import client_of, push_image, running_registry
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
    """Return the program that attacks the kernel, compiled locally. Raise DevnetError without a C compiler."""
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
        # Owned by root with setuid and setgid, which the container must ignore.
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
    """The end of a program, and its output."""

    end: ContainerEnd
    text: str

    def done(self) -> list[str]:
        """Return the actions that succeeded in the probe."""
        return [line.removesuffix(": DONE") for line in self.text.splitlines() if line.endswith(": DONE")]

    def refused(self) -> int:
        """Return the number of actions that were refused in the probe."""
        return sum(": refused " in line for line in self.text.splitlines())

    def number(self, word: str) -> int:
        """Return the last number after a word, or -1 if the word is absent."""
        found = [line.split()[1] for line in self.text.splitlines() if line.split()[:1] == [word]]
        return int(found[-1]) if found else -1


@dataclass(slots=True)
class EscapeScene:
    """The environment of the attempts."""

    engine: ContainerEngine
    address: str
    folder: Path
    image: ImageArchive
    registry_digest: str
    """The digest of the same image in the local registry."""
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    """The content of the provider's key file, which no stranger may read."""
    count: int = 0

    @property
    def key_file(self) -> Path:
        """The provider's key file."""
        return self.folder / "provider.key"

    def spec(self, *command: str, **options: Any) -> ContainerSpec:
        """Return the specification of a program. `limits` overrides some of the scene's."""
        self.count += 1
        limits = replace(LIMITS, **options.pop("limits", {}))
        return ContainerSpec(
            f"escape-{self.count}", options.pop("image", self.image), command, limits=limits, **options
        )

    @contextlib.asynccontextmanager
    async def container(self, *command: str, **options: Any) -> AsyncIterator[RunningContainer]:
        """Run a program during the block."""
        container = await self.engine.start(self.spec(*command, **options))
        try:
            yield container
        finally:
            await self.engine.remove(container)

    async def run(self, *command: str, **options: Any) -> RanProgram:
        """Run a program to its end."""
        async with self.container(*command, **options) as container:
            return await self.ended(container)

    async def ended(self, container: RunningContainer) -> RanProgram:
        """Wait for a program's end, and return it with its output."""
        deadline = await self.engine.wait(container)
        return RanProgram(deadline, "\n".join(line.text for line in container.log.lines))

    async def ask_engine(self, work: Callable[[docker.APIClient], T]) -> T:
        """Return the engine's answer, queried without the provider."""
        return await asyncio.to_thread(lambda: work(client_of(self.address)))

    async def shell(self, script: str, **options: Any) -> RanProgram:
        """Run a shell script to its end."""
        return await self.run("sh", "-c", script, **options)


@contextlib.asynccontextmanager
async def scene_at(address: str, folder: Path) -> AsyncIterator[EscapeScene]:
    """Open an engine with a provider's folder, and a registry beside it."""
    image = MadeImage((*busybox_files(), *probe_files(folder))).archive()
    with running_registry(folder, REGISTRY_PORT):
        digest = await asyncio.to_thread(push_image, address, image, REPOSITORY, OTHER_REPOSITORY)
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
    """Return the bytes below a folder, without its mounts. Other programs of the machine may write meanwhile."""
    command = ["du", "-skx", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout.split()[0]) * 1_024


def process_count() -> int:
    """Return the number of processes in this PID namespace."""
    return sum(1 for _ in every_process())


def resident_bytes(process_id: int | None = None) -> int:
    """Return the memory of a process, by default this one, or 0 if it has ended."""
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{process_id or 'self'}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def cpu_seconds(process_id: int | None = None) -> float:
    """Return user and system time of a process, by default this one, or 0 if it has ended."""
    fields = stat_fields(process_id or os.getpid())
    return 0.0 if fields is None else (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pid_of(program: str) -> int | None:
    """Return the first process with that name, or None."""
    for process_id, _ in every_process():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process_id}/comm").read_text().strip() == program:
                return process_id
    return None


@dataclass(slots=True)
class EscapeChecks:
    """The checks of an attempt, passed and failed."""

    held: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    def that(self, holds: object, what: str, seen: object = "") -> None:
        """Record a check. `seen` describes the observation."""
        (self.held if holds else self.misses).append(f"{what}: {str(seen)[:300]}" if str(seen) else what)


TryEscape = Callable[[EscapeScene, EscapeChecks], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class EscapeAttempt:
    """One way to escape."""

    name: str
    tries: str
    act: TryEscape


def attempt(act: TryEscape) -> EscapeAttempt:
    """Return an attempt with the coroutine function's name, and its docstring as description."""
    return EscapeAttempt(getattr(act, "__name__", ""), " ".join((inspect.getdoc(act) or "").split()), act)
