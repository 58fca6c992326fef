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
        began = time.perf_counter()
        given = ChainShape(shape.size, shape.rows, shape.rounds)
        await computer.rows(ChainWork(ChainChallenge(os.urandom(32), given)))
        seconds = time.perf_counter() - began
        larger = shape_for(4 * operations(shape))
        if seconds >= SECONDS_LEAST or larger == shape:
            rate = int(operations(shape) * slot_ms / (seconds * 1_000 * UNIT))
            return MeasuredRate(rate, shape_for(rate * UNIT * WORK_SLOTS))
        shape = larger


def shape_for(wanted: int) -> WorkShape:
    """Return the work of at most `wanted` operations with the fewest columns; never less than the least work."""
    size = SIZE_MIN
    while size < SIZE_MAX and wanted > operations(WorkShape(size, ROWS_MIN, ROUNDS_MAX)):
        size *= 2
    rows = ROWS_MIN
    while wanted > operations(WorkShape(size, rows, ROUNDS_MAX)) and rows < 2**16:
        rows *= 2
    rounds = wanted // operations(WorkShape(size, rows, 1))
    return WorkShape(size, rows, min(ROUNDS_MAX, max(1, rounds)))


def class_reached(rate: int, least: Sequence[int]) -> DeviceClass | None:
    """Return the largest class whose least rate is reached; None if there is none."""
    reached = [kind for kind in DeviceClass if rate >= least[kind]]
    return reached[-1] if reached else None


def bench(provider_options: ProviderOptions, backend: str | None, slot_ms: int) -> None:
    """Print the rates of this machine's devices."""

    async def show() -> None:
        offered_hardware = hardware_of(provider_options)
        backend_name = chosen_backend(backend, offered_hardware)
        for hardware in idle_gpus(backend_name, offered_hardware):
            note(idle_gpu_problem(hardware))
        rows = await asyncio.gather(
            *(_measured(backend_name, place, hardware, slot_ms) for place, hardware in enumerate(offered_hardware))
        )
        provider_options.output.rows("Rates of the devices", BENCH, list(rows))

    asyncio.run(told(show))


async def _measured(backend_name: str, place: int, hardware: Hardware, slot_ms: int) -> dict[str, Any]:
    computer = chains_with(backend_name)(hardware)
    try:
        found = await measured_rate(computer, slot_ms)
    finally:
        await computer.close()
    reached = class_reached(found.proves, [parameter.default for parameter in LEAST])
    return {
        "number": place,
        "name": hardware.name,
        "rate": found.rate,
        "class": "none" if reached is None else reached.name.lower(),
        "work": text_of(found.shape),
        "proves": found.proves,
    }


def enrol(
    provider_options: ProviderOptions, device: str, work: str, stash: StashOptions, dry_run: bool, yes: bool
) -> None:
    """Enrol a device for roll calls."""
    work_shape = shape_of(work)

    async def plan(chain_client: ChainClient, signing_key: Keypair) -> list[Planned]:
        device_status = device_named(device, await devices_of(chain_client, signing_key.account))
        if await chain_client.read(Capacity.enrolments, device_status.id) is not None:
            raise ProviderError(
                "the device is enrolled. To change its work, run `ogpu-provider withdraw` first", code="enrolled"
            )
        bond_grains = await chain_client.read(Capacity.bond.item)
        return [Planned(Capacity.enrol(device=device_status.id, shape=work_shape), bond_grains, "roll_call_bond")]

    make(stash.session(provider_options), lambda: stash.key(provider_options), plan, dry_run=dry_run, is_agreed=yes)


def withdraw(provider_options: ProviderOptions, device: str, stash: StashOptions, dry_run: bool) -> None:
    """Withdraw a device from roll calls."""

    async def plan(chain_client: ChainClient, signing_key: Keypair) -> list[Planned]:
        device_status = device_named(device, await devices_of(chain_client, signing_key.account))
        chain_call: Call = Capacity.withdraw(device=device_status.id)
        return only(chain_call)

    make(stash.session(provider_options), lambda: stash.key(provider_options), plan, dry_run=dry_run)


def text_of(work_shape: WorkShape) -> str:
    """Return a work as text."""
    return f"{work_shape.size}x{work_shape.rows}x{work_shape.rounds}"


def shape_of(text: str) -> WorkShape:
    """Read a work. Raise ProviderError for one that no roll call takes."""
    try:
        size, rows, rounds = map(int, text.split("x"))
        work_shape = WorkShape(size, rows, rounds)
    except ValueError:
        raise ProviderError(
            f"{text!r} is not SIZExROWSxROUNDS. See `ogpu-provider bench`", code="invalid_work"
        ) from None
    if not is_sound(work_shape):
        raise ProviderError(
            f"{text!r} is outside 256 to 2048 columns, 4096 to 1048576 rows, 1 to 4096 rounds",
            code="work_out_of_range",
        )
    return work_shape
