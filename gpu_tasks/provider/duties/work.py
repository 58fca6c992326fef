"""From a unit to its result: open the input, execute its requests on the drawn device, seal the outputs.

Every provider refuses an invalid request of a batch, which costs nothing. A single invalid request is declined by its
racers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpu_tasks.batches.outcomes import encode_outcomes
from gpu_tasks.data.sealing import seal
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.data.unit_output import ANSWERS_BYTES_MAX, UnitOutput, answers_bytes, output_of, requests_of
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.inference.units import Unit, UnitTerms
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.race_steps import Race
from gpu_tasks.provider.execution.executor import Execution, ExecutionError, LaterState, ManyExecuted
from gpu_tasks.provider.execution.gpu import Reading
from gpu_tasks.provider.journal.finished import FinishedRequests
from gpu_tasks.provider.journal.records import Basis, UnitResult
from gpu_tasks.workloads.form import WorkloadForm, outcomes_of
from runtime.encoding.codec import DecodeError

NOTHING_USED = Usage(work_units=0, gpu_ms=0, energy_mj=0, cpu_ms=0, wall_ms=0, memory_peak_bytes=0)


async def execute(
    parts: Parts[object], race: Race, form: WorkloadForm, basis: Basis, asked: UnitInput, height: Callable[[], int]
) -> UnitResult:
    """Return the result of a race's unit. `height` returns the newest block that this provider saw.

    Raise UnusableInputError or BadRequestError for the customer's fault, or ExecutionError for this machine's.
    """
    started_at = height()
    requests = payable_requests(form, asked, race.unit.terms)
    outputs, usage = await _computed(parts, race, form, basis, requests)
    outcomes = outcomes_of(form, requests, outputs)
    output = output_of(parts.identity.genesis, race.unit_id, asked.salt, outcomes)
    check_totals(form, output, race.unit.terms)
    content = encode_outcomes(outcomes)
    # Every blob store refuses a longer blob.
    if len(content) > ANSWERS_BYTES_MAX:
        raise ExecutionError(
            f"its outputs have {len(content):,} bytes, more than allowed for its requests", code="output_too_large"
        )
    blob = parts.store.put(seal(content, [asked.reply_key]), is_own=True)
    usage = replace(usage, work_units=output.totals.tokens_out)
    salt = os.urandom(32)
    return UnitResult(content, output.root, blob, output.totals, salt, usage, started_at, finished_at=height())


def basis_of(unit: Unit, form: WorkloadForm) -> Basis:
    """Return the basis of a future result of a unit."""
    return Basis(unit.terms.input_root, unit.terms.input_commitment, form.workload_id, form.model_id)


def payable_requests(form: WorkloadForm, asked: UnitInput, terms: UnitTerms) -> tuple[bytes, ...]:
    """Return the requests of an input. Raise UnusableInputError if they exceed what the customer pays for.

    Only the opened input shows whether the sealed requests exceed the unit's terms on the chain, so this check precedes
    any computation.
    """
    tokens_in, tokens_out, sizes = 0, 0, list[int]()
    try:
        requests = requests_of(asked, terms.requests)
        for request in requests:
            try:
                costs = form.cost_in(request), form.cost_asked(request), form.output_bytes(request)
            except DecodeError:
                if len(requests) == 1:
                    raise
                costs = 0, 0, 0  # an invalid request of a batch
            tokens_in, tokens_out = tokens_in + costs[0], tokens_out + costs[1]
            sizes.append(costs[2])
    except DecodeError as error:
        raise UnusableInputError(str(error), code="invalid_request") from None
    if tokens_in > terms.tokens_in:
        raise UnusableInputError(
            f"its requests exceed the unit's {terms.tokens_in} input {form.cost_unit}s", code="input_too_long"
        )
    if tokens_out > terms.tokens_max:
        raise UnusableInputError(
            f"its requests ask for more than the unit's {terms.tokens_max} {form.cost_unit}s", code="output_too_long"
        )
    if answers_bytes(sizes) > ANSWERS_BYTES_MAX:
        raise UnusableInputError(
            f"its answers may exceed the {ANSWERS_BYTES_MAX:,} bytes of a blob", code="answers_too_large"
        )
    return requests


async def recomputed(parts: Parts[object], form: WorkloadForm, requests: Sequence[bytes]) -> list[bytes | None]:
    """Return the output of each request, computed on any device as a judge.

    Raise BadRequestError for a single invalid request.
    """
    if len(requests) == 1:
        return [await parts.workers.recompute(form, requests[0])]
    return await parts.workers.recompute_many(form, requests)


def check_totals(form: WorkloadForm, output: UnitOutput, terms: UnitTerms) -> None:
    """Raise UnusableInputError if an output costs more than the customer pays for."""
    totals = output.totals
    if totals.tokens_in > terms.tokens_in or totals.tokens_out > terms.tokens_max:
        raise UnusableInputError(
            f"its output costs more than the unit's {terms.tokens_max} {form.cost_unit}s", code="output_too_long"
        )


async def _computed(
    parts: Parts[object], race: Race, form: WorkloadForm, basis: Basis, requests: Sequence[bytes]
) -> tuple[list[bytes | None], Usage]:
    """Return the output of each request, None for an invalid one, and the usage of all."""
    if len(requests) == 1:
        execution, reading = await parts.workers.race(race.racer.device, form, requests[0], race.rank)
        return [execution.output], _usage(execution, reading)
    kept = FinishedRequests(parts.batches, race.unit_id, basis)
    # A restart continues a batch instead of computing it again.
    missing = [place for place in range(len(requests)) if place not in kept.outputs]
    if not missing:
        return [kept.outputs[place] for place in range(len(requests))], NOTHING_USED

    def finished(done: Sequence[tuple[int, bytes | None]]) -> None:
        try:
            kept.append([(missing[place], output) for place, output in done])
        except OSError as error:
            raise ExecutionError(f"{kept.path} cannot be written: {error}", code="file_unwritable") from error

    asked = [requests[place] for place in missing]
    took, reading = await parts.workers.race_many(race.racer.device, form, asked, finished, race.rank)
    return [kept.outputs[place] for place in range(len(requests))], _usage(took, reading)


def _usage(took: Execution | ManyExecuted, reading: Reading) -> Usage:
    """Return the usage of the work without its cost. For a resumed batch, it covers the time since the resumption."""
    return usage_of(0, took.wall_ms, took, reading)


def usage_of(work_units: int, wall_ms: int, took: Execution | ManyExecuted | LaterState, reading: Reading) -> Usage:
    """Return the usage of some work. A GPU works for as long as its result is awaited."""
    return Usage(
        work_units=work_units,
        gpu_ms=wall_ms if reading.is_gpu else 0,
        energy_mj=reading.energy_mj,
        cpu_ms=took.cpu_ms,
        wall_ms=wall_ms,
        memory_peak_bytes=max(reading.memory_peak_bytes, took.memory_peak_bytes),
    )
