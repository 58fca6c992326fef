"""A judge's search for the right result of a unit, with the probe that proves its computation.

An available racer's output is verified, which is cheaper than execution if the workload has a shorter way (text needs
one prefill). The whole request is executed only if no output is right or available. A member of a court also checks
earlier judges' probes: without computing, a judge cannot know the integers at its seat's place.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gpu_tasks.batches.outcomes import BatchOutcome, Completed
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.market_reads import endpoint_of
from gpu_tasks.data.sealing import SealError
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.data.unit_output import UnitOutput, output_of, read_output
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import EARLIER_JUDGES_MAX
from gpu_tasks.market.courts.opinions import Answered, Statement, probe_of
from gpu_tasks.provider.blobs import reseal
from gpu_tasks.provider.chain.port import UnitCasePort
from gpu_tasks.provider.duties.cases import Case
from gpu_tasks.provider.duties.leaf_work import computed_leaves
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.work import check_totals, payable_requests, recomputed
from gpu_tasks.workloads.form import WorkloadForm, outcomes_of


async def find_verdict(
    parts: Parts[UnitCasePort], case: Case, workload_form: WorkloadForm, unit_input: UnitInput
) -> Statement:
    """Return the statement for an input. Raise UnusableInputError or BadRequestError if it has no result.

    Raise ExecutionError or ChainError if this judge cannot tell.
    """
    requests = payable_requests(workload_form, unit_input, case.unit.terms)
    right = await _right_output(parts, case, workload_form, unit_input, requests)
    check_totals(workload_form, right, case.unit.terms)
    return await stated(parts, case, FoundRight(workload_form, unit_input.salt, requests, right.outcomes, right.root))


async def leaf_verdict(
    parts: Parts[UnitCasePort], case: Case, workload_form: WorkloadForm, unit_input: UnitInput, leaf_index: int
) -> Statement:
    """Return the statement about the one disputed leaf. It raises the errors of `find_verdict`."""
    (computed,) = await computed_leaves(parts, case.id, case.unit, workload_form, unit_input, [leaf_index])
    parts.telemetry.tell("recomputed", unit=case.id, leaf=leaf_index)
    return await stated(
        parts,
        case,
        FoundRight(workload_form, unit_input.salt, (computed.request,), (computed.outcome,), computed.claim),
    )


@dataclass(frozen=True, slots=True)
class FoundRight:
    """A judge's computation: requests with their outcomes, and the right root of its case."""

    form: WorkloadForm
    salt: bytes
    requests: tuple[bytes, ...]
    outcomes: tuple[BatchOutcome, ...]
    root: bytes


async def stated(parts: Parts[UnitCasePort], case: Case, right_answer: FoundRight) -> Statement:
    """Return a judge's statement: the answer, the probe of its seat and, in a court, the doubted probes."""
    probe = await _probe(parts, case, right_answer, parts.identity.stash, case.seat.probe_place)
    return Statement(Answered(right_answer.root), probe, await _doubted_judges(parts, case, right_answer))


async def _right_output(
    parts: Parts[UnitCasePort],
    case: Case,
    workload_form: WorkloadForm,
    unit_input: UnitInput,
    requests: tuple[bytes, ...],
) -> UnitOutput:
    seen: set[bytes] = set()
    revealed = [(racer, racer.reveal) for racer in case.unit.racers if racer.reveal is not None]
    # In parallel: a slow provider must not keep this judge from asking the others in time.
    racer_outputs = await asyncio.gather(*(_output_of(parts, case, unit_input, racer.owner) for racer, _ in revealed))
    for (racer, racer_reveal), racer_output in zip(revealed, racer_outputs, strict=True):
        # A racer may send another output than its revealed one, which proves nothing about the latter.
        if racer_reveal.output_root in seen or racer_output is None or racer_output.root != racer_reveal.output_root:
            continue
        seen.add(racer_reveal.output_root)
        if await _is_right(parts, workload_form, requests, racer_output):
            parts.telemetry.tell("verified", unit=case.id, racer=racer.owner)
            return racer_output
        parts.telemetry.tell("refuted", unit=case.id, racer=racer.owner)
    computed = await recomputed(parts, workload_form, requests)
    parts.telemetry.tell("recomputed", unit=case.id)
    return _revealed_output(parts, case, unit_input, outcomes_of(workload_form, requests, computed))


