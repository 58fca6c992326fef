"""The blocks of a task's life: statements and signatures, providers, successors, and reasons for a change.

An award and its bids show the winners. The record shows the current slots.

Invariants:

* Blocks are final, by hashes down from a certified one.
* Calls nested in other calls count too. So do attestations in a block, because the chain has checked their signatures.
* A provider key stands for its stash.
* The reason for a provider's end comes from an event, or from facts that allow no other. A successor that is asked
  after a milestone counted follows a provider that died.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cli.output import Account
from gpu_tasks.client.claim_ends import check_facts, claim_at_end
from gpu_tasks.client.tasks.records import said_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.claims.claim_events import ClaimEnded
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.training import events
from gpu_tasks.market.training.events import SlotSettled
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.selection import Placed
from gpu_tasks.market.training.task_statement import SignedTaskAttestation, StatedMilestone
from gpu_tasks.market.training.tasks import TASK_ESCROW, Slot, Task, TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.task_check import AuctionRecords, selection_of
from gpu_tasks.tasks.task_statements import Holding, StatedStep, TaskBlocks
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.encoding.codec import DecodeError
from runtime.frame.call import Call
from runtime.frame.holds import Hold
from runtime.frame.runtime import Runtime
from runtime.pallets.balances import Balances
from wallet.amounts import Grains
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError

STATING = f"{TrainingMarket.__name__}.report_milestone"
FINISHING = f"{TrainingMarket.__name__}.finish"
ATTACHING = f"{Attestations.__name__}.attach"
HOLDING = f"{TrainingMarket.__name__}.confirm_checkpoint"


@dataclass(frozen=True, slots=True)
class SignedStep:
    """A stated milestone or result, or a held checkpoint, with its signer."""

    signer: bytes
    is_held: bool
    place: int
    number: int | None
    """The number of the milestone. None for the result."""
    root: bytes


@dataclass(frozen=True, slots=True)
class LifeBlocks:
    """Final blocks of a task's life, by ascending height. `is_whole` is True if they reach back to its submission."""

    first: int
    last: int
    is_whole: bool
    ids: Sequence[bytes]


async def life_blocks(client: ChainClient, task: Task, final_hash: bytes, blocks_max: int) -> LifeBlocks:
    """Return the newest `blocks_max` blocks of a task's life."""
    last_block = await client.height(final_hash)
    if task.state is TaskState.ENDED:
        last_block = min(last_block, task.deadline - task.windows.keep)
    first_of_life = task.submitted_at + 1
    first_block = max(first_of_life, last_block - blocks_max + 1)
    ids = await client.final_ids(first_block, last_block) if first_block <= last_block else []
    return LifeBlocks(first_block, last_block, first_block == first_of_life, ids)


async def task_blocks(client: ChainClient, task_id: bytes, life: LifeBlocks, final_hash: bytes) -> TaskBlocks:
    """Return the statements about a task in the blocks of its life.

    Raise RpcError if the node lacks the blocks.
    """
    statements, holdings = list[StatedStep](), list[Holding]()
    stashes: dict[bytes, bytes] = {}
    for height, block in enumerate(life.ids, life.first):
        for step in steps_about(client.runtime, (await client.block(block)).extrinsics, task_id):
            if step.is_held:
                holdings.append(Holding(height, step.signer, step.number or 0))
                continue
            if step.signer not in stashes:
                stashes[step.signer] = await market_reads.stash_of(client, step.signer, final_hash) or step.signer
            statements.append(StatedStep(height, step.place, stashes[step.signer], step.number, step.root))
    return TaskBlocks(life.first, life.last, life.is_whole, statements, holdings)


