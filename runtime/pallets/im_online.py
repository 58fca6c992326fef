"""Heartbeats: signs of life of candidates without a seat, as an inherent of any author.

Once an epoch, a node signs the number and hash of a block that it sees as final: a block of that epoch, or the last
block before it. Nobody could sign that hash before the block existed. Such a block exists even if finality comes only
once an epoch, with the epoch's last block.

Invariant: a heartbeat counts once, for its stash, for the epoch that was open after its block. A block with an invalid
heartbeat is invalid. Authors, importers and pools all decide by `problem`.
"""

from itertools import pairwise
from typing import Annotated

from runtime.cryptography.signatures import verify_ed25519
from runtime.cryptography.signing import domain
from runtime.encoding.codec import Bounded, codec, struct
from runtime.encoding.types import AccountId, BlockNumber, Hash, Signature, Weight
from runtime.frame.errors import InvalidBlock
from runtime.frame.measured import times
from runtime.frame.pallet import Pallet, PostDispatch, Unsigned, call, event
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.pallets.weights import WEIGHTS

HEARTBEATS_MAX = 64
"""The most heartbeats of a block: an epoch of 60 blocks has room for nearly every possible candidate."""
KIND = b"beat"


@struct
class SeenFinal:
    """The signed statement: `stash` sees the block with this number and hash as final."""

    stash: AccountId
    number: BlockNumber
    block: Hash


@struct
class Heartbeat:
    """A candidate's statement that its node follows the chain, signed with its registered session key."""

    seen: SeenFinal
    signature: Signature


Heartbeats = Annotated[tuple[Heartbeat, ...], Bounded(HEARTBEATS_MAX)]


def heartbeat_payload(genesis_hash: bytes, seen: SeenFinal) -> bytes:
    """Return the bytes to sign. `genesis_hash` is the hash of block 0 (32 bytes)."""
    return domain(KIND, genesis_hash, codec(SeenFinal).encode(seen))


def _attach_weight(heartbeats: tuple[Heartbeat, ...]) -> Weight:
    return WEIGHTS["ImOnline.attach"] + times(len(heartbeats), WEIGHTS["ImOnline.attach heartbeat"])


@event(0)
class HeartbeatReceived:
    """A candidate was on line in this epoch."""

    stash: AccountId


class ImOnline(Pallet, index=17):
    """The inherent, and the check of heartbeats. The SDK's name, but absence has no punishment here."""

    system: System
    beacon: Beacon
    stake: TrustStake

    events = (HeartbeatReceived,)

    @call(index=0, weight=_attach_weight)
    def attach(self, origin: Unsigned, heartbeats: Heartbeats) -> PostDispatch:
        """Attach the author's heartbeats to the block. Raises InvalidBlock if one is invalid."""
        if not heartbeats:
            raise InvalidBlock("no heartbeats")
        # One order, so that a set of heartbeats has exactly one encoding and no stash appears twice.
        if any(before.seen.stash >= after.seen.stash for before, after in pairwise(heartbeats)):
            raise InvalidBlock("heartbeats out of order or repeated")
        weight = _attach_weight(heartbeats)
        if not weight.fits(self.room()):
            raise InvalidBlock("heartbeats heavier than the room left in the block")
        for heartbeat in heartbeats:
            problem = self.problem(heartbeat)
            if problem:
                raise InvalidBlock(f"heartbeat of {heartbeat.seen.stash.hex()}: {problem}")
        for heartbeat in heartbeats:
            self.stake.note_heard(heartbeat.seen.stash, self.beacon.epoch())
            self.emit(HeartbeatReceived(heartbeat.seen.stash))
        return PostDispatch(actual_weight=weight)

    def room(self) -> Weight:
        """Return the weight left for heartbeats in the block under construction."""
        return Weight(max(0, self.context.mandatory_left), 0)

    def problem(self, heartbeat: Heartbeat) -> str:
        """Return why a heartbeat may not be attached, empty if it may. Cheap checks come before the signature."""
        seen = heartbeat.seen
        candidate = self.stake.candidates[seen.stash]
        if candidate is None:
            return "not a candidate"
        # Block 0 is no sign of life: its hash was known before the chain began.
        if self.beacon.epoch_of(seen.number + 1) != self.beacon.epoch() or seen.number == 0:
            return "block of another epoch"
        if self.stake.was_on_line(seen.stash, self.beacon.epoch()):
            return "validator already online in this epoch"
        if seen.number > self.beacon.final_height() or self.system.block_hash[seen.number] != seen.block:
            return "block not final in this state"
        payload = heartbeat_payload(self.system.block_hash[0], seen)
        return "" if verify_ed25519(candidate.session_key, payload, heartbeat.signature) else "invalid signature"
