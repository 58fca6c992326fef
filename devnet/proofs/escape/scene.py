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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
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


def probe_files(provider_folder: Path) -> tuple[ImageFile, ...]:
    """Return the program that attacks the kernel, compiled locally. Raise DevnetError without a C compiler."""
    compiler_path = shutil.which("gcc")
    if compiler_path is None:
        raise DevnetError("there is no gcc: apt-get install gcc libc6-dev")
    probe_path = provider_folder / "probe"
    compile_result = subprocess.run(
        [compiler_path, "-static", "-O1", "-o", str(probe_path), str(PROBE_SOURCE)],
        capture_output=True,
        text=True,
        check=False,
    )
    if compile_result.returncode:
        raise DevnetError(f"the probe does not compile: {compile_result.stderr[-500:]}")
    probe_bytes = probe_path.read_bytes()
    return (
        ImageFile("bin/probe", probe_bytes),
        # Owned by root with setuid and setgid, which the container must ignore.
        ImageFile("bin/probe-as-root", probe_bytes, 0o6755),
        # Device nodes in an image work without mknod, if its file system is mounted with devices allowed.
        ImageFile("image-disk", mode=0o666, device=(tarfile.BLKTYPE, 254, 0)),
        ImageFile("image-memory", mode=0o666, device=(tarfile.CHRTYPE, 1, 1)),
    )


CONTAINER_LIMITS = ContainerLimits(
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
CONTAINER_POLICY = ContainerPolicy(images=(REPOSITORY,), any_archive=True, outbound=True)


@dataclass(frozen=True, slots=True)
class EscapeRun:
    """The end of a program, and its output."""

    end: ContainerEnd
    text: str

    def done(self) -> list[str]:
        """Return the actions that succeeded in the probe."""
        return [line.removesuffix(": DONE") for line in self.text.splitlines() if line.endswith(": DONE")]

    def refused(self) -> int:
        """Return the number of actions that were refused in the probe."""
        return sum(": refused " in line for line in self.text.splitlines())

    def number(self, number_word: str) -> int:
        """Return the last number after a word, or -1 if the word is absent."""
        found_numbers = [line.split()[1] for line in self.text.splitlines() if line.split()[:1] == [number_word]]
        return int(found_numbers[-1]) if found_numbers else -1


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
    container_count: int = 0

    @property
    def key_file(self) -> Path:
        """The provider's key file."""
        return self.folder / "provider.key"

    def spec(self, *du_command: str, **options: Any) -> ContainerSpec:
        """Return the specification of a program. `limits` overrides some of the scene's."""
        self.container_count += 1
        container_limits = replace(CONTAINER_LIMITS, **options.pop("limits", {}))
        return ContainerSpec(
            f"escape-{self.container_count}",
            options.pop("image", self.image),
            du_command,
            limits=container_limits,
            **options,
        )

    @contextlib.asynccontextmanager
    async def container(self, *du_command: str, **options: Any) -> AsyncIterator[RunningContainer]:
        """Run a program during the block."""
        container = await self.engine.start(self.spec(*du_command, **options))
        try:
            yield container
        finally:
            await self.engine.remove(container)

    async def run(self, *command: str, **options: Any) -> EscapeRun:
        """Run a program to its end."""
        async with self.container(*command, **options) as container:
            return await self.ended(container)

    async def ended(self, container: RunningContainer) -> EscapeRun:
        """Wait for a program's end, and return it with its output."""
        container_end = await self.engine.wait(container)
        return EscapeRun(container_end, "\n".join(line.text for line in container.log.lines))

    async def ask_engine(self, engine_query: Callable[[docker.APIClient], T]) -> T:
        """Return the engine's answer, queried without the provider."""
        return await asyncio.to_thread(lambda: engine_query(client_of(self.address)))

    async def shell(self, script: str, **options: Any) -> EscapeRun:
        """Run a shell script to its end."""
        return await self.run("sh", "-c", script, **options)


@contextlib.asynccontextmanager
async def scene_at(address: str, provider_folder: Path) -> AsyncIterator[EscapeScene]:
    """Open an engine with a provider's folder, and a registry beside it."""
    image = MadeImage((*busybox_files(), *probe_files(provider_folder))).archive()
    with running_registry(provider_folder, REGISTRY_PORT):
        image_digest = await asyncio.to_thread(push_image, address, image, REPOSITORY, OTHER_REPOSITORY)
        async with _provider(address, provider_folder, image, image_digest) as scene:
            yield scene


@contextlib.asynccontextmanager
async def _provider(
    address: str, provider_folder: Path, image: ImageArchive, image_digest: str
) -> AsyncIterator[EscapeScene]:
    engine = await open_engine(provider_folder / "provider", CONTAINER_POLICY, address)
    try:
        scene = EscapeScene(engine, address, provider_folder, image, image_digest)
        scene.key_file.write_text(scene.secret)
        scene.key_file.chmod(0o600)
        yield scene
    finally:
        await engine.close()


def used_disk_bytes(provider_folder: Path) -> int:
    """Return the bytes below a folder, without its mounts. Other programs of the machine may write meanwhile."""
    # -x stays on one file system: mounted volumes would count twice.
    du_command = ["du", "-skx", str(provider_folder)]
    result = subprocess.run(du_command, capture_output=True, text=True, check=False)
    return int(result.stdout.split()[0]) * 1_024


def process_count() -> int:
    """Return the number of processes in this PID namespace."""
    return sum(1 for _ in every_process())


def resident_bytes(pid: int | None = None) -> int:
    """Return the memory of a process, by default this one, or 0 if it has ended."""
    with contextlib.suppress(OSError):
        # The second field is the resident size in pages (proc_pid_statm(5)).
        page_count = int(Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1])
        return page_count * os.sysconf("SC_PAGE_SIZE")
    return 0


def cpu_seconds(pid: int | None = None) -> float:
    """Return user and system time of a process, by default this one, or 0 if it has ended."""
    # utime and stime, counted from the state as 0 (proc_pid_stat(5)).
    stat_values = stat_fields(pid or os.getpid())
    return 0.0 if stat_values is None else (int(stat_values[11]) + int(stat_values[12])) / os.sysconf("SC_CLK_TCK")


def first_pid_of(program: str) -> int | None:
    """Return the first process with that name, or None."""
    for pid, _ in every_process():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == program:
                return pid
    return None


@dataclass(slots=True)
class EscapeChecks:
    """The checks of an attempt, passed and failed."""

    held: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    def that(self, is_held: object, name: str, observation: object = "") -> None:
        """Record a check. `seen` describes the observation."""
        (self.held if is_held else self.misses).append(
            f"{name}: {str(observation)[:300]}" if str(observation) else name
        )


TryEscape = Callable[[EscapeScene, EscapeChecks], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class EscapeAttempt:
    """One way to escape."""

    name: str
    tries: str
    act: TryEscape


def escape_attempt(try_escape: TryEscape) -> EscapeAttempt:
    """Return an attempt with the coroutine function's name, and its docstring as description."""
    return EscapeAttempt(
        getattr(try_escape, "__name__", ""), " ".join((inspect.getdoc(try_escape) or "").split()), try_escape
    )


def attempts_in(module_names: Mapping[str, object]) -> dict[str, EscapeAttempt]:
    """Return the attempts among a module's names, in the order of their definitions."""
    return {
        module_value.name: module_value
        for module_value in list(module_names.values())
        if isinstance(module_value, EscapeAttempt)
    }
