"""Checks of this machine: kernel, disk and hardware.

Invariant: every check ends in a diagnosis, and ends what it started.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpu_tasks.provider.execution.bench import Bench, MakeExecutor
from gpu_tasks.provider.execution.containers.ability import ContainerAbility
from gpu_tasks.provider.execution.containers.images import BOOK_FILE, read_book, told
from gpu_tasks.provider.execution.containers.spec import ContainerPolicy
from gpu_tasks.provider.execution.diagnoses import Diagnosis, Grade, bad, good, weak
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.execution.gpu import MIG, Hardware, lost_gpus, why_no_gpu
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.provider.execution.worker_start import NUMPY, backend_for
from gpu_tasks.provider.open_files import raise_limit
from gpu_tasks.workloads.form import WorkloadForm

DISK_BYTES_LEAST = 2 * 1024**3
"""The store's quota for strangers, and as much for the provider's own blobs."""
GIB = 1024**3
LOST_GPU = "check `dmesg` and `nvidia-smi`; the card may need a reset, a reboot, or another slot"
ROOT_GIVES = "a network, ports and workspaces on disk"
"""The benefits of root for containers. Without root they have none of these, and their workspaces are in memory."""


def system_diagnoses(
    base_path: Path, sandbox: Sandbox | None, why_no_sandbox: str | None, *, are_offered: bool = False
) -> list[Diagnosis]:
    """Return the diagnoses of user, open files, disk and sandbox. `are_offered` says whether containers are offered."""
    return [_user(are_offered=are_offered), _files(), _disk(base_path), _walls(sandbox, why_no_sandbox)]


def hardware_diagnoses(hardware: Sequence[Hardware]) -> list[Diagnosis]:
    """Return the diagnoses of the devices that can be offered."""
    lost = [bad("GPUs", f"{reason}, so it is not offered", LOST_GPU) for reason in lost_gpus()]
    if any(piece.index is not None for piece in hardware):
        return [*(_card(f"device {number}", piece) for number, piece in enumerate(hardware)), *lost]
    says = f"no GPU found (NVML: {why_no_gpu()}); this machine offers only its CPU, at a CPU's price"
    return [weak("GPUs", says, "install the NVIDIA driver, or give the container the GPU")]


def _card(check: str, piece: Hardware) -> Diagnosis:
    memory = f"{piece.memory_mib:,} MiB" if piece.memory_mib else "memory unknown"
    says = f"{piece.name}, {memory}, driver {piece.driver or 'unknown'}"
    if not piece.limits:
        return good(check, says)
    todo = "`nvidia-smi -mig 0` gives the whole card back" if piece.limits == MIG else "nothing, if that is its class"
    return weak(check, f"{says}; {piece.limits}", todo)


async def worker_diagnoses(
    hardware: Sequence[Hardware], forms: Sequence[WorkloadForm], make: MakeExecutor, backend: str = NUMPY
) -> list[Diagnosis]:
    """Check that workers start and compute the published vectors, for each workload on each device in turn."""
    return [
        await _worker(f"{form.name} on device {number}", piece, form, make, backend_for(backend, piece, form))
        for number, piece in enumerate(hardware)
        for form in forms
    ]


async def _worker(check: str, hardware: Hardware, form: WorkloadForm, make: MakeExecutor, by: str) -> Diagnosis:
    bench = Bench(hardware, make)
    try:
        await bench.worker(form)
    except ExecutionError as error:
        return bad(check, str(error), 'see docs/providers.md, "With a GPU", or try another --backend')
    finally:
        await bench.close()
    return good(check, f"starts with {by} and reproduces the published results")


def container_diagnoses(ability: ContainerAbility, *, are_offered: bool) -> list[Diagnosis]:
    """Return the diagnoses of Docker.

    Missing abilities are problems if containers are offered, and warnings otherwise.
    """
    # Containers are optional, so missing abilities matter only to a provider that offers them.
    worst = Grade.BAD if are_offered else Grade.WEAK
    return [
        replace(item, check=f"Docker, {item.check}", grade=worst if item.grade is Grade.BAD else item.grade)
        for item in ability.items
    ]


def image_diagnosis(folder: Path, policy: ContainerPolicy) -> Diagnosis:
    """Return the diagnosis of the disk space of tasks' images, from the daemon's book."""
    name = "Docker, images of tasks"
    try:
        images = list(read_book(folder / BOOK_FILE).values())
    except OSError as error:
        return weak(name, f"{folder} cannot be read: {error.strerror}", "run this as the daemon's user")
    return good(name, told(images, policy.image_disk_bytes, policy.image_age_seconds, time.time()))


def _user(*, are_offered: bool) -> Diagnosis:
    """Return the diagnosis of the user. Containers need root, and workers need an ordinary user."""
    # The kernel does not enforce RLIMIT_NPROC for root.
    if os.geteuid():
        says = "an ordinary user; the kernel limits its workers' processes"
        if not are_offered:
            return good("user", says)
        return weak("user", f"{says}; containers cannot have {ROOT_GIVES}", "run it as root if tasks need these")
    says = "root; the kernel does not limit its workers' processes"
    if not are_offered:
        return weak("user", says, "run the daemon as a user of its own")
    return weak("user", f"{says}; containers can have {ROOT_GIVES}", "use a user of its own if no task needs these")


def _files() -> Diagnosis:
    problem = raise_limit()
    return good("open files", "enough") if problem is None else bad("open files", problem, "ulimit -n 4096")


def _disk(base_path: Path) -> Diagnosis:
    try:
        free = shutil.disk_usage(base_path).free
    except OSError as error:
        return bad("disk", f"{base_path}: {error.strerror}", "choose another --base-path")
    if not os.access(base_path, os.W_OK | os.X_OK):
        return bad(
            "disk", f"{base_path} is not writable", "choose another --base-path, or give this user the right to write"
        )
    if free < DISK_BYTES_LEAST:
        says = f"{free / GIB:.1f} GiB free under {base_path}; store, journal and states need 2 GiB"
        return weak("disk", says, "free some space, or choose another --base-path")
    return good("disk", f"{free / GIB:.0f} GiB free under {base_path}")


def _walls(sandbox: Sandbox | None, why_not: str | None) -> Diagnosis:
    if sandbox is not None:
        return good("sandbox", f"{sandbox.program} works: workers have no network and see none of your files")
    return weak("sandbox", why_not or "none", 'see docs/providers.md, "Walls"')
