"""From the genesis hash to the first validators, and from those of an epoch to a header that is final. Pure.

Invariant: a `FinalHeader` bears a finalise-certificate of more than two thirds of its epoch's set, or a final
one descends from it; a `TrustRoot` holds the set that the genesis hash commits to,
and is of the kind of chain, live or for development, that it commits to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from consensus.certificates import CERTIFICATE, verify_certificate
from consensus.handoffs import seats_log
from consensus.headers import InvalidHeaderError, read_header
from consensus.parameters import Parameters
from consensus.validators import Validator, ValidatorSet
from genesis.chain import GENESIS_KEYS
from runtime.blocks.block import Header, block_id
from runtime.blocks.digest import CERTIFICATE_BYTES_MAX, NextValidators, consensus_logs
from runtime.blocks.votes import BallotKind
from runtime.cryptography.signatures import verify_ed25519
from runtime.encoding.codec import DecodeError
from runtime.frame.runtime import Runtime
from runtime.pallets.staking.stakers import Seat
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.sudo import Sudo
from runtime.state.trie_proof import ProvedState
from wallet.proved.refutation import RefutedError, require

STALE_SLOTS = 10


def doubt_of_age(block: FinalHeader, parameters: Parameters, now_ms: int) -> str | None:
    """Return a sentence if the block after `block` is `STALE_SLOTS` overdue, or if `block` is of the future; else None.

    A chain without work makes a block in every `heartbeat_slots` only.
    """
    if block.header.number == 0:
        return "no block is final yet: what is shown is how the chain began"
    behind_ms = now_ms - block.slot * parameters.slot_ms
    if behind_ms < -parameters.skew_ms:
        return (
            f"final block {block.header.number} is {_seconds(-behind_ms)} in the future: this machine's clock is late"
        )
    if behind_ms <= (STALE_SLOTS + parameters.heartbeat_slots) * parameters.slot_ms:
        return None
    return (
        f"final block {block.header.number} is {_seconds(behind_ms)} old: what it shows may have changed since "
        "(the node is behind, or the chain finalises nothing)"
    )


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000:,} s"


@dataclass(frozen=True, slots=True)
class FinalHeader:
    """A header that was shown to be final; `slot` is the one that its block fills, 0 for block 0."""

    id: bytes
    header: Header
    slot: int


@dataclass(frozen=True, slots=True)
class TrustRoot:
    """A chain's genesis, and what follows from it: the first validators."""

    block_zero: FinalHeader
    parameters: Parameters
    seats: tuple[Seat, ...]

    @property
    def genesis(self) -> bytes:
        """The chain's genesis hash."""
        return self.block_zero.id

    @property
    def first_set(self) -> ValidatorSet:
        """Who certifies in epoch 0; ValueError if they make no set. Who follows, `wallet.proved.sets` knows."""
        members = (Validator(seat.stash, seat.session_key, seat.vrf_key, seat.weight) for seat in self.seats)
        return ValidatorSet(0, tuple(members))


def trust_root(
    genesis: bytes, header: Header, proof: Iterable[bytes], runtime: Runtime, parameters: Parameters
) -> TrustRoot:
    """Return the root of trust, from block 0 and a proof of its `GENESIS_KEYS`; RefutedError, InvalidProof.

    `runtime` is that of the kind of chain which the node says it is: live, or for development.
    """
    require(header.number == 0, "its first block is not block 0")
    require(block_id(header) == genesis, "its block 0 does not have the genesis hash")
    state = ProvedState(header.state_root, proof)
    raw, sudo_key = map(state.get, GENESIS_KEYS)
    if raw is None:
        raise RefutedError("the genesis state names no validators")
    # What is for development is treated less strictly: old final blocks, private addresses, absence for weeks.
    said, is_so = ("for development", "live") if Sudo in runtime.pallets else ("live", "for development")
    require((sudo_key is not None) == (Sudo in runtime.pallets), f"it says that the chain is {said}, which is {is_so}")
    root = TrustRoot(FinalHeader(genesis, header, 0), parameters, runtime.item(TrustStake.active_set).decode(raw))
    try:
        _ = root.first_set
    except ValueError as error:
        raise RefutedError(f"the validators of the genesis state are none: {error}") from error
    return root


def final_header(root: TrustRoot, members: ValidatorSet, header: Header, certificate: bytes) -> FinalHeader:
    """The header, final; RefutedError unless the certificate says so and `members`, the set of its epoch, signed it."""
    require(len(certificate) <= CERTIFICATE_BYTES_MAX, f"a certificate has at most {CERTIFICATE_BYTES_MAX:,} bytes")
    try:
        signed = CERTIFICATE.decode(certificate)
    except DecodeError as error:
        raise RefutedError(f"its certificate is malformed ({error})") from error
    final = descended(header)
    ballot, found = signed.ballot, final.id
    require(ballot.kind is BallotKind.FINALISE, "the certificate does not make its block final")
    require((ballot.height, ballot.block) == (header.number, found), "the certificate is one of another block")
    epoch = root.parameters.epoch_of(header.number)
    require(ballot.epoch == epoch == members.epoch, "the certificate is one of another epoch")
    is_certified = verify_certificate(signed, members, root.genesis, verify_ed25519)
    require(is_certified, "the certificate is not signed by two thirds of the validators")
    return final


def descended(header: Header) -> FinalHeader:
    """A header that is known to be final, because a final one descends from it; RefutedError if it is malformed."""
    try:
        return FinalHeader(block_id(header), header, read_header(header).pre_digest.slot)
    except (DecodeError, InvalidHeaderError) as error:
        raise RefutedError(f"its header is malformed ({error})") from error


def hands_on_to(header: Header, seats: tuple[Seat, ...]) -> bool:
    """Whether the last header of an epoch says that these sit in the next one; DecodeError if it is malformed."""
    named = [log for log in consensus_logs(header.digest) if isinstance(log, NextValidators)]
    return named == [seats_log(seats)]
