"""The certificates of one gadget epoch: which rounds are notarised, skipped or final.

Invariant: a round builds on a parent round with a notarised checkpoint (round 0: the base of the epoch), and every
round between has a skip certificate. Rounds below the newest final one are forgotten. A finalise certificate also
serves as the notarisation of its round.
"""

from collections.abc import Iterator

from consensus.certificates import Certificate
from runtime.blocks.votes import BallotKind


class Rounds:
    """Certificates by round, and this node's current round."""

    def __init__(self, epoch_number: int, base: tuple[int, bytes]) -> None:
        """Start in round 1 of an epoch, above `base`: (height, id) of the last block of the previous epoch."""
        self.epoch = epoch_number
        self.base = base
        self.current = 1
        self.final: Certificate | None = None
        self.notarised: dict[int, Certificate] = {}
        self.skipped: dict[int, Certificate] = {}

    @property
    def floor(self) -> int:
        """The newest final round, 0 if there is none. Older rounds are forgotten."""
        return 0 if self.final is None else self.final.ballot.round

    def find(self, kind: BallotKind, round_number: int) -> Certificate | None:
        """Return the certificate held for a kind and round, None if there is none.

        For NOTARISE it may be a finalise certificate, which implies it.
        """
        if kind == BallotKind.SKIP:
            return self.skipped.get(round_number)
        if kind == BallotKind.NOTARISE:
            return self.notarised.get(round_number)
        # Separate from the notarisation of its round: if the two name different blocks, both are evidence.
        return self.final if self.floor == round_number else None

    def holds(self, kind: BallotKind, round_number: int) -> bool:
        """Return True if another certificate of this kind and round adds nothing."""
        return round_number < self.floor or self.find(kind, round_number) is not None

    def add(self, certificate: Certificate) -> bool:
        """Keep a verified certificate of this epoch. Return False if it adds nothing."""
        kind = certificate.ballot.kind
        round_number = certificate.ballot.round
        if self.holds(kind, round_number):
            return False
        if kind == BallotKind.SKIP:
            self.skipped[round_number] = certificate
            return True
        self.notarised[round_number] = certificate
        if kind == BallotKind.FINALISE:
            floor_round = self.floor
            self.final = certificate
            # A lower floor would open rounds again after their votes are forgotten.
            assert self.floor >= floor_round, "the newest final round never falls"
            self.notarised = {
                skipped_round: certificate_held
                for skipped_round, certificate_held in self.notarised.items()
                if skipped_round >= round_number
            }
            self.skipped = {
                skipped_round: certificate_held
                for skipped_round, certificate_held in self.skipped.items()
                if skipped_round >= round_number
            }
        return True

    def newest(self) -> int:
        """Return the highest round with a certificate, 0 if there is none."""
        return max(max(self.notarised, default=0), max(self.skipped, default=0))

    def newest_notarised(self) -> Certificate | None:
        """Return the newest notarisation, which locks the fork choice."""
        return self.notarised[max(self.notarised)] if self.notarised else None

    def checkpoint(self, round_number: int) -> tuple[int, bytes]:
        """Return the (height, block) notarised in a round with a held certificate, or the epoch's base for round 0."""
        if round_number == 0:
            return self.base
        ballot = self.notarised[round_number].ballot
        return ballot.height, ballot.block

    def parent_round(self) -> int | None:
        """Return the parent of the current round, None while certificates between are missing."""
        for round_number in range(self.current - 1, 0, -1):
            if round_number in self.notarised:
                return round_number
            if round_number not in self.skipped:
                return None
        return 0

    def complete_to(self) -> int:
        """Return the highest round up to which every round has some certificate here."""
        round_number = self.floor
        # Requests start here rather than at the floor, because an answer holds few certificates.
        while round_number + 1 in self.notarised or round_number + 1 in self.skipped:
            round_number += 1
        return round_number

    def gaps(self) -> list[int]:
        """Return the past rounds without any certificate here, because of which `parent_round` may be unknown."""
        past_rounds = range(self.floor + 1, self.current)
        return [
            round_number
            for round_number in past_rounds
            if round_number not in self.notarised and round_number not in self.skipped
        ]

    def links(self, parent_round: int, round_number: int) -> bool:
        """Return True if all certificates for a proposal in `round_number` on `parent_round` are held."""
        if not (parent_round == 0 or parent_round in self.notarised) or parent_round >= round_number:
            return False
        # Safety rests on this lock: a final round between would have made its skip certificate impossible.
        return all(skipped_round in self.skipped for skipped_round in range(parent_round + 1, round_number))

    def lacked_by(self, parent_round: int, final_round: int) -> Iterator[Certificate]:
        """Yield the certificates, oldest first, that a node lacks if it holds everything up to `parent_round`."""
        if self.final is not None and self.floor > final_round:
            yield self.final
        for round_number in range(max(parent_round, self.floor) + 1, self.newest() + 1):
            if round_number in self.notarised:
                yield self.notarised[round_number]
            if round_number in self.skipped:
                yield self.skipped[round_number]
