"""The machine's inventory from its kernel and drivers: devices of any vendor, processor, memory and disk.

Invariant: a machine without a GPU has an inventory too. A value that cannot be read is empty or 0, never an error.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
from collections.abc import Iterable
from pathlib import Path

from gpu_tasks.data.blob_client import TransferRates
from gpu_tasks.data.inventory import DEVICES_MAX, ClaimedDevice, ClaimedMachine, claim_text
from gpu_tasks.provider.execution.gpu import MIB, Hardware, cuda_version
from runtime.cryptography.hashing import blake2_256

AMD_VENDOR = "0x1002"
U16_MAX, U32_MAX = 2**16 - 1, 2**32 - 1
FILE_BYTES_MAX = 64 * 1024
KIB_OF_MIB = 1_024


def claimed_devices(hardware: Iterable[Hardware], root: Path = Path("/")) -> tuple[ClaimedDevice, ...]:
    """Return this daemon's hardware, then graphics cards of other vendors, for which it has no backend."""
    cuda = cuda_version()
    known = [_of_hardware(piece, cuda, root) for piece in hardware]
    return (*known, *_amd_cards(root))[:DEVICES_MAX]


def claimed_machine(work: Path, rates: TransferRates, root: Path = Path("/")) -> ClaimedMachine:
    """Return the parts that all devices share. `work` is the folder of the daemon's work."""
    free = 0
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(work).free // MIB
    return ClaimedMachine(
        processor=_processor(root),
        cores=min(_cores(), U16_MAX),
        memory_mib=min(_memory_mib(root), U32_MAX),
        disk_free_mib=free,
        down_kbit=min(rates.down_kbit, U32_MAX),
        up_kbit=min(rates.up_kbit, U32_MAX),
    )


def _of_hardware(piece: Hardware, cuda: str, root: Path) -> ClaimedDevice:
    if piece.index is None:
        return ClaimedDevice(piece.uuid_hash, _cpu_vendor(root), _processor(root), 0, "", "", "", is_processor=True)
    model, memory = claim_text(piece.name), min(piece.memory_mib, U32_MAX)
    return ClaimedDevice(
        piece.uuid_hash,
        "NVIDIA",
        model,
        memory,
        claim_text(piece.driver),
        "cuda" if cuda else "",
        cuda,
        is_processor=False,
    )


def _amd_cards(root: Path) -> list[ClaimedDevice]:
    """Return the cards that the amdgpu driver shows under /sys, except cards without an identifier."""
    found = []
    driver = _read(root / "sys/module/amdgpu/version")
    rocm = _read(root / "opt/rocm/.info/version").partition("-")[0]
    for card in sorted((root / "sys/class/drm").glob("card[0-9]*/device")):
        identifier = _read(card / "unique_id")
        # NVIDIA's cards come from NVML, so this looks for AMD's only.
        if _read(card / "vendor") != AMD_VENDOR or not identifier:
            continue
        memory = _whole(_read(card / "mem_info_vram_total")) // MIB
        uuid_hash = blake2_256(b"ogpu/hardware" + identifier.encode())
        model = claim_text(_read(card / "product_name")) or "AMD GPU"
        found.append(
            ClaimedDevice(
                uuid_hash,
                "AMD",
                model,
                min(memory, U32_MAX),
                claim_text(driver),
                "rocm" if rocm else "",
                claim_text(rocm),
                is_processor=False,
            )
        )
    return found


def _processor(root: Path) -> str:
    return claim_text(_field(_read(root / "proc/cpuinfo"), "model name") or platform.machine())


def _cpu_vendor(root: Path) -> str:
    names = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}
    said = _field(_read(root / "proc/cpuinfo"), "vendor_id")
    return claim_text(names.get(said, said))


def _cores() -> int:
    with contextlib.suppress(AttributeError, OSError):
        return len(os.sched_getaffinity(0))  # only the cores that this process may use
    return os.cpu_count() or 0


def _memory_mib(root: Path) -> int:
    return _whole(_field(_read(root / "proc/meminfo"), "MemTotal").partition(" ")[0]) // KIB_OF_MIB


def _field(text: str, name: str) -> str:
    """Return the first value of a name in lines of `name: value`."""
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() == name:
            return value.strip()
    return ""


def _whole(text: str) -> int:
    # Python's int() also accepts signs, spaces and other scripts' digits.
    return int(text) if text.isascii() and text.isdigit() else 0


def _read(path: Path) -> str:
    """Return the beginning of a file; empty if it cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(FILE_BYTES_MAX).decode(errors="replace").strip()
    except OSError:
        return ""
