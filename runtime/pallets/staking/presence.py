"""Signs of life: authors of blocks, and voters in certificates on the chain. ImOnline adds heartbeats.

A certificate holds the votes that its maker received first, and the proposer chooses the certificate. A sign therefore
shows presence, but nobody is punished for a missing block or vote.
"""

from runtime.blocks.digest import FinalRef, consensus_logs, find_author
from runtime.encoding.codec import U8, U32, Annotated, Bounded, DecodeError, codec, struct
from runtime.encoding.types import Hash
from runtime.pallets.staking.seats import BITMAP_BYTES_MAX, Presence, SeatLedger


@struct
class CertificateHead:
    """The head of a certificate: the ballot, and its signers. Header rules have checked the signatures."""

    version: U8
    kind: U8
    epoch: U32
    round: U32
    height: U32
    block: Hash
    signers: Annotated[bytes, Bounded(BITMAP_BYTES_MAX)]


_HEAD = codec(CertificateHead)


def note(stake: SeatLedger) -> None:
    """Record the author of the block, and the voters in its certificate."""
    current_epoch = stake.beacon.epoch()
    stash = find_author(stake.system.digest.get())
    if stash is not None:
        stake.note_heard(stash, current_epoch)
    _note_votes(stake, current_epoch)


def settle(stake: SeatLedger) -> None:
    """Record the presence of the last epoch's set, in an epoch's first block, before its own set is active.

    If finality lags, all certificates of an epoch may arrive with this very block. They count before any absence is
    judged. Votes that arrive even later belong to the previous set, and are recorded an epoch late.
    """
    ended_epoch = stake.epoch_voters.get().epoch
    _note_votes(stake, ended_epoch)
    _write_down(stake, ended_epoch, stake.epoch_voters.get().bits)
    if ended_epoch:
        _write_down(stake, ended_epoch - 1, stake.late_voters.get())
    stake.late_voters.set(b"")
    stake.epoch_voters.set(Presence(stake.beacon.epoch()))


def _note_votes(stake: SeatLedger, epoch: int) -> None:
    """Add the votes of the block's certificate to those of its own epoch: this one, or the previous one."""
    presence = stake.epoch_voters.get()
    for log in consensus_logs(stake.system.digest.get()):
        head = _head_of(log.certificate) if isinstance(log, FinalRef) else None
        if head is None or presence.epoch != epoch:
            continue
        if head.epoch == epoch:
            stake.epoch_voters.set(Presence(epoch, _union(presence.bits, head.signers)))
        # Bits count places in the set of the certificate's own epoch.
        elif head.epoch + 1 == epoch:
            stake.late_voters.set(_union(stake.late_voters.get(), head.signers))


def _head_of(certificate: bytes) -> CertificateHead | None:
    """Return the head of a certificate, None if it is malformed.

    Chains without consensus, in tests and tools, have no certificates.
    """
    try:
        head, _ = _HEAD.decode_from(certificate, 0)
    except DecodeError:
        return None
    return head


def _write_down(stake: SeatLedger, epoch: int, bits: bytes) -> None:
    for index, seat in enumerate(stake.validators(epoch) if bits else ()):
        if _has(bits, index):
            stake.note_heard(seat.stash, epoch)


def _has(bits: bytes, index: int) -> bool:
    return index // 8 < len(bits) and bool(bits[index // 8] >> index % 8 & 1)


def _union(left: bytes, right: bytes) -> bytes:
    length = max(len(left), len(right))
    return (int.from_bytes(left, "little") | int.from_bytes(right, "little")).to_bytes(length, "little")
