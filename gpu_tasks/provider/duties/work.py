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
from gpu_tasks.market.inference.classes import classes_of
from gpu_tasks.market.inference.money import work_allowed
from gpu_tasks.market.inference.services import commit_window_of
from gpu_tasks.market.inference.units import Unit, UnitTerms
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import RacePort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.race_steps import Race
from gpu_tasks.provider.execution.executor import Execution, ExecutionError, LaterState, ManyExecuted
from gpu_tasks.provider.execution.gpu import Reading
from gpu_tasks.provider.journal.finished import FinishedRequests
from gpu_tasks.provider.journal.records import Basis, UnitResult
from gpu_tasks.provider.journal.schema import JournalError
from gpu_tasks.workloads.form import WorkloadForm, outcomes_of
from runtime.encoding.codec import DecodeError

NOTHING_USED = Usage(work_units=0, gpu_ms=0, energy_mj=0, cpu_ms=0, wall_ms=0, memory_peak_bytes=0)


async def execute(
    parts: Parts[object],
    race: Race,
    workload_form: WorkloadForm,
    work_basis: Basis,
    unit_input: UnitInput,
    current_height: Callable[[], int],
    seconds_max: float,
) -> UnitResult:
    """Return the result of a race's unit. `current_height` returns the newest block that this provider saw.

    Raise UnusableInputError or BadRequestError for the customer's fault, or ExecutionError for this machine's:
    TooLargeError if the unit exceeds the memory of the device or `seconds_max`.
    """
    started_at = current_height()
    requests = payable_requests(workload_form, unit_input, race.unit.terms)
    request_outputs, usage = await _compute_requests(parts, race, workload_form, work_basis, requests, seconds_max)
    outcomes = outcomes_of(workload_form, requests, request_outputs)
    unit_output = output_of(parts.identity.genesis, race.unit_id, unit_input.salt, outcomes)
    check_totals(workload_form, unit_output, race.unit.terms)
    output_content = encode_outcomes(outcomes)
    # Every blob store refuses a longer blob.
    if len(output_content) > ANSWERS_BYTES_MAX:
        raise ExecutionError(
            f"its outputs have {len(output_content):,} bytes, more than allowed for its requests",
            code="output_too_large",
        )
    output_blob = parts.store.put(seal(output_content, [unit_input.reply_key]), is_own=True)
    usage = replace(usage, work_units=unit_output.totals.tokens_out)
    salt = os.urandom(32)
    return UnitResult(
        output_content,
        unit_output.root,
        output_blob,
        unit_output.totals,
        salt,
        usage,
        started_at,
        finished_at=current_height(),
    )


async def seconds_for(parts: Parts[RacePort], unit: Unit) -> float:
    """Return the time that a unit of this provider may take: its commit window. Raise ChainError."""
    # No less: checkers may have the whole window too, and a decline of a unit that they compute in time costs a price.
    terms = (await parts.chain.service(unit.service)).terms
    slowest_class = min(classes_of(unit, terms.ramp))
    window_blocks = commit_window_of(terms, work_allowed(unit), slowest_class)
    return window_blocks * await parts.chain.slot_ms() / 1_000


def basis_of(unit: Unit, workload_form: WorkloadForm) -> Basis:
    """Return the basis of a future result of a unit."""
    return Basis(unit.terms.input_root, unit.terms.input_commitment, workload_form.workload_id, workload_form.model_id)


