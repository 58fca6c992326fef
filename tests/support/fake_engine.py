"""A fake container engine for tests instead of Docker. Its programs run nothing, and end at a test's command."""

import asyncio
import hashlib
import io
import tarfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from gpu_tasks.provider.execution.containers.inside import Shell
from gpu_tasks.provider.execution.containers.logs import ContainerLog
from gpu_tasks.provider.execution.containers.outputs import OutputArchive, OutputLimits
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError
from gpu_tasks.provider.execution.containers.run import ContainerEnd, ContainerUse, EndReason, RunningContainer
from gpu_tasks.provider.execution.containers.spec import ContainerSpec, ImageArchive
from gpu_tasks.provider.execution.containers.streams import EngineStream

MISSING = "0" * 64


class FakeStream(EngineStream):
    """The stream of a fake program: it answers each piece in capitals."""

    def __init__(self, command: Sequence[str], *, is_terminal: bool) -> None:
        self.command = tuple(command)
        self.is_terminal = is_terminal
        self.size = (0, 0)
        self.is_closed = False
        self._said: asyncio.Queue[bytes] = asyncio.Queue()
        self._said.put_nowait(" ".join(command).encode() + b"\n")

    async def read(self, count: int = 0) -> bytes:
        return await self._said.get()

    async def frames(self) -> AsyncIterator[tuple[int, bytes]]:
        while data := await self.read():
            yield (2 if data.startswith(b"ERR") else 1), data

    async def write(self, data: bytes) -> None:
        self._said.put_nowait(data.upper())

    def end_input(self) -> None:
        self._said.put_nowait(b"")

    def close(self) -> None:
        self.is_closed = True


class FakeInside:
    """Implements `EntersContainers`: programs that echo, files in memory."""

    def __init__(self) -> None:
        self.streams: list[FakeStream] = []
        self.files: dict[str, bytes] = {"workspace/model/weights": b"w" * 100_000}
        self.process = 0

    async def open_program(self, container: RunningContainer, command: Sequence[str], *, is_terminal: bool) -> Shell:
        if command[0] == "missing":
            raise ContainerError("run a program", "there is no such program", "name another")
        stream = FakeStream(command, is_terminal=is_terminal)
        self.streams.append(stream)
        return Shell(stream, str(len(self.streams)))

    async def end_program(self, shell: Shell) -> int:
        shell.stream.close()
        return 7

    async def resize(self, shell: Shell, rows: int, columns: int) -> None:
        self.streams[int(shell.exec_id) - 1].size = (rows, columns)

    async def process_of(self, container: RunningContainer) -> int:
        return self.process

    async def copy_in(self, container: RunningContainer, folder: str, files: Mapping[str, bytes | Path]) -> None:
        for name, content in files.items():
            paths = [content] if isinstance(content, Path) else []
            for top in paths:
                for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
                    if path.is_file():
                        deeper = "" if path == top else f"/{path.relative_to(top)}"
                        self.files[f"{folder}/{name}{deeper}"] = path.read_bytes()

    async def copy_out(
        self, container: RunningContainer, path: str, limits: OutputLimits, sink: BinaryIO
    ) -> OutputArchive:
        found = {name: content for name, content in self.files.items() if name == path or name.startswith(f"{path}/")}
        if not found:
            raise ContainerError("copy out of a container", "there is no such file", "look with `ogpu exec`")
        top = path.rpartition("/")[2]
        with tarfile.open(fileobj=sink, mode="w|") as archive:
            for name, content in found.items():
                header = tarfile.TarInfo(f"{top}{name[len(path) :]}" if name != path else top)
                header.size = len(content)
                archive.addfile(header, io.BytesIO(content))
        return OutputArchive(bytes(32), 0, len(found))


class FakeEngine:
    """A fake `ProgramEngine`. An image with a digest of zeros is unavailable."""

    def __init__(self) -> None:
        self.inside = FakeInside()
        self.running: dict[str, RunningContainer] = {}
        self.started: list[ContainerSpec] = []
        self.removed: list[str] = []
        self.images: dict[str, bytes] = {}
        """Archives that it loaded."""
        self.released: list[str] = []
        """The released images."""
        self.left: dict[str, bytes] = {"words": b"14\n"}
        self.cpu_ms = 0
        self.trouble: ContainerError | None = None

    async def ready(self, spec: ContainerSpec) -> None:
        if spec.image.sha256 == MISSING:
            raise ContainerRefusedError("bring an image", "no registry has it", "push it")
        if isinstance(spec.image, ImageArchive) and spec.image.sha256 not in self.images:
            assert isinstance(spec.image.content, Path)
            self.images[spec.image.sha256] = spec.image.content.read_bytes()

    async def release(self, spec: ContainerSpec) -> None:
        self.released.append(spec.container_id)

    async def tidy(self) -> None:
        pass

    async def has_image(self, spec: ContainerSpec) -> bool:
        return spec.image.sha256 in self.images

    async def start(self, spec: ContainerSpec) -> RunningContainer:
        if self.trouble is not None:
            raise self.trouble
        self.started.append(spec)
        container = RunningContainer(spec, spec.container_id, "holder", ContainerLog(1 << 20))
        self.running[spec.container_id] = container
        return container

    def end(self, exit_code: int = 0) -> None:
        """End every program by itself."""
        for container in self.running.values():
            if not container.end.done():
                container.end.set_result(ContainerEnd(EndReason.EXITED, exit_code, 1.0))

    async def stop(self, container: RunningContainer) -> ContainerEnd:
        await asyncio.sleep(0)
        if not container.end.done():
            container.end.set_result(ContainerEnd(EndReason.STOPPED, 143, 1.0))
        return container.end.result()

    async def use(self, container: RunningContainer) -> ContainerUse:
        self.cpu_ms += 100
        return ContainerUse(self.cpu_ms, 5 << 20)

    async def outputs(self, container: RunningContainer, sink: BinaryIO) -> OutputArchive:
        found = io.BytesIO()
        with tarfile.open(fileobj=found, mode="w") as archive:
            for name, content in self.left.items():
                header = tarfile.TarInfo(name)
                header.size = len(content)
                archive.addfile(header, io.BytesIO(content))
        sink.write(found.getvalue())
        return OutputArchive(hashlib.blake2b(found.getvalue(), digest_size=32).digest(), len(found.getvalue()), 1)

    async def remove(self, container: RunningContainer) -> None:
        self.removed.append(container.spec.container_id)
        self.running.pop(container.spec.container_id, None)
