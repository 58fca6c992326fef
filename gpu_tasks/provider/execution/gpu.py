"""GPUs of this machine and their consumption, by NVML (package nvidia-ml-py).

Without a driver or GPU the machine offers one device, openly named "CPU (no GPU found)". NVML's data comes from this
machine's own kernel: it proves nothing, and no payment depends on it.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pynvml

from durable.folders import make_folder
from gpu_tasks.market.devices.records import DeviceClass
from runtime.cryptography.hashing import blake2_256
from wallet.private_file import own_opener

if TYPE_CHECKING:  # The worker's side of this room needs no rules of the market.
    from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus

CPU_NAME = "CPU (no GPU found)"
CPU_BESIDE_GPUS_NAME = "CPU"
SAMPLE_SECONDS = 0.05
DATACENTER_MIB = 40_000
"""The memory from which a GPU counts as class datacenter."""
MIB = 1024 * 1024
UNTOLD_MEMORY = "the driver does not report its memory ({why}), so its class is consumer"
MIG = "MIG mode is on: a worker uses one slice of the card, so its class is consumer"
U8_MAX, U32_MAX, U64_MAX = 2**8 - 1, 2**32 - 1, 2**64 - 1


@dataclass(frozen=True, slots=True)
class Hardware:
    """One device of this machine."""

    name: str
    uuid: str
    kind: DeviceClass
    memory_mib: int
    """Mebibytes; 0 for a CPU, or for a GPU whose driver does not report its memory."""
    index: int | None
    """NVML's index; None for a CPU."""
    driver: str = ""
    limits: str = ""
    """The reason why the device is less than its name promises; empty if there is none."""

    @property
    def uuid_hash(self) -> bytes:
        """The identifier of the hardware on the chain."""
        return blake2_256(b"ogpu/hardware" + self.uuid.encode())


@dataclass(frozen=True, slots=True)
class Reading:
    """The measured consumption of one piece of work."""

    is_gpu: bool
    energy_mj: int
    memory_peak_bytes: int


class Meter(Protocol):
    """A meter for one piece of work at a time."""

    def begin(self) -> None:
        """Start to measure."""
        ...

    def end(self) -> Reading:
        """Stop, and return the measurement."""
        ...


class NoMeter:
    """A device that cannot be measured."""

    def begin(self) -> None:
        """Do nothing."""

    def end(self) -> Reading:
        """Return an empty measurement."""
        return Reading(is_gpu=False, energy_mj=0, memory_peak_bytes=0)


class NvmlMeter:
    """A meter of one GPU's energy and peak memory. A value that the driver does not report counts as 0."""

    def __init__(self, gpu_index: int) -> None:
        """`gpu_index` is NVML's."""
        self._index = gpu_index
        self._energy_mj: int | None = None
        self._peak = 0
        self._stop = threading.Event()
        self._sampler: threading.Thread | None = None
        self._opened = contextlib.ExitStack()

    def begin(self) -> None:
        """Note the energy counter, and sample the memory until `end`."""
        # NVML stays open until `end`: opening attaches every GPU, and may take longer than a sample.
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
        """Return the energy used, or 0 if the counter could not be read at both ends.

        The counter starts with the driver, so a single reading is no measurement.
        """
        energy_before, energy_after = self._energy_mj, self._energy()
        return 0 if energy_before is None or energy_after is None else max(0, energy_after - energy_before)

    def _sample(self, stop_event: threading.Event) -> None:
        while not stop_event.wait(SAMPLE_SECONDS):
            self._peak = max(self._peak, self._memory())

    def _energy(self) -> int | None:
        """Return the millijoules since the driver was loaded (Volta and later)."""
        with contextlib.suppress(pynvml.NVMLError):
            return int(pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(self._index)))
        return None

    def _memory(self) -> int:
        with contextlib.suppress(pynvml.NVMLError):
            return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(self._index)).used)
        return 0


def find_hardware(base_path: Path) -> list[Hardware]:
    """Return all GPUs, or else the CPU.

    A CPU has no identifier, so a random one is kept under `base_path`.
    """
    return _gpus() or [_cpu(base_path, CPU_NAME)]


