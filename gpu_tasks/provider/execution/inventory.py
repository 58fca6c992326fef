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


def claimed_devices(hardware: Iterable[Hardware], system_root: Path = Path("/")) -> tuple[ClaimedDevice, ...]:
    """Return this daemon's hardware, then graphics cards of other vendors, for which it has no backend."""
    cuda_text = cuda_version()
    known_devices = [_claim_of_hardware(piece, cuda_text, system_root) for piece in hardware]
    return (*known_devices, *_amd_cards(system_root))[:DEVICES_MAX]


def claimed_machine(work_folder: Path, rates: TransferRates, system_root: Path = Path("/")) -> ClaimedMachine:
    """Return the parts that all devices share. `work_folder` is the folder of the daemon's work."""
    free_mib = 0
    with contextlib.suppress(OSError):
        free_mib = shutil.disk_usage(work_folder).free // MIB
    return ClaimedMachine(
        processor=_processor(system_root),
        cores=min(_cores(), U16_MAX),
        memory_mib=min(_memory_mib(system_root), U32_MAX),
        disk_free_mib=free_mib,
        down_kbit=min(rates.down_kbit, U32_MAX),
        up_kbit=min(rates.up_kbit, U32_MAX),
    )


def _claim_of_hardware(piece: Hardware, cuda_text: str, system_root: Path) -> ClaimedDevice:
    if piece.index is None:
        return ClaimedDevice(
            piece.uuid_hash, _cpu_vendor(system_root), _processor(system_root), 0, "", "", "", is_processor=True
        )
    model_name, memory_mib = claim_text(piece.name), min(piece.memory_mib, U32_MAX)
    return ClaimedDevice(
        piece.uuid_hash,
        "NVIDIA",
        model_name,
        memory_mib,
        claim_text(piece.driver),
        "cuda" if cuda_text else "",
        cuda_text,
        is_processor=False,
    )


def _amd_cards(system_root: Path) -> list[ClaimedDevice]:
    """Return the cards that the amdgpu driver shows under /sys, except cards without an identifier."""
    amd_cards = []
    driver_version = _read_system_file(system_root / "sys/module/amdgpu/version")
    rocm_version = _read_system_file(system_root / "opt/rocm/.info/version").partition("-")[0]
    for card_folder in sorted((system_root / "sys/class/drm").glob("card[0-9]*/device")):
        identifier = _read_system_file(card_folder / "unique_id")
        # NVIDIA's cards come from NVML, so this looks for AMD's only.
        if _read_system_file(card_folder / "vendor") != AMD_VENDOR or not identifier:
            continue
        memory_mib = _whole_number(_read_system_file(card_folder / "mem_info_vram_total")) // MIB
        uuid_hash = blake2_256(b"ogpu/hardware" + identifier.encode())
        model_name = claim_text(_read_system_file(card_folder / "product_name")) or "AMD GPU"
        amd_cards.append(
            ClaimedDevice(
                uuid_hash,
                "AMD",
                model_name,
                min(memory_mib, U32_MAX),
                claim_text(driver_version),
                "rocm" if rocm_version else "",
                claim_text(rocm_version),
                is_processor=False,
            )
        )
    return amd_cards


def _processor(system_root: Path) -> str:
    return claim_text(_field_of(_read_system_file(system_root / "proc/cpuinfo"), "model name") or platform.machine())


def _cpu_vendor(system_root: Path) -> str:
    name_by_vendor_id = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}
    vendor_id = _field_of(_read_system_file(system_root / "proc/cpuinfo"), "vendor_id")
    return claim_text(name_by_vendor_id.get(vendor_id, vendor_id))


def _cores() -> int:
    with contextlib.suppress(AttributeError, OSError):
        return len(os.sched_getaffinity(0))  # only the cores that this process may use
    return os.cpu_count() or 0


def _memory_mib(system_root: Path) -> int:
    return (
        _whole_number(_field_of(_read_system_file(system_root / "proc/meminfo"), "MemTotal").partition(" ")[0])
        // KIB_OF_MIB
    )


def _field_of(file_text: str, field_name: str) -> str:
    """Return the first value of a name in lines of `name: value`."""
    for text_line in file_text.splitlines():
        key_text, colon_sign, value_text = text_line.partition(":")
        if colon_sign and key_text.strip() == field_name:
            return value_text.strip()
    return ""


def _whole_number(number_text: str) -> int:
    # Python's int() also accepts signs, spaces and other scripts' digits.
    return int(number_text) if number_text.isascii() and number_text.isdigit() else 0


def _read_system_file(path: Path) -> str:
    """Return the beginning of a file; empty if it cannot be read."""
    try:
        with path.open("rb") as system_file:
            return system_file.read(FILE_BYTES_MAX).decode(errors="replace").strip()
    except OSError:
        return ""
