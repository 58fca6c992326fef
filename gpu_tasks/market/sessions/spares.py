"""The spare of a session: its proof that it has the model loaded, and its pay.

The spare answers a standard request, which follows from a seed that the draw's beacon decides. The answer is a claim of
one item, so its check is that of any claim. The seed is also the secret that salts the item's leaf.

Invariants: nobody knows the request before the beacon. A proof of one session proves nothing in another one.
"""

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.sessions.records import Leg, SessionRecord
from gpu_tasks.market.sessions.vouchers import amount_of
from runtime.cryptography.hashing import blake2_256

SPARE_PART = 4
"""The pay of a spare is this part of the least pay of a place."""
PROOF_BLOCKS = 10
"""The blocks after the draw in which the spare must send its proof, about 40 seconds."""
PROOF_TOKENS_IN, PROOF_TOKENS_OUT = 16, 8
"""The tokens of the standard request and of its answer."""


def seed_of(session_id: bytes, beacon: bytes) -> bytes:
    """Return the seed of the standard request of a session that this beacon drew."""
    return blake2_256(b"ogpu/session-spare" + session_id + beacon)


def proof_totals(top: bytes) -> Totals:
    """Return the totals of a proof, of which `top` is the hash of the only leaf."""
    return Totals(1, PROOF_TOKENS_IN, PROOF_TOKENS_OUT, top)


def proof_until(spare: Leg) -> int:
    """Return the last block for the proof."""
    return spare.since + PROOF_BLOCKS


def proof_amount(session: SessionRecord) -> int:
    """Return the pay of a proof."""
    return amount_of(session.rate, session.input_share, proof_totals(bytes(32)))


def spare_rate(session: SessionRecord) -> int:
    """Return the pay of a spare in grains a block: a quarter of the least pay of a place, rounded down."""
    return session.place_rate // SPARE_PART


def spare_exposure(session: SessionRecord, spare: Leg, amount: int) -> int:
    """Return the most that a spare gains by a false proof of this amount: its pay for the whole term."""
    return max(amount, min(session.deposit, spare_rate(session) * (session.expires_at - spare.since)))
