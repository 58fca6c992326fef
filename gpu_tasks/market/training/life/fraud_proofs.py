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
    task, challenger = _challenged(market, task_id), market.devices.operator(account)
    ensure(market.stake.is_candidate(challenger), NotEligible)
    # A customer disputes with its own bonds. By a fraud proof it would earn twice from a wrong result.
    ensure(all(slot.provider != challenger for slot in task.slots) and challenger != task.customer, NotEligible)
    ensure(market.claims[task_id, challenger] is None, DoneAlready)
    claim_count = task.claims + 1 if task.claims < CLAIMS_MAX else CLAIMS_MAX
    ensure(claim_count > task.claims or drop_overdue(market, task_id, task), TooManyClaims)
    bond_grains = claim_bond(task)
    market.lock.lock(challenger, Hold(TASK_CHALLENGE, task_id), bond_grains)
    market.claims[task_id, challenger] = FraudClaim(commitment, market.height)
    market.put(task_id, replace(task, claims=claim_count))
    market.emit(FraudClaimed(task_id, challenger, bond_grains))


def show(
    market: TrainingStorage,
    task_id: bytes,
    place: int,
    account: bytes,
    proof: TraceFraudProof,
    salt: bytes,
) -> None:
    """Open a fraud proof: judges compute its segment in a case."""
    task, challenger = _challenged(market, task_id), market.devices.operator(account)
    claim = known(market.claims[task_id, challenger], NoSuchClaim)
    # An opening in the block of its commitment could be copied by the block's author.
    ensure(claim.made_at < market.height, NoSuchClaim)
    ensure(place < len(task.slots), NotSlotOwner)
    genesis_hash, accused_result = market.system.block_hash[0], known(task.slots[place].result, WrongTaskState)
    ensure(
        claim.commitment == claim_commitment(genesis_hash, task_id, challenger, place, proof, salt),
        ProvesNothing,
    )
    ensure(
        proof.index in own_segments(task) and has_form(accused_result.root, task.order.segments, proof),
        ProvesNothing,
    )
    del market.claims[task_id, challenger]
    challenge = Challenge(challenger, place, proof.index, claim_bond(task), reward_of(task, task.slots[place]))
    market.emit(FraudShown(task_id, place, challenger, proof))
    judging.judge_challenge(market, task_id, replace(task, challenge=challenge))


def _challenged(market: TrainingStorage, task_id: bytes) -> Task:
    """Return a task whose result, over a trace, can still be disputed."""
    task = market.open_task(task_id)
    market.ensure_in(task, TaskState.SUBMITTED)
    ensure(bool(task.order.segments) and task.accepted is None, WrongTaskState)
    return task
