"""The active set of each epoch of a simulated network: constant, or a sequence of sets.

Invariant: the sets are a function of the scenario and its seed. Misbehaving nodes have less than a third of each set's
stake. The first epochs have the genesis set.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from consensus.sets import SetTable
from consensus.validators import Epoch, Validator, ValidatorSet
from devnet.simulation.keys import KeyRing
from runtime.pallets.churn import cut

GENESIS_ERAS = 2
TRIES = 8
ABSENT_PERCENT = 15


class SetChange(StrEnum):
    """The rule that derives one set from the last."""

    NONE = "none"
    WINDOW = "window"  # some nodes are left out, in turn
    CUT = "cut"  # an election by stake, cut as the chain cuts it
    ANY = "any"  # random nodes and weights, half of the time disjoint from the last set


@dataclass(frozen=True)
class Field:
    """The candidates: their keys, their stakes, and the misbehaving ones."""

    rings: Sequence[KeyRing]
    stakes: Sequence[int]
    bad: Collection[int]
    seats: int

    def member(self, place: int, weight: int, epoch: int) -> Validator:
        """Return a node's seat, with its key of this epoch."""
        public = self.rings[place].at(epoch).public
        return Validator(stash_of(place), public, public, weight)


class Elections:
    """The epochs of one run."""

    def __init__(self, field: Field, change: SetChange, era_epochs: int, seed: str) -> None:
        """Begin with the genesis set: the first nodes."""
        self._field = field
        self._change = change
        self._era_epochs = era_epochs
        self._seed = seed
        weights = {place: field.stakes[place] for place in range(field.seats)}
        self.table = SetTable(ValidatorSet(0, self._members(weights, 0)))

    def __call__(self, number: int) -> Epoch:
        """Return the set and the seed of an epoch."""
        while self.table.newest.epoch < number:
            self.table.write(self._following(self.table.newest))
        found = self.table.of(number)
        assert found is not None  # written above
        return Epoch(found, seed_of(number))

    def _following(self, newest: ValidatorSet) -> ValidatorSet:
        epoch = newest.epoch + 1
        is_election = epoch % self._era_epochs == 0 and epoch >= GENESIS_ERAS * self._era_epochs
        old = {place_of(member.stash): member.weight for member in newest.members}
        for attempt in range(TRIES if is_election else 0):
            chance = Random(f"{self._seed}/set/{epoch}/{attempt}")
            weights = self._elect(old, epoch, chance)
            if self._is_sound(weights):
                return ValidatorSet(epoch, self._members(weights, epoch))
        # If no drawn set is sound, the election changes neither seats nor keys.
        return ValidatorSet(epoch, newest.members)

    def _elect(self, old: dict[int, int], epoch: int, chance: Random) -> dict[int, int]:
        field = self._field
        everybody = range(len(field.rings))
        match self._change:
            case SetChange.NONE:
                return {}
            case SetChange.WINDOW:
                count = len(everybody)
                spare = count - field.seats
                out = {((epoch - 1) * spare + place) % count for place in range(spare)}
                return {place: field.stakes[place] for place in everybody if place not in out}
            case SetChange.ANY:
                fresh = [place for place in everybody if place not in old]
                pool = fresh if chance.random() < 0.5 else list(everybody)
                chosen = chance.sample(pool, min(len(pool), chance.randint(1, field.seats)))
                return {place: chance.randint(1, 2_000) for place in chosen}
            case SetChange.CUT:
                worth = {place: field.stakes[place] * chance.randint(60, 140) // 100 for place in everybody}
                present = [place for place in everybody if chance.randrange(100) >= ABSENT_PERCENT]
                ranked = sorted(present, key=lambda place: (-worth[place], place))
                following = cut(
                    {stash_of(place): weight for place, weight in old.items()},
                    {stash_of(place): worth[place] for place in ranked},
                    field.seats,
                )
                return {place_of(stash): weight for stash, weight in following.items()}

    def _is_sound(self, weights: dict[int, int]) -> bool:
        """Return whether misbehaving nodes have less than a third of the stake."""
        bad = sum(weight for place, weight in weights.items() if place in self._field.bad)
        return 3 * bad < sum(weights.values())

    def _members(self, weights: dict[int, int], epoch: int) -> tuple[Validator, ...]:
        return tuple(self._field.member(place, weight, epoch) for place, weight in sorted(weights.items()))


def seed_of(epoch: int) -> bytes:
    """Return the seed of an epoch's slots and leaders."""
    return epoch.to_bytes(32, "big")


def stash_of(place: int) -> bytes:
    """Return the stash of a node."""
    return place.to_bytes(32, "big")


def place_of(stash: bytes) -> int:
    """Return the node of a stash."""
    return int.from_bytes(stash, "big")
