"""Heartbeats: how somebody without a seat shows that it is on line, as an inherent of any author.

A node signs, once an epoch, the number and the hash of a block that is final for it: one of that epoch, or the last one
before, with which it began. Nobody could have said that sooner, and there is such a block also where finality comes
once an epoch, with its last block. Always: a heartbeat counts for the epoch that was open after its block, and for the
stash that it names, once; a block whose heartbeats break a rule is invalid; one `problem` decides for authors,
importers and pools.
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
"""Of a block: an epoch of 60 blocks has room for nearly as many as there may be candidates."""
KIND = b"beat"


@struct
class SeenFinal:
    """What is signed: who saw which block, of that number, as final."""

    stash: AccountId
    number: BlockNumber
    block: Hash


@struct
class Heartbeat:
    """That a candidate's node is there and follows the chain, signed with the session key that it registered."""

    seen: SeenFinal
    signature: Signature


Heartbeats = Annotated[tuple[Heartbeat, ...], Bounded(HEARTBEATS_MAX)]


def heartbeat_payload(genesis: bytes, seen: SeenFinal) -> bytes:
    """The bytes that are signed; `genesis` is the hash of block 0 (32 bytes)."""
    return domain(KIND, genesis, codec(SeenFinal).encode(seen))


def _attach_weight(heartbeats: tuple[Heartbeat, ...]) -> Weight:
    return WEIGHTS["ImOnline.attach"] + times(len(heartbeats), WEIGHTS["ImOnline.attach heartbeat"])


@event(0)
class HeartbeatReceived:
    """A candidate was on line in this epoch."""

    stash: AccountId


class ImOnline(Pallet, index=17):
    """The inherent, and what makes a heartbeat good. The SDK's name; nobody is punished here."""

    system: System
    beacon: Beacon
    stake: TrustStake

    events = (HeartbeatReceived,)

    @call(index=0, weight=_attach_weight)
    def attach(self, origin: Unsigned, heartbeats: Heartbeats) -> PostDispatch:
        """Put the heartbeats that the author has into the block. InvalidBlock if one is not good."""
        if not heartbeats:
            raise InvalidBlock("no heartbeats")
        if any(low.seen.stash >= high.seen.stash for low, high in pairwise(heartbeats)):
            raise InvalidBlock("heartbeats are out of order, or one is there twice")
        weight = _attach_weight(heartbeats)
        if not weight.fits(self.room()):
            raise InvalidBlock("heartbeats weigh more than the block has room for")
        for heartbeat in heartbeats:
            problem = self.problem(heartbeat)
            if problem:
                raise InvalidBlock(f"heartbeat of {heartbeat.seen.stash.hex()}: {problem}")
        for heartbeat in heartbeats:
            self.stake.note_heard(heartbeat.seen.stash, self.beacon.epoch())
            self.emit(HeartbeatReceived(heartbeat.seen.stash))
        return PostDispatch(actual_weight=weight)

    def room(self) -> Weight:
        """What the heartbeats of the block under construction may weigh."""
        return Weight(max(0, self.context.mandatory_left), 0)

    def problem(self, heartbeat: Heartbeat) -> str:
        """Why it may not be attached now; empty if it may. Cheap checks come before the signature."""
        seen = heartbeat.seen
        candidate = self.stake.candidates[seen.stash]
        if candidate is None:
            return "no candidate"
        if self.beacon.epoch_of(seen.number + 1) != self.beacon.epoch() or seen.number == 0:
            return "of another epoch"
        if self.stake.was_on_line(seen.stash, self.beacon.epoch()):
            return "it was on line in this epoch already"
        if seen.number > self.beacon.final_height() or self.system.block_hash[seen.number] != seen.block:
            return "not of a block that is final here"
        payload = heartbeat_payload(self.system.block_hash[0], seen)
        return "" if verify_ed25519(candidate.session_key, payload, heartbeat.signature) else "bad signature"