def all_hardware(base_path: Path) -> list[Hardware]:
    """Return all GPUs and the CPU, any of which may be registered as a device.

    Raise OSError if the CPU's identifier cannot be kept.
    """
    found_gpus = _gpus()
    return [*found_gpus, _cpu(base_path, CPU_BESIDE_GPUS_NAME if found_gpus else CPU_NAME)]


def free_gpu_bytes(gpu_index: int) -> int:
    """Return a GPU's free memory, or 0 if the driver does not report it."""
    with contextlib.suppress(pynvml.NVMLError), _nvml():
        return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(gpu_index)).free)
    return 0


def why_no_gpu() -> str:
    """Return NVML's reason for the lack of a usable GPU; empty if there is one."""
    try:
        found_gpus, lost_gpus = _gpus_and_losses()
    except pynvml.NVMLError as error:
        return str(error)
    return "" if found_gpus else "; ".join(lost_gpus) or "the driver finds no GPU"


def lost_gpus() -> list[str]:
    """Return the unusable GPUs that the driver counts, each with NVML's reason."""
    with contextlib.suppress(pynvml.NVMLError):
        return _gpus_and_losses()[1]
    return []


def cuda_version() -> str:
    """Return the newest CUDA version that the driver supports, as `12.4`; empty without a driver."""
    with contextlib.suppress(pynvml.NVMLError), _nvml():
        version_number = int(pynvml.nvmlSystemGetCudaDriverVersion())
        return f"{version_number // 1_000}.{version_number % 1_000 // 10}"
    return ""


def meter_for(hardware: Hardware) -> Meter:
    """Return a meter for a device."""
    return NoMeter() if hardware.index is None else NvmlMeter(hardware.index)


class Gauge:
    """Repeated readings of GPUs. NVML stays open in between, because opening attaches every GPU."""

    def __init__(self) -> None:
        """NVML opens with the first reading."""
        self._opened = contextlib.ExitStack()
        self._is_open = False

    def read(self, hardware: Hardware) -> tuple[int, int, int, int]:
        """Return utilisation in per cent, bytes in use, degrees Celsius and milliwatts.

        A value that the driver does not report is 0, and so are all values of a CPU.
        """
        if hardware.index is None:
            return 0, 0, 0, 0
        try:
            if not self._is_open:
                self._opened.enter_context(_nvml())
                self._is_open = True
            gpu_handle = pynvml.nvmlDeviceGetHandleByIndex(hardware.index)
        except pynvml.NVMLError:
            # A lost driver or GPU invalidates the handle, so the next reading opens NVML again.
            self.close()
            return 0, 0, 0, 0
        return (
            _number_or_zero(lambda: pynvml.nvmlDeviceGetUtilizationRates(gpu_handle).gpu, 100),
            _number_or_zero(lambda: pynvml.nvmlDeviceGetMemoryInfo(gpu_handle).used, U64_MAX),
            _number_or_zero(lambda: pynvml.nvmlDeviceGetTemperature(gpu_handle, pynvml.NVML_TEMPERATURE_GPU), U8_MAX),
            _number_or_zero(lambda: pynvml.nvmlDeviceGetPowerUsage(gpu_handle), U32_MAX),
        )

    def close(self) -> None:
        """Close NVML until the next reading."""
        self._is_open = False
        with contextlib.suppress(pynvml.NVMLError):
            self._opened.close()


def _number_or_zero(ask_nvml: Callable[[], int], greatest_value: int) -> int:
    """Return a driver's answer, clamped to 0..`greatest_value`, or 0 if there is none."""
    with contextlib.suppress(pynvml.NVMLError):
        # A driver may return values beyond the note's fields, and an overflow must not end the telemetry.
        return max(0, min(int(ask_nvml()), greatest_value))
    return 0


@contextlib.contextmanager
def _nvml() -> Iterator[None]:
    """Open NVML for a block. NVML counts its users, so uses may nest."""
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _gpus() -> list[Hardware]:
    with contextlib.suppress(pynvml.NVMLError):
        return _gpus_and_losses()[0]
    return []


def _gpus_and_losses() -> tuple[list[Hardware], list[str]]:
    """Return the usable GPUs, and the reasons for the others. Raise NVMLError without a driver."""
    found_gpus, lost_gpus = [], []
    with _nvml():
        for gpu_index in range(pynvml.nvmlDeviceGetCount()):
            try:  # a GPU that fell off its bus must not hide the others
                found_gpus.append(_gpu(gpu_index))
            except pynvml.NVMLError as error:
                lost_gpus.append(f"GPU {gpu_index}: {error}")
    return found_gpus, lost_gpus


