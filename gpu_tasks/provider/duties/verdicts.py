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


async def find_verdict(parts: Parts[UnitCasePort], case: Case, form: WorkloadForm, asked: UnitInput) -> Statement:
    """Return the statement for an input. Raise UnusableInputError or BadRequestError if it has no result.

    Raise ExecutionError or ChainError if this judge cannot tell.
    """
    requests = payable_requests(form, asked, case.unit.terms)
    output = await _right_output(parts, case, form, asked, requests)
    check_totals(form, output, case.unit.terms)
    return await stated(parts, case, FoundRight(form, asked.salt, requests, output.outcomes, output.root))


async def leaf_verdict(
    parts: Parts[UnitCasePort], case: Case, form: WorkloadForm, asked: UnitInput, index: int
) -> Statement:
    """Return the statement about the one disputed leaf. It raises the errors of `find_verdict`."""
    (found,) = await computed_leaves(parts, case.id, case.unit, form, asked, [index])
    parts.telemetry.tell("recomputed", unit=case.id, leaf=index)
    return await stated(parts, case, FoundRight(form, asked.salt, (found.request,), (found.outcome,), found.claim))


@dataclass(frozen=True, slots=True)
class FoundRight:
    """A judge's computation: requests with their outcomes, and the right root of its case."""

    form: WorkloadForm
    salt: bytes
    requests: tuple[bytes, ...]
    outcomes: tuple[BatchOutcome, ...]
    root: bytes


async def stated(parts: Parts[UnitCasePort], case: Case, found: FoundRight) -> Statement:
    """Return a judge's statement: the answer, the probe of its seat and, in a court, the doubted probes."""
    probe = await _probe(parts, case, found, parts.identity.stash, case.seat.probe_place)
    return Statement(Answered(found.root), probe, await _doubted(parts, case, found))


async def _right_output(
    parts: Parts[UnitCasePort], case: Case, form: WorkloadForm, asked: UnitInput, requests: tuple[bytes, ...]
) -> UnitOutput:
    seen: set[bytes] = set()
    revealed = [(racer, racer.reveal) for racer in case.unit.racers if racer.reveal is not None]
    # In parallel: a slow provider must not keep this judge from asking the others in time.
    outputs = await asyncio.gather(*(_output_of(parts, case, asked, racer.owner) for racer, _ in revealed))
    for (racer, reveal), output in zip(revealed, outputs, strict=True):
        # A racer may send another output than its revealed one, which proves nothing about the latter.
        if reveal.output_root in seen or output is None or output.root != reveal.output_root:
            continue
        seen.add(reveal.output_root)
        if await _is_right(parts, form, requests, output):
            parts.telemetry.tell("verified", unit=case.id, racer=racer.owner)
            return output
        parts.telemetry.tell("refuted", unit=case.id, racer=racer.owner)
    computed = await recomputed(parts, form, requests)
    parts.telemetry.tell("recomputed", unit=case.id)
    return _output(parts, case, asked, outcomes_of(form, requests, computed))


async def _is_right(
    parts: Parts[UnitCasePort], form: WorkloadForm, requests: tuple[bytes, ...], output: UnitOutput
) -> bool:
    """Return True if these are the right outcomes of the requests, including tokens."""
    given = [outcome.output if isinstance(outcome, Completed) else None for outcome in output.outcomes]
    if output.outcomes != outcomes_of(form, requests, given):
        return False
    # The shorter check works for one output. A batch is executed as a whole.
    if len(requests) > 1:
        return given == await recomputed(parts, form, requests)
    return given[0] is not None and await parts.workers.verify(form, requests[0], given[0])


async def _probe(parts: Parts[UnitCasePort], case: Case, found: FoundRight, judge: bytes, place: bytes) -> bytes:
    """Return the probe of the completed request at the seat's place; zeros if none completed."""
    completed = [
        (request, outcome.output)
        for request, outcome in zip(found.requests, found.outcomes, strict=True)
        if isinstance(outcome, Completed)
    ]
    if not completed:
        # Every honest judge must compute the same probe, even if no request completed.
        return probe_of(case.id, judge, found.salt, bytes(32))
    request, output = completed[int.from_bytes(place[:8], "little") % len(completed)]
    trace = await parts.workers.trace(found.form, request, output, place)
    return probe_of(case.id, judge, found.salt, trace)


async def _doubted(parts: Parts[UnitCasePort], case: Case, found: FoundRight) -> int:
    """Return a court member's bits for earlier judges with the same answer and a wrong probe."""
    if case.seat.bench != BenchKind.COURT:
        return 0
    doubted = 0
    for place, (judge, seat) in enumerate((await parts.chain.judges(case.id))[:EARLIER_JUDGES_MAX]):
        said = seat.statement
        # A probe matters only for judges with the same answer: it shows whether they computed it.
        if seat.bench == BenchKind.COURT or said is None or said.opinion != Answered(found.root):
            continue
        if said.probe != await _probe(parts, case, found, judge, seat.probe_place):
            doubted |= 1 << place
    return doubted


def _output(parts: Parts[UnitCasePort], case: Case, asked: UnitInput, outcomes: tuple[BatchOutcome, ...]) -> UnitOutput:
    return output_of(parts.identity.genesis, case.id, asked.salt, outcomes)


async def _output_of(parts: Parts[UnitCasePort], case: Case, asked: UnitInput, racer: bytes) -> UnitOutput | None:
    """Return a racer's outcomes, sealed again to this judge; None if they are unavailable."""
    provider = await parts.chain.provider(racer)
    endpoint = None if provider is None else endpoint_of(provider)
    if endpoint is None:
        return None
    try:
        question = reseal.question(parts.identity, case.id)
        blob = await parts.blobs.ask(endpoint, "/reseal", question)
        content = parts.identity.seal_key.open(blob)
    except (BlobError, SealError) as error:
        parts.telemetry.tell("not_resealed", unit=case.id, racer=racer, reason=str(error))
        return None
    return read_output(parts.identity.genesis, case.id, asked.salt, content, case.unit.terms.requests)
