"""Decisions of a customer about a task."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli.calls import NothingToSend, PlannedCall, Planning, sends
from cli.session import WalletSession
from gpu_tasks.client.commands.calls import planned
from gpu_tasks.client.commands.id_prefixes import TaskError, known_task, named_task, require_customer
from gpu_tasks.client.tasks import records
from gpu_tasks.client.tasks.results import CheckpointKeeper
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.training.tasks import (
    TASK_BOND,
    TASK_DEPOSIT,
    TASK_ESCROW,
    Task,
    TaskState,
    agreed_milestone,
    has_bidding,
    slot_case,
)
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.call import Call
from runtime.frame.holds import Hold
from runtime.pallets.balances import Balances
from wallet.amounts import Grains
from wallet.client import ChainClient, Payer
from wallet.trial import Trial, TrialError, attempt


def decides(draft: Callable[..., Awaitable[PlannedCall]]) -> Callable[..., None]:
    """Make a command's body of the draft of a call about a task.

    The draft gets the planning, the id, the task and the options.
    """

    @functools.wraps(draft)
    async def plan(planning: Planning, task: str, **given: Any) -> PlannedCall:
        task_id = await named_task(planning.session, planning.client, task, planning.key_text)
        chain_task = await known_task(planning.client, task_id, await planning.client.finalized())
        return await draft(planning, task_id, chain_task, **given)

    return sends(plan)


def facts(task_id: bytes, task: Task) -> dict[str, Any]:
    """Return the first facts of each decision."""
    return {"task": task_id, "state": records.progress(task)}


@decides
async def stop(planning: Planning, task_id: bytes, chain_task: Task) -> PlannedCall:
    """Carry out `ogpu task stop`."""
    require_customer(chain_task, planning.payer.account)
    _require_running(chain_task)
    return await _stopped(planning.session, planning.client, planning.payer, task_id, chain_task)


@decides
async def confirm(planning: Planning, task_id: bytes, chain_task: Task, checkpoints: Path) -> PlannedCall:
    """Carry out `ogpu task confirm`."""
    require_customer(chain_task, planning.payer.account)
    number = records.unheld(chain_task)
    if number is None:
        raise TaskError(f"no checkpoint waits for confirmation. {records.why(chain_task)}", code="no_checkpoint")
    final_hash = await planning.client.finalized()
    # By the call the customer declares that it holds the checkpoint, so it fetches and keeps it before.
    if not planning.sending.dry_run:
        async with BlobClient(private=market_reads.is_development(planning.client)) as blob_client:
            keeper = CheckpointKeeper(
                planning.client, blob_client, planning.session.key(planning.key_text), checkpoints
            )
            await keeper.take(task_id, chain_task, final_hash)
    counts = {"milestone": number, "of": chain_task.order.milestones}
    stated = agreed_milestone(chain_task)
    assert stated is not None, "one waits to be held"
    call = TrainingMarket.confirm_checkpoint(task=task_id, number=number, root=stated.root)
    return planned(planning.session.output, call, {**facts(task_id, chain_task), **counts})


async def cancelled(
    session: WalletSession, client: ChainClient, payer: Payer, task_id: bytes, chain_task: Task
) -> PlannedCall:
    """Return the call that cancels a task. Raise TaskError if it is too late."""
    require_customer(chain_task, payer.account)
    if not _is_cancellable(chain_task):
        helps = "`ogpu task stop` stops it" if chain_task.state is TaskState.RUNNING else "See `ogpu task show`"
        raise TaskError(
            f"the task is {records.progress(chain_task)}, so it can no longer be cancelled. {helps}",
            code="not_cancellable",
        )
    call = TrainingMarket.cancel(task=task_id)
    ends = await end_facts(client, task_id, chain_task, call, payer.account)
    return planned(session.output, call, {**facts(task_id, chain_task), **ends})


async def ended_early(
    session: WalletSession, client: ChainClient, payer: Payer, task_id: bytes, chain_task: Task
) -> PlannedCall | NothingToSend:
    """Return the call that ends a task now: a cancellation, or a stop of a running task. Neither may be possible.

    Raise TaskError for any account but the customer's.
    """
    require_customer(chain_task, payer.account)
    if _is_cancellable(chain_task):
        planned_call = await cancelled(session, client, payer, task_id, chain_task)
    elif chain_task.state is TaskState.RUNNING:
        planned_call = await _stopped(session, client, payer, task_id, chain_task)
    else:
        return NothingToSend({**facts(task_id, chain_task), "why": records.why(chain_task)})
    return replace(planned_call, question="End the task now?")


async def _stopped(
    session: WalletSession, client: ChainClient, payer: Payer, task_id: bytes, chain_task: Task
) -> PlannedCall:
    call = TrainingMarket.stop(task=task_id)
    ends = await end_facts(client, task_id, chain_task, call, payer.account)
    return planned(session.output, call, {**facts(task_id, chain_task), **ends})


def _require_running(task: Task) -> None:
    if task.state is not TaskState.RUNNING:
        helps = "`ogpu task cancel` cancels it" if _is_cancellable(task) else "See `ogpu task show`"
        raise TaskError(
            f"the task is {records.progress(task)}. Only a running task is stopped. {helps}",
            code="not_running",
        )


def _is_cancellable(task: Task) -> bool:
    return has_bidding(task) or task.state in (TaskState.ASKING, TaskState.STARTING, TaskState.VOLUNTEERING)


# Amounts come from the chain's own rules over its own state, as if the call were in the next block. Without a trial the
# command claims no amount.
async def locked(client: ChainClient, task_id: bytes, task: Task, block_hash: bytes) -> int:
    """Return the grains that the customer holds for a task, without its deposit."""
    holds = [
        (task.customer, Hold(reason, slot_case(task_id, place)))
        for place in range(task.terms.slots)
        for reason in (TASK_ESCROW, TASK_BOND)
    ]
    return sum(await client.read_many(Balances.held_cases, holds, at=block_hash))


async def deposit(client: ChainClient, task_id: bytes, task: Task, block_hash: bytes) -> int:
    """Return the deposit for the record of a task."""
    held: int = await client.read(Balances.held_cases, task.customer, Hold(TASK_DEPOSIT, task_id), at=block_hash)
    return held


async def end_facts(client: ChainClient, task_id: bytes, task: Task, call: Call, signer: bytes) -> dict[str, Any]:
    """Return the amounts of a call that ends a task: returned now, returned with the record, and lost."""
    block_hash = await client.finalized()
    held, later = await locked(client, task_id, task, block_hash), await deposit(client, task_id, task, block_hash)
    back = -(await tried(client, call, signer)).amount
    return {
        "locked": Grains(held),
        "comes_back": Grains(back),
        "comes_back_later": Grains(later),
        "gone": Grains(max(0, held - back)),
    }


async def tried(client: ChainClient, call: Call, signer: bytes) -> Trial:
    """Return the trial of a call; an empty trial if it cannot be tried, which the caller reports."""
    try:
        return await attempt(client, [call], signer)
    except TrialError:
        return Trial()
