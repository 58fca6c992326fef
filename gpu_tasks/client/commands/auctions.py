"""Commands that look at tasks, also at other customers': list, history, one task, its bids, and its verification."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from cli.chain_time import read_time
from cli.output import Output, fields_of
from cli.session import CallFailedError, WalletSession, note, reads
from gpu_tasks.client.commands.id_prefixes import TaskError, known_task, named_task, require_market
from gpu_tasks.client.offers.outlook import grains_of
from gpu_tasks.client.tasks.payments import PAYMENT_COLUMNS, TaskAccount, payment_rows, payments_of_task
from gpu_tasks.client.tasks.records import (
    BID_COLUMNS,
    EXPLAINED_COLUMNS,
    HISTORY_COLUMNS,
    HISTORY_SHOWN,
    SLOT_COLUMNS,
    TASK_COLUMNS,
    TASK_SHOWN,
    WHY_COLUMNS,
    auction_rows,
    columns_of,
    devices_of_task,
    history_row,
    history_shown,
    shortened,
    slot_rows,
    task_facts,
    task_view,
    why,
    with_bare_amounts,
)
from gpu_tasks.client.tasks.shifts import (
    CHECKED_COLUMNS,
    SHIFT_COLUMNS,
    LifeBlocks,
    TaskEvents,
    WorkShift,
    check_rows,
    life_blocks,
    shift_rows,
    shifts_of,
    task_blocks,
    task_events,
)
from gpu_tasks.client.tasks.task_checks import CLAIM_COLUMNS, task_checks
from gpu_tasks.data import training_reads
from gpu_tasks.data.proven_rates import unproven
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.training.bids import DRAWS_FROM
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import is_by_time, is_replicated
from gpu_tasks.market.training.tasks import Task, TaskState, has_bidding, is_open
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.quantities import TimeSpan
from gpu_tasks.tasks.replica_check import check_replicas
from gpu_tasks.tasks.task_check import AuctionRecords, check_task, is_told_now
from gpu_tasks.tasks.task_statements import TaskBlocks, check_statements
from runtime.cryptography import ss58
from wallet.amounts import SYMBOL
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError

NOT_TOLD = "a node proves only the states of its last 64 final blocks, so this part is missing"
CHECK_COLUMNS = ("what", "is_right", "says")


WHOSE = "reported by the provider. Nothing proves it, and no payment depends on it"
NOBODY = "no provider works on the task now, so there are no reports"
PERSON_COLUMNS = (
    "place", "event", "done", "total", "percent", "seconds_left", "gpu_percent", "memory_mib", "celsius", "watts",
    "heard_seconds_ago", "problem",
)  # fmt: skip


async def told_now(
    session: WalletSession, client: ChainClient, key_text: str, task_id: bytes, task: Task, mqtt: str | None,
    seconds: float,
) -> dict[str, Any] | None:  # fmt: skip
    """Return the reports that arrive within `seconds`; None, with a note, if there are none."""
    from gpu_tasks.client.tasks.streams import live_table  # noqa: PLC0415  # as above
    from gpu_tasks.client.tasks.subscriber import BrokerTrouble  # noqa: PLC0415  # loads MQTT: for who listens alone

    keypair = session.key(key_text)
    if task.customer != keypair.account:
        note(f"the task belongs to {ss58.encode(task.customer)}. Only that customer's key opens its providers' reports")
        return None
    table = await live_table(client, SealKey.of(keypair), task_id, task, mqtt, seconds)
    if table is None:
        note(NOBODY)
        return None
    lines = table.lines()
    slots = [
        {name: value for name, value in row.items() if name not in {"task", "state", "milestones", "last_line"}}
        | {"lines": lines.get(row["place"], [])}
        for row in table.rows(time.time_ns() // 1_000_000)
    ]
    troubles = dict.fromkeys(row["trouble"] for row in slots if row["trouble"] is not None)
    sentences = {name: BrokerTrouble[name.upper()].value for name in troubles}
    return {"whose": WHOSE, "is_proved": False, "slots": slots, "troubles": sentences}


def show_told(output: Output, reports: dict[str, Any] | None) -> None:
    """Print the reports for people: a table, the last lines, and a note for each problem of a broker."""
    if reports is None:
        return
    output.rows(f"Reports of its providers: {WHOSE}", PERSON_COLUMNS, reports["slots"])
    for slot in reports["slots"]:
        if slot["lines"]:
            rows = [{"line": line} for line in slot["lines"]]
            output.rows(f"Last lines of slot {slot['place']}, by its provider's word", ("line",), rows)
    for text in reports["troubles"].values():
        note(f"{text}. The chain's facts above hold")


@reads
async def list_tasks(session: WalletSession, client: ChainClient, key_text: str, is_all: bool) -> None:
    """Carry out `ogpu task list`."""
    require_market(client)
    final_hash = await client.finalized()
    tasks = await training_reads.tasks_of(client, session.account(key_text), final_hash)
    shown = [(task_id, task) for task_id, task in tasks if is_all or is_open(task)]
    views = [task_view(task_id, task, await task_checks(client, task_id, task, final_hash)) for task_id, task in shown]
    rows = [fields_of(view) for view in views]
    if rows and not session.output.as_json:
        chain_time = await read_time(client, final_hash)
        rows = [row | {"why": chain_time.timed(row["why"])} for row in rows]
    session.output.rows("Tasks", TASK_COLUMNS if session.output.as_json else TASK_SHOWN, rows)
    if not tasks:
        note(f"{key_text} has no task on the chain. The chain forgets old tasks")
    if len(shown) < len(tasks):
        note(f"{len(shown)} open tasks. {len(tasks) - len(shown)} have ended: --all shows them")


@reads
async def history(
    session: WalletSession, client: ChainClient, key_text: str, since: TimeSpan | None, states: tuple[str, ...]
) -> None:
    """Carry out `ogpu task history`."""
    require_market(client)
    final_hash = await client.finalized()
    first_block = await _first_block(client, since, final_hash)
    tasks = await training_reads.tasks_of(client, session.account(key_text), final_hash)
    step_fee = await client.read(TrainingMarket.step_fee.item, at=final_hash)
    rows = []
    for task_id, task in tasks:
        row = history_row(task_id, task)
        if task.submitted_at >= first_block and (not states or row["state"] in states):
            cost = await cost_by_record(client, task_id, task, final_hash, step_fee)
            rows.append(history_row(task_id, task, cost))
    if session.output.as_json:
        session.output.rows("History", HISTORY_COLUMNS, rows)
    else:
        session.output.rows("History", HISTORY_SHOWN, [history_shown(row) for row in rows])
    oldest = min((task.submitted_at for _, task in tasks), default=None)
    known = "" if oldest is None else f" The oldest kept task was submitted in block {oldest}."
    note(f"the chain forgets old tasks.{known} `ogpu task show` lists the payments of a task")


async def _first_block(client: ChainClient, since: TimeSpan | None, final_hash: bytes) -> int:
    """Return the first block of the listed tasks: the named block, or the block at the start of the named time."""
    if since is None or since.blocks:
        return 0 if since is None else since.blocks
    chain_time = await read_time(client, final_hash)
    return chain_time.height - since.milliseconds * chain_time.passed_blocks // chain_time.passed_ms


@reads
async def show_task(
    session: WalletSession, client: ChainClient, task: str, key_text: str | None, mqtt: str | None, listen: float
) -> None:
    """Carry out `ogpu task show`."""
    task_id = await named_task(session, client, task, key_text)
    final_hash = await client.finalized()
    chain_task = await known_task(client, task_id, final_hash)
    lacking = await unproven(client, devices_of_task(chain_task), final_hash)
    chain_time = await read_time(client, final_hash)
    checks = await task_checks(client, task_id, chain_task, final_hash)
    facts = task_facts(task_id, chain_task, chain_time, checks, lacking)
    claims = [] if checks is None else checks.claim_facts()
    dispute = None if checks is None else checks.dispute_facts()
    slots, story = slot_rows(chain_task, lacking), await story_of(client, task_id, chain_task, final_hash)
    shifts = [] if story is None else shift_rows(story.shifts, is_time=is_by_time(chain_task.order))
    payments = [] if story is None else payment_rows(story.account)
    if story is not None:
        cost = story.account.cost(await client.read(TrainingMarket.step_fee.item, at=final_hash))
        facts["cost_before_fees"] = grains_of(cost)
    missing = None if story is None else "; ".join(story.account.unknown) or None
    ended_checks = [] if story is None else check_rows(story.account.told)
    output = session.output
    reports = None if key_text is None else await told_now(session, client, key_text, task_id, chain_task, mqtt, listen)
    if output.as_json:
        more = {"slots": slots, "claims": claims, "dispute": dispute, "shifts": shifts, "checks": ended_checks}
        paid = {"payments": payments, "payments_not_shown": missing}
        output.facts(facts | more | paid | {"telemetry": reports})
        return
    facts["why"] = chain_time.timed(facts["why"])
    output.facts({name: value for name, value in facts.items() if value is not None})
    if slots:
        output.rows("Slots", columns_of(slots, SLOT_COLUMNS), shortened(slots))
    if claims:
        output.rows("Open claims of its results", CLAIM_COLUMNS, claims)
    if shifts:
        output.rows("Providers of the task", SHIFT_COLUMNS, shifts)
    if ended_checks:
        output.rows("Checks", CHECKED_COLUMNS, ended_checks)
    if payments:
        output.rows("Payments and losses", PAYMENT_COLUMNS, payments)
    if missing is not None:
        note(f"{NOT_TOLD}: {missing}")
    show_told(output, reports)


@reads
async def bids(session: WalletSession, client: ChainClient, task: str, explain: bool, auction: int | None) -> None:
    """Carry out `ogpu task bids`."""
    task_id = await named_task(session, client, task)
    final_hash = await client.finalized()
    chain_task = await known_task(client, task_id, final_hash)
    auction_number = chain_task.auction if auction is None else auction
    if auction_number > chain_task.auction:
        raise TaskError(
            f"there is no auction {auction_number}. The task went to {chain_task.auction} of "
            f"{chain_task.order.auctions} auctions",
            code="auction_unknown",
        )
    records = await award_records(client, task_id, auction_number, final_hash)
    rows = auction_rows(chain_task, auction_number, records.award, records.bids)
    title, as_json = f"Bids of auction {auction_number}, amounts in {SYMBOL}", session.output.as_json
    rows = rows if as_json else with_bare_amounts(shortened(rows))
    session.output.rows(title, EXPLAINED_COLUMNS if explain and as_json else BID_COLUMNS, rows)
    if explain and rows and not as_json:  # Beside twelve columns a sentence would break after each word.
        session.output.rows("Reasons for each bid", WHY_COLUMNS, rows)
    if not rows and not as_json:
        note(f"there are no bids: {(await read_time(client, final_hash)).timed(why(chain_task))}")
    if auction_number == chain_task.auction and chain_task.state is TaskState.AWARDING:
        note("nothing is decided yet: the beacon that breaks ties is not final")


@reads
async def verify(session: WalletSession, client: ChainClient, task: str, blocks: int) -> None:
    """Carry out `ogpu task verify`."""
    task_id = await named_task(session, client, task)
    final_hash = await client.finalized()
    chain_task = await known_task(client, task_id, final_hash)
    life = await _searched_life(client, chain_task, final_hash, blocks)
    auctions = []
    for auction_number in range(1, chain_task.auction + 1):
        records = await award_records(client, task_id, auction_number, final_hash)
        auctions.append(await with_winners(client, task_id, chain_task, auction_number, records, life))
    count = await client.read(TrainingMarket.submission_counts, chain_task.customer, at=final_hash)
    checks = check_task(client.genesis_hash, task_id, chain_task, count, auctions)
    draws = [
        await award_records(client, task_id, DRAWS_FROM + draw, final_hash) for draw in range(1, chain_task.draws + 1)
    ]
    if is_replicated(chain_task.order):
        checks += check_replicas(chain_task, draws)
    checks.append(check_statements(chain_task, await _stated_blocks(client, task_id, life, final_hash)))
    rows = [{"what": check.what, "is_right": check.is_right, "says": check.says} for check in checks]
    session.output.rows(f"Checked again, with the task {chain_task.state.name.lower()}", CHECK_COLUMNS, rows)
    wrong = [check.what for check in checks if check.is_right is False]
    if wrong:
        raise CallFailedError(
            f"these parts break the rules: {', '.join(wrong)}. Ask another node; if it agrees, report it",
            code="verification_failed",
        )


async def _searched_life(client: ChainClient, task: Task, final_hash: bytes, blocks_max: int) -> LifeBlocks:
    try:
        return await life_blocks(client, task, final_hash, blocks_max)
    except (RpcError, OddAnswerError) as error:
        note(f"the node does not show the blocks of the task's life: {error}")
        return LifeBlocks(1, 0, is_whole=False, ids=())


async def _stated_blocks(client: ChainClient, task_id: bytes, life: LifeBlocks, final_hash: bytes) -> TaskBlocks:
    try:
        return await task_blocks(client, task_id, life, final_hash)
    except (RpcError, OddAnswerError) as error:
        note(f"the node does not show the content of the blocks of the task's life: {error}")
        return TaskBlocks(1, 0, is_whole=False, statements=(), holdings=())


# An award's seed is written together with the slots that it gave, so the first state with the seed shows them. A few
# proved reads find it among the blocks of the task's life. The node may keep no states that are old enough.
TOO_OLD = "its award is older than the searched blocks (`--blocks` searches more)"
GONE = "the node no longer keeps the state of the block that awarded it"
NO_SLOTS = "the state of the block that awarded it has no slots"


async def with_winners(
    client: ChainClient, task_id: bytes, task: Task, auction_number: int, records: AuctionRecords, life: LifeBlocks
) -> AuctionRecords:
    """Return the records of an auction with the task's record after its award, or the reason why that is missing."""
    if records.award is None or records.award.seed is None or is_told_now(task, auction_number):
        return records
    place, has_older = await _award_place(client, task_id, auction_number, life)
    if place == len(life.ids):
        return replace(records, why_not=TOO_OLD if not life.ids else GONE)
    try:
        then = await training_reads.task(client, task_id, life.ids[place])
    except (RpcError, OddAnswerError):
        then = None
    if then is not None and is_told_now(then, auction_number):
        return replace(records, then=then, then_at=life.first + place)
    if has_older:
        return replace(records, why_not=GONE)
    is_first = place == 0 and not life.is_whole
    return replace(records, why_not=TOO_OLD if is_first else NO_SLOTS)


