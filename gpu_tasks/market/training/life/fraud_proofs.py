"""Fraud proofs: any bonded candidate shows that a segment of a stated trace does not follow.

Invariants: a proof is opened in a later block than its commitment, by the same account. Nothing is paid while it is
judged. A wrong proof gives the customer its full window again, so that no friend of a provider can shorten it.
"""

from dataclasses import replace

from gpu_tasks.market.training.events import (
    DoneAlready,
    FraudClaimed,
    FraudShown,
    NoSuchClaim,
    NotEligible,
    NotSlotOwner,
    ProvesNothing,
    TooManyClaims,
    WrongTaskState,
)
from gpu_tasks.market.training.fraud_claims import claim_bond, claim_commitment, drop_overdue, reward_of
from gpu_tasks.market.training.life import judging
from gpu_tasks.market.training.showing import own_segments
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import CLAIMS_MAX, TASK_CHALLENGE, Challenge, FraudClaim, Task, TaskState
from gpu_tasks.traces.trace import TraceFraudProof, has_form
from runtime.frame.holds import Hold
from runtime.frame.pallet import ensure, known


def claim(market: TrainingStorage, task_id: bytes, account: bytes, commitment: bytes) -> None:
    """Commit to a fraud proof, as a bonded candidate without a part in the task."""
    task, who = _challenged(market, task_id), market.devices.operator(account)
    ensure(market.stake.is_candidate(who), NotEligible)
    ensure(all(slot.provider != who for slot in task.slots) and who != task.customer, NotEligible)
    ensure(market.claims[task_id, who] is None, DoneAlready)
    count = task.claims + 1 if task.claims < CLAIMS_MAX else CLAIMS_MAX
    ensure(count > task.claims or drop_overdue(market, task_id, task), TooManyClaims)
    bond = claim_bond(task)
    market.lock.lock(who, Hold(TASK_CHALLENGE, task_id), bond)
    market.claims[task_id, who] = FraudClaim(commitment, market.height)
    market.put(task_id, replace(task, claims=count))
    market.emit(FraudClaimed(task_id, who, bond))


def show(
    market: TrainingStorage, task_id: bytes, place: int, account: bytes, proof: TraceFraudProof, salt: bytes
) -> None:
    """Open a fraud proof: judges compute its segment in a case."""
    task, who = _challenged(market, task_id), market.devices.operator(account)
    made = known(market.claims[task_id, who], NoSuchClaim)
    # An opening in the block of its commitment could be copied by the block's author.
    ensure(made.made_at < market.height, NoSuchClaim)
    ensure(place < len(task.slots), NotSlotOwner)
    genesis, result = market.system.block_hash[0], known(task.slots[place].result, WrongTaskState)
    ensure(made.commitment == claim_commitment(genesis, task_id, who, place, proof, salt), ProvesNothing)
    ensure(proof.index in own_segments(task) and has_form(result.root, task.order.segments, proof), ProvesNothing)
    del market.claims[task_id, who]
    challenge = Challenge(who, place, proof.index, claim_bond(task), reward_of(task, task.slots[place]))
    market.emit(FraudShown(task_id, place, who, proof))
    judging.judge_challenge(market, task_id, replace(task, challenge=challenge))


def _challenged(market: TrainingStorage, task_id: bytes) -> Task:
    """Return a task whose result, over a trace, can still be disputed."""
    task = market.open_task(task_id)
    market.ensure_in(task, TaskState.SUBMITTED)
    ensure(bool(task.order.segments) and task.accepted is None, WrongTaskState)
    return task
