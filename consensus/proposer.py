"""Which validator may propose in which slot: one each, drawn by stake from the epoch's seed."""

from functools import lru_cache

from consensus.validators import Epoch, ValidatorSet
from runtime.cryptography.draw import roulette
from runtime.cryptography.hashing import blake2_256


def slot_at(now_ms: int, slot_ms: int) -> int:
    """The global slot of a moment, counted from the Unix epoch."""
    return now_ms // slot_ms


def proposer(epoch: Epoch, slot: int) -> bytes:
    """Session key of the slot's only proposer."""
    members = epoch.validators
    return members.members[_draw(epoch.seed, slot, _weights(members))].session


def _weights(members: ValidatorSet) -> tuple[int, ...]:
    return tuple(member.weight for member in members.members)


@lru_cache(maxsize=1024)
def _draw(seed: bytes, slot: int, weights: tuple[int, ...]) -> int:
    draw_seed = blake2_256(b"ogpu/slot" + seed + slot.to_bytes(8, "little"))
    return roulette(draw_seed, b"slot", weights, 1)[0]
