"""GPUs of this machine, by NVML (package nvidia-ml-py): which there are, and what one consumes while it works.

Without a driver, or without a GPU, the machine offers one device, openly named "CPU (no GPU found)". What NVML says is
what this machine's kernel says: it describes, it proves nothing, and no payment depends on it.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pynvml

from gpu_tasks.market.devices.records import DeviceClass
from runtime.cryptography.hashing import blake2_256
from wallet.private_file import make_folder, own_opener

CPU_NAME = "CPU (no GPU found)"
CPU_BESIDE_GPUS_NAME = "CPU"
SAMPLE_SECONDS = 0.05
DATACENTER_MIB = 40_000
"""From this memory on a GPU counts as one for data centers."""
MIB = 1024 * 1024
UNTOLD_MEMORY = "the driver does not report its memory ({why}), so it counts as class consumer"
MIG = "MIG mode is on: a worker computes on one slice of the card, so it counts as class consumer"
U8_MAX, U32_MAX, U64_MAX = 2**8 - 1, 2**32 - 1, 2**64 - 1


@dataclass(frozen=True, slots=True)
class Hardware:
    """One device of this machine."""

    name: str
    uuid: str
    kind: DeviceClass
    memory_mib: int
    """0 for a CPU, and for a GPU whose driver does not report it."""
    index: int | None
    """Its number for NVML; None for a CPU."""
    driver: str = ""
    limits: str = ""
    """The reason why the device is less than its name promises; empty if there is none."""

    @property
    def uuid_hash(self) -> bytes:
        """What the chain knows the hardware by."""
        return blake2_256(b"ogpu/hardware" + self.uuid.encode())


@dataclass(frozen=True, slots=True)
class Reading:
    """What a piece of work consumed, as far as it can be measured."""

    is_gpu: bool
    energy_mj: int
    memory_peak_bytes: int


class Meter(Protocol):
    """Measures one piece of work at a time."""

    def begin(self) -> None:
        """Work begins."""
        ...

    def end(self) -> Reading:
        """Work is over."""
        ...


class NoMeter:
    """A device that cannot be measured."""

    def begin(self) -> None:
        """Nothing to do."""

    def end(self) -> Reading:
        """Nothing is known."""
        return Reading(is_gpu=False, energy_mj=0, memory_peak_bytes=0)


class NvmlMeter:
    """Energy and peak memory of one GPU; what the driver does not tell counts as 0."""

    def __init__(self, index: int) -> None:
        """`index` is NVML's."""
        self._index = index
        self._energy_mj: int | None = None
        self._peak = 0
        self._stop = threading.Event()
        self._sampler: threading.Thread | None = None
        self._opened = contextlib.ExitStack()

    def begin(self) -> None:
        """Note the energy counter, and sample the memory until `end`."""
        # NVML stays open from here to `end`: opening attaches every GPU, and may take longer than a sample.
        with contextlib.suppress(pynvml.NVMLError):
            self._opened.enter_context(_nvml())
        self._energy_mj, self._peak, self._stop = self._energy(), self._memory(), threading.Event()
        self._sampler = threading.Thread(target=self._sample, args=(self._stop,), name="nvml", daemon=True)
        self._sampler.start()

    def end(self) -> Reading:
        """See `Meter`."""
        self._stop.set()
        if self._sampler is not None:
            self._sampler.join()
        reading = Reading(is_gpu=True, energy_mj=self._used_mj(), memory_peak_bytes=max(self._peak, self._memory()))
        with contextlib.suppress(pynvml.NVMLError):
            self._opened.close()
        return reading

    def _used_mj(self) -> int:
        """A counter that could not be read at one of both ends says nothing: it began with the driver, not with us."""
        before, after = self._energy_mj, self._energy()
        return 0 if before is None or after is None else max(0, after - before)

    def _sample(self, stop: threading.Event) -> None:
        while not stop.wait(SAMPLE_SECONDS):
            self._peak = max(self._peak, self._memory())

    def _energy(self) -> int | None:
        """Millijoules since the driver was loaded; Volta and later."""
        with contextlib.suppress(pynvml.NVMLError):
            return int(pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(self._index)))
        return None

    def _memory(self) -> int:
        with contextlib.suppress(pynvml.NVMLError):
            return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(self._index)).used)
        return 0


def find_hardware(base_path: Path) -> list[Hardware]:
    """All GPUs; or the CPU, whose identifier is random and kept under `base_path` (a CPU has none of its own)."""
    return _gpus() or [_cpu(base_path, CPU_NAME)]


def all_hardware(base_path: Path) -> list[Hardware]:
    """All GPUs and the CPU: what registered devices may stand on. OSError if the identifier cannot be kept."""
    gpus = _gpus()
    return [*gpus, _cpu(base_path, CPU_BESIDE_GPUS_NAME if gpus else CPU_NAME)]


def why_no_gpu() -> str:
    """NVML's reason; empty if there is a GPU that can be used."""
    try:
        found, lost = _looked_at()
    except pynvml.NVMLError as error:
        return str(error)
    return "" if found else "; ".join(lost) or "the driver sees no GPU"


