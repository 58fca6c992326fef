"""Who is on line: who made a block, or signed a certificate that the chain carries. Heartbeats are ImOnline's.

A certificate holds the votes of those whom its maker heard first, at the will of who proposes. So a sign shows that
somebody is there, and nobody is punished for a block or a vote that is missing.
"""

from collections.abc import Iterable

from runtime.blocks.digest import FinalRef, consensus_logs, find_author
from runtime.encoding.codec import U8, U32, Annotated, Bounded, DecodeError, codec, struct
from runtime.encoding.types import Hash
from runtime.pallets.staking.seats import BITMAP_BYTES_MAX, Presence, SeatLedger


@struct
class CertificateHead:
    """What a certificate begins with: the ballot, and who signed it. Header rules have checked the signatures."""

    version: U8
    kind: U8
    epoch: U32
    round: U32
    height: U32
    block: Hash
    signers: Annotated[bytes, Bounded(BITMAP_BYTES_MAX)]


_HEAD = codec(CertificateHead)


def note(stake: SeatLedger) -> None:
    """Note the author of the block, and whose votes its certificate holds."""
    digest, epoch = stake.system.digest.get(), stake.beacon.epoch()
    author = find_author(digest)
    if author is not None:
        stake.note_heard(author, epoch)
    _note_bits(stake, epoch, (log for log in consensus_logs(digest) if isinstance(log, FinalRef)))


def settle(stake: SeatLedger) -> None:
    """In an epoch's first block, before its set is in office: write down who of the last one was seen."""
    present = stake.present.get()
    if present.bits:
        for place, seat in enumerate(stake.seats.get()):
            if _has(present.bits, place):
                stake.note_heard(seat.stash, present.epoch)
    stake.present.set(Presence(stake.beacon.epoch()))


def _note_bits(stake: SeatLedger, epoch: int, references: Iterable[FinalRef]) -> None:
    for reference in references:
        try:
            head, _ = _HEAD.decode_from(reference.certificate, 0)
        except DecodeError:  # chains without consensus, in tests and tools, carry none
            continue
        # The certificate of an epoch's last block comes with the next epoch, whose members have other places.
        present = stake.present.get()
        if head.epoch == epoch == present.epoch:
            stake.present.set(Presence(epoch, _union(present.bits, head.signers)))


def _has(bits: bytes, place: int) -> bool:
    return place // 8 < len(bits) and bool(bits[place // 8] >> place % 8 & 1)


def _union(left: bytes, right: bytes) -> bytes:
    length = max(len(left), len(right))
    return (int.from_bytes(left, "little") | int.from_bytes(right, "little")).to_bytes(length, "little")
