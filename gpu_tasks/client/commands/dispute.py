"""Disputes: a customer recomputes a run or answers on this machine, and disputes what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import click

from cli.calls import NothingToSend, PlannedCall, SendingOptions, make, require_somebody_to_ask
from cli.chain_time import read_time
from cli.session import WalletSession, note
from gpu_tasks.client.commands.calls import planned, time_left
from gpu_tasks.client.commands.id_prefixes import TaskError, known_task, named_task, named_unit, require_customer
from gpu_tasks.client.commands.task_decisions import facts, require_result
from gpu_tasks.client.commands.units import known_unit
from gpu_tasks.client.tasks.results import RunBlobError, fetch_input, stated_digests
from gpu_tasks.client.units.leaf_checks import WrongLeaf, first_wrong, is_early, require_disputable, why_checked
from gpu_tasks.client.units.results import PaidOutput, ResultError, paid_output, progress
from gpu_tasks.client.units.watch import moments
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.leaf_checks.checks import LeafCheck
from gpu_tasks.market.leaf_checks.fees import dispute_bond
from gpu_tasks.market.training import money
from gpu_tasks.market.training.orders import JURORS, is_replicated
from gpu_tasks.market.training.showing import own_segments
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import state_hash
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.stepwise import states, stepwise
from wallet.amounts import Grains
from wallet.client import ChainClient, Payer
from wallet.keypair import Keypair


async def leaf_dispute(
    session: WalletSession,
    client: ChainClient,
    keypair: Keypair,
    unit_id: bytes,
    unit: Unit,
    leaf: int | None,
    backend: str,
) -> PlannedCall | NothingToSend:
    """Return the call that disputes the named leaf or the first wrong one. Call `require_not_late` first.

    Raise ResultError if the named leaf is right.
    """
    final_hash = await client.finalized()
    with session.doing("fetching requests and answers from the stores"):
        async with BlobClient(private=market_reads.is_development(client)) as blob_client:
            paid = await paid_output(client, blob_client, keypair, unit_id, unit, final_hash)
    wrong = await _recomputed(session, client.genesis_hash, unit_id, paid, leaf, backend)
    if wrong is None:
        return all_right({"unit": unit_id, "state": progress(unit)}, len(paid.requests), "answer")
    with session.doing("a wrong answer is found. It can be disputed after the unit's check ends"):
        leaf_check = await _check_once_open(client, unit_id, unit)
    bond = dispute_bond(leaf_check.terms.judge_fee)
    chain_time = await read_time(client, await client.finalized())
    facts: dict[str, Any] = {
        "unit": unit_id,
        "state": progress(unit),
        "leaf": wrong.index,
        "disputable_up_to_block": leaf_check.deadline,
        "time_left": time_left(chain_time, leaf_check.deadline),
        "bond": Grains(bond),
        "gone_if_lost": Grains(bond),
        "brings_if_won": Grains(leaf_check.terms.price),
        "then": f"judges compute it. Follow them with `ogpu unit watch 0x{unit_id.hex()}`",
    }
    return planned(session.output, wrong.dispute(unit_id), facts, locks=bond)


async def require_not_late(client: ChainClient, unit_id: bytes, unit: Unit, final_hash: bytes) -> None:
    """Raise ResultError for a unit whose leaves can no longer be disputed."""
    leaf_check = await market_reads.check(client, unit_id, final_hash)
    if not is_early(leaf_check):
        require_disputable(unit, leaf_check, await client.height(final_hash))


async def _check_once_open(client: ChainClient, unit_id: bytes, unit: Unit) -> LeafCheck:
    """Return the check once leaves can be disputed. Raise ResultError if that time has passed."""
    told_stage, block_moments = None, moments(client)
    while True:
        final_hash = await client.finalized()
        leaf_check = await market_reads.check(client, unit_id, final_hash)
        if leaf_check is None or not is_early(leaf_check):
            return require_disputable(unit, leaf_check, await client.height(final_hash))
        if leaf_check.stage is not told_stage:
            told_stage = leaf_check.stage
            note(f"a wrong answer is found. It can be disputed after the unit's check: {why_checked(leaf_check)}")
        await anext(block_moments)


async def _recomputed(
    session: WalletSession, genesis: bytes, unit_id: bytes, paid: PaidOutput, leaf: int | None, backend: str
) -> WrongLeaf | None:
    """Return the first wrong leaf of all, or of the named one. Raise ResultError if the named leaf is right.

    Computing runs beside the event loop, because nodes close a silent connection.
    """
    indices = range(len(paid.requests)) if leaf is None else (leaf,)
    tenths, counted = Tenths(len(indices), "requests"), f"{len(indices):,} request{'' if len(indices) == 1 else 's'}"
    with session.doing(
        f"this machine recomputes {counted} on {backend}. If you interrupt it, the computed part is lost"
    ):
        try:
            wrong = await asyncio.to_thread(first_wrong, genesis, unit_id, paid, indices, backend, tenths)
        finally:
            tenths.is_over = True
    if wrong is None and leaf is not None:
        raise ResultError(
            f"leaf {leaf} equals the answer that this machine computed. You would lose a dispute", code="answer_right"
        )
    return wrong


NOTHING_TO_DISPUTE = "There is nothing to dispute"


def all_right(facts: dict[str, Any], count: int, noun: str) -> NothingToSend:
    """Return the facts of a recomputation without a difference."""
    result = f"every {noun} equals the one that this machine computed. {NOTHING_TO_DISPUTE}"
    return NothingToSend({**facts, "computed": count, "agree": count, "result": result})


class Tenths:
    """Notes of the progress, a tenth at a time."""

    def __init__(self, count: int, noun: str) -> None:
        """`noun` is a plural."""
        self._count, self._noun, self._said = count, noun, -1
        self.is_over = False
        """True once the result is no longer needed: computing ends with the next request."""

    def __call__(self, done: int) -> None:
        """Note the progress. Raise ResultError if the result is no longer needed."""
        if self.is_over:
            raise ResultError("it was interrupted", code="interrupted")
        tenths = 10 * done // self._count
        if tenths != self._said:
            self._said = tenths
            note(f"computed {10 * tenths} % of {self._count} {self._noun}")


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


def dispute_unit(
    session: WalletSession, unit: str, key_text: str, leaf: int | None, is_computed: bool, backend: str,
    sending: SendingOptions,
) -> None:  # fmt: skip
    """Carry out `ogpu unit dispute`."""
    if is_computed == (leaf is not None):
        raise click.UsageError("name one answer with --leaf, or recompute all of them with --compute")

    async def plan(client: ChainClient, _: Payer) -> PlannedCall | NothingToSend:
        unit_id = await named_unit(session, client, unit, key_text)
        final_hash = await client.finalized()
        chain_unit = await known_unit(client, unit_id, final_hash)
        await require_not_late(client, unit_id, chain_unit, final_hash)
        # Refuse before anything is computed.
        require_somebody_to_ask(is_asked=not (sending.dry_run or sending.is_agreed))
        return await leaf_dispute(session, client, session.key(key_text), unit_id, chain_unit, leaf, backend)

    make(session, key_text, sending, plan)


def dispute_task(
    session: WalletSession, task: str, key_text: str, segment: int | None, is_computed: bool, backend: str,
    sending: SendingOptions,
) -> None:  # fmt: skip
    """Carry out `ogpu task dispute`."""
    if segment is not None and is_computed:
        raise click.UsageError("give --segment or --compute, not both. --compute finds the segment")

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall | NothingToSend:
        named = await named_task(session, client, task, key_text)
        return await draft(client, payer, named, await known_task(client, named, await client.finalized()))

    async def draft(client: ChainClient, payer: Payer, task_id: bytes, chain_task: Task) -> PlannedCall | NothingToSend:
        require_customer(chain_task, payer.account)
        named = segment
        if is_computed:
            await _require_not_late(client, chain_task)
            # Refuse before hours of computing.
            require_somebody_to_ask(is_asked=not (sending.dry_run or sending.is_agreed))
            chain_task, named = await _recomputed_segment(
                session, client, session.key(key_text), task_id, chain_task, backend
            )
            if named is None:
                return all_right(facts(task_id, chain_task), chain_task.order.segments, "segment")
        require_result(chain_task)
        last_block = await _require_in_time(client, chain_task)
        bonds = bonds_of(chain_task)
        covered = sum(min(slot.collateral // 2, chain_task.terms.price_max) for slot in chain_task.slots)
        _require_own_segment(chain_task, named)
        terms = {
            **facts(task_id, chain_task),
            "disputable_up_to_block": last_block,
            "time_left": time_left(await read_time(client, await client.finalized()), last_block),
            "segment": named,
            "bond": Grains(sum(bonds)),
            "gone_if_lost": Grains(sum(bonds)),
            "brings_if_won": Grains(covered),
        }
        call = TrainingMarket.dispute(task=task_id, segment=named)
        return planned(session.output, call, terms, locks=sum(bonds))

    make(session, key_text, sending, plan)


async def _require_not_late(client: ChainClient, task: Task) -> None:
    """Raise TaskError for a result that can no longer be disputed. A task without a result yet passes."""
    if task.state not in NO_RESULT_YET:
        require_result(task)
        await _require_in_time(client, task)


async def _require_in_time(client: ChainClient, task: Task) -> int:
    """Return the last block of the dispute window. Raise TaskError if it has passed."""
    last_block = task.finished_at + task.windows.dispute
    if await client.height(await client.finalized()) >= last_block:
        then = "" if is_replicated(task.order) else ", unless an audit refutes it"
        raise TaskError(f"the dispute window ended after block {last_block}. The result is paid{then}", code="too_late")
    return last_block


def bonds_of(task: Task) -> list[int]:
    """Return the bonds of a dispute: the judges of each slot, or the jury of replicas."""
    if is_replicated(task.order):
        return [task.slots[0].price] * JURORS
    return [money.dispute_bond(task.rules, task.terms.price_max, slot.price) for slot in task.slots]


def _require_own_segment(task: Task, segment: int | None) -> None:
    own = own_segments(task)
    if segment is not None:
        _require_trace(task)
    if segment is None or segment in own:
        return
    raise TaskError(
        f"the provider of the result computed segments {own.start} to {own.stop - 1}. Name one of these",
        code="segment_unknown",
    )


def _require_trace(task: Task) -> None:
    if not task.order.segments:
        raise TaskError("the run has no trace, so no segment can be named. Judges compute all of it", code="no_trace")


async def _recomputed_segment(
    session: WalletSession, client: ChainClient, keypair: Keypair, task_id: bytes, task: Task, backend: str
) -> tuple[Task, int | None]:
    """Return a task with its result, and the first segment that differs from the run computed here, or None."""
    _require_trace(task)
    if task.state not in NO_RESULT_YET:
        require_result(task)
    async with BlobClient(private=market_reads.is_development(client)) as blob_client:
        providers = await market_reads.providers(client, await client.finalized())
        with session.doing(
            f"this machine recomputes the run on {backend}. If you interrupt it, the computed part is lost"
        ):
            own_digests = await right_digests(
                blob_client, keypair, task, providers, backend, Tenths(task.order.segments, "segments")
            )
        with session.doing("the run is computed here. Waiting for the task's result, then its trace is fetched"):
            task = await _with_result(client, task_id, task)
            # Endpoints may have changed during hours of computing.
            providers = await market_reads.providers(client, await client.finalized())
            return task, first_wrong_segment(
                task, own_digests, await stated_digests(blob_client, keypair, task, providers)
            )


async def _with_result(client: ChainClient, task_id: bytes, task: Task) -> Task:
    """Return the task once it has a result. Raise TaskError if it ends without one."""
    if task.state in NO_RESULT_YET:
        note("the run is computed here. Waiting for the task's result")
        async for _ in await client.finalized_heads():
            task = await known_task(client, task_id, await client.finalized())
            if task.state not in NO_RESULT_YET:
                break
    require_result(task)
    return task


# Judges check a fifth of a run, and all of a named segment. Computing needs no result, so it can start early. It runs
# beside the event loop, and only hashes are compared.
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


def first_wrong_segment(task: Task, own_digests: Sequence[bytes], stated: Sequence[bytes]) -> int | None:
    """Return the first segment of the newest leg that is wrong in the stated trace; None if the trace is right.

    Raise RunBlobError if an earlier segment is wrong: the last provider did not compute it.
    """
    differs = next((number for number, digest in enumerate(own_digests) if stated[number] != digest), None)
    if differs is None:
        return None
    # A segment ends with the state after it, so the first wrong state belongs to the segment before.
    segment, own = max(0, differs - 1), own_segments(task)
    if segment not in own:
        raise RunBlobError(
            f"state {differs} of the trace differs from the run, but the provider of the result only answers for "
            f"segments from {own.start} on. Dispute without --segment: judges compare its start with the newest "
            "valid checkpoint",
            code="differs_earlier",
        )
    return segment


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
