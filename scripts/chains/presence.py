"""What the certificate of a final block says of who is there, on chains without consensus: everybody who sits signs."""

from runtime.encoding.codec import codec
from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.presence import CertificateHead
from runtime.pallets.staking.trust_stake import TrustStake

_HEAD = codec(CertificateHead)


def signed_by_all(bound: Bound, height: int, absent: frozenset[bytes] = frozenset()) -> bytes:
    """The head of a certificate for a height, without a signature: all of its epoch's set but the absent signed it."""
    epoch = bound[Beacon].epoch_of(height)
    bits = sum((seat.stash not in absent) << place for place, seat in enumerate(bound[TrustStake].validators(epoch)))
    signers = bits.to_bytes(-(-bits.bit_length() // 8), "little")
    return _HEAD.encode(CertificateHead(1, 2, epoch, height, height, bytes(32), signers))
