"""Vouchers: the customer's signed promises to pay, off the chain, for the work of a session so far.

A session is split into periods, numbered from 0. Each period becomes at most one claim, whose items are its requests. A
voucher names the totals of its period so far (`batches.sum_tree`), so a later voucher of a period replaces the earlier
ones. The provider presents the newest one.

Invariants: a signature is valid for one session on one chain. An item is bound to its request: a provider cannot put
the answer to an easier request under the same leaf.
"""

from gpu_tasks.batches.requests import price_of, work_of
from gpu_tasks.batches.sum_tree import Totals
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U32, codec, struct
from runtime.encoding.types import Hash

KIND = b"voucher"
SECRET_BYTES = 32


@struct
class Voucher:
    """The promise to pay for all requests of a period so far."""

    session: Hash
    period: U32
    """The number of the session's claim that this voucher becomes, from 0."""
    totals: Totals
    """The requests of this period, with the tokens that the customer has received."""


VOUCHER = codec(Voucher)


def voucher_payload(genesis: bytes, voucher: Voucher) -> bytes:
    """Return the message that the session's signer signs."""
    return domain(KIND, genesis, VOUCHER.encode(voucher))


def amount_of(rate: int, input_share: int, totals: Totals) -> int:
    """Return the grains for these totals, at `rate` grains per 1,000 output tokens, rounded up.

    `input_share` is the count of an input token, in millionths of an output token.
    """
    return price_of(rate, work_of(input_share, totals.tokens_in, totals.tokens_out))


def session_claim_id(session: bytes, period: int) -> bytes:
    """Return the id of the claim of a session's period."""
    return blake2_256(b"ogpu/session-claim" + session + period.to_bytes(4, "little"))


def item_salt(secret: bytes, request: bytes) -> bytes:
    """Return the salt of a request's leaf. `secret` is the customer's: 32 random bytes for each session.

    Raise ValueError for a secret of another length.
    """
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"the secret of a session has {SECRET_BYTES} bytes, not {len(secret)}")
    return blake2_256(b"ogpu/session-item" + secret + blake2_256(request))
