"""What the world sees of a provider's steps as a replica."""

from __future__ import annotations

from gpu_tasks.market.training.tasks import Task
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.journal.task_records import TaskEntry, TaskKey
from gpu_tasks.provider.tasks.places import TaskStep
from gpu_tasks.provider.tasks.replica_places import bound_result
from runtime.frame.call import Call

REPLICA_STEPS = (TaskStep.VOLUNTEER, TaskStep.FINISH, TaskStep.OPEN)
"""That of a replica are other calls than those of who states a result at once."""


def replica_call(genesis: bytes, key: TaskKey, task: Task, place: int, entry: TaskEntry, step: TaskStep) -> Call:
    """The call of one of `REPLICA_STEPS`."""
    task_id = key[0]
    if step is TaskStep.VOLUNTEER:
        return TrainingMarket.volunteer(task=task_id, device=entry.device)
    result, salt = entry.result, entry.result_salt
    assert result is not None, "`next_step` asks for no result before there is one"
    assert salt is not None, "its salt was written before it"
    if step is TaskStep.OPEN:
        return TrainingMarket.open_result(task=task_id, place=place, result=result, salt=salt)
    bound = bound_result(genesis, key, place, task.slots[place], entry)
    return TrainingMarket.finish(task=task_id, place=place, result=bound)
