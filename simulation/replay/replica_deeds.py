"""Replicas of a task on a recorded chain: offered, bound, opened; some find something else, some never open."""

from collections.abc import Iterator
from dataclasses import replace

from gpu_tasks.market.training.orders import CheckedBy, TaskOrder
from gpu_tasks.market.training.replicas import replica_commitment
from gpu_tasks.market.training.task_duties import TaskDeed, TaskDuty
from gpu_tasks.market.training.tasks import Task, TaskResult, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.cryptography.hashing import blake2_256
from runtime.frame.call import Call
from simulation.replay.cast import BY_STASH, Actor
from simulation.replay.habits import Deed, portion, salt_of
from simulation.replay.world import World

OFFERS = 0.4
"""In a block, of each device that is free."""
DIFFERS, UNOPENED = 0.25, 0.08
"""Of the places."""


def order_of_replicas(world: World, order: TaskOrder) -> TaskOrder:
    """What somebody asks for, as a task that several compute; now and then by so many as there may not be."""
    slots = world.chance.choice((3, 3, 3, 5, 2))
    changed = replace(order, checked_by=CheckedBy.REPLICATED, slots=slots, milestones=1, segments=0, run_blocks=0)
    return replace(changed, is_homogeneous=False, collateral_min=0)


def offers(world: World, task_id: bytes, task: Task) -> Iterator[Deed]:
    """Whoever has a device that is free may offer it."""
    if task.state is not TaskState.VOLUNTEERING:
        return
    for stash, actor in sorted(BY_STASH.items()):
        for device in world.free_devices(stash):
            if world.chance.random() < OFFERS:
                yield Deed(actor.provider, TrainingMarket.volunteer(task=task_id, device=device))


def next_of_replica(world: World, actor: Actor, task_id: bytes, duty: TaskDuty) -> Call | None:
    """Be bound to what one found, or open it; or not."""
    place, salt = duty.place, salt_of(actor, task_id)
    mine = task_id + actor.stash.account + bytes((place,))
    result = _found(actor, task_id, mine)
    if duty.deed is TaskDeed.BIND:
        sealed = replica_commitment(world.genesis_hash, task_id, place, actor.stash.account, result, salt)
        return TrainingMarket.finish(task=task_id, place=place, result=TaskResult(sealed, bytes(32), 0))
    if duty.deed is TaskDeed.OPEN_RESULT and portion(mine, b"unopened") >= UNOPENED:
        return TrainingMarket.open_result(task=task_id, place=place, result=result, salt=salt)
    return None


def _found(actor: Actor, task_id: bytes, mine: bytes) -> TaskResult:
    """What somebody finds: what the others do, or one of two things that are wrong."""
    wrong = portion(mine, b"differs")
    kind = b"right" if wrong >= DIFFERS else b"wrong" if wrong >= DIFFERS / 2 else actor.stash.account
    return TaskResult(blake2_256(kind + task_id), blake2_256(mine), 0)
