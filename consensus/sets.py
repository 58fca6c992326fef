"""The known validator sets of all epochs, each written once.

Invariant: the answer for an epoch never changes, and known epochs have no gaps. Epochs of one era share their members,
which are stored once, under the first of these epochs.
"""

from bisect import bisect_right
from collections.abc import Sequence

from consensus.validators import Validator, ValidatorSet


class SetChangedError(Exception):
    """Two different sets for one epoch: one of the two sources follows another chain."""


class SetTable:
    """Members by the first epoch in which they are active."""

    def __init__(self, first: ValidatorSet) -> None:
        """Start with one known set: the genesis set, or the set of a trusted block."""
        self._firsts = [first.epoch]
        self._members: list[tuple[Validator, ...]] = [first.members]
        self.newest = first

    @classmethod
    def of_runs(cls, runs: Sequence[tuple[int, tuple[Validator, ...]]], newest: int) -> "SetTable":
        """Return the table of these `runs()`, known up to the epoch `newest`.

        Raise ValueError if they are not in order or exceed `newest`.
        """
        firsts = [first for first, _ in runs]
        if not runs or firsts != sorted(set(firsts)) or newest < firsts[-1]:
            raise ValueError("sets must be in order and not after the newest epoch")
        table = cls(ValidatorSet(*runs[0]))
        for first, members in runs[1:]:
            # Only for its checks: each stored set is as valid as one that `write` receives.
            ValidatorSet(first, members)
            table._firsts.append(first)
            table._members.append(members)
        table.newest = ValidatorSet(newest, runs[-1][1])
        return table

    @property
    def first(self) -> int:
        """The first known epoch."""
        return self._firsts[0]

    def runs(self) -> list[tuple[int, tuple[Validator, ...]]]:
        """Return the different sets in order, each with the first epoch in which it is active."""
        return list(zip(self._firsts, self._members, strict=True))

    def of(self, epoch: int) -> ValidatorSet | None:
        """Return the set of an epoch, None if it is unknown."""
        place = bisect_right(self._firsts, epoch)
        if place == 0 or epoch > self.newest.epoch:
            return None
        return ValidatorSet(epoch, self._members[place - 1])

    def write(self, following: ValidatorSet) -> None:
        """Add the set of the next epoch, or confirm a known one.

        Raise SetChangedError if the epoch is known with another set.
        """
        assert following.epoch <= self.newest.epoch + 1, "sets are known without gaps"
        if following.epoch <= self.newest.epoch:
            if self.of(following.epoch) != following:
                raise SetChangedError(f"contradicting sets for epoch {following.epoch}")
            return
        if following.members != self.newest.members:
            self._firsts.append(following.epoch)
            self._members.append(following.members)
        self.newest = following

    def forget_before(self, epoch: int) -> None:
        """Drop the sets before `epoch`, which must be known."""
        place = bisect_right(self._firsts, epoch) - 1
        assert place >= 0, "the set of the first kept epoch is known"
        assert epoch <= self.newest.epoch, "the newest set stays"
        self._firsts[: place + 1] = [epoch]
        del self._members[:place]

    def count(self) -> int:
        """Return the number of different sets."""
        return len(self._firsts)