async def _award_place(client: ChainClient, task_id: bytes, auction_number: int, life: LifeBlocks) -> tuple[int, bool]:
    """Return the place of the first readable state with the award's seed, and whether the one before is unreadable."""
    low, high, gone = 0, len(life.ids), -1
    while low < high:
        middle = (low + high) // 2
        try:
            award = await training_reads.award(client, task_id, auction_number, life.ids[middle])
        except (RpcError, OddAnswerError):
            gone, low = middle, middle + 1
            continue
        if award is not None and award.seed is not None:
            high = middle
        else:
            low = middle + 1
    return low, gone == low - 1 >= 0


# Events are read only after an award. If a provider failed before the node's oldest state, the blocks of the task's
# life show the checkpoints that the customer signed, and so the provider's earnings.
BODIES_READ = 1_024


@dataclass(frozen=True, slots=True)
class TaskStory:
    """The providers of a task, and all payments."""

    shifts: list[WorkShift]
    account: TaskAccount


async def story_of(client: ChainClient, task_id: bytes, task: Task, final_hash: bytes) -> TaskStory | None:
    """Return the story of a task; None before its first award."""
    if task.auction == 1 and has_bidding(task):
        return None
    known_events = await task_events(client, task_id, task, final_hash)
    auctions = await _records_of_auctions(client, task_id, task, final_hash)
    shifts = shifts_of(task, auctions, known_events)
    held = await _signed_before_failure(client, task_id, task, final_hash, shifts)
    return TaskStory(shifts, payments_of_task(task_id, task, auctions, shifts, known_events, held))


