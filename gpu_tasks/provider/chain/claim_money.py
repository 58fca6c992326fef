"""Fees and losses of a checker and a voter, read in the final blocks that moved them.

Every payment out of a hold has an event `Paid` with the hold's owner and case. A checker and a voter have no other part
in a unit or a task, so each payment to them with one of its cases is for that part. The holds of a unit and its claim
have the unit's id as their case. Those of a task have cases of their slots and bids.

Invariant: a block counts once. Payments before the first block read are not reported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gpu_tasks.data import training_reads
from gpu_tasks.market.claims.claim_events import ClaimEnded
from gpu_tasks.market.claims.claims import CHECKER_BOND
from gpu_tasks.market.claims.dispute_events import DisputeEnded
from gpu_tasks.market.claims.disputes import VOTER_BOND
from gpu_tasks.market.training.purses import slot_hold
from gpu_tasks.market.training.tasks import slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.chain.side_pay import blocks_since
from runtime.pallets.staking.trust_lock import Paid
from wallet.client import ChainClient


@dataclass(frozen=True, slots=True)
class ClaimMoney:
    """The grains that a block moved for a check or a vote of this provider."""

    block: int
    work: bytes
    """The claim, or for a vote its unit or task."""
    dispute: bytes | None
    """The dispute of a vote, or None for a check."""
    earned: int
    lost: int


@dataclass(frozen=True, slots=True)
class ClaimMoneyRead:
    """The money of some blocks."""

    until: int
    """The last block read."""
    is_whole: bool
    """False if blocks were left out, because the last read was too long ago."""
    moved: tuple[ClaimMoney, ...]
    ended: frozenset[bytes]
    """The claims and disputes that ended in these blocks."""


async def claim_money(
    client: ChainClient, stash: bytes, claims: Collection[bytes], disputes: Mapping[bytes, bytes], since: int
) -> ClaimMoneyRead:
    """Return a stash's money of claims that it checks, and of disputes in which it votes, after block `since`.

    `disputes` has the work of each dispute.
    """
    first_height, block_ids = await blocks_since(client, since)
    moved: list[ClaimMoney] = []
    ended: set[bytes] = set()
    for index, block_id in enumerate(block_ids):
        height = first_height + index
        if height <= since:
            continue
        events = [record.event for record in await client.events(block_id)]
        over = {event.dispute for event in events if isinstance(event, DisputeEnded)}
        ended |= over | {event.claim for event in events if isinstance(event, ClaimEnded)}
        paid = [event for event in events if isinstance(event, Paid) and stash in (event.who, event.payee)]
        # The fees of votes move in the block of the ruling.
        voted = sorted(over & disputes.keys())
        works = [*claims, *(disputes[each] for each in voted)] if paid else []
        cases = {work: await _cases_of(client, work, block_ids[index - 1] if index else None) for work in works}
        moved += [_of_check(height, stash, claim_id, cases[claim_id], paid) for claim_id in claims if paid]
        moved += [_of_vote(height, stash, disputes[each], each, cases[disputes[each]], paid) for each in voted if paid]
    last_height = max(since, first_height + len(block_ids) - 1)
    return ClaimMoneyRead(
        last_height,
        is_whole=first_height <= since + 1,
        moved=tuple(money for money in moved if money.earned or money.lost),
        ended=frozenset(ended),
    )


async def _cases_of(client: ChainClient, work: bytes, parent: bytes | None) -> frozenset[bytes]:
    """Return the cases of the holds that pay for checks of a claim, or for votes about a unit, a claim or a task."""
    if parent is None or TrainingMarket not in client.runtime.pallets:
        return frozenset((work,))
    task_of_claim: bytes | None = await client.read(TrainingMarket.task_of_claim, work, at=parent)
    task_id = work if task_of_claim is None else task_of_claim
    task = await training_reads.task(client, task_id, parent)
    places = range(0 if task is None else len(task.slots))
    asked = [place for place in places if work in (task_id, slot_case(task_id, place))]
    holds = [] if task is None else [slot_hold(task_id, task, task.slots[place]).case for place in asked]
    return frozenset((work, *(slot_case(task_id, place) for place in asked), *holds))


def _of_check(block: int, stash: bytes, claim_id: bytes, cases: frozenset[bytes], paid: Sequence[Paid]) -> ClaimMoney:
    earned = sum(event.amount for event in paid if event.payee == stash and event.case in cases)
    bonds = (event for event in paid if event.who == stash and event.case == claim_id and event.reason == CHECKER_BOND)
    return ClaimMoney(block, claim_id, None, earned, sum(event.amount for event in bonds))


def _of_vote(
    block: int, stash: bytes, work: bytes, dispute_id: bytes, cases: frozenset[bytes], paid: Sequence[Paid]
) -> ClaimMoney:
    earned = sum(event.amount for event in paid if event.payee == stash and event.case in (*cases, dispute_id))
    bonds = (event for event in paid if event.who == stash and event.case == dispute_id and event.reason == VOTER_BOND)
    return ClaimMoney(block, work, dispute_id, earned, sum(event.amount for event in bonds))