def steps_about(runtime: Runtime, extrinsics: Iterable[bytes], task_id: bytes) -> Iterator[SignedStep]:
    """Yield the statements and holdings of a task in these extrinsics of a block."""
    for extrinsic_bytes in extrinsics:
        try:
            extrinsic = decode_extrinsic(runtime, extrinsic_bytes)
        # An extrinsic of later rules is unreadable to this program.
        except DecodeError:
            continue
        if extrinsic.authorization is not None:
            for call in _nested_calls(extrinsic.call):
                yield from _called_steps(extrinsic.authorization.signer, call, task_id)
        elif extrinsic.call.name == ATTACHING:
            yield from attested_steps(extrinsic.call.named_arguments["attestations"], task_id)


def attested_steps(attestations: Iterable[AnyAttestation], task_id: bytes) -> Iterator[SignedStep]:
    """Yield the statements about a task in the attestations of a block. Those of units are skipped."""
    for attestation in attestations:
        if isinstance(attestation, SignedTaskAttestation) and attestation.statement.task == task_id:
            signer_key, place, stated = (
                attestation.statement.provider_key,
                attestation.statement.place,
                attestation.statement.stated,
            )
            if isinstance(stated, StatedMilestone):
                yield SignedStep(signer_key, False, place, stated.milestone.number, stated.milestone.root)
            else:
                yield SignedStep(signer_key, False, place, None, stated.result.root)


def _called_steps(signer: bytes, call: Call, task_id: bytes) -> Iterator[SignedStep]:
    if call.name not in (STATING, FINISHING, HOLDING) or call.named_arguments["task"] != task_id:
        return
    arguments = call.named_arguments
    if call.name == HOLDING:
        yield SignedStep(signer, True, 0, arguments["number"], b"")
    elif call.name == FINISHING:
        yield SignedStep(signer, False, arguments["place"], None, arguments["result"].root)
    else:
        yield SignedStep(signer, False, arguments["place"], arguments["milestone"].number, arguments["milestone"].root)


def _nested_calls(call: Call) -> Iterator[Call]:
    """Yield a call and its inner calls."""
    yield call
    for argument in call.arguments:
        inner = argument if isinstance(argument, tuple | list) else (argument,)
        for inner_call in inner:
            if isinstance(inner_call, Call):
                yield from _nested_calls(inner_call)


# Blocks are final and are read from the newest down, until the node serves no older state.
BLOCKS_READ = 64
"""The number of newest final blocks whose states a node serves."""
Told = TypeVar("Told")
KINDS = (events.TaskSubmitted, events.SlotSettled, events.StandbyReleased)
CHECKED_COLUMNS = ("place", "checker", "is_second", "end", "fee")


@dataclass(frozen=True, slots=True)
class EndedClaim:
    """The end of a slot's claim."""

    claim: ResultClaim
    """The claim before the block of its end, with the check that ended in it."""
    fees_paid: int
    """The grains that the customer paid for checks, to checkers and to voters in place of them."""


@dataclass(slots=True)
class TaskEvents:
    """Events of a task with their heights, the newest first, and the ends of its claims by place."""

    told: list[tuple[int, Any]] = field(default_factory=list)
    claims: dict[int, EndedClaim] = field(default_factory=dict)

    def of(self, kind: type[Told]) -> Iterator[tuple[int, Told]]:
        """Return the events of a kind, the newest first."""
        return ((height, event) for height, event in self.told if isinstance(event, kind))

    def settled(self, provider: bytes, place: int) -> list[tuple[int, events.SlotSettled]]:
        """Return the settlements of a provider's slot, the newest first. A task may go to auction several times.

        A paid interval of bought time is no settlement.
        """
        ends = (each for each in self.of(events.SlotSettled) if each[1].outcome is not TaskOutcome.INTERVAL_PAID)
        return [each for each in ends if (each[1].provider, each[1].place) == (provider, place)]

    @property
    def is_whole(self) -> bool:
        """True if the events reach back to the task's submission."""
        return any(True for _ in self.of(events.TaskSubmitted))


