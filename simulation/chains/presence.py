"""Signs of life on chains without consensus: heartbeats, and certificates that everybody with a seat signed."""

from collections.abc import Iterable

from runtime.encoding.codec import codec
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from runtime.pallets.im_online import Heartbeat, ImOnline, SeenFinal, heartbeat_payload
from runtime.pallets.staking.presence import CertificateHead
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.named_keys import NamedKeys

_HEAD = codec(CertificateHead)


def signed_by_all(bound: Bound, height: int, absent: frozenset[bytes] = frozenset()) -> bytes:
    """The head of a certificate for a height, without a signature: all of its epoch's set but the absent signed it."""
    epoch = bound[Beacon].epoch_of(height)
    bits = sum((seat.stash not in absent) << place for place, seat in enumerate(bound[TrustStake].validators(epoch)))
    signers = bits.to_bytes(-(-bits.bit_length() // 8), "little")
    return _HEAD.encode(CertificateHead(1, 2, epoch, height, height, bytes(32), signers))


def heartbeat(who: NamedKeys, genesis: bytes, number: int, block: bytes) -> Heartbeat:
    """That `who` saw a block as final."""
    seen = SeenFinal(who.stash, number, block)
    return Heartbeat(seen, who.sign("session", heartbeat_payload(genesis, seen)))


def attached(heartbeats: Iterable[Heartbeat]) -> Call:
    """The inherent with these, in their order."""
    return ImOnline.attach(heartbeats=tuple(sorted(heartbeats, key=lambda each: each.seen.stash)))
