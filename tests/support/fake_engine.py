"""A fake container engine: its programs run nothing, and end when a test says so. It stands in for Docker in tests."""

import asyncio
import hashlib
import io
import tarfile
from typing import BinaryIO

from gpu_tasks.provider.execution.containers.logs import ContainerLog
from gpu_tasks.provider.execution.containers.outputs import OutputArchive
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError
from gpu_tasks.provider.execution.containers.running import ContainerEnd, ContainerUse, EndReason, RunningContainer
from gpu_tasks.provider.execution.containers.spec import ContainerSpec

MISSING = "0" * 64


class FakeEngine:
    """Implements `ProgramEngine`; an image whose digest is zeros is not to be had."""

    def __init__(self) -> None:
        self.running: dict[str, RunningContainer] = {}
        self.started: list[ContainerSpec] = []
        self.removed: list[str] = []
        self.left: dict[str, bytes] = {"words": b"14\n"}
        self.cpu_ms = 0
        self.trouble: ContainerError | None = None

    async def ready(self, spec: ContainerSpec) -> None:
        if spec.image.sha256 == MISSING:
            raise ContainerRefusedError("bring an image", "no registry has it", "push it")

    async def start(self, spec: ContainerSpec) -> RunningContainer:
        if self.trouble is not None:
            raise self.trouble
        self.started.append(spec)
        container = RunningContainer(spec, spec.container_id, "holder", ContainerLog(1 << 20))
        self.running[spec.container_id] = container
        return container

    def end(self, exit_code: int = 0) -> None:
        """Every program ends by itself."""
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