async def _is_right(
    parts: Parts[UnitCasePort], workload_form: WorkloadForm, requests: tuple[bytes, ...], unit_output: UnitOutput
) -> bool:
    """Return True if these are the right outcomes of the requests, including tokens."""
    given = [
        request_outcome.output if isinstance(request_outcome, Completed) else None
        for request_outcome in unit_output.outcomes
    ]
    if unit_output.outcomes != outcomes_of(workload_form, requests, given):
        return False
    # The shorter check works for one output. A batch is executed as a whole.
    if len(requests) > 1:
        return given == await recomputed(parts, workload_form, requests)
    return given[0] is not None and await parts.workers.verify(workload_form, requests[0], given[0])


async def _probe(
    parts: Parts[UnitCasePort], case: Case, right_answer: FoundRight, judge_stash: bytes, place: bytes
) -> bytes:
    """Return the probe of the completed request at the seat's place; zeros if none completed."""
    completed = [
        (completed_request, request_outcome.output)
        for completed_request, request_outcome in zip(right_answer.requests, right_answer.outcomes, strict=True)
        if isinstance(request_outcome, Completed)
    ]
    if not completed:
        # Every honest judge must compute the same probe, even if no request completed.
        return probe_of(case.id, judge_stash, right_answer.salt, bytes(32))
    completed_request, completed_output = completed[int.from_bytes(place[:8], "little") % len(completed)]
    trace_hash = await parts.workers.trace(right_answer.form, completed_request, completed_output, place)
    return probe_of(case.id, judge_stash, right_answer.salt, trace_hash)


async def _doubted_judges(parts: Parts[UnitCasePort], case: Case, right_answer: FoundRight) -> int:
    """Return a court member's bits for earlier judges with the same answer and a wrong probe."""
    if case.seat.bench != BenchKind.COURT:
        return 0
    bits = 0
    for place, (judge_stash, judge) in enumerate((await parts.chain.judges(case.id))[:EARLIER_JUDGES_MAX]):
        statement = judge.statement
        # A probe matters only for judges with the same answer: it shows whether they computed it.
        if judge.bench == BenchKind.COURT or statement is None or statement.opinion != Answered(right_answer.root):
            continue
        if statement.probe != await _probe(parts, case, right_answer, judge_stash, judge.probe_place):
            bits |= 1 << place
    return bits


def _revealed_output(
    parts: Parts[UnitCasePort], case: Case, unit_input: UnitInput, outcomes: tuple[BatchOutcome, ...]
) -> UnitOutput:
    return output_of(parts.identity.genesis, case.id, unit_input.salt, outcomes)


async def _output_of(
    parts: Parts[UnitCasePort], case: Case, unit_input: UnitInput, racer_stash: bytes
) -> UnitOutput | None:
    """Return a racer's outcomes, sealed again to this judge; None if they are unavailable."""
    provider = await parts.chain.provider(racer_stash)
    endpoint = None if provider is None else endpoint_of(provider)
    if endpoint is None:
        return None
    try:
        question = reseal.question(parts.identity, case.id)
        output_blob = await parts.blobs.ask(endpoint, "/reseal", question)
        output_content = parts.identity.seal_key.open(output_blob)
    except (BlobError, SealError) as error:
        parts.telemetry.tell("not_resealed", unit=case.id, racer=racer_stash, reason=str(error))
        return None
    return read_output(parts.identity.genesis, case.id, unit_input.salt, output_content, case.unit.terms.requests)
