"""The checks that a task waits for: the open claims of its slots, and the open dispute about it.

A claimed task has a claim for each slot: the customer can read the result, and each payment waits for a check. Voters
decide about different results, and about an input that a provider reports as missing.

Invariants:

* All facts are of one block, which the node proves.
* Blocks are named as `block N`, so that a command can add the time. The sentence changes only with the facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_tasks.client.open_checks import OpenClaim, OpenDispute, open_dispute
from gpu_tasks.data import claim_reads
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.tasks import Task, TaskState, dispute_id_of, slot_case
from wallet.client import ChainClient

CAN_READ = "the result can be read (`ogpu task result`), and its payment waits for a check"
DIFFERING = "its providers stated different results"
ITEM = "item"
CLAIMS_SAID = 3
"""The most claims in a sentence. `ogpu task show` lists all."""
CLAIM_COLUMNS = ("place", "stage", "actor", "account", "until_block", "collateral", "check_fees_max", "disputes")


@dataclass(frozen=True, slots=True)
class SlotClaim:
    """The open claim of a slot, with the dispute about one of its items."""

    place: int
    claim: OpenClaim
    dispute: OpenDispute | None = None

    def facts(self) -> dict[str, Any]:
        """Return the claim for programs."""
        return {
            "place": self.place,
            **self.claim.facts(),
            "dispute": None if self.dispute is None else self.dispute.facts(),
        }

    def says(self) -> str:
        """Return the step of the claim as a clause."""
        says = self.claim.says()
        return says if self.dispute is None else f"{says}: {self.dispute.says()}"


@dataclass(frozen=True, slots=True)
class TaskChecks:
    """The checks that a task waits for, as of one block."""

    reported: int | None = None
    """The place whose provider reports a missing input."""
    claims: tuple[SlotClaim, ...] = ()
    dispute: OpenDispute | None = None
    """The open dispute about different results, or about the input."""

    def claim_facts(self) -> list[dict[str, Any]]:
        """Return the open claims for programs."""
        return [each.facts() for each in self.claims]

    def dispute_facts(self) -> dict[str, Any] | None:
        """Return the dispute about the task for programs, or None."""
        return None if self.dispute is None else self.dispute.facts()

    def says(self) -> str:
        """Return the reason of the wait as a clause, or "" if the next block continues the task."""
        if self.dispute is not None:
            return self.dispute.says()
        if len(self.claims) == 1:
            return self.claims[0].says()
        said = [f"place {each.place}: {each.says()}" for each in self.claims[:CLAIMS_SAID]]
        more = len(self.claims) - len(said)
        return ", ".join(said + [f"and {more} more"] * bool(more))


def why_claimed(checks: TaskChecks | None) -> str:
    """Return a sentence about a task whose results are claimed."""
    return "; ".join(filter(None, (CAN_READ, "" if checks is None else checks.says())))


def why_disputed(task: Task, checks: TaskChecks | None) -> str:
    """Return a sentence about a task about which validators vote."""
    cause = DIFFERING if task.reported is None else f"the provider of place {task.reported} reports a missing input"
    steps = "" if checks is None else checks.says()
    return f"{cause}; {steps or 'the next block carries out the vote'}"


async def task_checks(client: ChainClient, task_id: bytes, task: Task, block_hash: bytes) -> TaskChecks | None:
    """Return the checks that a task waits for at a block, or None if it waits for none."""
    if task.state is TaskState.CLAIMED:
        places = [place for place, slot in enumerate(task.slots) if slot.outcome is None]
        found = await claim_reads.claims(client, [slot_case(task_id, place) for place in places], block_hash)
        return TaskChecks(
            claims=tuple(
                [
                    await _slot_claim(client, task_id, task.order, place, claim, block_hash)
                    for place, claim in zip(places, found, strict=True)
                    if claim is not None
                ]
            )
        )
    if task.state is TaskState.DISPUTED:
        dispute_id = dispute_id_of(task_id, task.disputes - 1)
        status = await claim_reads.item_dispute(client, dispute_id, block_hash)
        dispute = None if status is None else open_dispute(dispute_id, status, None, ITEM)
        return TaskChecks(reported=task.reported, dispute=dispute)
    return None


async def _slot_claim(
    client: ChainClient, task_id: bytes, order: TaskOrder, place: int, claim: ResultClaim, block_hash: bytes
) -> SlotClaim:
    shown = OpenClaim(claim, "segment" if order.segments else "result")
    dispute_id = claim_reads.dispute_of(slot_case(task_id, place), claim)
    status = None if dispute_id is None else await claim_reads.item_dispute(client, dispute_id, block_hash)
    if dispute_id is None or status is None:
        return SlotClaim(place, shown)
    return SlotClaim(place, shown, open_dispute(dispute_id, status, claim, ITEM))
