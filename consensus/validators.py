"""The validators of one epoch, their weights, and the leaders of the epoch's rounds.

Invariant: members are sorted by stash, weights are positive, session keys are distinct. The set of an epoch never
changes. Sets of different epochs may have nothing in common.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from consensus.parameters import ACTIVE_VALIDATORS_MAX


@dataclass(frozen=True, slots=True)
class Validator:
    """A stash, its voting and proposing keys, and its stake in grains."""

    stash: bytes
    session: bytes
    vrf: bytes
    weight: int


@dataclass(frozen=True)
class ValidatorSet:
    """The set V_e of an epoch e."""

    epoch: int
    members: tuple[Validator, ...]
    total: int = field(init=False)
    index: dict[bytes, int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Index the set by session key. Raise ValueError if the members break the invariant."""
        if not 1 <= len(self.members) <= ACTIVE_VALIDATORS_MAX:
            raise ValueError("a validator set has 1 to 128 members")
        if any(member.weight <= 0 for member in self.members):
            raise ValueError("a validator has weight above 0")
        if list(self.members) != sorted(self.members, key=lambda member: member.stash):
            raise ValueError("members must be in order of stash")
        index = {member.session: member_index for member_index, member in enumerate(self.members)}
        if len(index) != len(self.members):
            raise ValueError("two validators share a session key")
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "total", sum(member.weight for member in self.members))

    def weight_of(self, session_key: bytes) -> int:
        """Return the weight of a session key, 0 if it is no member."""
        member_index = self.index.get(session_key)
        return 0 if member_index is None else self.members[member_index].weight

    def is_quorum(self, weight: int) -> bool:
        """Return True if `weight` is more than two thirds of the stake."""
        return 3 * weight > 2 * self.total

    def is_blocking(self, weight: int) -> bool:
        """Return True if `weight` is more than one third of the stake, so that it includes an honest voter."""
        return 3 * weight > self.total


@dataclass(frozen=True, slots=True)
class Epoch:
    """The validators of an epoch, and the seed of its slots."""

    validators: ValidatorSet
    seed: bytes


# Returns an epoch by its number, or None while the final chain does not determine it yet.
Epochs = Callable[[int], Epoch | None]


# Returns this node's session key for an epoch, or None if it has no key for that epoch.
SessionOf = Callable[[int], bytes | None]

LEADER_OFFSETS = 8  # full turns from which the seed picks the epoch's first leader


class Leaders:
    """The leader of each round of an epoch: smooth weighted round-robin from a place that the epoch's seed picks.

    Independent draws could give one validator several rounds in a row, and each round of a silent leader costs a
    timeout. Round-robin keeps every stretch of rounds close to the shares.

    Without the seed, every epoch would start at the same place. A silent leader with the most stake would then cost
    each epoch its first round, and an attacker would know the leaders a year ahead.
    """

    def __init__(self, epoch: Epoch) -> None:
        """Start before round 1."""
        self._members = epoch.validators.members
        self._total = epoch.validators.total
        self._credit = [0] * len(self._members)
        self._sequence: list[bytes] = []
        self._offset = int.from_bytes(epoch.seed, "big") % (LEADER_OFFSETS * len(self._members))

    def leader(self, round_: int) -> bytes:
        """Return the session key of the leader of a round, counted from 1."""
        turn_index = self._offset + round_
        while len(self._sequence) < turn_index:
            self._advance()
        return self._sequence[turn_index - 1]

    def _advance(self) -> None:
        for member_index, member in enumerate(self._members):
            self._credit[member_index] += member.weight
        leader_index = max(
            range(len(self._credit)), key=lambda member_index: (self._credit[member_index], -member_index)
        )
        self._credit[leader_index] -= self._total
        self._sequence.append(self._members[leader_index].session)
