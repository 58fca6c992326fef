"""Commands with which a customer decides about its task, and with which both agree on another end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from gpu_tasks.client.commands.naming import TaskError, known_task, task_id_of_text
from gpu_tasks.client.commands.sending import key_option, planned
from gpu_tasks.client.commands.task_runs import checkpoints_option
from gpu_tasks.client.training import purse, stages
from gpu_tasks.client.training.holding import CheckpointKeeper
from gpu_tasks.client.training.recomputing import first_wrong
from gpu_tasks.client.training.run_blobs import no_result
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.training import money
from gpu_tasks.market.training.life.leaving import MoreBlocks, RaisePrice, Stop
from gpu_tasks.market.training.life.submitting import BLOCKS_MAX
from gpu_tasks.market.training.showing import own_segments
from gpu_tasks.market.training.tasks import Task, TaskState, agreed_milestone, has_bidding
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import SEGMENTS_MAX
from runtime.cryptography import ss58
from wallet.amounts import format_amount
from wallet.client import ChainClient, Payer
from wallet.commands.making import PlannedCall, SendingOptions, make, sending_options
from wallet.commands.options import AMOUNT
from wallet.keypair import Keypair
from wallet.output import Grains
from wallet.session import WalletSession, note

Draft = Callable[[ChainClient, Payer, bytes, Task], Awaitable[PlannedCall]]
CLOSABLE = (TaskState.STARTING, TaskState.RUNNING, TaskState.SUBMITTED)


@click.command()
@click.argument("task")
@key_option
@sending_options
@click.pass_obj
def accept(session: WalletSession, task: str, key_text: str, sending: SendingOptions) -> None:
    """Take the result of TASK (0x..): it is paid as soon as it is known that it is not audited."""

    async def draft(_client: ChainClient, payer: Payer, task_id: bytes, found: Task) -> PlannedCall:
        _require_customer(found, payer.account)
        _require_result(found)
        pays = sum(slot.price for slot in found.slots)
        terms = {**_facts(task_id, found), "pays": Grains(pays)}
        return planned(session.output, TrainingMarket.accept(task=task_id), terms)

    _make(session, task, key_text, sending, draft)


@click.command()
@click.argument("task")
@key_option
@click.option(
    "--segment",
    type=click.IntRange(0, SEGMENTS_MAX - 1),
    help="The segment of the trace that is wrong, counted from 0.",
)
@click.option(
    "--compute", "is_computed", is_flag=True, help="Compute the run on this machine, and name the first wrong segment."
)
@click.option(
    "--backend", default="numpy", show_default=True, help="For --compute: numpy, reference, or torch-<device>."
)
@sending_options
@click.pass_obj
def dispute(
    session: WalletSession, task: str, key_text: str, segment: int | None, is_computed: bool, backend: str,
    sending: SendingOptions,
) -> None:  # fmt: skip
    """Say that the result of TASK (0x..) is wrong: judges look at it, and a bond pays them if it is right.

    Judges compute a fifth of the run, which is drawn; a lie in one segment is found surely where that is named.
    """
    if segment is not None and is_computed:
        raise click.UsageError("give --segment or --compute: the one says what the other finds")

    async def draft(client: ChainClient, payer: Payer, task_id: bytes, found: Task) -> PlannedCall:
        _require_customer(found, payer.account)
        _require_result(found)
        last = found.finished_at + found.windows.dispute
        if await client.height(await client.finalized()) >= last:
            raise TaskError(
                f"the time to dispute it was over after block {last}: it is paid unless an audit finds it wrong"
            )
        bonds = [money.dispute_bond(found.rules, found.terms.price_max, slot.price) for slot in found.slots]
        covered = sum(min(slot.collateral // 2, found.terms.price_max) for slot in found.slots)
        named = segment if not is_computed else await _wrong_segment(client, session.key(key_text), found, backend)
        _require_own_segment(found, named)
        terms = {
            **_facts(task_id, found),
            "disputable_up_to_block": last,
            "segment": named,
            "bond": Grains(sum(bonds)),
            "gone_if_lost": Grains(sum(bonds)),
            "brings_if_won": Grains(covered),
        }
        call = TrainingMarket.dispute(task=task_id, segment=named)
        return planned(session.output, call, terms, locks=sum(bonds))

    _make(session, task, key_text, sending, draft)


@click.command()
@click.argument("task")
@key_option
@click.option("--raise", "price_max", type=AMOUNT, help="A higher greatest price in oGPU, while nobody has bid.")
@click.option(
    "--extend", "blocks", type=click.IntRange(1, BLOCKS_MAX), help="So many more blocks for everybody who works on it."
)  # fmt: skip
@click.option(
    "--stop", "is_stop", is_flag=True, help="End it while it runs: what has elapsed is paid, and the bond goes."
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
        _require_customer(found, payer.account)
        if price_max is not None:
            _require_raisable(found, price_max)
            return await _amended(session, client, payer, task_id, found, RaisePrice(price_max))
        if found.state is not TaskState.RUNNING:
            helps = "`ogpu cancel` takes it back" if _is_cancellable(found) else "see `ogpu describe`"
            raise TaskError(f"the task is {stages.progress(found)}: only one that runs is extended or stopped; {helps}")
        change = Stop() if blocks is None else MoreBlocks(blocks)
        return await _amended(session, client, payer, task_id, found, change)

    _make(session, task, key_text, sending, draft)


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
        terms = {**_facts(task_id, found), "pay": Grains(pays), "back": Grains(comes_back)}
        return planned(session.output, call, terms)

    _make(session, task, key_text, sending, draft)


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
        _require_customer(found, payer.account)
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
        return planned(session.output, call, {**_facts(task_id, found), **counts})

    _make(session, task, key_text, sending, draft)


async def cancelled(
    session: WalletSession, client: ChainClient, payer: Payer, task_id: bytes, found: Task
) -> PlannedCall:
    """What taking a task back would be; TaskError where that cannot be done any more."""
    _require_customer(found, payer.account)
    if not _is_cancellable(found):
        helps = "`ogpu amend --stop` ends it" if found.state is TaskState.RUNNING else "see `ogpu describe`"
        raise TaskError(f"the task is {stages.progress(found)}: it cannot be taken back any more; {helps}")
    call = TrainingMarket.cancel(task=task_id)
    ends = await purse.end_facts(client, task_id, found, call, payer.account)
    return planned(session.output, call, {**_facts(task_id, found), **ends})


async def _amended(
    session: WalletSession, client: ChainClient, payer: Payer, task_id: bytes, found: Task, change: Any
) -> PlannedCall:
    call = TrainingMarket.amend(task=task_id, change=change)
    terms, locks = _facts(task_id, found), 0
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


def _make(session: WalletSession, task: str, key_text: str, sending: SendingOptions, draft: Draft) -> None:
    """Plan a call about a task, show it, ask, send it."""

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall:
        task_id = task_id_of_text(task)
        found = await known_task(client, task_id, await client.finalized())
        return await draft(client, payer, task_id, found)

    make(session, key_text, sending, plan)


def _facts(task_id: bytes, task: Task) -> dict[str, Any]:
    return {"task": task_id, "state": stages.progress(task)}


def _require_customer(task: Task, account: bytes) -> None:
    if task.customer != account:
        raise TaskError(f"the task is {ss58.encode(task.customer)}'s: only the key that submitted it decides about it")


def _require_result(task: Task) -> None:
    if task.state is not TaskState.SUBMITTED:
        had = any(slot.result is not None for slot in task.slots)
        raise TaskError(f"the task is {stages.progress(task)}: {stages.why(task)}" if had else no_result(task))
    if task.accepted is not None:
        raise TaskError(f"the result is accepted already: {stages.why(task)}")


def _require_own_segment(task: Task, segment: int | None) -> None:
    own = own_segments(task)
    if segment is None or segment in own:
        return
    if not task.order.segments:
        raise TaskError("the run has no trace: judges compute all of it, and no segment is named")
    raise TaskError(f"who stated the result computed segments {own.start} to {own.stop - 1}: name one of these")


async def _wrong_segment(client: ChainClient, key: Keypair, task: Task, backend: str) -> int:
    """The first wrong segment, computed here; TaskError where all of the trace is right."""
    providers = await market_reads.providers(client, await client.finalized())
    async with BlobClient(private=market_reads.is_development(client)) as blobs:
        found = await first_wrong(blobs, key, task, providers, backend, _Computed())
    if found is None:
        raise TaskError("the whole trace is right, as this machine computes it: a dispute would be lost")
    return found


class _Computed:
    """Says on the screen how much of a run is computed, by the tenth."""

    def __init__(self) -> None:
        self._said = -1

    def __call__(self, done: int, segments: int) -> None:
        tenths = 10 * done // segments
        if tenths != self._said:
            self._said = tenths
            note(f"computing: {10 * tenths} % of {segments} segments")


def _require_raisable(task: Task, price_max: int) -> None:
    if task.state is not TaskState.COMMITTING or task.bids:
        raise TaskError(f"the task is {stages.progress(task)}: a price is raised before the first bid only")
    if price_max <= task.terms.price_max:
        now = format_amount(task.terms.price_max)
        raise TaskError(f"the task pays at most {now} oGPU now: a price is only raised; give --raise more than that")


def _is_cancellable(task: Task) -> bool:
    return has_bidding(task) or task.state in (TaskState.ASKING, TaskState.STARTING)


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
