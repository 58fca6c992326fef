"""What is locked for a task, and what a call about it would bring back: by the chain's own rules, over its own state.

Always: amounts are what would move if the call were in the next block; where that cannot be tried, nothing is claimed.
"""

from __future__ import annotations

from typing import Any

from gpu_tasks.market.training.tasks import (
    TASK_BOND,
    TASK_DEPOSIT,
    TASK_DISPUTE,
    TASK_ESCROW,
    Task,
    places_held,
    slot_case,
)
from runtime.frame.call import Call
from runtime.frame.holds import Hold
from runtime.pallets.balances import Balances
from wallet.client import ChainClient
from wallet.output import Grains
from wallet.trial import Trial, TrialError, attempt


async def locked(client: ChainClient, task_id: bytes, task: Task, at: bytes) -> int:
    """Grains that the customer holds for a task, its deposit apart."""
    holds = [
        (task.customer, Hold(reason, slot_case(task_id, place)))
        for place in range(places_held(task))
        for reason in (TASK_ESCROW, TASK_BOND, TASK_DISPUTE)
    ]
    return sum(await client.read_many(Balances.held_cases, holds, at=at))


async def deposit(client: ChainClient, task_id: bytes, task: Task, at: bytes) -> int:
    """What is held for the record of a task."""
    held: int = await client.read(Balances.held_cases, task.customer, Hold(TASK_DEPOSIT, task_id), at=at)
    return held


async def end_facts(client: ChainClient, task_id: bytes, task: Task, call: Call, signer: bytes) -> dict[str, Any]:
    """What a call that ends a task gives back now, what comes with the record, and what is gone."""
    at = await client.finalized()
    held, later = await locked(client, task_id, task, at), await deposit(client, task_id, task, at)
    back = -(await tried(client, call, signer)).amount
    return {
        "locked": Grains(held),
        "comes_back": Grains(back),
        "comes_back_later": Grains(later),
        "gone": Grains(max(0, held - back)),
    }


async def tried(client: ChainClient, call: Call, signer: bytes) -> Trial:
    """What a call would move; nothing, where that cannot be told: who sends it is told so."""
    try:
        return await attempt(client, [call], signer)
    except TrialError:
        return Trial()
