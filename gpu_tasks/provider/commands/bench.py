"""`bench`, `enrol` and `withdraw`: the rates of devices, and their part in roll calls. The stash signs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cli.session import note
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import ROUNDS_MAX, ROWS_MIN, SIZE_MAX, SIZE_MIN, WorkShape, is_sound, operations
from gpu_tasks.market.capacity.roll_call import COMMITS_TO, UNIT
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.commands.calls import make, only
from gpu_tasks.provider.commands.options import (
    ProviderError,
    ProviderOptions,
    StashOptions,
    device_named,
    devices_of,
    hardware_of,
    idle_gpu_problem,
    told,
)
from gpu_tasks.provider.execution.chain_process import ChainComputer, chains_with
from gpu_tasks.provider.execution.chain_worker import ChainWork
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.worker_start import chosen_backend, idle_gpus
from gpu_tasks.provider.registration import Planned
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge, ChainShape
from runtime.frame.call import Call
from wallet.client import ChainClient
from wallet.keypair import Keypair

BENCH = ("number", "name", "rate", "class", "work", "proves")
LEAST = (Capacity.cpu_rate_min, Capacity.consumer_rate_min, Capacity.datacenter_rate_min)


# Work for `WORK_SLOTS` slots of computing: at most ten lie between the seed's block and the commit's, and the way of
# two blocks takes some. A device that computes more than fits proves nothing.
WORK_SLOTS = 6
SECONDS_LEAST = 2.0
"""The least length of a measurement. The fixed cost of an answer hardly counts then."""


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """A device's rate, in thousand millions of operations a slot, and the work to enrol with."""

    rate: int
    shape: WorkShape

    @property
    def proves(self) -> int:
        """The rate that this work proves even in the last block that counts."""
        return operations(self.shape) // (COMMITS_TO * UNIT)


async def measured_rate(computer: ChainComputer, slot_ms: int) -> MeasuredRate:
    """Time chains until one takes long enough. Raise ExecutionError if a worker fails."""
    await computer.start()
    shape = WorkShape(SIZE_MIN, ROWS_MIN, 1)
    while True:
        began_seconds = time.perf_counter()
        chain_shape = ChainShape(shape.size, shape.rows, shape.rounds)
        await computer.rows(ChainWork(ChainChallenge(os.urandom(32), chain_shape)))
        chain_seconds = time.perf_counter() - began_seconds
        # A short run measures the start of the computation more than its rate.
        larger_shape = shape_for(4 * operations(shape))
        if chain_seconds >= SECONDS_LEAST or larger_shape == shape:
            operation_rate = int(operations(shape) * slot_ms / (chain_seconds * 1_000 * UNIT))
            return MeasuredRate(operation_rate, shape_for(operation_rate * UNIT * WORK_SLOTS))
        shape = larger_shape


def shape_for(operations_max: int) -> WorkShape:
    """Return the work of at most `operations_max` operations with the fewest columns.

    It is never less than the least work.
    """
    columns = SIZE_MIN
    while columns < SIZE_MAX and operations_max > operations(WorkShape(columns, ROWS_MIN, ROUNDS_MAX)):
        columns *= 2
    rows = ROWS_MIN
    while operations_max > operations(WorkShape(columns, rows, ROUNDS_MAX)) and rows < 2**16:
        rows *= 2
    rounds = operations_max // operations(WorkShape(columns, rows, 1))
    return WorkShape(columns, rows, min(ROUNDS_MAX, max(1, rounds)))


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
        "work": text_of(measured.shape),
        "proves": measured.proves,
    }


def enrol(options: ProviderOptions, device: str, work: str, stash: StashOptions, dry_run: bool, yes: bool) -> None:
    """Enrol a device for roll calls."""
    shape = shape_of(work)

    async def plan(client: ChainClient, signing_key: Keypair) -> list[Planned]:
        status = device_named(device, await devices_of(client, signing_key.account))
        if await client.read(Capacity.enrolments, status.id) is not None:
            raise ProviderError(
                "the device is enrolled. To change its work, run `ogpu-provider withdraw` first", code="enrolled"
            )
        bond_grains = await client.read(Capacity.bond.item)
        return [Planned(Capacity.enrol(device=status.id, shape=shape), bond_grains, "roll_call_bond")]

    make(stash.session(options), lambda: stash.key(options), plan, dry_run=dry_run, is_agreed=yes)


def withdraw(options: ProviderOptions, device: str, stash: StashOptions, dry_run: bool) -> None:
    """Withdraw a device from roll calls."""

    async def plan(client: ChainClient, signing_key: Keypair) -> list[Planned]:
        status = device_named(device, await devices_of(client, signing_key.account))
        call: Call = Capacity.withdraw(device=status.id)
        return only(call)

    make(stash.session(options), lambda: stash.key(options), plan, dry_run=dry_run)


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
            f"{text!r} is outside 256 to 2048 columns, 4096 to 1048576 rows, 1 to 4096 rounds", code="work_out_of_range"
        )
    return shape
