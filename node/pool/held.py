"""What the pool keeps of an extrinsic beside its bytes, so that nothing of it is worked out twice."""

from __future__ import annotations

from functools import partial

from node.pool.verifier import Claim
from runtime.blocks.extrinsic import Extrinsic
from runtime.cryptography.signatures import Scheme, VerifySignature
from runtime.encoding.record import record


@record
class Held:
    """An extrinsic in the pool, decoded, and the claim that was checked on its way in."""

    extrinsic: Extrinsic
    claim: Claim
    is_long: bool = False
    """Whether to decode it again would cost milliseconds."""

    def verified_or(self, verify: VerifySignature) -> VerifySignature:
        """`verify`, which is not asked when the message is the one whose signature was checked already."""
        return partial(self._verify, verify)

    def _verify(self, verify: VerifySignature, scheme: Scheme, signer: bytes, payload: bytes, signature: bytes) -> bool:
        # On another fork the block of birth differs, and the message with it.
        return (scheme, signer, payload, signature) == self.claim or verify(scheme, signer, payload, signature)
