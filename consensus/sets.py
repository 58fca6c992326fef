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

    def __init__(self, first_set: ValidatorSet) -> None:
        """Start with one known set: the genesis set, or the set of a trusted block."""
        self._firsts = [first_set.epoch]
        self._members: list[tuple[Validator, ...]] = [first_set.members]
        self.newest = first_set

    @classmethod
    def of_runs(cls, runs: Sequence[tuple[int, tuple[Validator, ...]]], newest_epoch: int) -> "SetTable":
        """Return the table of these `runs()`, known up to the epoch `newest`.

        Raise ValueError if they are not in order or exceed `newest`.
        """
        first_epochs = [first_epoch for first_epoch, _ in runs]
        if not runs or first_epochs != sorted(set(first_epochs)) or newest_epoch < first_epochs[-1]:
            raise ValueError("sets must be in order and not after the newest epoch")
        table = cls(ValidatorSet(*runs[0]))
        for first_epoch, members in runs[1:]:
            # Only for its checks: each stored set is as valid as one that `write` receives.
            ValidatorSet(first_epoch, members)
            table._firsts.append(first_epoch)
            table._members.append(members)
        table.newest = ValidatorSet(newest_epoch, runs[-1][1])
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
        set_index = bisect_right(self._firsts, epoch)
        if set_index == 0 or epoch > self.newest.epoch:
            return None
        return ValidatorSet(epoch, self._members[set_index - 1])

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

    def forget_before(self, epoch_number: int) -> None:
        """Drop the sets before `epoch_number`, which must be known."""
        set_index = bisect_right(self._firsts, epoch_number) - 1
        assert set_index >= 0, "the set of the first kept epoch is known"
        assert epoch_number <= self.newest.epoch, "the newest set stays"
        self._firsts[: set_index + 1] = [epoch_number]
        del self._members[:set_index]

    def count(self) -> int:
        """Return the number of different sets."""
        return len(self._firsts)
