"""Finding the right result of a disputed unit.

A racer's output that can be had is checked, which is cheaper than executing where the workload has a shorter way (a
text takes one prefill); only where none is right, or none can be had, the whole request is executed.
"""

from __future__ import annotations

import asyncio

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.market_reads import endpoint_of
from gpu_tasks.data.sealing import SealError
from gpu_tasks.data.unit_input import UnitInput, output_root
from gpu_tasks.market.inference.commitments import InputBad, Recomputed
from gpu_tasks.provider.blobs import reseal
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.duties.cases import Case
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.work import check_request, checked_cost
from gpu_tasks.provider.execution.executor import BadRequestError
from gpu_tasks.workloads.form import WorkloadForm


async def find_verdict(parts: Parts, case: Case) -> Recomputed | InputBad:
    """What the input gives; ExecutionError, BlobError and ChainError where this judge cannot tell."""
    form = await parts.form_of(case.unit)
    try:
        asked = await parts.inputs.open(case.unit)
        return Recomputed(await _right_root(parts, case, form, asked))
    except (UnusableInputError, BadRequestError) as error:
        parts.telemetry.tell("input_bad", unit=case.unit_id, problem=str(error))
        return InputBad()


async def _right_root(parts: Parts, case: Case, form: WorkloadForm, asked: UnitInput) -> bytes:
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
            return reveal.output_root
        parts.telemetry.tell("refuted", unit=case.unit_id, racer=racer.owner)
    check_request(form, asked.request, case.unit.terms.tokens_max)
    output = await parts.workshop.recompute(form, asked.request)
    checked_cost(form, output, case.unit.terms.tokens_max)
    parts.telemetry.tell("recomputed", unit=case.unit_id)
    return _root(parts, case, asked, output)


def _root(parts: Parts, case: Case, asked: UnitInput, output: bytes) -> bytes:
    return output_root(parts.identity.genesis, case.unit_id, asked.salt, output)


async def _output_of(parts: Parts, case: Case, racer: bytes) -> bytes | None:
    """A racer's output, sealed again to this judge; None where it cannot be had."""
    provider = await parts.chain.provider(racer)
    endpoint = None if provider is None else endpoint_of(provider)
    if endpoint is None:
        return None
    try:
        question = reseal.question(parts.identity, case.unit_id, case.committee.number)
        blob = await parts.blobs.ask(endpoint, "/reseal", question)
        return parts.identity.seal_key.open(blob)
    except (BlobError, SealError) as error:
        parts.telemetry.tell("not_resealed", unit=case.unit_id, racer=racer, reason=str(error))
        return None