def _cpu(base_path: Path, processor_name: str) -> Hardware:
    return Hardware(processor_name, _cpu_uuid(base_path), DeviceClass.CPU, 0, None)


def _gpu(gpu_index: int) -> Hardware:
    """Describe a GPU. In MIG mode, or without a reported memory, it counts as class consumer, the lowest."""
    gpu_handle = pynvml.nvmlDeviceGetHandleByIndex(gpu_index)
    memory_mib, limits = _memory_of(gpu_handle)
    if _is_in_mig_mode(gpu_handle):
        memory_mib, limits = _least_slice(gpu_handle), MIG
    is_large = memory_mib >= DATACENTER_MIB and not limits
    device_class = DeviceClass.DATACENTER if is_large else DeviceClass.CONSUMER
    gpu_name, gpu_uuid = (
        _nvml_text(lambda: pynvml.nvmlDeviceGetName(gpu_handle)),
        _nvml_text(lambda: pynvml.nvmlDeviceGetUUID(gpu_handle)),
    )
    return Hardware(
        gpu_name, gpu_uuid, device_class, memory_mib, gpu_index, _nvml_text(pynvml.nvmlSystemGetDriverVersion), limits
    )


def _memory_of(gpu_handle: object) -> tuple[int, str]:
    """Return a device's mebibytes, or 0 and the reason. Raise NVMLError for a lost device."""
    try:
        return int(pynvml.nvmlDeviceGetMemoryInfo(gpu_handle).total) // MIB, ""
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_NoPermission) as error:
        return 0, UNTOLD_MEMORY.format(why=error)


def _is_in_mig_mode(gpu_handle: object) -> bool:
    with contextlib.suppress(pynvml.NVMLError):  # most cards have no such mode
        return bool(pynvml.nvmlDeviceGetMigMode(gpu_handle)[0])
    return False


def _least_slice(gpu_handle: object) -> int:
    """Return the mebibytes of the smallest slice of a card in MIG mode; 0 if the driver reports none."""
    slice_sizes = []
    with contextlib.suppress(pynvml.NVMLError):
        for mig_place in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu_handle)):
            with contextlib.suppress(pynvml.NVMLError):  # a place without a slice
                slice_sizes.append(_memory_of(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu_handle, mig_place))[0])
    return min(slice_sizes, default=0)


def _nvml_text(ask_nvml: Callable[[], str | bytes]) -> str:
    """Return a text of the driver. Older bindings give bytes; newer ones raise if these are not UTF-8."""
    try:
        nvml_text = ask_nvml()
    except UnicodeDecodeError as error:
        nvml_text = error.object
    return nvml_text if isinstance(nvml_text, str) else nvml_text.decode(errors="backslashreplace")


def _cpu_uuid(base_path: Path) -> str:
    path = base_path / "cpu-device-id"
    if not path.exists():
        make_folder(base_path)
        with open(path, "w", opener=own_opener) as identity_file:
            identity_file.write(f"CPU-{secrets.token_hex(16)}\n")
    return path.read_text().strip()


def on_this_machine(device_statuses: Sequence[DeviceStatus], hardware: Iterable[Hardware]) -> dict[bytes, Hardware]:
    """Return the registered devices on this machine, by their hardware's identifier.

    A CPU has only a random identifier in the base path. So a provider's only CPU device, for example from a development
    chain's genesis, counts as this machine's CPU even if the identifiers differ.
    """
    hardware_by_hash = {piece.uuid_hash: piece for piece in hardware}
    hardware_by_device = {
        device_status.id: hardware_by_hash[device_status.device.uuid_hash]
        for device_status in device_statuses
        if device_status.device.uuid_hash in hardware_by_hash
    }
    processors = [device_status for device_status in device_statuses if device_status.device.kind is DeviceClass.CPU]
    processor = next((piece for piece in hardware_by_hash.values() if piece.kind is DeviceClass.CPU), None)
    # With several CPU devices nothing tells them apart, so none of them is matched.
    if len(processors) == 1 and processor is not None:
        hardware_by_device.setdefault(processors[0].id, processor)
    return hardware_by_device
