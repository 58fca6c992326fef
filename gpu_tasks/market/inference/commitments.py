"""What racers commit to before anybody reveals.

A commitment is bound to its maker, unit and attempt, so copying one opens nothing. The salt is 32
random bytes of the maker; the salt of the customer's input never goes on chain.
"""

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U32, codec, struct
from runtime.encoding.types import AccountId, Hash


@struct
class _ResultBody:
    unit: Hash
    attempt: U32
    provider: AccountId
    output_root: Hash
    salt: Hash


_RESULT = codec(_ResultBody)


def result_commitment(
    genesis: bytes, unit: bytes, attempt: int, provider: bytes, output_root: bytes, salt: bytes
) -> bytes:
    """The 32 bytes that racer `provider` (its stash) commits for an output root."""
    body = _RESULT.encode(_ResultBody(unit, attempt, provider, output_root, salt))
    return blake2_256(domain(b"result", genesis, body))
