"""A judge's opinion of a case, and the commitment before it.

An opinion is the root of the judge's own computation, or the statement that the case cannot be answered. It comes with
a probe, because a judge that computed nothing could copy a public root. The probe is a hash over judge, case, the
input's salt and the integers of the computation at a place that the draw named for this seat. Each handler's workload
defines the hashed values. The chain stores the probe, and a court states which probes of earlier judges are wrong.
"""

from typing import Annotated

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, Tagged, codec, struct, variant
from runtime.encoding.types import AccountId, Hash


@variant(0)
class Answered:
    """The right answer has this root."""

    root: Hash


@variant(1)
class Unanswerable:
    """There is no right answer: some readers cannot open the input, or it does not match its commitment."""


Opinion = Annotated[Answered | Unanswerable, Tagged("ogpu::Opinion")]


@struct
class Statement:
    """All values that a judge opens."""

    opinion: Opinion
    probe: Hash
    doubted: U8 = 0
    """A court's doubts: a bit for each earlier judge of the case, in order, set if its probe is wrong."""


@struct
class _OpinionBody:
    case: Hash
    bench: U8
    judge: AccountId
    statement: Statement
    salt: Hash


_OPINION = codec(_OpinionBody)


def opinion_commitment(genesis: bytes, case: bytes, bench: int, judge: bytes, said: Statement, salt: bytes) -> bytes:
    """Return the 32 bytes that `judge` (its stash) commits on a bench. `salt` is its own random value."""
    # The judge is part of the body, so a copied commitment cannot be opened.
    body = _OPINION.encode(_OpinionBody(case, bench, judge, said, salt))
    return blake2_256(domain(b"opinion", genesis, body))


def probe_of(case: bytes, judge: bytes, salt: bytes, trace: bytes) -> bytes:
    """Return the probe of a judge. `trace` is the hash of the computation at the seat's place."""
    return blake2_256(b"ogpu/probe-of" + case + judge + salt + trace)


def probe_place(seed: bytes, case: bytes, judge: bytes) -> bytes:
    """Return 32 bytes that name the place of a seat's probe. The workload maps them to a place of the computation."""
    return blake2_256(b"ogpu/probe" + seed + case + judge)
