"""What racers and judges commit to before anybody reveals.

A commitment is bound to its maker, unit and attempt, so copying one opens nothing. The salt is 32
random bytes of the maker; the salt of the customer's input never goes on chain.
"""

from typing import Annotated

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, U32, Tagged, codec, struct, variant
from runtime.encoding.types import AccountId, Hash


@variant(0)
class Recomputed:
    """The input gives this output root."""

    output_root: Hash


@variant(1)
class InputBad:
    """The input cannot be opened, or is not what the customer committed to."""


Verdict = Annotated[Recomputed | InputBad, Tagged("ogpu::Verdict")]


@struct
class _ResultBody:
    unit: Hash
    attempt: U32
    provider: AccountId
    output_root: Hash
    salt: Hash


@struct
class _VerdictBody:
    unit: Hash
    committee: U8
    member: AccountId
    verdict: Verdict
    salt: Hash


_RESULT = codec(_ResultBody)
_VERDICT = codec(_VerdictBody)


def result_commitment(
    genesis: bytes, unit: bytes, attempt: int, provider: bytes, output_root: bytes, salt: bytes
) -> bytes:
    """The 32 bytes that racer `provider` (its stash) commits for an output root."""
    body = _RESULT.encode(_ResultBody(unit, attempt, provider, output_root, salt))
    return blake2_256(domain(b"result", genesis, body))


def verdict_commitment(
    genesis: bytes, unit: bytes, committee: int, member: bytes, verdict: Recomputed | InputBad, salt: bytes
) -> bytes:
    """The 32 bytes that committee member `member` (its stash) commits for a verdict."""
    body = _VERDICT.encode(_VerdictBody(unit, committee, member, verdict, salt))
    return blake2_256(domain(b"verdict", genesis, body))
