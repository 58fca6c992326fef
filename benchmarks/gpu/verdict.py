"""The result of `make gpu`: its bars and the line of figures. Cards differ in speed, so speed has no bar."""

from collections.abc import Mapping

from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.worker_start import CUDA

LIMITS = {
    "Max address space": "unlimited",
    "Max processes": "4096",
    "Max file size": "0",
    "Max open files": "1024",
    "Max core file size": "0",
}
"""The documented limits of a worker with CUDA (docs/providers.md), under Linux's names."""
IDLE_WATTS_LEAST, BUSY_WATTS_MOST = 1.0, 2_000.0
"""The range of power of any working card. A reading outside means that the energy counter is not in millijoules."""
COOLING = 0.8
"""The least permitted ratio of power under load to idle power.

A card that is still hot can draw more at rest than later under a small load.
"""


def wrong_limits(limits: Mapping[str, str]) -> list[str]:
    """Return the limits of a CUDA worker that differ from the documented ones.

    A machine's hard limits can be tighter.
    """
    return [
        f"limits: {name} is {limits.get(name)}, documented is {value}"
        for name, value in LIMITS.items()
        if limits.get(name) != value
    ]


def wrong_telemetry(hardware: Hardware, idle_watts: float, busy_watts: float, memory_mib: tuple[int, int]) -> list[str]:
    """Return the meter's impossible readings. `memory_mib` has the readings idle and under load."""
    wrong = []
    if not hardware.name or not hardware.uuid.startswith("GPU-") or not hardware.driver:
        wrong.append(f"telemetry: name {hardware.name!r}, identifier {hardware.uuid!r}, driver {hardware.driver!r}")
    if (idle_watts, busy_watts) != (0.0, 0.0) and not (
        idle_watts >= IDLE_WATTS_LEAST and COOLING * idle_watts <= busy_watts < BUSY_WATTS_MOST
    ):
        wrong.append(f"telemetry: {idle_watts} W idle, {busy_watts} W at work")
    if not 0 < memory_mib[0] < memory_mib[1] <= hardware.memory_mib:
        wrong.append(f"telemetry: {memory_mib[0]} MiB idle, {memory_mib[1]} MiB at work of {hardware.memory_mib}")
    return wrong


def line(hardware: Hardware, speeds: Mapping[str, Mapping[str, float]], tokens: int, failures: int) -> str:
    """Return the line of figures, also if bars fail."""
    rates = ", ".join(f"{name} {found['tokens_per_second']:,.0f} tokens/s" for name, found in speeds.items())
    cuda = speeds[CUDA]
    return (
        f"gpu: {hardware.name}, driver {hardware.driver}; {tokens:,} tokens bit-equal to NumPy"
        f"{f', {failures} FAILED' if failures else ''}; {rates}; start {cuda['start_s']} s, "
        f"{cuda['energy_mj_per_token']} mJ a token ({cuda['energy_mj_per_token_above_idle']} above idle), "
        f"{cuda['device_memory_mib']:,.0f} MiB of the device"
    )