async def cost_by_record(
    client: ChainClient, task_id: bytes, task: Task, final_hash: bytes, step_fee: int
) -> int | None:
    """Return a task's cost without fees from its records alone; None if the records do not contain it."""
    auctions = await _records_of_auctions(client, task_id, task, final_hash)
    # Records alone: the events of each listed task would take up to 64 more reads of blocks.
    known_events = TaskEvents()
    shifts = shifts_of(task, auctions, known_events)
    return payments_of_task(task_id, task, auctions, shifts, known_events, {}).cost(step_fee)


async def award_records(client: ChainClient, task_id: bytes, auction_number: int, block_hash: bytes) -> AuctionRecords:
    """Return the award and the bids of one auction."""
    award = await training_reads.award(client, task_id, auction_number, block_hash)
    return AuctionRecords(award, await training_reads.bids(client, task_id, block_hash, auction=auction_number))


async def _records_of_auctions(
    client: ChainClient, task_id: bytes, task: Task, block_hash: bytes
) -> list[AuctionRecords]:
    """Return the task's auctions, the first one first."""
    return [
        await award_records(client, task_id, auction_number, block_hash)
        for auction_number in range(1, task.auction + 1)
    ]


async def _signed_before_failure(
    client: ChainClient, task_id: bytes, task: Task, final_hash: bytes, shifts: list[WorkShift]
) -> dict[int, int]:
    """Return the milestones that the customer signed before a failure without an event, by auction."""
    if not any(shift.outcome is TaskOutcome.DIED and shift.event is None for shift in shifts):
        return {}
    try:
        life = await life_blocks(client, task, final_hash, BODIES_READ)
        blocks = await task_blocks(client, task_id, life, final_hash)
    except (RpcError, OddAnswerError):
        return {}
    # A missing block could hold a signed milestone, and an unknown amount is never guessed.
    if not blocks.is_whole:
        return {}
    signed_milestones = [
        holding.number for holding in blocks.holdings if holding.by == task.customer and holding.number <= task.behind
    ]
    return {1: max(signed_milestones, default=0)}
