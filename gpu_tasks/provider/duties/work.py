"""From a unit to its result: open the input, execute it on the device that was drawn, seal the output."""

from __future__ import annotations

import os
from collections.abc import Callable

from gpu_tasks.data.sealing import seal
from gpu_tasks.data.unit_input import UnitInput, output_root
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.races import Race
from gpu_tasks.provider.execution.executor import Execution
from gpu_tasks.provider.execution.gpu import Reading
from gpu_tasks.provider.journal.records import Basis, WorkResult
from gpu_tasks.workloads.form import WorkloadForm
from runtime.encoding.codec import DecodeError


async def execute(
    parts: Parts, race: Race, form: WorkloadForm, asked: UnitInput, height: Callable[[], int]
) -> WorkResult:
    """The result of a race's unit; `height` tells the newest block that this provider saw.

    UnusableInputError and BadRequestError are the customer's fault, ExecutionError is this machine's.
    """
    started_at = height()
    check_request(form, asked.request, race.unit.terms.tokens_max)
    execution, reading = await parts.workshop.race(race.racer.device, form, asked.request)
    cost = checked_cost(form, execution.output, race.unit.terms.tokens_max)
    blob = parts.store.put(seal(execution.output, [asked.reply_key]), is_own=True)
    root = output_root(parts.identity.genesis, race.unit_id, asked.salt, execution.output)
    usage = _usage(execution, reading, cost)
    return WorkResult(execution.output, root, blob, os.urandom(32), usage, started_at, finished_at=height())


def basis_of(unit: Unit, form: WorkloadForm) -> Basis:
    """What the result of a unit would be the result of."""
    return Basis(unit.terms.input_root, unit.terms.input_commitment, form.workload_id, form.model_id)


def check_request(form: WorkloadForm, request: bytes, cost_max: int) -> None:
    """UnusableInputError for a request that asks for more than the customer pays for, before anything is computed."""
    try:
        asked = form.cost_asked(request)
    except DecodeError as error:
        raise UnusableInputError(str(error)) from None
    if asked > cost_max:
        raise _too_dear(form, cost_max)


def checked_cost(form: WorkloadForm, output: bytes, cost_max: int) -> int:
    """What an output cost; UnusableInputError if that is more than the customer pays for."""
    cost = form.cost(output)
    if cost > cost_max:
        raise _too_dear(form, cost_max)
    return cost


def _too_dear(form: WorkloadForm, cost_max: int) -> UnusableInputError:
    """The sealed request may ask for more than the unit says on the chain: nobody can see that before it is opened."""
    return UnusableInputError(f"the request asks for more than the unit's {cost_max} {form.cost_unit}s")


def _usage(execution: Execution, reading: Reading, cost: int) -> Usage:
    return Usage(
        work_units=cost,
        gpu_ms=execution.wall_ms if reading.is_gpu else 0,
        energy_mj=reading.energy_mj,
        cpu_ms=execution.cpu_ms,
        wall_ms=execution.wall_ms,
        memory_peak_bytes=max(reading.memory_peak_bytes, execution.memory_peak_bytes),
    )
