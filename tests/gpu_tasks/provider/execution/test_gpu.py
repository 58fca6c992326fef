"""The real NVML binding over a FAKE library of two devices, compiled here; and machines without a driver."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.execution import gpu
from gpu_tasks.provider.execution.gpu import CPU_NAME, MIG, NoMeter, find_hardware, meter_for
from nightly_but import nightly_but

SOURCE = Path(__file__).parents[3] / "support" / "fake_nvml" / "fake_nvml.c"

PROBE = """
import ctypes, json, sys, time
from pathlib import Path
from gpu_tasks.provider.execution.gpu import Gauge, NvmlMeter, find_hardware, lost_gpus, why_no_gpu
found = find_hardware(Path(sys.argv[1]))
meter = NvmlMeter(1)
def openings():
    try:
        return ctypes.CDLL("libnvidia-ml.so.1").fake_openings()
    except OSError:
        return 0

before = openings()
meter.begin()
time.sleep(0.2)
reading = meter.end()
opened = openings() - before
gauge, before = Gauge(), openings()
gauged = [gauge.read(found[-1]) for _ in range(3)]
gauge_opened = openings() - before
gauge.close()
gauged_again = gauge.read(found[-1])
print(json.dumps({
    "names": [piece.name for piece in found], "kinds": [piece.kind.name for piece in found],
    "memory": [piece.memory_mib for piece in found], "drivers": [piece.driver for piece in found], "why": why_no_gpu(),
    "hashes": [piece.uuid_hash.hex() for piece in found],
    "is_gpu": reading.is_gpu, "energy": reading.energy_mj, "peak": reading.memory_peak_bytes,
    "lost": lost_gpus(), "limits": [piece.limits for piece in found],
    "opened": opened, "gauged": gauged, "gauge_opened": gauge_opened, "gauged_again": gauged_again,
}))
"""

SCRIPTED = """
import ctypes, json, os, sys, time
from pathlib import Path
from gpu_tasks.provider.execution.gpu import NvmlMeter

load, script = Path(os.environ["FAKE_NVML_LOAD"]), json.loads(sys.argv[1])

def say(millijoules, used):
    beside = load.with_suffix(".new")
    beside.write_text(f"{millijoules} {used}")
    beside.replace(load)

say(*script[0])
meter = NvmlMeter(0)
meter.begin()
library = ctypes.CDLL("libnvidia-ml.so.1")
for step in script[1:]:
    say(*step)
    seen = library.fake_readings()
    while library.fake_readings() < seen + 2:  # one may have been under way
        time.sleep(0.005)
reading = meter.end()
print(json.dumps([reading.energy_mj, reading.memory_peak_bytes]))
"""


@pytest.fixture(scope="module")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fake_nvml")
    library = folder / "libnvidia-ml.so.1"
    soname = "-Wl,-soname,libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", soname, "-o", library, SOURCE], check=True)
    return folder


Probe = Callable[..., dict[str, Any]]


@pytest.fixture
def probe(fake_nvml: Path, tmp_path: Path) -> Probe:
    """Return the real binding's findings in a process with this environment."""

    def probed(**environment: str) -> dict[str, Any]:
        around = {**os.environ, "LD_LIBRARY_PATH": str(fake_nvml), **environment}
        code = [sys.executable, "-c", PROBE, str(tmp_path)]
        found: dict[str, Any] = json.loads(subprocess.run(code, capture_output=True, check=True, env=around).stdout)
        return found

    return probed


def test_every_gpu_is_found_by_the_real_binding(probe: Probe, tmp_path: Path) -> None:
    found = probe()
    assert found["names"] == ["FAKE GPU 0", "FAKE GPU 1"]
    assert found["kinds"] == ["CONSUMER", "DATACENTER"]
    assert found["memory"] == [24 * 1024, 80 * 1024]
    assert found["drivers"] == ["000.FAKE"] * 2
    assert len(set(found["hashes"])) == 2
    assert found["why"] == ""
    assert not list(tmp_path.iterdir())


