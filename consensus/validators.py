"""The validators of one epoch: who votes, with what weight, and who leads which round.

Always: members are sorted by stash, weights are positive, session keys distinct. The set of an
epoch never changes. Sets of different epochs may have nothing in common.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from consensus.parameters import ACTIVE_VALIDATORS_MAX


@dataclass(frozen=True, slots=True)
class Validator:
    """A stash, the keys it votes and proposes with, and its stake in grains."""

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
        """Check the set and index it by session key."""
        if not 1 <= len(self.members) <= ACTIVE_VALIDATORS_MAX:
            raise ValueError("a validator set has 1 to 128 members")
        if any(member.weight <= 0 for member in self.members):
            raise ValueError("every validator has weight")
        if list(self.members) != sorted(self.members, key=lambda member: member.stash):
            raise ValueError("validators are sorted by stash")
        index = {member.session: place for place, member in enumerate(self.members)}
        if len(index) != len(self.members):
            raise ValueError("session keys are distinct")
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "total", sum(member.weight for member in self.members))

    def weight_of(self, session: bytes) -> int:
        """Weight of a session key, 0 if it is no member."""
        place = self.index.get(session)
        return 0 if place is None else self.members[place].weight

    def is_quorum(self, weight: int) -> bool:
        """More than two thirds of the stake."""
        return 3 * weight > 2 * self.total

    def is_blocking(self, weight: int) -> bool:
        """More than one third of the stake: at least one honest voter is among them."""
        return 3 * weight > self.total


@dataclass(frozen=True, slots=True)
class Epoch:
    """What an epoch is run by: its validators and the seed of its slots."""

    validators: ValidatorSet
    seed: bytes


# The epoch of a number, or None while the final chain does not determine it yet.
Epochs = Callable[[int], Epoch | None]


# The session key with which this node votes and proposes in an epoch, or None while it has none for it.
SessionOf = Callable[[int], bytes | None]

LEADER_OFFSETS = 8  # turns of everybody among which the seed chooses where an epoch's leaders begin


class Leaders:
    """Who leads each round of an epoch: smooth weighted round-robin, begun where the epoch's seed says.

    No run of rounds gives anyone much more than its share; independent draws would, and each round
    of a silent leader costs a timeout. Begun at one place in every epoch, a silent leader of most stake
    would cost each epoch its first round, and everybody would know a year ahead whom to attack when.
    """

    def __init__(self, epoch: Epoch) -> None:
        """Start before round 1."""
        self._members = epoch.validators.members
        self._total = epoch.validators.total
        self._credit = [0] * len(self._members)
        self._sequence: list[bytes] = []
        self._offset = int.from_bytes(epoch.seed, "big") % (LEADER_OFFSETS * len(self._members))

    def leader(self, round_: int) -> bytes:
        """Session key of the leader of a round, counted from 1."""
        place = self._offset + round_
        while len(self._sequence) < place:
            self._advance()
        return self._sequence[place - 1]

    def _advance(self) -> None:
        for place, member in enumerate(self._members):
            self._credit[place] += member.weight
        best = max(range(len(self._credit)), key=lambda place: (self._credit[place], -place))
        self._credit[best] -= self._total
        self._sequence.append(self._members[best].session)
