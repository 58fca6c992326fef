"""The signed statement of a milestone or a result: for which slot, on which device, since when.

It goes to the node as an attestation, which costs nothing and needs no transaction. Where no author puts it into a
block, the next try is a call, which states the same and is free when it succeeds; then an attestation again.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.task_statement import (
    TASK_VERSION,
    SignedTaskAttestation,
    Stated,
    StatedMilestone,
    StatedResult,
    TaskAttestation,
    step_of,
    task_signing_payload,
)
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.chain.port import Identity
from runtime.frame.call import Call


def attested(
    identity: Identity, task: Task, call: Call, usages: Mapping[int, Usage], height: int
) -> SignedTaskAttestation:
    """What states the same as a call of `checkpoint` or `finish`, with what that step took by `usages`.

    `height` is that of the newest block.
    """
    arguments = call.named_arguments
    slot = task.slots[arguments["place"]]
    stated = _stated(call)
    since = max(task.reported_at, slot.started_at)
    statement = TaskAttestation(
        version=TASK_VERSION,
        task=arguments["task"],
        auction=task.auction,
        place=arguments["place"],
        provider_key=identity.key.public_key,
        device=slot.device,
        stated=stated,
        usage=usages[step_of(stated)],
        started_at=since,
        finished_at=max(since, height),
    )
    return SignedTaskAttestation(statement, identity.key.sign(task_signing_payload(identity.genesis, statement)))


def _stated(call: Call) -> Stated:
    if call.name == f"{TrainingMarket.__name__}.checkpoint":
        return StatedMilestone(call.named_arguments["milestone"])
    return StatedResult(call.named_arguments["result"])