def payable_requests(workload_form: WorkloadForm, unit_input: UnitInput, unit_terms: UnitTerms) -> tuple[bytes, ...]:
    """Return the requests of an input. Raise UnusableInputError if they exceed what the customer pays for.

    Only the opened input shows whether the sealed requests exceed the unit's terms on the chain, so this check precedes
    any computation.
    """
    tokens_in, tokens_out, sizes = 0, 0, list[int]()
    try:
        requests = requests_of(unit_input, unit_terms.requests)
        for request in requests:
            try:
                costs = (
                    workload_form.cost_in(request),
                    workload_form.cost_asked(request),
                    workload_form.output_bytes(request),
                )
            except DecodeError:
                if len(requests) == 1:
                    raise
                costs = 0, 0, 0  # an invalid request of a batch
            tokens_in, tokens_out = tokens_in + costs[0], tokens_out + costs[1]
            sizes.append(costs[2])
    except DecodeError as error:
        raise UnusableInputError(str(error), code="invalid_request") from None
    if tokens_in > unit_terms.tokens_in:
        raise UnusableInputError(
            f"its requests exceed the unit's {unit_terms.tokens_in} input {workload_form.cost_unit}s",
            code="input_too_long",
        )
    if tokens_out > unit_terms.tokens_max:
        raise UnusableInputError(
            f"its requests ask for more than the unit's {unit_terms.tokens_max} {workload_form.cost_unit}s",
            code="output_too_long",
        )
    if answers_bytes(sizes) > ANSWERS_BYTES_MAX:
        raise UnusableInputError(
            f"its answers may exceed the {ANSWERS_BYTES_MAX:,} bytes of a blob", code="answers_too_large"
        )
    return requests


def check_totals(workload_form: WorkloadForm, unit_output: UnitOutput, unit_terms: UnitTerms) -> None:
    """Raise UnusableInputError if an output costs more than the customer pays for."""
    totals = unit_output.totals
    if totals.tokens_in > unit_terms.tokens_in or totals.tokens_out > unit_terms.tokens_max:
        raise UnusableInputError(
            f"its output costs more than the unit's {unit_terms.tokens_max} {workload_form.cost_unit}s",
            code="output_too_long",
        )


async def _compute_requests(
    parts: Parts[object],
    race: Race,
    workload_form: WorkloadForm,
    work_basis: Basis,
    requests: Sequence[bytes],
    seconds_max: float,
) -> tuple[list[bytes | None], Usage]:
    """Return the output of each request, None for an invalid one, and the usage of all."""
    if len(requests) == 1:
        execution, reading = await parts.workers.race(
            race.racer.device, workload_form, requests[0], race.rank, seconds_max
        )
        return [execution.output], _usage_of_execution(execution, reading)
    kept_requests = FinishedRequests(parts.journal.database, race.unit_id, work_basis)
    # A restart continues a batch instead of computing it again.
    missing_places = [place for place in range(len(requests)) if place not in kept_requests.outputs]
    if not missing_places:
        return [kept_requests.outputs[place] for place in range(len(requests))], NOTHING_USED

    def finished(newly_finished: Sequence[tuple[int, bytes | None]]) -> None:
        try:
            kept_requests.append([(missing_places[place], output) for place, output in newly_finished])
        except JournalError as error:
            raise ExecutionError(str(error), code=error.code) from error

    missing_requests = [requests[place] for place in missing_places]
    took, reading = await parts.workers.race_many(
        race.racer.device, workload_form, missing_requests, finished, race.rank, seconds_max
    )
    return [kept_requests.outputs[place] for place in range(len(requests))], _usage_of_execution(took, reading)


def _usage_of_execution(execution: Execution | ManyExecuted, reading: Reading) -> Usage:
    """Return the usage of the work without its cost. For a resumed batch, it covers the time since the resumption."""
    return usage_of(0, execution.wall_ms, execution, reading)


def usage_of(
    work_units: int, elapsed_ms: int, execution: Execution | ManyExecuted | LaterState, reading: Reading
) -> Usage:
    """Return the usage of some work. A GPU works for as long as its result is awaited."""
    return Usage(
        work_units=work_units,
        gpu_ms=elapsed_ms if reading.is_gpu else 0,
        energy_mj=reading.energy_mj,
        cpu_ms=execution.cpu_ms,
        wall_ms=elapsed_ms,
        memory_peak_bytes=max(reading.memory_peak_bytes, execution.memory_peak_bytes),
    )
