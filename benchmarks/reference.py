"""What shares of "the signature limit" are of: libsodium's ed25519, whichever library the chain itself verifies with.

Other ledgers use it, and earlier figures were taken with it. A share of the chain's own verifier would fall whenever
that became faster, though nothing became slower.
"""

from collections.abc import Sequence

from nacl.bindings import crypto_sign_open  # noqa: TID251 - a scale, which decides nothing

from node.pool.verifier import Claim


def verify_all(claims: Sequence[Claim]) -> None:
    """Verify ed25519 signatures one after the other; raises if one is wrong."""
    for claim in claims:
        crypto_sign_open(claim.signature + claim.payload, claim.signer)
