"""The certificates of one gadget epoch: which rounds are notarised, skipped or final.

Always: a round is built on a parent round whose checkpoint is notarised (0: where the epoch
starts), with a skip certificate for every round between. Rounds below the newest final one are
forgotten. A finalise certificate serves as the notarisation of its round.
"""

from collections.abc import Iterator

from consensus.certificates import Certificate
from runtime.blocks.votes import BallotKind


class Rounds:
    """Certificates by round, and the round this node is in."""

    def __init__(self, epoch: int, base: tuple[int, bytes]) -> None:
        """Start in round 1 of an epoch, above `base`: (height, id) of the block before it."""
        self.epoch = epoch
        self.base = base
        self.current = 1
        self.final: Certificate | None = None
        self.notarised: dict[int, Certificate] = {}
        self.skipped: dict[int, Certificate] = {}

    @property
    def floor(self) -> int:
        """The newest final round; older ones are forgotten."""
        return 0 if self.final is None else self.final.ballot.round

    def find(self, kind: BallotKind, round_: int) -> Certificate | None:
        """The certificate held for a kind and round; a finalise one may serve as a notarisation."""
        if kind == BallotKind.SKIP:
            return self.skipped.get(round_)
        if kind == BallotKind.NOTARISE:
            return self.notarised.get(round_)
        # Kept apart from the notarisation of its round: should the two name different blocks, both are evidence.
        return self.final if self.floor == round_ else None

    def holds(self, kind: BallotKind, round_: int) -> bool:
        """Whether nothing is to be learnt from another certificate of this kind and round."""
        return round_ < self.floor or self.find(kind, round_) is not None

    def add(self, certificate: Certificate) -> bool:
        """Keep a verified certificate of this epoch; False if it tells nothing new."""
        kind = certificate.ballot.kind
        round_ = certificate.ballot.round
        if self.holds(kind, round_):
            return False
        if kind == BallotKind.SKIP:
            self.skipped[round_] = certificate
            return True
        self.notarised[round_] = certificate
        if kind == BallotKind.FINALISE:
            floor = self.floor
            self.final = certificate
            # A floor that fell would open rounds again whose votes are forgotten.
            assert self.floor >= floor, "the newest final round fell"
            self.notarised = {number: held for number, held in self.notarised.items() if number >= round_}
            self.skipped = {number: held for number, held in self.skipped.items() if number >= round_}
        return True

    def newest(self) -> int:
        """The highest round with a certificate, 0 if there is none."""
        return max(max(self.notarised, default=0), max(self.skipped, default=0))

    def newest_notarised(self) -> Certificate | None:
        """The certificate that locks the fork choice."""
        return self.notarised[max(self.notarised)] if self.notarised else None

    def checkpoint(self, round_: int) -> tuple[int, bytes]:
        """(height, block) notarised in a round that is held; the epoch's base for 0."""
        if round_ == 0:
            return self.base
        ballot = self.notarised[round_].ballot
        return ballot.height, ballot.block

    def parent_round(self) -> int | None:
        """The parent of the current round; None while certificates between are missing."""
        for round_ in range(self.current - 1, 0, -1):
            if round_ in self.notarised:
                return round_
            if round_ not in self.skipped:
                return None
        return 0

    def complete_to(self) -> int:
        """The highest round up to which some certificate of every round is held."""
        round_ = self.floor
        # What is asked for begins here, not at the floor: answers hold only so many certificates.
        while round_ + 1 in self.notarised or round_ + 1 in self.skipped:
            round_ += 1
        return round_

    def gaps(self) -> list[int]:
        """Past rounds without any certificate here: what keeps `parent_round` from being known."""
        past = range(self.floor + 1, self.current)
        return [round_ for round_ in past if round_ not in self.notarised and round_ not in self.skipped]

    def links(self, parent: int, round_: int) -> bool:
        """Whether what a proposal for `round_` on round `parent` rests on is all held."""
        if not (parent == 0 or parent in self.notarised) or parent >= round_:
            return False
        # The lock on which safety rests: a final round between would have made its skip certificate impossible.
        return all(between in self.skipped for between in range(parent + 1, round_))

    def lacked_by(self, parent_round: int, final_round: int) -> Iterator[Certificate]:
        """What a node lacks that holds everything up to `parent_round`, oldest first."""
        if self.final is not None and self.floor > final_round:
            yield self.final
        for round_ in range(max(parent_round, self.floor) + 1, self.newest() + 1):
            if round_ in self.notarised:
                yield self.notarised[round_]
            if round_ in self.skipped:
                yield self.skipped[round_]
