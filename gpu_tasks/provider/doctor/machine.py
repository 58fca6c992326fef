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
    base_path: Path, worker_sandbox: Sandbox | None, why_no_sandbox: str | None, *, are_offered: bool = False
) -> list[Diagnosis]:
    """Return the diagnoses of user, open files, disk and sandbox. `are_offered` says whether containers are offered."""
    return [
        _user_diagnosis(are_offered=are_offered),
        _open_files_diagnosis(),
        _disk_diagnosis(base_path),
        _sandbox_diagnosis(worker_sandbox, why_no_sandbox),
    ]


def hardware_diagnoses(hardware: Sequence[Hardware]) -> list[Diagnosis]:
    """Return the diagnoses of the devices that can be offered."""
    lost_gpu_findings = [bad("GPUs", f"{loss_reason}, so it is not offered", LOST_GPU) for loss_reason in lost_gpus()]
    if any(found_piece.index is not None for found_piece in hardware):
        return [
            *(
                _card_diagnosis(f"device {device_number}", found_piece)
                for device_number, found_piece in enumerate(hardware)
            ),
            *lost_gpu_findings,
        ]
    finding_text = f"no GPU found (NVML: {why_no_gpu()}); this machine offers only its CPU, at a CPU's price"
    return [weak("GPUs", finding_text, "install the NVIDIA driver, or give the container the GPU")]


def _card_diagnosis(check_name: str, hardware: Hardware) -> Diagnosis:
    memory_text = f"{hardware.memory_mib:,} MiB" if hardware.memory_mib else "memory unknown"
    finding_text = f"{hardware.name}, {memory_text}, driver {hardware.driver or 'unknown'}"
    if not hardware.limits:
        return good(check_name, finding_text)
    remedy_text = (
        "`nvidia-smi -mig 0` gives the whole card back" if hardware.limits == MIG else "nothing, if that is its class"
    )
    return weak(check_name, f"{finding_text}; {hardware.limits}", remedy_text)


async def worker_diagnoses(
    hardware: Sequence[Hardware],
    workload_forms: Sequence[WorkloadForm],
    make_executor: MakeExecutor,
    backend_name: str = NUMPY,
) -> list[Diagnosis]:
    """Check that workers start and compute the published vectors, for each workload on each device in turn."""
    return [
        await _worker(
            f"{workload_form.name} on device {device_number}",
            found_piece,
            workload_form,
            make_executor,
            backend_for(backend_name, found_piece, workload_form),
        )
        for device_number, found_piece in enumerate(hardware)
        for workload_form in workload_forms
    ]


async def _worker(
    check_name: str, hardware: Hardware, workload_form: WorkloadForm, make_executor: MakeExecutor, by: str
) -> Diagnosis:
    device_bench = Bench(hardware, make_executor)
    try:
        await device_bench.worker(workload_form)
    except ExecutionError as error:
        return bad(check_name, str(error), 'see docs/providers.md, "With a GPU", or try another --backend')
    finally:
        await device_bench.close()
    return good(check_name, f"starts with {by} and reproduces the published results")


def container_diagnoses(container_ability: ContainerAbility, *, are_offered: bool) -> list[Diagnosis]:
    """Return the diagnoses of Docker.

    Missing abilities are problems if containers are offered, and warnings otherwise.
    """
    # Containers are optional, so missing abilities matter only to a provider that offers them.
    worst_grade = Grade.BAD if are_offered else Grade.WEAK
    return [
        replace(
            ability_item,
            check=f"Docker, {ability_item.check}",
            grade=worst_grade if ability_item.grade is Grade.BAD else ability_item.grade,
        )
        for ability_item in container_ability.items
    ]


def image_diagnosis(engine_folder: Path, container_policy: ContainerPolicy) -> Diagnosis:
    """Return the diagnosis of the disk space of tasks' images, from the daemon's book."""
    check_name = "Docker, images of tasks"
    # Only the daemon's user can read its book of images.
    try:
        brought_images = list(read_book(engine_folder / BOOK_FILE).values())
    except OSError as error:
        return weak(check_name, f"{engine_folder} cannot be read: {error.strerror}", "run this as the daemon's user")
    return good(
        check_name,
        told(brought_images, container_policy.image_disk_bytes, container_policy.image_age_seconds, time.time()),
    )


def _user_diagnosis(*, are_offered: bool) -> Diagnosis:
    """Return the diagnosis of the user. Containers need root, and workers need an ordinary user."""
    # The kernel does not enforce RLIMIT_NPROC for root.
    if os.geteuid():
        finding_text = "an ordinary user; the kernel limits its workers' processes"
        if not are_offered:
            return good("user", finding_text)
        return weak(
            "user", f"{finding_text}; containers cannot have {ROOT_GIVES}", "run it as root if tasks need these"
        )
    finding_text = "root; the kernel does not limit its workers' processes"
    if not are_offered:
        return weak("user", finding_text, "run the daemon as a user of its own")
    return weak(
        "user", f"{finding_text}; containers can have {ROOT_GIVES}", "use a user of its own if no task needs these"
    )


def _open_files_diagnosis() -> Diagnosis:
    limit_problem = raise_limit()
    return good("open files", "enough") if limit_problem is None else bad("open files", limit_problem, "ulimit -n 4096")


def _disk_diagnosis(base_path: Path) -> Diagnosis:
    try:
        free_bytes = shutil.disk_usage(base_path).free
    except OSError as error:
        return bad("disk", f"{base_path}: {error.strerror}", "choose another --base-path")
    if not os.access(base_path, os.W_OK | os.X_OK):
        return bad(
            "disk", f"{base_path} is not writable", "choose another --base-path, or give this user the right to write"
        )
    if free_bytes < DISK_BYTES_LEAST:
        finding_text = f"{free_bytes / GIB:.1f} GiB free under {base_path}; store, journal and states need 2 GiB"
        return weak("disk", finding_text, "free some space, or choose another --base-path")
    return good("disk", f"{free_bytes / GIB:.0f} GiB free under {base_path}")


def _sandbox_diagnosis(worker_sandbox: Sandbox | None, why_not: str | None) -> Diagnosis:
    if worker_sandbox is not None:
        return good("sandbox", f"{worker_sandbox.program} works: workers have no network and see none of your files")
    return weak("sandbox", why_not or "none", 'see docs/providers.md, "Walls"')
