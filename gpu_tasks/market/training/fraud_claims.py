"""A fraud proof before it is opened: its commitment, its bond, and the end of both.

Authors are bidders and would steal a plain proof. So a challenger commits to it in one block, bound to its own account,
and opens it in a later one.

Invariants: a claim holds its bond until its task or its case ends. A challenger that opens nothing blocks a place for
at most `CLAIM_BLOCKS`, and loses its bond. A right proof earns twice its bond out of the liar's collateral, but at most
a fourth of the collateral. So a liar that proves its own lie recovers at most that fourth. A wrong proof pays its
judges, and the rest of its bond burns.
"""

from gpu_tasks.market.courts.money import FIRST_JUDGES
from gpu_tasks.market.ids import TaskId
from gpu_tasks.market.training import money
from gpu_tasks.market.training.events import FraudNotShown
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import TASK_CHALLENGE, Acceptance, Challenge, FraudClaim, Slot, Task
from gpu_tasks.traces.trace import TraceFraudProof
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, codec, struct
from runtime.encoding.types import AccountId, Hash
from runtime.frame.holds import Hold
from runtime.pallets.staking.slashing import Share

CLAIM_BLOCKS = 8
"""The window to open a committed proof. An honest challenger opens in the next block, and others wait for the place."""
REWARD_TIMES = 2
REWARD_PART = 4
"""The reward is at most the collateral divided by this: the customer gets up to a half of it before."""


@struct
class _ClaimBody:
    task: TaskId
    challenger: AccountId
    place: U8
    proof: TraceFraudProof
    salt: Hash


_CLAIM_BODY = codec(_ClaimBody)


def claim_commitment(
    genesis_hash: bytes, task_id: bytes, challenger: bytes, place: int, proof: TraceFraudProof, salt: bytes
) -> bytes:
    """Return the 32 bytes that `challenger` (its stash) commits. `salt` is its own random value."""
    # With the challenger inside, an author that copies the commitment cannot open it.
    body = _CLAIM_BODY.encode(_ClaimBody(task_id, challenger, place, proof, salt))
    return blake2_256(domain(b"fraud", genesis_hash, body))


def claim_bond(task: Task) -> int:
    """Return the bond of a fraud proof: the fees of the judges that it calls."""
    return FIRST_JUDGES * money.fee_of_judge(task.rules, task.terms.price_max)


def reward_of(task: Task, slot: Slot) -> int:
    """Return the reward of a right fraud proof, in addition to its returned bond."""
    return min(REWARD_TIMES * claim_bond(task), slot.collateral // REWARD_PART)


def is_overdue(task: Task, claim: FraudClaim, height: int) -> bool:
    """Return True if a challenger has had its full window to open.

    The window starts again after another proof was judged.
    """
    return height >= max(claim.made_at, task.finished_at) + CLAIM_BLOCKS


def drop_overdue(market: TrainingStorage, task_id: bytes, task: Task) -> bool:
    """Burn the bond of one overdue claim to free its place. Return True if there was one."""
    for challenger, claim in market.claims.under(task_id):
        if claim is not None and is_overdue(task, claim, market.height):
            _burn_claim(market, task_id, task, challenger)
            return True
    return False


def _burn_claim(market: TrainingStorage, task_id: bytes, task: Task, challenger: bytes) -> None:
    bond_grains = claim_bond(task)
    market.lock.pay_out(challenger, Hold(TASK_CHALLENGE, task_id), (Share(None, bond_grains),))
    del market.claims[task_id, challenger]
    market.emit(FraudNotShown(task_id, challenger, bond_grains))


def burn_bond(market: TrainingStorage, task_id: bytes, challenge: Challenge) -> None:
    """Burn the rest of a wrong proof's bond, after payments to judges."""
    hold = Hold(TASK_CHALLENGE, task_id)
    remaining_bond = market.lock.locked(challenge.challenger, hold)
    market.lock.pay_out(challenge.challenger, hold, (Share(None, remaining_bond),))


def return_bond(market: TrainingStorage, task_id: bytes, challenger: bytes) -> None:
    """Return a challenger's bond."""
    hold = Hold(TASK_CHALLENGE, task_id)
    market.lock.unlock(challenger, hold, market.lock.locked(challenger, hold))


def end_claims(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """End the unopened claims of a task that ends: return their bonds, but burn those that had their full window.

    Those claims kept other proofs out: otherwise a liar's friends could fill all places for nothing.
    """
    # No proof can be opened after the window of acceptance, so later blocks do not age a claim.
    last_height = min(market.height, task.finished_at + task.windows.accept)
    for challenger, claim in list(market.claims.under(task_id)):
        assert claim is not None, "every listed claim has a record"
        if task.accepted is Acceptance.BY_SILENCE and is_overdue(task, claim, last_height):
            _burn_claim(market, task_id, task, challenger)
        else:
            return_bond(market, task_id, challenger)
            del market.claims[task_id, challenger]
    market.lock.end(Hold(TASK_CHALLENGE, task_id))