def lost_gpus() -> list[str]:
    """Return the unusable GPUs that the driver counts, each with NVML's reason."""
    with contextlib.suppress(pynvml.NVMLError):
        return _looked_at()[1]
    return []


def cuda_version() -> str:
    """The newest CUDA that the driver runs, as `12.4`; empty without a driver."""
    with contextlib.suppress(pynvml.NVMLError), _nvml():
        number = int(pynvml.nvmlSystemGetCudaDriverVersion())
        return f"{number // 1_000}.{number % 1_000 // 10}"
    return ""


def meter_for(hardware: Hardware) -> Meter:
    """A meter for a device."""
    return NoMeter() if hardware.index is None else NvmlMeter(hardware.index)


class Gauge:
    """What GPUs are at, asked again and again: NVML stays open meanwhile, since opening attaches every GPU."""

    def __init__(self) -> None:
        """Nothing is open yet."""
        self._opened = contextlib.ExitStack()
        self._is_open = False

    def read(self, hardware: Hardware) -> tuple[int, int, int, int]:
        """Busy per cent, bytes in use, degrees Celsius, milliwatts, now; 0 is what is not told, all of it for a CPU."""
        if hardware.index is None:
            return 0, 0, 0, 0
        try:
            if not self._is_open:
                self._opened.enter_context(_nvml())
                self._is_open = True
            handle = pynvml.nvmlDeviceGetHandleByIndex(hardware.index)
        except pynvml.NVMLError:
            self.close()
            return 0, 0, 0, 0
        return (
            _told(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu, 100),
            _told(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).used, U64_MAX),
            _told(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU), U8_MAX),
            _told(lambda: pynvml.nvmlDeviceGetPowerUsage(handle), U32_MAX),
        )

    def close(self) -> None:
        """Open no more, until it is read again."""
        self._is_open = False
        with contextlib.suppress(pynvml.NVMLError):
            self._opened.close()


def _told(ask: Callable[[], int], most: int) -> int:
    """An answer of the driver within bounds; 0 where it gives none."""
    with contextlib.suppress(pynvml.NVMLError):
        return max(0, min(int(ask()), most))
    return 0


@contextlib.contextmanager
def _nvml() -> Iterator[None]:
    """NVML counts its users: each use opens and closes it."""
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _gpus() -> list[Hardware]:
    with contextlib.suppress(pynvml.NVMLError):
        return _looked_at()[0]
    return []


def _looked_at() -> tuple[list[Hardware], list[str]]:
    """Return the usable GPUs, and the reasons for the others. NVMLError without a driver."""
    found, lost = [], []
    with _nvml():
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:  # one that fell off its bus does not take the others along
                found.append(_gpu(index))
            except pynvml.NVMLError as error:
                lost.append(f"GPU {index}: {error}")
    return found, lost


def _cpu(base_path: Path, name: str) -> Hardware:
    return Hardware(name, _cpu_uuid(base_path), DeviceClass.CPU, 0, None)


def _gpu(index: int) -> Hardware:
    """Describe a GPU. In MIG mode, or without a reported memory, it counts as class consumer, the lowest."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory_mib, limits = _memory_of(handle)
    if _is_in_mig_mode(handle):
        memory_mib, limits = _least_slice(handle), MIG
    is_large = memory_mib >= DATACENTER_MIB and not limits
    kind = DeviceClass.DATACENTER if is_large else DeviceClass.CONSUMER
    name, uuid = _text(lambda: pynvml.nvmlDeviceGetName(handle)), _text(lambda: pynvml.nvmlDeviceGetUUID(handle))
    return Hardware(name, uuid, kind, memory_mib, index, _text(pynvml.nvmlSystemGetDriverVersion), limits)


def _memory_of(handle: object) -> tuple[int, str]:
    """Return a device's mebibytes, or 0 and the reason. NVMLError for a lost device."""
    try:
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) // MIB, ""
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_NoPermission) as error:
        return 0, UNTOLD_MEMORY.format(why=error)


def _is_in_mig_mode(handle: object) -> bool:
    with contextlib.suppress(pynvml.NVMLError):  # most cards have no such mode
        return bool(pynvml.nvmlDeviceGetMigMode(handle)[0])
    return False


def _least_slice(handle: object) -> int:
    """Return the mebibytes of the smallest slice of a card in MIG mode; 0 if the driver reports none."""
    found = []
    with contextlib.suppress(pynvml.NVMLError):
        for place in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            with contextlib.suppress(pynvml.NVMLError):  # a place without a slice
                found.append(_memory_of(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place))[0])
    return min(found, default=0)


def _text(ask: Callable[[], str | bytes]) -> str:
    """Return a text of the driver. Older bindings give bytes; newer ones raise if these are not UTF-8."""
    try:
        value = ask()
    except UnicodeDecodeError as error:
        value = error.object
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")


def _cpu_uuid(base_path: Path) -> str:
    path = base_path / "cpu-device-id"
    if not path.exists():
        make_folder(base_path)
        with open(path, "w", opener=own_opener) as file:
            file.write(f"CPU-{secrets.token_hex(16)}\n")
    return path.read_text().strip()
