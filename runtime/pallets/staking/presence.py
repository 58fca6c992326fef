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


def note(seat_ledger: SeatLedger) -> None:
    """Record the author of the block, and the voters in its certificate."""
    current_epoch = seat_ledger.beacon.epoch()
    author_stash = find_author(seat_ledger.system.digest.get())
    if author_stash is not None:
        seat_ledger.note_heard(author_stash, current_epoch)
    _note_votes(seat_ledger, current_epoch)


def settle(seat_ledger: SeatLedger) -> None:
    """Record the presence of the last epoch's set, in an epoch's first block, before its own set is active.

    If finality lags, all certificates of an epoch may arrive with this very block. They count before any absence is
    judged. Votes that arrive even later belong to the previous set, and are recorded an epoch late.
    """
    ended_epoch = seat_ledger.epoch_voters.get().epoch
    _note_votes(seat_ledger, ended_epoch)
    _write_down(seat_ledger, ended_epoch, seat_ledger.epoch_voters.get().bits)
    if ended_epoch:
        _write_down(seat_ledger, ended_epoch - 1, seat_ledger.late_voters.get())
    seat_ledger.late_voters.set(b"")
    seat_ledger.epoch_voters.set(Presence(seat_ledger.beacon.epoch()))


def _note_votes(seat_ledger: SeatLedger, epoch_number: int) -> None:
    """Add the votes of the block's certificate to those of its own epoch: this one, or the previous one."""
    presence = seat_ledger.epoch_voters.get()
    for consensus_log in consensus_logs(seat_ledger.system.digest.get()):
        certificate_head = _head_of(consensus_log.certificate) if isinstance(consensus_log, FinalRef) else None
        if certificate_head is None or presence.epoch != epoch_number:
            continue
        if certificate_head.epoch == epoch_number:
            seat_ledger.epoch_voters.set(Presence(epoch_number, _union(presence.bits, certificate_head.signers)))
        # Bits count places in the set of the certificate's own epoch.
        elif certificate_head.epoch + 1 == epoch_number:
            seat_ledger.late_voters.set(_union(seat_ledger.late_voters.get(), certificate_head.signers))


def _head_of(certificate: bytes) -> CertificateHead | None:
    """Return the head of a certificate, None if it is malformed.

    Chains without consensus, in tests and tools, have no certificates.
    """
    try:
        certificate_head, _ = _HEAD.decode_from(certificate, 0)
    except DecodeError:
        return None
    return certificate_head


def _write_down(seat_ledger: SeatLedger, epoch_number: int, voter_bits: bytes) -> None:
    for seat_index, set_member in enumerate(seat_ledger.validators(epoch_number) if voter_bits else ()):
        if _has(voter_bits, seat_index):
            seat_ledger.note_heard(set_member.stash, epoch_number)


def _has(voter_bits: bytes, seat_index: int) -> bool:
    return seat_index // 8 < len(voter_bits) and bool(voter_bits[seat_index // 8] >> seat_index % 8 & 1)


def _union(first_bits: bytes, second_bits: bytes) -> bytes:
    byte_length = max(len(first_bits), len(second_bits))
    return (int.from_bytes(first_bits, "little") | int.from_bytes(second_bits, "little")).to_bytes(
        byte_length, "little"
    )
