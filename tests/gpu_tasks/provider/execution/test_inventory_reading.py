"""The inventory of a machine, read from files of made-up machines and of this one, with or without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_tasks.data.blob_client import TransferRates
from gpu_tasks.data.inventory import ClaimedDevice
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.execution import inventory
from gpu_tasks.provider.execution.gpu import Hardware, all_hardware
from gpu_tasks.provider.execution.inventory import claimed_devices, claimed_machine

CPUINFO = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Gold 6338\n\nprocessor\t: 1\n"
GPU = Hardware("NVIDIA H200", "GPU-1", DeviceClass.DATACENTER, 143_771, 0, "550.54.14")
CPU = Hardware("CPU", "CPU-1", DeviceClass.CPU, 0, None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the files of a machine with an AMD card beside others."""
    for name, text in {
        "proc/cpuinfo": CPUINFO,
        "proc/meminfo": "MemTotal:       65536000 kB\nMemFree: 1 kB\n",
        "sys/module/amdgpu/version": "6.7.0\n",
        "opt/rocm/.info/version": "6.1.2-119\n",
        "sys/class/drm/card0/device/vendor": "0x1002\n",
        "sys/class/drm/card0/device/unique_id": "57a2b1c0\n",
        "sys/class/drm/card0/device/mem_info_vram_total": str(192 * 1024**3),
        "sys/class/drm/card0/device/product_name": "AMD Instinct MI300X\n",
        "sys/class/drm/card1/device/vendor": "0x8086\n",
        "sys/class/drm/card2/device/vendor": "0x1002\n",  # without an identifier of its own
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_devices_of_any_maker_are_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "cuda_version", lambda: "12.4")
    gpu, cpu, amd = claimed_devices([GPU, CPU], root)
    assert gpu == ClaimedDevice(
        GPU.uuid_hash, "NVIDIA", "NVIDIA H200", 143_771, "550.54.14", "cuda", "12.4", is_processor=False
    )
    assert cpu == ClaimedDevice(CPU.uuid_hash, "Intel", "Intel(R) Xeon(R) Gold 6338", 0, "", "", "", is_processor=True)
    assert (amd.vendor, amd.model, amd.memory_mib) == ("AMD", "AMD Instinct MI300X", 192 * 1024)
    assert (amd.driver, amd.platform, amd.platform_version) == ("6.7.0", "rocm", "6.1.2")


def test_the_machine_is_told(root: Path) -> None:
    rates = TransferRates()
    rates.note(1.0, sent=0, received=1_000_000)
    machine = claimed_machine(root, rates, root)
    assert (machine.processor, machine.memory_mib, machine.down_kbit) == ("Intel(R) Xeon(R) Gold 6338", 64_000, 8_000)
    assert machine.cores >= 1
    assert machine.disk_free_mib > 0


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    machine = claimed_machine(tmp_path / "nowhere", TransferRates(), tmp_path)
    assert (machine.memory_mib, machine.disk_free_mib, machine.up_kbit) == (0, 0, 0)
    (cpu,) = claimed_devices([CPU], tmp_path)
    assert (cpu.vendor, cpu.memory_mib, cpu.platform) == ("", 0, "")


def test_files_that_lie_are_no_error(root: Path) -> None:
    (root / "proc/meminfo").write_text("MemTotal: -1 kB\nMemTotal: x\n")
    (root / "proc/cpuinfo").write_bytes(b"model name: \xff\x1b[2J" + b"x" * 500)
    (root / "sys/class/drm/card0/device/mem_info_vram_total").write_text("much")
    machine = claimed_machine(root, TransferRates(), root)
    assert machine.memory_mib == 0
    assert machine.processor.isprintable()
    assert claimed_devices([], root)[0].memory_mib == 0


def test_this_machine_has_an_inventory(tmp_path: Path) -> None:
    assert claimed_devices(all_hardware(tmp_path))
    assert claimed_machine(tmp_path, TransferRates()).memory_mib > 0
