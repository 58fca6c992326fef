"""Attestations of tasks on a recorded chain: what a worker may state by a call, mostly the author attaches instead."""

from gpu_tasks.market.attestations.task_statement import (
    SignedTaskAttestation,
    Stated,
    StatedMilestone,
    StatedResult,
    TaskAttestation,
    task_signing_payload,
)
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.tasks import Task
from runtime.frame.call import Call
from scripts.replay.cast import Actor
from scripts.replay.habits import Deed, portion
from scripts.replay.world import World

BY_CALL = 0.3
"""Of the statements: a call makes them, since authors may have left the attestation out."""
USAGE = Usage(1, 5, 0, 5, 6, 1_000)


def stated_deed(world: World, actor: Actor, task_id: bytes, task: Task, call: Call) -> Deed:
    """What a worker does who wants to make this call: it, or the attestation that states the same."""
    stated = _stated(call)
    if stated is None:
        return Deed(actor.provider, call)
    place = call.named_arguments["place"]
    step = task_id + bytes((task.auction, place, task.slots[place].reported))
    if portion(step, b"by call") < BY_CALL:
        return Deed(actor.provider, call)
    return Deed(actor.provider, attestation=_attestation(world, actor, task_id, task, place, stated))


def _stated(call: Call) -> Stated | None:
    arguments = call.named_arguments
    if call.name == "TrainingMarket.checkpoint":
        return StatedMilestone(arguments["milestone"])
    if call.name == "TrainingMarket.finish":
        return StatedResult(arguments["result"])
    return None


def _attestation(
    world: World, actor: Actor, task_id: bytes, task: Task, place: int, stated: Stated
) -> SignedTaskAttestation:
    slot = task.slots[place]
    statement = TaskAttestation(
        version=1,
        task=task_id,
        auction=task.auction,
        place=place,
        provider_key=actor.provider.account,
        device=slot.device,
        stated=stated,
        usage=USAGE,
        started_at=slot.started_at,
        finished_at=world.height,
    )
    return SignedTaskAttestation(statement, actor.provider.sign(task_signing_payload(world.genesis_hash, statement)))
