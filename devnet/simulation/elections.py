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
TRIES_MAX = 8
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

    def member(self, node_number: int, weight: int, epoch: int) -> Validator:
        """Return a node's seat, with its key of this epoch."""
        session_key = self.rings[node_number].at(epoch).public
        return Validator(stash_of(node_number), session_key, session_key, weight)


class Elections:
    """The epochs of one run."""

    def __init__(self, field: Field, set_change: SetChange, era_epochs: int, run_seed: str) -> None:
        """Begin with the genesis set: the first nodes."""
        self._candidate_field = field
        self._set_change = set_change
        self._era_epochs = era_epochs
        self._run_seed = run_seed
        weight_by_node = {node_number: field.stakes[node_number] for node_number in range(field.seats)}
        self.table = SetTable(ValidatorSet(0, self._members(weight_by_node, 0)))

    def __call__(self, epoch: int) -> Epoch:
        """Return the set and the seed of an epoch."""
        while self.table.newest.epoch < epoch:
            self.table.write(self._next_set(self.table.newest))
        epoch_set = self.table.of(epoch)
        assert epoch_set is not None  # written above
        return Epoch(epoch_set, seed_of(epoch))

    def _next_set(self, newest: ValidatorSet) -> ValidatorSet:
        epoch = newest.epoch + 1
        is_election = epoch % self._era_epochs == 0 and epoch >= GENESIS_ERAS * self._era_epochs
        old_weights = {place_of(member.stash): member.weight for member in newest.members}
        for attempt in range(TRIES_MAX if is_election else 0):
            random_source = Random(f"{self._run_seed}/set/{epoch}/{attempt}")
            weight_by_node = self._elect_weights(old_weights, epoch, random_source)
            if self._is_sound(weight_by_node):
                return ValidatorSet(epoch, self._members(weight_by_node, epoch))
        # If no drawn set is sound, the election changes neither seats nor keys.
        return ValidatorSet(epoch, newest.members)

    def _elect_weights(self, old_weights: dict[int, int], epoch: int, random_source: Random) -> dict[int, int]:
        field = self._candidate_field
        all_nodes = range(len(field.rings))
        match self._set_change:
            case SetChange.NONE:
                return {}
            case SetChange.WINDOW:
                candidate_count = len(all_nodes)
                spare_seats = candidate_count - field.seats
                left_out = {
                    ((epoch - 1) * spare_seats + node_number) % candidate_count for node_number in range(spare_seats)
                }
                return {
                    node_number: field.stakes[node_number] for node_number in all_nodes if node_number not in left_out
                }
            case SetChange.ANY:
                unseated_nodes = [node_number for node_number in all_nodes if node_number not in old_weights]
                candidate_pool = unseated_nodes if random_source.random() < 0.5 else list(all_nodes)
                chosen_nodes = random_source.sample(
                    candidate_pool, min(len(candidate_pool), random_source.randint(1, field.seats))
                )
                return {node_number: random_source.randint(1, 2_000) for node_number in chosen_nodes}
            case SetChange.CUT:
                stake_by_node = {
                    node_number: field.stakes[node_number] * random_source.randint(60, 140) // 100
                    for node_number in all_nodes
                }
                present_nodes = [
                    node_number for node_number in all_nodes if random_source.randrange(100) >= ABSENT_PERCENT
                ]
                ranked_nodes = sorted(present_nodes, key=lambda node_number: (-stake_by_node[node_number], node_number))
                next_weights = cut(
                    {stash_of(node_number): weight for node_number, weight in old_weights.items()},
                    {stash_of(node_number): stake_by_node[node_number] for node_number in ranked_nodes},
                    field.seats,
                )
                return {place_of(node_stash): weight for node_stash, weight in next_weights.items()}

    def _is_sound(self, weight_by_node: dict[int, int]) -> bool:
        """Return whether misbehaving nodes have less than a third of the stake."""
        misbehaving_weight = sum(
            weight for node_number, weight in weight_by_node.items() if node_number in self._candidate_field.bad
        )
        # Byzantine agreement holds only below a third, so a set with more would prove nothing.
        return 3 * misbehaving_weight < sum(weight_by_node.values())

    def _members(self, weight_by_node: dict[int, int], epoch: int) -> tuple[Validator, ...]:
        return tuple(
            self._candidate_field.member(node_number, weight, epoch)
            for node_number, weight in sorted(weight_by_node.items())
        )


def seed_of(epoch: int) -> bytes:
    """Return the seed of an epoch's slots and leaders."""
    return epoch.to_bytes(32, "big")


def stash_of(node_number: int) -> bytes:
    """Return the stash of a node."""
    return node_number.to_bytes(32, "big")


def place_of(node_stash: bytes) -> int:
    """Return the node of a stash."""
    return int.from_bytes(node_stash, "big")