async def task_events(client: ChainClient, task_id: bytes, task: Task, final_hash: bytes) -> TaskEvents:
    """Return the events in the newest blocks of a task's life, as far as the node serves them."""
    last_block = await client.height(final_hash)
    oldest_block = max(task.submitted_at, last_block - BLOCKS_READ + 1)
    if task.state is TaskState.ENDED:
        last_block = min(last_block, task.deadline - task.windows.keep)
    known_events = TaskEvents()
    places = {slot_case(task_id, place): place for place in range(task.order.slots)}
    for height in range(last_block, oldest_block - 1, -1):
        try:
            event_records = await client.events(await client.block_id(height))
        except (RpcError, OddAnswerError):
            break
        block_events = [event_record.event for event_record in event_records]
        for index, event in reversed(list(enumerate(block_events))):
            if isinstance(event, KINDS) and event.task == task_id:
                known_events.told.append((height, event))
            elif isinstance(event, ClaimEnded) and event.claim in places:
                # The slot is settled right after its claim.
                settled = next((each for each in block_events[index:] if isinstance(each, SlotSettled)), None)
                ended = await _ended_claim(client, task.customer, event.claim, height, block_events, settled)
                known_events.claims |= {} if ended is None else {places[event.claim]: ended}
    return known_events


def check_rows(known_events: TaskEvents) -> list[dict[str, Any]]:
    """Return the checks of all ended claims, by place."""
    return [
        {"place": place, **facts}
        for place, ended in sorted(known_events.claims.items())
        for facts in check_facts(ended.claim)
    ]


async def _ended_claim(
    client: ChainClient,
    customer: bytes,
    claim_id: bytes,
    height: int,
    block_events: Sequence[Any],
    settled: SlotSettled | None,
) -> EndedClaim | None:
    """Return the end of a claim in a block, or None if the node lacks the state before."""
    escrow = Hold(TASK_ESCROW, claim_id)
    try:
        before, after = await client.block_id(height - 1), await client.block_id(height)
        claim: ResultClaim | None = await client.read(ResultClaims.claims, claim_id, at=before)
        held = [await client.read(Balances.held_cases, customer, escrow, at=block) for block in (before, after)]
    except (RpcError, OddAnswerError):
        return None
    if claim is None or settled is None:
        return None
    # The rest of the escrow is held until the task ends, a block later.
    fees_paid = claim.fees_paid + held[0] - held[1] - settled.earned
    return EndedClaim(claim_at_end(claim_id, claim, block_events), fees_paid)


SHIFT_COLUMNS = ("auction", "place", "provider", "role", "from", "price", "why")


@dataclass(frozen=True, slots=True)
class WonSlot:
    """A slot won in an auction."""

    auction: int
    place: int
    placed: Placed


@dataclass(frozen=True, slots=True)
class WorkShift:
    """The work of one provider on a slot. `outcome` is None if it continues, or if its end is unknown."""

    auction: int
    place: int
    slot: Slot
    took_over: bool
    behind: int | None
    """The milestones done before it. None if unknown."""
    outcome: TaskOutcome | None
    why: str
    is_over: bool
    event: SlotSettled | None = None
    """The event of its end, if the node serves it."""

    @property
    def provider(self) -> bytes:
        """The provider that worked."""
        return self.slot.provider


def shifts_of(task: Task, auctions: Sequence[AuctionRecords], known_events: TaskEvents) -> list[WorkShift]:
    """Return all shifts known by award, record and events. `auctions` begins with the first one."""
    shifts = list[WorkShift]()
    for auction_number, records in enumerate(auctions, 1):
        winners = _awarded(records)
        if auction_number < task.auction or not task.slots:
            shifts += [
                _ended_shift(task, WonSlot(auction_number, *each), shifts, known_events, None)
                for each in enumerate(winners)
            ]
            continue
        for place, slot in enumerate(task.slots):
            has_changed = place < len(winners) and winners[place].bid.device != slot.device
            if has_changed:
                shifts.append(
                    _ended_shift(task, WonSlot(auction_number, place, winners[place]), shifts, known_events, slot)
                )
            shifts.append(_present_shift(task, place, slot, known_events, has_changed=has_changed))
    return shifts


