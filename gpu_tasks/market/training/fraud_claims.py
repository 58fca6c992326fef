"""A fraud proof before it is opened: what is committed to, what is held, and what becomes of that.

Authors are bidders, and would steal a naked proof: so it is committed to in one block, bound to who makes it, and
opened in a later one.

Always: a claim holds its bond until its task ends, or its case does; who commits and opens nothing keeps nobody out
for longer than `CLAIM_BLOCKS`, and pays with its bond; a proof that is right is paid twice its bond out
of the liar's collateral, at most a fourth of that, so that who proves its own lie keeps no more of it; one that is
wrong pays its judges, and the rest of its bond burns.
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
"""To open a proof that was committed to: whoever has one does in the next block, and others wait for its place."""
REWARD_TIMES = 2
REWARD_PART = 4
"""At most one part in so many of the collateral: the customer is due up to a half of it before."""


@struct
class _ClaimBody:
    task: TaskId
    challenger: AccountId
    place: U8
    proof: TraceFraudProof
    salt: Hash


_CLAIM_BODY = codec(_ClaimBody)


def claim_commitment(
    genesis: bytes, task: bytes, challenger: bytes, place: int, proof: TraceFraudProof, salt: bytes
) -> bytes:
    """The 32 bytes that `challenger` (its stash) commits to; `salt` is its own chance."""
    body = _CLAIM_BODY.encode(_ClaimBody(task, challenger, place, proof, salt))
    return blake2_256(domain(b"fraud", genesis, body))


def claim_bond(task: Task) -> int:
    """Return the bond of a fraud proof: the fees of the judges that it calls."""
    return FIRST_JUDGES * money.fee_of_judge(task.rules, task.terms.price_max)


def reward_of(task: Task, slot: Slot) -> int:
    """What a fraud proof brings if it is right, beside its bond."""
    return min(REWARD_TIMES * claim_bond(task), slot.collateral // REWARD_PART)


def is_overdue(task: Task, claim: FraudClaim, height: int) -> bool:
    """Whether who committed to a proof could have opened it for long enough; not while another one was judged."""
    return height >= max(claim.made_at, task.finished_at) + CLAIM_BLOCKS


def drop_overdue(market: TrainingStorage, task_id: bytes, task: Task) -> bool:
    """Burn the bond of somebody who has not opened a proof in time, for its place; whether there is one."""
    for challenger, claim in market.claims.under(task_id):
        if claim is not None and is_overdue(task, claim, market.height):
            _burn_claim(market, task_id, task, challenger)
            return True
    return False


def _burn_claim(market: TrainingStorage, task_id: bytes, task: Task, challenger: bytes) -> None:
    bond = claim_bond(task)
    market.lock.pay_out(challenger, Hold(TASK_CHALLENGE, task_id), (Share(None, bond),))
    del market.claims[task_id, challenger]
    market.emit(FraudNotShown(task_id, challenger, bond))


def burn_bond(market: TrainingStorage, task_id: bytes, challenge: Challenge) -> None:
    """Burn what the judges have left of the bond of a proof that was wrong."""
    hold = Hold(TASK_CHALLENGE, task_id)
    left = market.lock.locked(challenge.challenger, hold)
    market.lock.pay_out(challenge.challenger, hold, (Share(None, left),))


def return_bond(market: TrainingStorage, task_id: bytes, challenger: bytes) -> None:
    """Give a bond back."""
    hold = Hold(TASK_CHALLENGE, task_id)
    market.lock.unlock(challenger, hold, market.lock.locked(challenger, hold))


def end_claims(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Where a task ends: claims that were not opened get their bonds back, but those that had their time.

    Those kept other proofs out: a liar's friends would fill all places for nothing.
    """
    until = min(market.height, task.finished_at + task.windows.accept)
    for challenger, claim in list(market.claims.under(task_id)):
        assert claim is not None, "what is listed is there"
        if task.accepted is Acceptance.BY_SILENCE and is_overdue(task, claim, until):
            _burn_claim(market, task_id, task, challenger)
        else:
            return_bond(market, task_id, challenger)
            del market.claims[task_id, challenger]
    market.lock.end(Hold(TASK_CHALLENGE, task_id))