def test_energy_and_memory_are_sampled(probe: Probe) -> None:
    found = probe()
    assert found["is_gpu"] is True
    assert found["energy"] == 1000
    assert found["peak"] >= 4 << 20  # at least two samples between the first and the last


@pytest.mark.parametrize(
    ("script", "millijoules", "peak"),
    [
        ([(7_000_000, 1 << 30), (7_090_000, 9 << 30), (7_250_500, 2 << 30)], 250_500, 9 << 30),
        ([(7_000_000, 3 << 30), (7_000_001, 1 << 30)], 1, 3 << 30),
        ([(0, 0), (0, 0)], 0, 0),
        ([(9_000_000, 0), (12, 5)], 0, 5),  # the driver was reloaded, and its counter restarted
        ([(2**63, 2**40), (2**63 + 10, 0)], 10, 2**40),
    ],
)
def test_a_load_by_script_is_what_the_record_of_its_usage_says(
    fake_nvml: Path, tmp_path: Path, script: list[tuple[int, int]], millijoules: int, peak: int
) -> None:
    around = {**os.environ, "LD_LIBRARY_PATH": str(fake_nvml), "FAKE_NVML_LOAD": str(tmp_path / "load")}
    code = [sys.executable, "-c", SCRIPTED, json.dumps(script)]
    done = subprocess.run(code, capture_output=True, text=True, check=True, env=around)
    assert json.loads(done.stdout) == [millijoules, peak]


def test_the_library_is_opened_once_for_a_piece_of_work(probe: Probe) -> None:
    """Opening attaches every GPU of the machine. With each sample it would take longer than the sample."""
    assert probe()["opened"] == 1


def test_a_gauge_reads_again_and_again_and_opens_once(probe: Probe) -> None:
    found = probe()
    first, second, third = found["gauged"]
    assert (first[0], first[2], first[3]) == (41, 51, 200_501)
    assert first[1] < second[1] < third[1]
    assert found["gauge_opened"] == 1
    assert found["gauged_again"][0] == 41


def test_energy_unknown_at_the_beginning_is_unknown(probe: Probe) -> None:
    """The counter starts when the driver is loaded. Without its first value, the energy of weeks would be stated."""
    found = probe(FAKE_NVML_ENERGY_LATE="1")
    assert found["energy"] == 0
    assert found["peak"] > 0


@pytest.mark.parametrize(("lost", "kept"), [("0", "FAKE GPU 1"), ("1", "FAKE GPU 0")])
def test_a_lost_gpu_does_not_take_the_others_along(probe: Probe, lost: str, kept: str) -> None:
    found = probe(FAKE_NVML_LOST=lost)
    assert (found["names"], found["why"]) == ([kept], "")
    assert [reason.partition(":")[0] for reason in found["lost"]] == [f"GPU {lost}"]


@pytest.mark.parametrize("code", ["3", "4"])
def test_a_gpu_that_does_not_tell_its_memory_promises_the_least(probe: Probe, code: str) -> None:
    """A GB10 shares the machine's memory, and a container cannot query it."""
    found = probe(FAKE_NVML_NO_MEMORY=code)
    assert (found["names"], found["why"], found["lost"]) == (["FAKE GPU 0", "FAKE GPU 1"], "", [])
    assert (found["kinds"], found["memory"]) == (["CONSUMER"] * 2, [0, 0])
    assert all(found["limits"])


def test_a_gpu_whose_memory_cannot_be_read_since_it_is_gone_is_lost(probe: Probe) -> None:
    found = probe(FAKE_NVML_NO_MEMORY="15")
    assert found["names"] == [CPU_NAME]
    assert len(found["lost"]) == 2


