"""Foreign files converted to tasks: the written file, read again, with the parts that were left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_tasks.client.tasks.compose import from_compose
from gpu_tasks.client.tasks.drafts import ProgramDraft
from gpu_tasks.client.tasks.foreign import Foreign
from gpu_tasks.client.tasks.sbatch import from_sbatch
from gpu_tasks.client.tasks.sdl import from_sdl
from gpu_tasks.tasks.container_task import ContainerTask
from gpu_tasks.tasks.task_kinds import ContainerSource, read_any_task

IMAGE = "ghcr.io/acme/tool@sha256:" + "ab" * 32
PRICE = "2 oGPU"


@dataclass(frozen=True)
class Converted:
    """A converted task, with the parts that were left out."""

    task: ContainerTask
    foreign: Foreign

    @property
    def lost(self) -> list[str]:
        """Return the missing parts that change the program's behaviour."""
        return [each.what.strip("'\"") for each in self.foreign.carrying.losses]

    @property
    def unneeded(self) -> list[str]:
        """Return the other parts that were left out."""
        return [each.what.strip("'\"") for each in self.foreign.carrying.left_out if not each.matters]


def compose(
    text: str, service: str | None = None, image: str | None = None, env: Mapping[str, str] | None = None, *,
    is_job: bool = False, network: str = "",
) -> Converted:  # fmt: skip
    """A service of a Compose file."""
    given = env or {}
    return _read(
        from_compose(text.encode(), "compose.yaml", service, image, PRICE, given, is_job=is_job, network=network)
    )


def sdl(text: str, service: str | None = None, image: str | None = None, *, is_job: bool = False) -> Converted:
    """A service of an SDL file."""
    return _read(from_sdl(text.encode(), "deploy.yaml", service, image, PRICE, is_job=is_job))


def sbatch(text: str, image: str | None = IMAGE, shell: str = "#!/bin/bash", name: str = "job.sh") -> Converted:
    """Convert a batch script after a line with its shell."""
    return _read(from_sbatch(f"{shell}\n{text}".encode(), name, image, PRICE))


def read_back(draft: ProgramDraft) -> ContainerTask:
    """Return a draft's text, read again as a task file."""
    source = read_any_task(draft.text().encode(), "task.yaml")
    assert isinstance(source, ContainerSource)
    return source.file.task


def _read(foreign: Foreign) -> Converted:
    return Converted(read_back(foreign.draft), foreign)
