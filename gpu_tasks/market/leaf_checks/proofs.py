"""The proof of an auditor's pass: a hash that requires the computation of the drawn leaves.

A path shows a leaf's node and not its digest. Only a party that has computed the outcomes, with the salt of the sealed
input, knows the digests.

Invariants: the proof binds auditor and unit, so there is nothing to copy. It states that every drawn leaf equals the
shown one, so the pass of a different leaf has no right proof.
"""

from collections.abc import Sequence
from typing import Annotated

from gpu_tasks.batches.leaf_draws import CHECKED_MAX
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import Bounded, Fixed, codec, struct
from runtime.encoding.types import AccountId, Hash


@struct
class _ProofBody:
    unit: Hash
    auditor: AccountId
    salt: Annotated[bytes, Fixed(32)]
    is_shown: bool
    digests: Annotated[tuple[Hash, ...], Bounded(CHECKED_MAX)]


_PROOF = codec(_ProofBody)


def leaves_proof(
    genesis: bytes, unit: bytes, auditor: bytes, salt: bytes, digests: Sequence[bytes], *, is_shown: bool = True
) -> bytes:
    """Return the proof of computed digests, in the order of the shown leaves. `auditor` is a stash.

    `is_shown` states whether each digest fits the shown leaf. A pass claims True, and judges compute it.
    """
    body = _PROOF.encode(_ProofBody(unit, auditor, salt, is_shown, tuple(digests)))
    return blake2_256(domain(b"leaves", genesis, body))
