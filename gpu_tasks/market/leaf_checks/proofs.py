"""What an auditor commits to when it passes: a hash that only who has computed the drawn leaves can make.

A path shows a leaf's node and not its digest, so the digests are known to nobody who has not computed the outcomes with
the salt of the sealed input. Always: it is bound to auditor and unit, so there is nothing to copy; it says of every
drawn leaf that it is what was shown, so who passes a leaf that is another one has made no right proof.
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
    """The proof of who computed these digests, in the order in which the leaves were shown; `auditor` is its stash.

    `is_shown`: whether each is the leaf that was shown. Who passes says so; who looks at its proof finds it or not.
    """
    body = _PROOF.encode(_ProofBody(unit, auditor, salt, is_shown, tuple(digests)))
    return blake2_256(domain(b"leaves", genesis, body))
