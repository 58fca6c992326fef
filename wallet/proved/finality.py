"""From the genesis hash to the first validators, and from an epoch's validators to a final header. Pure.

Invariant: a `FinalHeader` has a finalise-certificate of more than two thirds of its epoch's set, or a final header
descends from it. A `TrustRoot` holds the set to which the genesis hash commits, and its chain is of the kind (live or
for development) to which the hash commits.
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


def doubt_of_age(final_block: FinalHeader, parameters: Parameters, now_ms: int) -> str | None:
    """Return a warning if the next block is `STALE_SLOTS` overdue, or if the block is of the future; else None.

    A chain without work makes a block every `heartbeat_slots` only.
    """
    if final_block.header.number == 0:
        return "no block is final yet: what is shown is how the chain began"
    behind_ms = now_ms - final_block.slot * parameters.slot_ms
    if behind_ms < -parameters.skew_ms:
        return (
            f"final block {final_block.header.number} is {_seconds(-behind_ms)} in the future: this machine's "
            "clock is late"
        )
    if behind_ms <= (STALE_SLOTS + parameters.heartbeat_slots) * parameters.slot_ms:
        return None
    return (
        f"final block {final_block.header.number} is {_seconds(behind_ms)} old: what it shows may have changed since "
        "(the node is behind, or the chain finalises nothing)"
    )


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000:,} s"


@dataclass(frozen=True, slots=True)
class FinalHeader:
    """A header that was proved final; `slot` is that of its block, 0 for block 0."""

    id: bytes
    header: Header
    slot: int


@dataclass(frozen=True, slots=True)
class TrustRoot:
    """A chain's genesis, and the first validators to which it commits."""

    block_zero: FinalHeader
    parameters: Parameters
    seats: tuple[Seat, ...]

    @property
    def genesis(self) -> bytes:
        """The chain's genesis hash."""
        return self.block_zero.id

    @property
    def first_set(self) -> ValidatorSet:
        """The validators that certify in epoch 0; `wallet.proved.sets` knows the later ones.

        Raise ValueError if they make no set.
        """
        validators = (Validator(seat.stash, seat.session_key, seat.vrf_key, seat.weight) for seat in self.seats)
        return ValidatorSet(0, tuple(validators))


def trust_root(
    genesis: bytes, genesis_header: Header, proof: Iterable[bytes], runtime: Runtime, parameters: Parameters
) -> TrustRoot:
    """Return the root of trust, from block 0 and a proof of its `GENESIS_KEYS`.

    `runtime` is that of the chain's kind by the node's word: live, or for development. Raise RefutedError or
    InvalidProof if the node's answers do not fit the genesis hash.
    """
    require(genesis_header.number == 0, "its first block is not block 0")
    require(block_id(genesis_header) == genesis, "its block 0 does not have the genesis hash")
    genesis_state = ProvedState(genesis_header.state_root, proof)
    encoded_set, sudo_key = map(genesis_state.get, GENESIS_KEYS)
    if encoded_set is None:
        raise RefutedError("the genesis state names no validators")
    # Rules are less strict for development: old final blocks, private addresses, absence for weeks.
    stated_kind, proved_kind = ("for development", "live") if Sudo in runtime.pallets else ("live", "for development")
    require(
        (sudo_key is not None) == (Sudo in runtime.pallets),
        f"it says that the chain is {stated_kind}, which is {proved_kind}",
    )
    genesis_root = TrustRoot(
        FinalHeader(genesis, genesis_header, 0), parameters, runtime.item(TrustStake.active_set).decode(encoded_set)
    )
    try:
        # The constructor of the set checks keys and weights.
        _ = genesis_root.first_set
    except ValueError as error:
        raise RefutedError(f"the validators of the genesis state are none: {error}") from error
    return genesis_root


def final_header(root: TrustRoot, validators: ValidatorSet, header: Header, certificate: bytes) -> FinalHeader:
    """Return the final header. Raise RefutedError unless `validators`, the set of its epoch, certified it."""
    # Before decoding, so that its size bounds the work for a node's answer.
    require(len(certificate) <= CERTIFICATE_BYTES_MAX, f"a certificate has at most {CERTIFICATE_BYTES_MAX:,} bytes")
    try:
        decoded_certificate = CERTIFICATE.decode(certificate)
    except DecodeError as error:
        raise RefutedError(f"its certificate is malformed ({error})") from error
    final_block = descended(header)
    ballot, block_hash = decoded_certificate.ballot, final_block.id
    require(ballot.kind is BallotKind.FINALISE, "the certificate does not make its block final")
    require((ballot.height, ballot.block) == (header.number, block_hash), "the certificate is one of another block")
    epoch = root.parameters.epoch_of(header.number)
    require(ballot.epoch == epoch == validators.epoch, "the certificate is one of another epoch")
    is_certified = verify_certificate(decoded_certificate, validators, root.genesis, verify_ed25519)
    require(is_certified, "the certificate is not signed by two thirds of the validators")
    return final_block


def descended(header: Header) -> FinalHeader:
    """Return a header that is final because a final one descends from it.

    Raise RefutedError if it is malformed.
    """
    try:
        return FinalHeader(block_id(header), header, read_header(header).pre_digest.slot)
    except (DecodeError, InvalidHeaderError) as error:
        raise RefutedError(f"its header is malformed ({error})") from error


def hands_on_to(header: Header, seats: tuple[Seat, ...]) -> bool:
    """Return whether an epoch's last header commits to these seats for the next epoch.

    Raise DecodeError if it is malformed.
    """
    seat_logs = [
        consensus_log for consensus_log in consensus_logs(header.digest) if isinstance(consensus_log, NextValidators)
    ]
    return seat_logs == [seats_log(seats)]
