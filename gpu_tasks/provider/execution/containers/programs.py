"""Calls of this machine's programs such as iptables, losetup and mkfs, without a shell and with a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil

from gpu_tasks.provider.execution.containers.refusals import ContainerError

PROGRAM_SECONDS = 60.0
_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def is_there(program: str) -> bool:
    """Return True if the machine has a program, in the system folders only."""
    return shutil.which(program, path=_SYSTEM_PATH) is not None


async def run_program(program: str, *arguments: str) -> str:
    """Return the output of a system program. Raise ContainerError if it fails, is missing or hangs."""
    path = shutil.which(program, path=_SYSTEM_PATH)
    if path is None:
        raise ContainerError(
            f"run {program}", "not installed", f"install the package that has {program}", code="program_missing"
        )
    child_process = await asyncio.create_subprocess_exec(
        path,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # The daemon's own PATH could name another program, and other locales change the output that is parsed.
        env={"PATH": _SYSTEM_PATH, "LC_ALL": "C"},
    )
    try:
        async with asyncio.timeout(PROGRAM_SECONDS):
            standard_output, error_output = await child_process.communicate()
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            child_process.kill()
        await child_process.wait()
        if isinstance(error, TimeoutError):
            raise ContainerError(
                f"run {program}", f"unfinished after {PROGRAM_SECONDS:.0f} s", code="program_too_slow"
            ) from None
        raise
    if child_process.returncode:
        raise ContainerError(
            f"run {program}",
            (error_output or standard_output).decode(errors="replace").strip()[:300] or "it failed",
            code="program_failed",
        )
    return standard_output.decode(errors="replace")


def is_root() -> bool:
    """Return True if this process may change the machine's devices and network."""
    return os.geteuid() == 0
