"""Finding the right result of a unit before the courts, with the probe that shows that it was computed.

A racer's output that can be had is checked, which is cheaper than executing where the workload has a shorter way (a
text takes one prefill); only where none is right, or none can be had, the whole request is executed. A court's member
looks at the earlier judges' probes too: who computed nothing cannot know the integers at the place of its seat.
"""

from __future__ import annotations

import asyncio

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.market_reads import endpoint_of
from gpu_tasks.data.sealing import SealError
from gpu_tasks.data.unit_input import UnitInput, output_root
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import EARLIER_JUDGES_MAX
from gpu_tasks.market.courts.opinions import Answered, Statement, probe_of
from gpu_tasks.provider.blobs import reseal
from gpu_tasks.provider.duties.cases import Case
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.work import check_request, checked_cost
from gpu_tasks.workloads.form import WorkloadForm


async def find_verdict(parts: Parts, case: Case, form: WorkloadForm, asked: UnitInput) -> Statement:
    """What the input gives; UnusableInputError and BadRequestError where it gives nothing.

    ExecutionError and ChainError where this judge cannot tell.
    """
    output = await _right_output(parts, case, form, asked)
    opinion = Answered(_root(parts, case, asked, output))
    probe = await _probe(parts, case, form, asked, output, parts.identity.stash, case.seat.probe_place)
    return Statement(opinion, probe, await _doubted(parts, case, form, asked, output, opinion))


async def _right_output(parts: Parts, case: Case, form: WorkloadForm, asked: UnitInput) -> bytes:
    seen: set[bytes] = set()
    revealed = [(racer, racer.reveal) for racer in case.unit.racers if racer.reveal is not None]
    # All at once: one that drips would keep this judge from asking the others in time.
    outputs = await asyncio.gather(*(_output_of(parts, case, racer.owner) for racer, _ in revealed))
    for (racer, reveal), output in zip(revealed, outputs, strict=True):
        # A racer may hand out another output than it revealed: that tells nothing about the one it did.
        if reveal.output_root in seen or output is None or _root(parts, case, asked, output) != reveal.output_root:
            continue
        seen.add(reveal.output_root)
        is_short = form.cost(output) <= case.unit.terms.tokens_max
        if is_short and await parts.workshop.verify(form, asked.request, output):
            parts.telemetry.tell("verified", unit=case.unit_id, racer=racer.owner)
            return output
        parts.telemetry.tell("refuted", unit=case.unit_id, racer=racer.owner)
    check_request(form, asked.request, case.unit.terms.tokens_max)
    output = await parts.workshop.recompute(form, asked.request)
    checked_cost(form, output, case.unit.terms.tokens_max)
    parts.telemetry.tell("recomputed", unit=case.unit_id)
    return output


async def _probe(
    parts: Parts, case: Case, form: WorkloadForm, asked: UnitInput, output: bytes, judge: bytes, place: bytes
) -> bytes:
    trace = await parts.workshop.trace(form, asked.request, output, place)
    return probe_of(case.unit_id, judge, asked.salt, trace)


async def _doubted(
    parts: Parts, case: Case, form: WorkloadForm, asked: UnitInput, output: bytes, opinion: Answered
) -> int:
    """Of a court's member: a bit for each earlier judge who says the same, and whose probe is wrong."""
    if case.seat.bench != BenchKind.COURT:
        return 0
    doubted = 0
    for place, (judge, seat) in enumerate((await parts.chain.judges(case.unit_id))[:EARLIER_JUDGES_MAX]):
        said = seat.statement
        if seat.bench == BenchKind.COURT or said is None or said.opinion != opinion:
            continue
        if said.probe != await _probe(parts, case, form, asked, output, judge, seat.probe_place):
            doubted |= 1 << place
    return doubted


def _root(parts: Parts, case: Case, asked: UnitInput, output: bytes) -> bytes:
    return output_root(parts.identity.genesis, case.unit_id, asked.salt, output)


async def _output_of(parts: Parts, case: Case, racer: bytes) -> bytes | None:
    """A racer's output, sealed again to this judge; None where it cannot be had."""
    provider = await parts.chain.provider(racer)
    endpoint = None if provider is None else endpoint_of(provider)
    if endpoint is None:
        return None
    try:
        question = reseal.question(parts.identity, case.unit_id)
        blob = await parts.blobs.ask(endpoint, "/reseal", question)
        return parts.identity.seal_key.open(blob)
    except (BlobError, SealError) as error:
        parts.telemetry.tell("not_resealed", unit=case.unit_id, racer=racer, reason=str(error))
        return None
