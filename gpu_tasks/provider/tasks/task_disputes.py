"""The open disputes about this provider's tasks, and whether a decision contradicts its own computation."""

from __future__ import annotations

from functools import partial

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.training import money
from gpu_tasks.market.training.orders import runs_program
from gpu_tasks.market.training.tasks import Task, TaskState, dispute_id_of
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import TaskPort
from gpu_tasks.provider.duties.dispute_appeals import OwnDispute
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.journal.task_records import TaskEntry
from gpu_tasks.provider.programs.requests import open_program
from gpu_tasks.provider.tasks.places import OwnTask, own_place
from gpu_tasks.provider.tasks.task_inputs import form_of, open_task


def own_dispute(parts: Parts[TaskPort], own_task: OwnTask, entry: TaskEntry) -> OwnDispute | None:
    """Return the open dispute about a task in which this provider may lose money, or None."""
    task = own_task.task
    place = None if task is None else own_place(task, parts.identity.stash, entry.device)
    if task is None or place is None or task.state is not TaskState.DISPUTED:
        return None
    # The partners of a provider that reported an input wait for the ruling.
    if task.reported is not None and task.reported != place:
        return None
    held = task.slots[place].collateral
    if task.reported is None:
        is_wronged = partial(_is_refuted, entry)
    else:
        held = min(held, money.false_report_cost(task.rules, task.terms.price_max))
        is_wronged = partial(_is_false_reporter, parts, task)
    dispute_id, subject = dispute_id_of(own_task.key[0], task.disputes - 1), {"task": own_task.key[0]}
    return OwnDispute(dispute_id, subject, held, is_wronged)


async def _is_refuted(entry: TaskEntry, dispute: Dispute) -> bool:
    """Return True if voters found another root than that of the journal's result, or could not open the input."""
    if entry.result is None or dispute.vote is None:
        return False
    return dispute.vote.verdict is not Verdict.RIGHT or dispute.vote.answer != entry.result.root


async def _is_false_reporter(parts: Parts[TaskPort], task: Task, dispute: Dispute) -> bool:
    """Return True if voters opened an input that this provider's own copy shows to be unusable."""
    if dispute.vote is None or dispute.vote.verdict is not Verdict.RIGHT or not await parts.inputs.has_chain_key():
        return False
    is_program = runs_program(task.order)
    try:
        await (open_program(parts, task) if is_program else open_task(parts, form_of(parts, task.order), task))
    except UnusableInputError:
        return True
    except BlobError:
        return False
    return False
