"""Commands with which a customer decides about its task, and with which both agree on another end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from gpu_tasks.client.commands.naming import TaskError
from gpu_tasks.client.commands.sending import key_option, planned
from gpu_tasks.client.commands.task_calls import facts, make_about, require_customer, require_result
from gpu_tasks.client.commands.task_runs import checkpoints_option
from gpu_tasks.client.training import purse, stages
from gpu_tasks.client.training.holding import CheckpointKeeper
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.training.life.leaving import MoreBlocks, RaisePrice, Stop
from gpu_tasks.market.training.life.submitting import BLOCKS_MAX
from gpu_tasks.market.training.tasks import Task, TaskState, agreed_milestone, has_bidding
from gpu_tasks.market.training.training_market import TrainingMarket
from wallet.amounts import format_amount
from wallet.client import ChainClient, Payer
from wallet.commands.making import NothingToSend, PlannedCall, SendingOptions, sending_options
from wallet.commands.options import AMOUNT
from wallet.output import Grains
from wallet.session import WalletSession

CLOSABLE = (TaskState.STARTING, TaskState.RUNNING, TaskState.SUBMITTED)


@click.command()
@click.argument("task")
@key_option
@sending_options
@click.pass_obj
def accept(session: WalletSession, task: str, key_text: str, sending: SendingOptions) -> None:
    """Take the result of TASK (0x..): it is paid as soon as it is known that it is not audited."""

    async def draft(_client: ChainClient, payer: Payer, task_id: bytes, found: Task) -> PlannedCall:
        require_customer(found, payer.account)
        require_result(found)
        pays = sum(slot.price for slot in found.slots)
        terms = {**facts(task_id, found), "pays": Grains(pays)}
        return planned(session.output, TrainingMarket.accept(task=task_id), terms)

    make_about(session, task, key_text, sending, draft)


@click.command()
@click.argument("task")
@key_option
@click.option("--raise", "price_max", type=AMOUNT, help="A higher greatest price in oGPU, while nobody has bid.")
@click.option(
    "--extend", "blocks", type=click.IntRange(1, BLOCKS_MAX), help="So many more blocks for everybody who works on it."
)  # fmt: skip
@click.option(
    "--stop", "is_stop", is_flag=True, help="Stop the running task; pay its elapsed time and 5 % of the price."
)
@sending_options
@click.pass_obj
def amend(
    session: WalletSession, task: str, key_text: str, price_max: int | None, blocks: int | None, is_stop: bool,
    sending: SendingOptions,
) -> None:  # fmt: skip
    """Change TASK (0x..): --raise the price, --extend its time, or --stop it; one of the three."""
    if (price_max is not None) + (blocks is not None) + is_stop != 1:
        raise click.UsageError("give one of --raise, --extend and --stop")

    async def draft(client: ChainClient, payer: Payer, task_id: bytes, found: Task) -> PlannedCall:
        require_customer(found, payer.account)
        if price_max is not None:
            _require_raisable(found, price_max)
            return await _amended(session, client, payer, task_id, found, RaisePrice(price_max))
        _require_running(found)
        change = Stop() if blocks is None else MoreBlocks(blocks)
        return await _amended(session, client, payer, task_id, found, change)

    make_about(session, task, key_text, sending, draft)


@click.command()
@click.argument("task")
@key_option
@sending_options
@click.pass_obj
def stop(session: WalletSession, task: str, key_text: str, sending: SendingOptions) -> None:
    """Stop a running TASK (0x..): you pay for the elapsed time, and 5 % of the price out of your bond.

    The container of a job or a lease goes at once, with its files.
    """

    async def draft(client: ChainClient, payer: Payer, task_id: bytes, found: Task) -> PlannedCall:
        require_customer(found, payer.account)
        _require_running(found)
        return await _amended(session, client, payer, task_id, found, Stop())

    make_about(session, task, key_text, sending, draft)


@click.command()
@click.argument("task")
@key_option
@click.option("--pay", type=AMOUNT, help="oGPU to each provider, out of the escrow.")
@click.option("--back", type=AMOUNT, help="oGPU to the customer, out of each collateral.")
@sending_options
@click.pass_obj
def close(
    session: WalletSession, task: str, key_text: str, pay: int | None, back: int | None, sending: SendingOptions
) -> None:
    """Offer another end of TASK (0x..), or sign the one that its customer offers, as the stash of a slot.

    The customer gives --pay and --back; who signs may leave them out. The last signature ends the task.
    """

    async def draft(_client: ChainClient, payer: Payer, task_id: bytes, found: Task) -> PlannedCall:
        pays, comes_back = _close_terms(found, payer.account, pay, back)
        call = TrainingMarket.close(task=task_id, pay=pays, back=comes_back)
        terms = {**facts(task_id, found), "pay": Grains(pays), "back": Grains(comes_back)}
        return planned(session.output, call, terms)

    make_about(session, task, key_text, sending, draft)


@click.command()
@click.argument("task")
@key_option
@checkpoints_option
@sending_options
@click.pass_obj
def hold(session: WalletSession, task: str, key_text: str, checkpoints: Path, sending: SendingOptions) -> None:
    """Fetch and check the newest checkpoint of TASK (0x..), keep it, and sign that: its milestone counts then.

    `ogpu submit --watch` and `ogpu watch` do so by themselves.
    """

    async def draft(client: ChainClient, payer: Payer, task_id: bytes, found: Task) -> PlannedCall:
        require_customer(found, payer.account)
        number = stages.unheld(found)
        if number is None:
            raise TaskError(f"no checkpoint waits to be held: {stages.why(found)}")
        final = await client.finalized()
        if not sending.dry_run:
            async with BlobClient(private=market_reads.is_development(client)) as blobs:
                keeper = CheckpointKeeper(client, blobs, session.key(key_text), checkpoints)
                await keeper.take(task_id, found, final)
        counts = {"milestone": number, "of": found.order.milestones}
        stated = agreed_milestone(found)
        assert stated is not None, "one waits to be held"
        call = TrainingMarket.hold_checkpoint(task=task_id, number=number, root=stated.root)
        return planned(session.output, call, {**facts(task_id, found), **counts})

    make_about(session, task, key_text, sending, draft)


async def cancelled(
    session: WalletSession, client: ChainClient, payer: Payer, task_id: bytes, found: Task
) -> PlannedCall:
    """What taking a task back would be; TaskError where that cannot be done any more."""
    require_customer(found, payer.account)
    if not _is_cancellable(found):
        helps = "`ogpu stop` ends it" if found.state is TaskState.RUNNING else "see `ogpu describe`"
        raise TaskError(f"the task is {stages.progress(found)}: it cannot be taken back any more; {helps}")
    call = TrainingMarket.cancel(task=task_id)
    ends = await purse.end_facts(client, task_id, found, call, payer.account)
    return planned(session.output, call, {**facts(task_id, found), **ends})


async def ended_early(
    session: WalletSession, client: ChainClient, payer: Payer, task_id: bytes, found: Task
) -> PlannedCall | NothingToSend:
    """The call that ends a task now, with its cost: taken back, or stopped where it runs; none where it can be neither.

    TaskError for anybody but its customer.
    """
    require_customer(found, payer.account)
    if _is_cancellable(found):
        planned_call = await cancelled(session, client, payer, task_id, found)
    elif found.state is TaskState.RUNNING:
        planned_call = await _amended(session, client, payer, task_id, found, Stop())
    else:
        return NothingToSend({**facts(task_id, found), "why": stages.why(found)})
    return replace(planned_call, question="End the task now?")


async def _amended(
    session: WalletSession, client: ChainClient, payer: Payer, task_id: bytes, found: Task, change: Any
) -> PlannedCall:
    call = TrainingMarket.amend(task=task_id, change=change)
    terms, locks = facts(task_id, found), 0
    match change:
        case RaisePrice():
            locks = max(0, (await purse.tried(client, call, payer.account)).amount)
            terms |= {"price_max_before": Grains(found.terms.price_max), "price_max": Grains(change.price_max)}
            terms |= {"locked_more": Grains(locks)}
        case MoreBlocks():
            terms |= {"more_blocks": change.blocks, "promised": [slot.promised + change.blocks for slot in found.slots]}
        case _:
            terms |= await purse.end_facts(client, task_id, found, call, payer.account)
    return planned(session.output, call, terms, locks=locks)


def _require_running(task: Task) -> None:
    if task.state is not TaskState.RUNNING:
        helps = "`ogpu cancel` takes it back" if _is_cancellable(task) else "see `ogpu describe`"
        raise TaskError(f"the task is {stages.progress(task)}: only one that runs is extended or stopped; {helps}")


def _require_raisable(task: Task, price_max: int) -> None:
    if task.state is not TaskState.COMMITTING or task.bids:
        raise TaskError(f"the task is {stages.progress(task)}: a price is raised before the first bid only")
    if price_max <= task.terms.price_max:
        now = format_amount(task.terms.price_max)
        raise TaskError(f"the task pays at most {now} oGPU now: a price is only raised; give --raise more than that")


def _is_cancellable(task: Task) -> bool:
    return has_bidding(task) or (
        task.state in (TaskState.ASKING, TaskState.STARTING, TaskState.VOLUNTEERING) and not task.jury_from
    )


def _close_terms(task: Task, account: bytes, pay: int | None, back: int | None) -> tuple[int, int]:
    """What is offered or signed; TaskError where the account can do neither."""
    if task.state not in CLOSABLE or task.accepted is not None:
        stands = stages.progress(task)
        raise TaskError(f"the task is {stands}: another end is agreed on between award and acceptance only")
    if task.customer == account:
        if pay is None or back is None:
            raise TaskError("say what the end is: --pay for each provider, --back out of each collateral; 0 is fine")
        price, collateral = min(slot.price for slot in task.slots), min(slot.collateral for slot in task.slots)
        if pay > price or back > collateral:
            raise TaskError(
                f"--pay is at most {format_amount(price)} oGPU, the price, and --back {format_amount(collateral)}, "
                "the collateral"
            )
        return pay, back
    if all(slot.provider != account for slot in task.slots):
        raise TaskError("only the customer and the stashes of its slots agree on an end: see `ogpu describe`")
    offer = task.close
    if offer is None:
        raise TaskError("its customer offers no other end: nothing is there to sign")
    if (pay, back) not in ((None, None), (offer.pay, offer.back)):
        raise TaskError(
            f"its customer offers --pay {format_amount(offer.pay)} --back {format_amount(offer.back)}, and nothing else"
        )
    return offer.pay, offer.back