def shift_rows(shifts: Sequence[WorkShift], *, is_time: bool = False) -> list[dict[str, Any]]:
    """Return shifts as rows. With `is_time`, for bought time, no checkpoint is handed over."""
    return [
        {
            "auction": shift.auction,
            "place": shift.place,
            "provider": Account(shift.provider),
            "role": "took over" if shift.took_over else "began" if not shift.behind else "went on",
            "from": None if shift.behind is None else _origin_text(shift.behind, is_time=is_time),
            "price": Grains(shift.slot.price),
            "started_in_block": shift.slot.started_at or None,
            "outcome": None if shift.outcome is None else shift.outcome.name.lower(),
            "why": shift.why,
        }
        for shift in shifts
    ]


def _origin_text(behind: int, *, is_time: bool) -> str:
    if not behind:
        return "the beginning"
    return f"interval {behind + 1}, its program begun anew" if is_time else f"the checkpoint of milestone {behind}"


def _awarded(records: AuctionRecords) -> tuple[Placed, ...]:
    award = records.award
    return () if award is None or award.seed is None else selection_of(award, records.bids).winners


def _present_shift(task: Task, place: int, slot: Slot, known_events: TaskEvents, *, has_changed: bool) -> WorkShift:
    # A slot is settled when its claim is over, and the task ends with the last one.
    is_over = task.state is TaskState.ENDED or (task.state is TaskState.CLAIMED and slot.outcome is not None)
    outcome = task.outcome if is_over and slot.outcome is None else slot.outcome
    reason = "it works on it" if outcome is None else said_of(task, outcome)
    if not is_over and not slot.started_at:
        reason = "it may start"
    elif not is_over and slot.result is not None:
        reason = "it has stated its result, whose payment waits for a check or a vote"
    events = known_events.settled(slot.provider, place)
    event = events[0][1] if events and is_over else None
    return WorkShift(task.auction, place, slot, has_changed, task.behind, outcome, reason, is_over, event)


def _ended_shift(
    task: Task, won: WonSlot, before: Sequence[WorkShift], known_events: TaskEvents, successor: Slot | None
) -> WorkShift:
    """Return the shift of a winner that lost its slot. `before` has all shifts that ended earlier."""
    bid = won.placed.bid
    height, event = _end_event(task, won, before, known_events)
    slot = Slot(bid.provider, bid.device, won.placed.pay, bid.blocks, bid.collateral)
    outcome = event.outcome if event is not None else _inferred_outcome(task, won.auction, successor)
    if outcome is not None:
        reason = said_of(task, outcome) + ("" if event is None else f", in block {height}")
    elif successor is not None:
        reason = "it did not start, or stated no milestone that counted: the node does not show which any more"
    else:
        reason = "it is gone: why, the node does not show any more"
    behind = 0 if won.auction == 1 else None
    return WorkShift(won.auction, won.place, slot, False, behind, outcome, reason, True, event)


def _end_event(
    task: Task, won: WonSlot, before: Sequence[WorkShift], known_events: TaskEvents
) -> tuple[int, SlotSettled | None]:
    """Return the event of a shift's end with its height. For an earlier auction, all events must be known."""
    provider = won.placed.bid.provider
    events = known_events.settled(provider, won.place)
    if won.auction == task.auction:
        return events[0] if events else (0, None)
    earlier_shifts = sum((shift.provider, shift.place) == (provider, won.place) for shift in before)
    return events[-1 - earlier_shifts] if known_events.is_whole and earlier_shifts < len(events) else (0, None)


def _inferred_outcome(task: Task, auction_number: int, successor: Slot | None) -> TaskOutcome | None:
    """Return the inferred end of a lone winner, or None.

    Before any milestone counts, it may never have started. Once one counts, the runner-up is no longer bound, and is
    asked only after a death.
    """
    is_asked = successor is not None or task.state is TaskState.ASKING
    has_counted = auction_number == 1 == task.auction and task.order.slots == 1 and task.behind > 0
    return TaskOutcome.DIED if is_asked and has_counted else None
