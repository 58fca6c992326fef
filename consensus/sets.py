"""The sets of all epochs that are known, each written once.

Always: the answer for an epoch never changes; sets are known without gaps from the first one on; what an era's epochs
share is kept once, with the first of them.
"""

from bisect import bisect_right
from collections.abc import Sequence

from consensus.validators import Validator, ValidatorSet


class SetChangedError(Exception):
    """Two different sets for one epoch: whoever answered before, or now, is on another chain."""


class SetTable:
    """Members by the first epoch in which they sit."""

    def __init__(self, first: ValidatorSet) -> None:
        """Know one set: that of the genesis, or of a point that is trusted."""
        self._firsts = [first.epoch]
        self._members: list[tuple[Validator, ...]] = [first.members]
        self.newest = first

    @classmethod
    def of_runs(cls, runs: Sequence[tuple[int, tuple[Validator, ...]]], newest: int) -> "SetTable":
        """The table whose `runs()` these are, known up to the epoch `newest`; ValueError if they are no table's."""
        firsts = [first for first, _ in runs]
        if not runs or firsts != sorted(set(firsts)) or newest < firsts[-1]:
            raise ValueError("sets are known in order and up to the newest")
        table = cls(ValidatorSet(*runs[0]))
        for first, members in runs[1:]:
            ValidatorSet(first, members)
            table._firsts.append(first)
            table._members.append(members)
        table.newest = ValidatorSet(newest, runs[-1][1])
        return table

    @property
    def first(self) -> int:
        """The first epoch whose set is known."""
        return self._firsts[0]

    def runs(self) -> list[tuple[int, tuple[Validator, ...]]]:
        """The different sets in order, each with the first epoch in which it sits."""
        return list(zip(self._firsts, self._members, strict=True))

    def of(self, epoch: int) -> ValidatorSet | None:
        """The set of an epoch, None where it is not known."""
        place = bisect_right(self._firsts, epoch)
        if place == 0 or epoch > self.newest.epoch:
            return None
        return ValidatorSet(epoch, self._members[place - 1])

    def write(self, following: ValidatorSet) -> None:
        """One more epoch's set, or a known one again; SetChangedError if it is not the same."""
        assert following.epoch <= self.newest.epoch + 1, "sets are known without gaps"
        if following.epoch <= self.newest.epoch:
            if self.of(following.epoch) != following:
                raise SetChangedError(f"another set for epoch {following.epoch}")
            return
        if following.members != self.newest.members:
            self._firsts.append(following.epoch)
            self._members.append(following.members)
        self.newest = following

    def forget_before(self, epoch: int) -> None:
        """Let go of the sets of epochs before this one, which is known."""
        place = bisect_right(self._firsts, epoch) - 1
        assert place >= 0, "the sets of later epochs are kept"
        assert epoch <= self.newest.epoch, "the newest set is kept"
        self._firsts[: place + 1] = [epoch]
        del self._members[:place]

    def count(self) -> int:
        """How many different sets are kept."""
        return len(self._firsts)
