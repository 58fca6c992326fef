"""The next block on chains without consensus: its digest, certificates signed by all seats, heartbeats."""

from collections.abc import Iterable
from typing import Any

from runtime.blocks.digest import Digest, FinalRef, PreDigest, author_item, consensus_item, pre_digest_item
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
    """Return the head of a certificate for a height, without signatures. All seats of its epoch signed but `absent`."""
    epoch = bound[Beacon].epoch_of(height)
    bits = sum((seat.stash not in absent) << place for place, seat in enumerate(bound[TrustStake].validators(epoch)))
    signers = bits.to_bytes(-(-bits.bit_length() // 8), "little")
    return _HEAD.encode(CertificateHead(1, 2, epoch, height, height, bytes(32), signers))


def heartbeat(who: NamedKeys, genesis: bytes, number: int, block: bytes) -> Heartbeat:
    """Return a heartbeat: `who` saw a block as final."""
    seen = SeenFinal(who.stash, number, block)
    return Heartbeat(seen, who.sign("session", heartbeat_payload(genesis, seen)))


def attached(heartbeats: Iterable[Heartbeat]) -> Call:
    """Return the inherent with these heartbeats, in their order."""
    return ImOnline.attach(heartbeats=tuple(sorted(heartbeats, key=lambda each: each.seen.stash)))


def digest_of(
    bound: Bound,
    number: int,
    author: bytes,
    slot: int,
    output: bytes,
    final: tuple[int, bytes] | None = None,
    absent: frozenset[bytes] = frozenset(),
) -> Digest:
    """Return a block's digest without its seal. `final` is the height and id of a referenced final block.

    The last block of an epoch names the next set.
    """
    # Chains without consensus do not verify the VRF proof.
    pre_digest = PreDigest(slot, bound[Beacon].epoch_of(number), output, bytes(80))
    items: list[Any] = [author_item(author), pre_digest_item(pre_digest)]
    if final is not None:
        items.append(consensus_item(FinalRef(*final, signed_by_all(bound, final[0], absent))))
    following = bound[TrustStake].next_validators(number)
    if following is not None:
        items.append(consensus_item(following))
    return tuple(items)