def test_a_card_in_mig_mode_counts_as_its_smallest_slice(probe: Probe) -> None:
    found = probe(FAKE_NVML_MIG="1")
    assert (found["kinds"], found["memory"]) == (["CONSUMER"] * 2, [24 * 1024, 10 * 1024])
    assert found["limits"] == ["", MIG]
    whole = probe()
    assert whole["hashes"] == found["hashes"], "the hardware is the same one"
    untold = probe(FAKE_NVML_MIG="1", FAKE_NVML_NO_MEMORY="4")
    assert (untold["memory"], untold["limits"][1]) == ([0, 0], MIG)


@pytest.mark.parametrize(("is_sliced", "kind"), [(True, DeviceClass.CONSUMER), (False, DeviceClass.DATACENTER)])
def test_a_large_slice_makes_no_datacenter_card(
    monkeypatch: pytest.MonkeyPatch, *, is_sliced: bool, kind: DeviceClass
) -> None:
    for name, value in {
        "HandleByIndex": "card", "MemoryInfo": SimpleNamespace(total=141 << 30), "Name": "H200", "UUID": "GPU-1",
        "MigMode": (int(is_sliced), 1 - is_sliced), "MaxMigDeviceCount": 1, "MigDeviceHandleByIndex": "slice",
    }.items():  # fmt: skip
        monkeypatch.setattr(pynvml, f"nvmlDeviceGet{name}", lambda *_, value=value: value)
    monkeypatch.setattr(pynvml, "nvmlSystemGetDriverVersion", lambda: "1")
    found = gpu._gpu(0)
    assert (found.kind, found.memory_mib, bool(found.limits)) == (kind, 141 << 10, is_sliced)


@pytest.mark.parametrize("name", nightly_but(2, [b"NVIDIA \xff\xfe", b"\xc3", b"Gr\xfc\xdfe", "Größe".encode(), b""]))
def test_a_name_of_any_bytes_is_no_error(probe: Probe, name: bytes) -> None:
    assert probe(FAKE_NVML_NAME=os.fsdecode(name))["names"] == [name.decode(errors="backslashreplace"), "FAKE GPU 1"]


def test_the_program_lists_a_device_with_a_name_of_any_bytes(fake_nvml: Path, tmp_path: Path) -> None:
    around = {"LD_LIBRARY_PATH": str(fake_nvml), "FAKE_NVML_NAME": os.fsdecode(b"NVIDIA \xff\xfe")}
    command = [sys.executable, "-m", "gpu_tasks.provider.cli", "--base-path", str(tmp_path / "base"), "devices"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **around})
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_readings_that_the_driver_refuses_count_as_nothing(probe: Probe) -> None:
    found = probe(FAKE_NVML_BROKEN="1")
    assert (found["energy"], found["peak"]) == (0, 0)
    assert found["gauged"] == [[0, 0, 0, 0]] * 3
    assert (found["names"], found["why"]) == (["FAKE GPU 0", "FAKE GPU 1"], "")


def test_without_a_driver_there_is_one_cpu_that_says_so(probe: Probe) -> None:
    found = probe(LD_LIBRARY_PATH="/nonexistent")
    assert found["names"] == [CPU_NAME] == ["CPU (no GPU found)"]
    assert found["kinds"] == ["CPU"]
    assert "Not Found" in str(found["why"])
    assert found["energy"] == found["peak"] == 0


def test_the_cpus_identifier_stays_the_same_and_differs_between_providers(tmp_path: Path) -> None:
    (first,), (again,), (other,) = (find_hardware(tmp_path / name) for name in ("a", "a", "b"))
    if first.index is not None:
        pytest.skip("this machine has a GPU")
    assert first == again
    assert first.uuid_hash != other.uuid_hash
    assert first.kind is DeviceClass.CPU
    assert isinstance(meter_for(first), NoMeter)
    reading = meter_for(first).end()
    assert (reading.is_gpu, reading.energy_mj, reading.memory_peak_bytes) == (False, 0, 0)
