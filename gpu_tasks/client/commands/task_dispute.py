"""Disputes of tasks: anybody disputes an item of a claimed result, and a customer finds the wrong one by recomputing.

Claims and their rules are those of units (`dispute`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import click

from cli.calls import NothingToSend, PlannedCall, Planning, SendingOptions, make, require_somebody_to_ask, sends
from cli.output import Account
from cli.session import WalletSession, note
from gpu_tasks.client.commands.calls import planned
from gpu_tasks.client.commands.dispute import Tenths, all_right, outcomes_of_dispute, require_open
from gpu_tasks.client.commands.id_prefixes import TaskError, known_task, named_task, require_customer
from gpu_tasks.client.commands.task_decisions import facts
from gpu_tasks.client.tasks import records
from gpu_tasks.client.tasks.results import RunBlobError, fetch_input, no_result, stated_digests
from gpu_tasks.client.units.results import ResultError
from gpu_tasks.data import claim_reads, market_reads
from gpu_tasks.data.appeals import appeal_against
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.items import own_segments, segment_of
from gpu_tasks.market.training.orders import is_replicated, runs_program
from gpu_tasks.market.training.tasks import Task, TaskState, slot_case
from gpu_tasks.market.training.terms import covered
from gpu_tasks.traces.trace import state_hash
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.stepwise import states, stepwise
from wallet.amounts import Grains, counted
from wallet.client import ChainClient, Payer
from wallet.keypair import Keypair

NO_RESULT_YET = {
    TaskState.COMMITTING,
    TaskState.REVEALING,
    TaskState.AWARDING,
    TaskState.STARTING,
    TaskState.RUNNING,
    TaskState.ASKING,
    TaskState.VOLUNTEERING,
    TaskState.OPENING,
}
"""States before a result. A run can be recomputed as soon as its task is submitted."""
PASSING = {"no_result", "not_claimed", "dispute_open", "check_ends"}
"""Codes of obstacles that end while a program waits."""


def dispute_task(
    session: WalletSession, task: str, key_text: str, place: int | None, item: int | None, is_computed: bool,
    backend: str, sending: SendingOptions,
) -> None:  # fmt: skip
    """Carry out `ogpu task dispute`."""
    if item is not None and is_computed:
        raise click.UsageError("give --item or --compute, not both. --compute finds the item")

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall | NothingToSend:
        task_id = await named_task(session, client, task, key_text)
        chain_task = await known_task(client, task_id, await client.finalized())
        _require_claims(chain_task)
        disputed_place = _place(chain_task, place)
        if not is_computed:
            chain_task, claim = await _claim_of(client, task_id, disputed_place)
            named = _item(claim, item)
            return await _planned(session, client, task_id, chain_task, disputed_place, named)
        require_customer(chain_task, payer.account, "opens its input, which --compute needs")
        _require_trace(chain_task)
        await _require_not_over(client, task_id, disputed_place)
        # Refuse before hours of computing.
        require_somebody_to_ask(is_asked=not (sending.dry_run or sending.is_agreed))
        found = await _recomputed_item(
            session, client, session.key(key_text), task_id, chain_task, disputed_place, backend
        )
        if found is None:
            return all_right(facts(task_id, chain_task), chain_task.order.segments, "segment")
        chain_task, _ = await _claim_of(client, task_id, disputed_place)
        return await _planned(session, client, task_id, chain_task, disputed_place, found)

    make(session, key_text, sending, plan)


@sends
async def appeal(by: Planning, task: str) -> PlannedCall:
    """Carry out `ogpu task appeal`."""
    task_id = await named_task(by.session, by.client, task, by.key_text)
    await known_task(by.client, task_id, await by.client.finalized())
    found = await appeal_against(by.client, task_id, by.payer.account)
    return planned(by.session.output, found.call, found.facts)


async def _planned(
    session: WalletSession, client: ChainClient, task_id: bytes, task: Task, place: int, item: int
) -> PlannedCall:
    """Return the call that disputes an item, with the bond and the money of each outcome."""
    final_hash = await client.finalized()
    _, claim = await _claim_of(client, task_id, place)
    slot, terms = task.slots[place], claim.terms
    # The refuted claim takes the part of the collateral that secures it.
    compensation = min(covered(task.terms.price_max, slot.collateral), slot.collateral - terms.collateral)
    shown: dict[str, Any] = {
        **facts(task_id, task),
        "place": place,
        "provider": Account(slot.provider),
        "item": item,
        **({"segment": segment_of(task.order, task.behind, item)} if task.order.segments else {}),
        "claim_stage": claim.stage.name.lower(),
        **outcomes_of_dispute(claim, await client.height(final_hash)),
        "compensation_if_wrong": Grains(compensation),
        "then": f"validators compute it and vote. Follow them with `ogpu task watch 0x{task_id.hex()}`",
    }
    call = ResultClaims.dispute(claim=slot_case(task_id, place), index=item)
    return planned(session.output, call, shown, locks=shown["bond"])


def _require_claims(task: Task) -> None:
    """Raise TaskError for a task whose results are no claims."""
    if is_replicated(task.order):
        raise TaskError(
            "the majority of its replicas decides about the result, and nobody can dispute it. Read another replica's "
            "output with `ogpu task result --place N`",
            code="not_disputable",
        )
    if runs_program(task.order):
        raise TaskError(
            "the task buys time, and nobody can compute its program again. Stop it with `ogpu task stop`",
            code="not_disputable",
        )


def _place(task: Task, place: int | None) -> int:
    """Return the disputed place. Raise TaskError if a gang lacks one, or if there is none of this number."""
    count = task.order.slots
    if place is None and count > 1:
        raise TaskError(
            f"the task has {counted(count, 'provider')}, each with a claim of its own. Name one with --place, from 0 "
            f"to {count - 1}",
            code="place_not_named",
        )
    if (place or 0) >= count:
        raise TaskError(f"there is no place {place}. The task has places 0 to {count - 1}", code="no_such_place")
    return place or 0


def _item(claim: ResultClaim, item: int | None) -> int:
    """Return the disputed item, the only one by default. Raise TaskError if there is no such item."""
    count = claim.terms.items
    if item is None and count > 1:
        raise TaskError(
            f"the result has {count:,} items. Name one with --item, from 0 to {count - 1}, or recompute the run with "
            "--compute",
            code="item_not_named",
        )
    if (item or 0) >= count:
        raise TaskError(f"there is no item {item}. The result has items 0 to {count - 1}", code="no_such_item")
    return item or 0


async def _claim_of(client: ChainClient, task_id: bytes, place: int) -> tuple[Task, ResultClaim]:
    """Return a task and the claim at a place, if an item of it can be disputed in the next block.

    Raise TaskError or ResultError, with the reason and the next step, if none can.
    """
    final_hash = await client.finalized()
    task = await known_task(client, task_id, final_hash)
    if task.state in NO_RESULT_YET:
        raise TaskError(no_result(task), code="no_result")
    if task.state is TaskState.DISPUTED:
        raise TaskError(
            "validators already vote about the task. Follow them with `ogpu task watch`. If a claim opens after that, "
            "repeat the command",
            code="dispute_open",
        )
    if task.state is not TaskState.CLAIMED or task.slots[place].outcome is not None:
        raise TaskError(
            f"nothing can be disputed any more at place {place}: the task is {records.progress(task)}",
            code="claim_over",
        )
    (claim,) = await claim_reads.claims(client, [slot_case(task_id, place)], final_hash)
    if claim is None:
        raise TaskError("the next block opens the claim. Repeat the command then", code="not_claimed")
    require_open(claim)
    return task, claim


async def _require_not_over(client: ChainClient, task_id: bytes, place: int) -> None:
    """Raise TaskError or ResultError if no item of the claim at a place can be disputed now or later."""
    try:
        await _claim_of(client, task_id, place)
    except (TaskError, ResultError) as error:
        if error.code not in PASSING:
            raise


def _require_trace(task: Task) -> None:
    if not task.order.segments:
        raise TaskError("the run has no trace to compare. Dispute the whole result without --compute", code="no_trace")


async def _recomputed_item(
    session: WalletSession, client: ChainClient, keypair: Keypair, task_id: bytes, task: Task, place: int, backend: str
) -> int | None:
    """Return the first item that differs from the run computed here, or None. Wait for the claim before."""
    async with BlobClient(private=market_reads.is_development(client)) as blob_client:
        providers = await market_reads.providers(client, await client.finalized())
        with session.doing(
            f"this machine recomputes the run on {backend}. If you interrupt it, the computed part is lost"
        ):
            own_digests = await right_digests(
                blob_client, keypair, task, providers, backend, Tenths(task.order.segments, "segments")
            )
        with session.doing("the run is computed here. Waiting for the task's result, then its trace is fetched"):
            task = await _with_claim(client, task_id, place)
            # Endpoints may have changed during hours of computing.
            providers = await market_reads.providers(client, await client.finalized())
            stated = await stated_digests(blob_client, keypair, task, providers)
    return first_wrong_item(task, own_digests, stated)


async def _with_claim(client: ChainClient, task_id: bytes, place: int) -> Task:
    """Return the task once the claim at a place can be disputed. Raise TaskError or ResultError if it never can."""
    said = ""
    heads = await client.finalized_heads()
    while True:
        try:
            task, _ = await _claim_of(client, task_id, place)
        except (TaskError, ResultError) as error:
            if error.code not in PASSING:
                raise
            if error.code != said:
                said = error.code
                note(f"the run is computed here, and this command waits: {error}")
        else:
            return task
        await anext(heads)


# Computing needs no result, so it can start early. It runs beside the event loop, and only hashes are compared.
OnComputed = Callable[[int], None]
"""Receives the number of computed segments."""


async def right_digests(
    blob_client: BlobClient,
    keypair: Keypair,
    task: Task,
    providers: dict[bytes, Provider],
    backend: str,
    tell: OnComputed,
) -> Sequence[bytes]:
    """Compute a task's run here, and return the hashes of all its states.

    Raise RunBlobError if the input is unavailable, or this machine cannot compute the workload.
    """
    request = await fetch_input(blob_client, keypair, task, providers)
    return await asyncio.to_thread(_computed_digests, task, request, backend, tell)


def first_wrong_item(task: Task, own_digests: Sequence[bytes], stated: Sequence[bytes]) -> int | None:
    """Return the first item of the newest leg that is wrong in the stated trace; None if the trace is right.

    Raise RunBlobError if an earlier segment is wrong: the last provider did not compute it.
    """
    differs = next((number for number, digest in enumerate(own_digests) if stated[number] != digest), None)
    if differs is None:
        return None
    # A segment ends with the state after it, so the first wrong state belongs to the segment before.
    segment, own = max(0, differs - 1), own_segments(task.order, task.behind)
    if segment not in own:
        raise RunBlobError(
            f"state {differs} of the trace differs from the run. An earlier provider computed it, and the provider of "
            f"the result is liable for segments from {own.start} on only. Nothing can be disputed",
            code="differs_earlier",
        )
    return segment - own.start


def _computed_digests(task: Task, request: bytes, backend: str, tell: OnComputed) -> Sequence[bytes]:
    workload_form = registry.form_of(task.order.workload)
    if workload_form is None or not workload_form.is_stepwise:
        raise RunBlobError(
            "this program does not know the task's workload. Use a newer version", code="workload_unknown"
        )
    try:
        workload = workload_form.open(backend)
    except (LookupError, ImportError) as error:
        raise RunBlobError(
            f"this machine cannot compute it: {error}. Name another --backend", code="backend_unusable"
        ) from error
    digests, run = [], stepwise(workload).begin(request)
    if run.segments != task.order.segments:
        raise RunBlobError(
            f"the input asks for {run.segments} segments, and the task for {task.order.segments}",
            code="segments_differ",
        )
    for number, state in enumerate(states(run)):
        digests.append(state_hash(state))
        tell(number)
    return digests
