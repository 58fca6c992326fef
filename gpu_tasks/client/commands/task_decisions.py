"""Decisions of a customer about a task, and agreements of both sides on another end."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cli.calls import NothingToSend, PlannedCall, Planning, SendingOptions, make, sends
from cli.session import WalletSession
from gpu_tasks.client.commands.calls import planned
from gpu_tasks.client.commands.id_prefixes import TaskError, known_task, named_task, require_customer
from gpu_tasks.client.offers.outlook import slot_ms
from gpu_tasks.client.tasks import records
from gpu_tasks.client.tasks.results import CheckpointKeeper
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.training.life.leaving import MoreBlocks, RaisePrice, Stop
from gpu_tasks.market.training.life.submitting import BLOCKS_MAX
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
from gpu_tasks.tasks.quantities import TimeSpan
from runtime.frame.call import Call
from runtime.frame.holds import Hold
from runtime.pallets.balances import Balances
from wallet.amounts import Grains, format_amount
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


CLOSABLE = (TaskState.STARTING, TaskState.RUNNING)


def amend(
    session: WalletSession, task: str, key_text: str, price_max: int | None, more: TimeSpan | None, is_stop: bool,
    sending: SendingOptions,
) -> None:  # fmt: skip
    """Carry out `ogpu task amend`."""
    if (price_max is not None) + (more is not None) + is_stop != 1:
        raise click.UsageError("give one of --raise, --extend and --stop")

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall:
        task_id = await named_task(session, client, task, key_text)
        chain_task = await known_task(client, task_id, await client.finalized())
        require_customer(chain_task, payer.account)
        if price_max is not None:
            _require_raisable(chain_task, price_max)
            return await _amendment(session, client, payer, task_id, chain_task, RaisePrice(price_max))
        _require_running(chain_task)
        change = Stop() if more is None else MoreBlocks(_more_blocks(client, more))
        return await _amendment(session, client, payer, task_id, chain_task, change)

    make(session, key_text, sending, plan)


def _more_blocks(client: ChainClient, more: TimeSpan) -> int:
    """Return the blocks of an extension; TaskError for more than the chain takes."""
    blocks = more.blocks_for(slot_ms(client))
    if not 1 <= blocks <= BLOCKS_MAX:
        raise TaskError(
            f"--extend is {blocks} blocks. Give 1 to {BLOCKS_MAX:,} blocks, or a time such as 20m", code="out_of_range"
        )
    return blocks


@decides
async def stop(planning: Planning, task_id: bytes, chain_task: Task) -> PlannedCall:
    """Carry out `ogpu task stop`."""
    require_customer(chain_task, planning.payer.account)
    _require_running(chain_task)
    return await _amendment(planning.session, planning.client, planning.payer, task_id, chain_task, Stop())


@decides
async def close(planning: Planning, task_id: bytes, chain_task: Task, pay: int | None, back: int | None) -> PlannedCall:
    """Carry out `ogpu task close`."""
    pays, comes_back = _close_terms(chain_task, planning.payer.account, pay, back)
    call = TrainingMarket.close(task=task_id, pay=pays, back=comes_back)
    terms = {**facts(task_id, chain_task), "pay": Grains(pays), "back": Grains(comes_back)}
    return planned(planning.session.output, call, terms)


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
        planned_call = await _amendment(session, client, payer, task_id, chain_task, Stop())
    else:
        return NothingToSend({**facts(task_id, chain_task), "why": records.why(chain_task)})
    return replace(planned_call, question="End the task now?")


async def _amendment(
    session: WalletSession, client: ChainClient, payer: Payer, task_id: bytes, chain_task: Task, change: Any
) -> PlannedCall:
    call = TrainingMarket.amend(task=task_id, change=change)
    terms, locks = facts(task_id, chain_task), 0
    match change:
        case RaisePrice():
            locks = max(0, (await tried(client, call, payer.account)).amount)
            terms |= {"price_max_before": Grains(chain_task.terms.price_max), "price_max": Grains(change.price_max)}
            terms |= {"locked_more": Grains(locks)}
        case MoreBlocks():
            terms |= {
                "more_blocks": change.blocks,
                "promised": [slot.promised + change.blocks for slot in chain_task.slots],
            }
        case _:
            terms |= await end_facts(client, task_id, chain_task, call, payer.account)
    return planned(session.output, call, terms, locks=locks)


def _require_running(task: Task) -> None:
    if task.state is not TaskState.RUNNING:
        helps = "`ogpu task cancel` cancels it" if _is_cancellable(task) else "See `ogpu task show`"
        raise TaskError(
            f"the task is {records.progress(task)}. Only a running task is extended or stopped. {helps}",
            code="not_running",
        )


def _require_raisable(task: Task, price_max: int) -> None:
    if task.state is not TaskState.COMMITTING or task.bids:
        raise TaskError(
            f"the task is {records.progress(task)}. A price can be raised only before the first bid",
            code="not_raisable",
        )
    if price_max <= task.terms.price_max:
        now = format_amount(task.terms.price_max)
        raise TaskError(f"the task already pays up to {now} oGPU. Give --raise more than that", code="price_too_low")


def _is_cancellable(task: Task) -> bool:
    return has_bidding(task) or task.state in (TaskState.ASKING, TaskState.STARTING, TaskState.VOLUNTEERING)


def _close_terms(task: Task, account: bytes, pay: int | None, back: int | None) -> tuple[int, int]:
    """Return the terms to offer or to sign. Raise TaskError if the account can do neither."""
    if task.state not in CLOSABLE:
        stands = records.progress(task)
        raise TaskError(
            f"the task is {stands}. Another end can be agreed from the award to the result only", code="not_closable"
        )
    if task.customer == account:
        if pay is None or back is None:
            raise TaskError(
                "give --pay for each provider and --back out of each collateral. Each may be 0",
                code="close_terms_missing",
            )
        price, collateral = min(slot.price for slot in task.slots), min(slot.collateral for slot in task.slots)
        if pay > price or back > collateral:
            raise TaskError(
                f"--pay is at most the price, {format_amount(price)} oGPU. --back is at most the collateral, "
                f"{format_amount(collateral)} oGPU",
                code="close_terms_too_high",
            )
        return pay, back
    if all(slot.provider != account for slot in task.slots):
        raise TaskError(
            "only the customer and the stashes of its slots can agree on an end. See `ogpu task show`", code="not_party"
        )
    offer = task.close
    if offer is None:
        raise TaskError("the customer offers no other end, so there is nothing to sign", code="no_offer")
    if (pay, back) not in ((None, None), (offer.pay, offer.back)):
        raise TaskError(
            f"the customer offers --pay {format_amount(offer.pay)} --back {format_amount(offer.back)}, nothing else",
            code="other_offer",
        )
    return offer.pay, offer.back


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
