"""`bench`: the rates of this machine's devices at roll calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from cli.session import note
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import WorkShape, is_sound
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.commands.options import ProviderError, ProviderOptions, hardware_of, idle_gpu_problem, told
from gpu_tasks.provider.execution.chain_process import chains_with
from gpu_tasks.provider.execution.chain_rates import measured_rate
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.worker_start import chosen_backend, idle_gpus

BENCH = ("number", "name", "rate", "class", "work", "proves")
LEAST = (Capacity.cpu_rate_min, Capacity.consumer_rate_min, Capacity.datacenter_rate_min)


def class_reached(proven_rate: int, least_rates: Sequence[int]) -> DeviceClass | None:
    """Return the largest class whose least rate is reached; None if there is none."""
    reached_classes = [device_class for device_class in DeviceClass if proven_rate >= least_rates[device_class]]
    return reached_classes[-1] if reached_classes else None


def bench(options: ProviderOptions, backend: str | None, slot_ms: int) -> None:
    """Print the rates of this machine's devices."""

    async def show() -> None:
        offered_hardware = hardware_of(options)
        backend_name = chosen_backend(backend, offered_hardware)
        for hardware in idle_gpus(backend_name, offered_hardware):
            note(idle_gpu_problem(hardware))
        # All at once, as in a roll call: devices share cores and power, so a rate measured alone promises too much.
        rate_rows = await asyncio.gather(
            *(
                _measured(backend_name, device_number, hardware, slot_ms)
                for device_number, hardware in enumerate(offered_hardware)
            )
        )
        options.output.rows("Rates of the devices", BENCH, list(rate_rows))

    asyncio.run(told(show))


async def _measured(backend_name: str, device_number: int, hardware: Hardware, slot_ms: int) -> dict[str, Any]:
    computer = chains_with(backend_name)(hardware)
    try:
        measured = await measured_rate(computer, slot_ms)
    finally:
        await computer.close()
    # The default parameters, because a bench asks no node. The chain's own may differ.
    reached_class = class_reached(measured.proves, [parameter.default for parameter in LEAST])
    return {
        "number": device_number,
        "name": hardware.name,
        "rate": measured.rate,
        "class": "none" if reached_class is None else reached_class.name.lower(),
        "work": text_of(measured.work()),
        "proves": measured.proves,
    }


def text_of(shape: WorkShape) -> str:
    """Return a work as text."""
    return f"{shape.size}x{shape.rows}x{shape.rounds}"


def shape_of(text: str) -> WorkShape:
    """Read a work. Raise ProviderError for one that no roll call takes."""
    try:
        columns, rows, rounds = map(int, text.split("x"))
        shape = WorkShape(columns, rows, rounds)
    except ValueError:
        raise ProviderError(
            f"{text!r} is not SIZExROWSxROUNDS. See `ogpu-provider bench`", code="invalid_work"
        ) from None
    if not is_sound(shape):
        raise ProviderError(
            f"{text!r} is outside 256 to 2048 columns, 4096 to 1048576 rows, 1 to 512 rounds", code="work_out_of_range"
        )
    return shape
