"""The basis of shares of "the signature limit": libsodium's ed25519, independent of the chain's own verifier.

Other ledgers use libsodium, and earlier figures were taken with it. A share of the chain's own verifier would fall if
that verifier became faster, although nothing became slower.
"""

from collections.abc import Sequence

from nacl.bindings import crypto_sign_open  # noqa: TID251 - a scale, which decides nothing

from node.pool.verifier import Claim


def verify_all(claims: Sequence[Claim]) -> None:
    """Verify ed25519 signatures one after the other. Raise an error if one is wrong."""
    for claim in claims:
        crypto_sign_open(claim.signature + claim.payload, claim.signer)
