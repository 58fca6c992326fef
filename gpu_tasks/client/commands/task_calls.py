"""A call about a task, as every command that makes one goes: planned, shown, asked about, sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from gpu_tasks.client.commands.naming import TaskError, known_task, named_task
from gpu_tasks.client.training import stages
from gpu_tasks.client.training.run_blobs import no_result
from gpu_tasks.market.training.tasks import Task, TaskState
from runtime.cryptography import ss58
from wallet.client import ChainClient, Payer
from wallet.commands.making import PlannedCall, SendingOptions, make
from wallet.session import WalletSession

Draft = Callable[[ChainClient, Payer, bytes, Task], Awaitable[PlannedCall]]


def make_about(session: WalletSession, task: str, key_text: str, sending: SendingOptions, draft: Draft) -> None:
    """Plan a call about a task, show it, ask, send it."""

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall:
        task_id = await named_task(session, client, task, key_text)
        found = await known_task(client, task_id, await client.finalized())
        return await draft(client, payer, task_id, found)

    make(session, key_text, sending, plan)


def facts(task_id: bytes, task: Task) -> dict[str, Any]:
    """What each of these commands shows first."""
    return {"task": task_id, "state": stages.progress(task)}


def require_customer(task: Task, account: bytes) -> None:
    """TaskError for whoever did not submit the task."""
    if task.customer != account:
        raise TaskError(f"the task is {ss58.encode(task.customer)}'s: only the key that submitted it decides about it")


def require_result(task: Task) -> None:
    """TaskError for a task without a result to decide about."""
    if task.state is not TaskState.SUBMITTED:
        had = any(slot.result is not None for slot in task.slots)
        raise TaskError(f"the task is {stages.progress(task)}: {stages.why(task)}" if had else no_result(task))
    if task.accepted is not None:
        raise TaskError(f"the result is accepted already: {stages.why(task)}")
