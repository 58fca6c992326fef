"""Limits that the kernel enforces on a worker process. The process sets them before it loads anything.

A process can only lower its hard limits, so later code cannot undo them. The kernel does not enforce the number of
processes for root: run the daemon as an ordinary user.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass

MIB = 1024 * 1024
_CPU_SLACK_SECONDS = 1
_ADDRESS_MIB = 4_096


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a worker."""

    cpu_seconds: int = 120
    """CPU time of one request, beside its effort (`pace`)."""
    cpu_seconds_life: int = 24 * 3600
    """CPU time of the whole process. A new process replaces it after that."""
    wall_seconds: int = 180
    """Wall-clock time of one request, beside its effort. The daemon enforces it."""
    start_seconds: int = 300
    """Time to load the model and pass the conformance vectors."""
    address_mib: int = _ADDRESS_MIB
    """Address space; 0 for no limit, which CUDA needs."""
    processes: int = 0
    """Further processes and threads; 0 for none."""
    file_mib: int = 0
    """Size of any file that it writes; 0 for none."""
    open_files: int = 64
    room_mib: int = 0
    """Memory for requests side by side, beside the model; 0 for a workload that needs none."""


def limits_for(backend_name: str, model_bytes: int = 0, room_bytes: int = 0) -> Limits:
    """Return the limits for a backend, a model of `model_bytes` and requests of `room_bytes`, beside the usual.

    Torch needs threads and more address space, CUDA unlimited address space.
    """
    room_mib = room_bytes // MIB
    model_mib = model_bytes // MIB + room_mib
    if backend_name.startswith("torch-cuda"):
        return Limits(address_mib=0, processes=4_096, open_files=1_024, room_mib=room_mib)
    if backend_name.startswith("torch"):
        return Limits(address_mib=16_384 + model_mib, processes=4_096, open_files=256, room_mib=room_mib)
    return Limits(address_mib=_ADDRESS_MIB + model_mib, room_mib=room_mib)


def chain_limits_for(backend_name: str) -> Limits:
    """Return the limits of a process for roll calls. It may use all threads, because its throughput is measured."""
    limits = limits_for(backend_name)
    return Limits(address_mib=limits.address_mib and 16_384, processes=4_096, open_files=max(256, limits.open_files))


def apply(limits: Limits) -> None:
    """Limit this process."""
    _set_limit(resource.RLIMIT_CPU, limits.cpu_seconds_life)
    if limits.address_mib:
        _set_limit(resource.RLIMIT_AS, limits.address_mib * MIB)
    _set_limit(resource.RLIMIT_NPROC, limits.processes)
    _set_limit(resource.RLIMIT_FSIZE, limits.file_mib * MIB)
    _set_limit(resource.RLIMIT_NOFILE, limits.open_files)
    # A core dump would write the customer's request to the disk.
    _set_limit(resource.RLIMIT_CORE, 0)


def allow_cpu_from_now(cpu_seconds: int, used_seconds: int) -> None:
    """Set the soft CPU limit to the time used so far plus one question's allowance. Exceeding it kills the process."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_CPU)
    soft_limit = used_seconds + cpu_seconds + _CPU_SLACK_SECONDS
    resource.setrlimit(
        resource.RLIMIT_CPU,
        (soft_limit if hard_limit == resource.RLIM_INFINITY else min(soft_limit, hard_limit), hard_limit),
    )


def _set_limit(resource_kind: int, wanted_limit: int) -> None:
    _, hard_limit = resource.getrlimit(resource_kind)
    # A limit inherited from the daemon may be lower already, and raising it needs privileges.
    lower_limit = wanted_limit if hard_limit == resource.RLIM_INFINITY else min(wanted_limit, hard_limit)
    resource.setrlimit(resource_kind, (lower_limit, lower_limit))
