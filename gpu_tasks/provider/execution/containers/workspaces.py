"""Volumes with a size: in memory, or as a file with its own file system if the daemon is root.

overlay2 on ext4 has no quota, so strangers' programs write to no folder there. A file's space is allocated when it is
made: a promised workspace exists, and a full one fills nothing else. Secrets are in memory only.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
from enum import Enum
from pathlib import Path

from gpu_tasks.provider.execution.containers.creation import USER_ID
from gpu_tasks.provider.execution.containers.docker_door import DockerDoor
from gpu_tasks.provider.execution.containers.labels import Owner
from gpu_tasks.provider.execution.containers.programs import is_root, is_there, run_program
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.containers.spec import MIB

LOOP_PROGRAMS = ("losetup", "mkfs.ext4", "debugfs")
NOSWAP_KERNEL = (6, 4)
INODE_BYTES = 16 * 1024
"""Bytes for each file at most, which determines the number of inodes."""
INPUT_SLACK_BYTES = 16 * MIB
_LOOP_LINE = re.compile(r"^(/dev/loop\d+): .*\((.*)\)$")


class WorkspaceKind(Enum):
    """The place of a workspace."""

    MEMORY = "memory"
    FILE = "file"


def best_kind() -> WorkspaceKind:
    """Return the kind for this machine: files if they can be made."""
    can_loop = is_root() and all(map(is_there, LOOP_PROGRAMS)) and Path("/dev/loop-control").exists()
    return WorkspaceKind.FILE if can_loop else WorkspaceKind.MEMORY


def has_noswap() -> bool:
    """Return True if the kernel can keep a folder in memory out of swap space (Linux 6.4)."""
    version_match = re.match(r"(\d+)\.(\d+)", platform.release())
    return version_match is not None and (int(version_match[1]), int(version_match[2])) >= NOSWAP_KERNEL


class Workspaces:
    """The volumes of one owner."""

    def __init__(self, door: DockerDoor, owner: Owner, folder: Path, kind: WorkspaceKind) -> None:
        """`folder` holds the files and nothing else."""
        self._door = door
        self._owner = owner
        self._folder = folder
        self.kind = kind

    async def make(self, container_id: str, volume_part: str, size_bytes: int) -> str:
        """Make a volume of `size_bytes` and return its name. Raise ContainerError, or OSError on a full disk."""
        if self.kind is WorkspaceKind.MEMORY:
            return await self.make_in_memory(container_id, volume_part, size_bytes)
        path = self._folder / f"{self._owner.name_of(container_id, volume_part)}.ext4"
        device = await self._make_file_system(path, size_bytes)
        options = {"type": "ext4", "device": device, "o": "nosuid,nodev,noatime"}
        return await self._make_volume(container_id, volume_part, options)

    async def make_in_memory(self, container_id: str, volume_part: str, size_bytes: int) -> str:
        """Make a volume in memory even if the others are files. It is for secrets."""
        swap_option = ",noswap" if has_noswap() else ""
        options = (
            f"size={size_bytes},nr_inodes={max(64, size_bytes // INODE_BYTES)},nosuid,nodev,mode=0755{swap_option}"
        )
        return await self._make_volume(container_id, volume_part, {"type": "tmpfs", "device": "tmpfs", "o": options})

    async def remove(self, container_id: str, volume_part: str) -> None:
        """Remove the existing volume and its file. Raise ContainerError if something remains."""
        volume = self._owner.name_of(container_id, volume_part)
        await self._door.remove_volume(volume)
        await _remove_file(self._folder / f"{volume}.ext4")

    async def remove_files(self) -> int:
        """Remove every remaining file and return their number. Call it when no container of ours exists."""
        image_paths = await asyncio.to_thread(lambda: sorted(self._folder.glob("*.ext4")))
        for path in image_paths:
            await _remove_file(path)
        return len(image_paths)

    async def _make_file_system(self, path: Path, size_bytes: int) -> str:
        await asyncio.to_thread(_allocate, path, size_bytes)
        extended = f"nodiscard,root_owner={USER_ID}:{USER_ID}"
        # No journal and no reserved blocks: the file system is deleted with its container, and the program is not root.
        format_options = ("-O", "^has_journal", "-m", "0", "-i", str(INODE_BYTES), "-E", extended)
        await run_program("mkfs.ext4", "-q", "-F", *format_options, str(path))
        # The folder would appear in the program's /out and in its archive.
        await run_program("debugfs", "-w", "-R", "rmdir lost+found", str(path))
        return (await run_program("losetup", "--find", "--show", str(path))).strip()

    async def _make_volume(self, container_id: str, volume_part: str, options: dict[str, str]) -> str:
        volume, volume_labels = self._owner.name_of(container_id, volume_part), self._owner.labels(container_id)
        await self._door.call(
            "make a volume", lambda client: client.create_volume(volume, "local", options, volume_labels)
        )
        return volume


def _allocate(path: Path, size_bytes: int) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        # Allocated, not sparse, so that the machine's disk cannot run full under a promised workspace.
        os.posix_fallocate(descriptor, 0, size_bytes)
    except OSError as error:
        path.unlink()
        raise ContainerError(
            "make a workspace", str(error), "free disk space, or bid for smaller ones", code="no_disk_space"
        ) from None
    finally:
        os.close(descriptor)


async def _remove_file(path: Path) -> None:
    if not await asyncio.to_thread(path.exists):
        return
    # A loop device keeps the deleted file's space until it is detached.
    for device in await _devices_of(path):
        await run_program("losetup", "--detach", device)
    await asyncio.to_thread(path.unlink)


async def _devices_of(path: Path) -> list[str]:
    losetup_lines = (await run_program("losetup", "--associated", str(path))).splitlines()
    return [loop_devices[1] for losetup_line in losetup_lines if (loop_devices := _LOOP_LINE.match(losetup_line))]
