"""What a person means by 0x and 64 digits: a unit, or a task."""

from __future__ import annotations

from gpu_tasks.client.planning import sells_tasks
from gpu_tasks.data import training_reads
from gpu_tasks.market.training.tasks import Task
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.trust import hash_typed


class TaskError(WalletError):
    """A task is not there, or cannot be dealt with as asked; the text says why and what to do."""


def task_id_of_text(text: str, what: str = "task") -> bytes:
    """The id that a person typed; TaskError for what is none. `what` it may be: a task, or a unit as well."""
    task_id = hash_typed(text)
    if task_id is None:
        raise TaskError(f"{text!r} is no {what}: a {what} is 0x and 64 hexadecimal digits; see `ogpu ps`")
    return task_id


async def task_if_known(client: ChainClient, task_id: bytes, at: bytes) -> Task | None:
    """The task at a block, if the chain has one of this name, and sells tasks at all."""
    return await training_reads.task(client, task_id, at) if sells_tasks(client) else None


async def known_task(client: ChainClient, task_id: bytes, at: bytes) -> Task:
    """The task at a block; TaskError if the chain does not know it."""
    require_market(client)
    found = await training_reads.task(client, task_id, at)
    if found is None:
        raise TaskError(
            "the chain knows no such task: it is too new, too old, or of another chain, or this is the hash of what "
            "it computes, and not its id; see `ogpu ps`"
        )
    return found


def require_market(client: ChainClient) -> None:
    """TaskError on a chain that has no market of tasks."""
    if not sells_tasks(client):
        raise TaskError("this chain sells no tasks: use one whose runtime has TrainingMarket")
