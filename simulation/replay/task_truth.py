"""What is right about a task of a recorded chain, and what a liar says instead: everybody can tell, as by computing."""

from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.training.showing import refuted
from gpu_tasks.market.training.tasks import JudgedFor, Task, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import trace_root
from runtime.cryptography.hashing import blake2_256
from simulation.replay.cast import BY_STASH, Actor
from simulation.replay.habits import INPUT_BAD, portion
from simulation.replay.world import World

LIES = 0.5
"""Of the tasks: who lies now and then lies there."""


def right_digests(task_id: bytes, task: Task) -> list[bytes]:
    """The states of a run, by hash."""
    return [blake2_256(b"state" + task_id + bytes((place,))) for place in range(task.order.segments + 1)]


def digests_of(world: World, actor: Actor, task_id: bytes, task: Task) -> list[bytes]:
    """The states that somebody states: a liar skips the last quarter."""
    digests = right_digests(task_id, task)
    if not is_lying(world, actor, task_id):
        return digests
    first = max(1, len(digests) * 3 // 4)
    return digests[:first] + [blake2_256(b"wrong" + digest) for digest in digests[first:]]


def result_root(world: World, actor: Actor, task_id: bytes, task: Task) -> bytes:
    """What somebody states as its result: over its states, or of the output where there is no trace."""
    if task.order.segments:
        return trace_root(digests_of(world, actor, task_id, task))
    return blake2_256((b"wrong" if is_lying(world, actor, task_id) else b"right") + task_id)


def right_root(task_id: bytes, task: Task) -> bytes:
    """The right result."""
    return trace_root(right_digests(task_id, task)) if task.order.segments else blake2_256(b"right" + task_id)


def is_lying(world: World, actor: Actor, task_id: bytes) -> bool:
    """Whether somebody lies about a task."""
    return actor.name in world.liars and portion(task_id, b"task lie") < LIES


def has_bad_input(task_id: bytes) -> bool:
    """Whether nobody can open the input."""
    return portion(task_id, b"task input") < INPUT_BAD


def true_opinion(world: World, case_id: bytes) -> Answered | Unanswerable | None:
    """What a judge of a slot's case finds that looks; None for a case that is about no task."""
    market = world.bound[TrainingMarket]
    task_id = market.task_of_case[case_id]
    task = None if task_id is None else market.tasks[task_id]
    if task_id is None or task is None:
        return None
    if has_bad_input(task_id):
        return Unanswerable()
    if task.judged_for is JudgedFor.INPUT:
        return Answered(task.order.input_root)
    slot = next(slot for place, slot in enumerate(task.slots) if slot_case(task_id, place) == case_id)
    stated, right = slot.result, right_root(task_id, task)
    if stated is None or stated.root == right or not task.order.segments:
        return Answered(right)
    return Answered(refuted(stated.root))


def actor_of(stash: bytes) -> Actor | None:
    """Who signs for a stash, if somebody of the cast does."""
    return BY_STASH.get(stash)
