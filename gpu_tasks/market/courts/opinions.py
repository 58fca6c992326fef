"""What a judge says of a case, and what it commits to before anybody says anything.

An opinion is the root that the judge's own computation gave, or that the case cannot be answered. With it goes a probe:
a hash over judge, case, the input's salt and the integers of the computation at a place that the draw named for this
seat, since a root that is public could be copied by a judge who computed nothing. Each handler's workload says what is
hashed; the chain keeps it, and the court says which of the earlier judges' probes are wrong.
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
    """There is no right answer: the input cannot be opened by all who must, or is not what was committed to."""


Opinion = Annotated[Answered | Unanswerable, Tagged("ogpu::Opinion")]


@struct
class Statement:
    """All that a judge opens."""

    opinion: Opinion
    probe: Hash
    doubted: U8 = 0
    """Of a court: one bit for each earlier judge of the case, in order, whose probe is wrong."""


@struct
class _OpinionBody:
    case: Hash
    bench: U8
    judge: AccountId
    statement: Statement
    salt: Hash


_OPINION = codec(_OpinionBody)


def opinion_commitment(genesis: bytes, case: bytes, bench: int, judge: bytes, said: Statement, salt: bytes) -> bytes:
    """The 32 bytes that `judge` (its stash) commits to on bench number `bench` of a case; `salt` is its own chance."""
    # bound to the judge: whoever copies a commitment cannot open it
    body = _OPINION.encode(_OpinionBody(case, bench, judge, said, salt))
    return blake2_256(domain(b"opinion", genesis, body))


def probe_of(case: bytes, judge: bytes, salt: bytes, trace: bytes) -> bytes:
    """The probe of a judge: `salt` lies in the input, `trace` is the hash of the computation at the seat's place."""
    return blake2_256(b"ogpu/probe-of" + case + judge + salt + trace)


def probe_place(seed: bytes, case: bytes, judge: bytes) -> bytes:
    """32 bytes that say where a seat's probe is taken; the workload maps them to a place of the computation."""
    return blake2_256(b"ogpu/probe" + seed + case + judge)
