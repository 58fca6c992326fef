"""The rule of stakes in fractions: each account separately, with every slash and reward applied by a visit to each.

It has no shares, price, index or factor. Its amounts are those that the accumulators must give, to the grain.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

from runtime.pallets.staking.slash_factors import SlashStep
from runtime.pallets.staking.slashing import PPM

Who = int | bytes
Pair = tuple[Who, Who]
"""A staker and a validator. A validator's own bond has the same account in both places."""
Answer = tuple[Who, int]
"""A validator, and the era until which stake is liable for its offences."""


@dataclass
class Exact:
    """An amount of stake, and its liabilities for other validators' offences."""

    amount: Fraction
    answers: tuple[Answer, ...] = ()


@dataclass
class Naive:
    """The stakes and rewards of all accounts."""

    free: dict[Pair, list[Exact]] = field(default_factory=lambda: defaultdict(list))
    """The stake behind validators: first the lot without liabilities, then moved lots in the order of their arrival."""
    waiting: list[Exact] = field(default_factory=list)
    rewards: dict[Pair, Fraction] = field(default_factory=lambda: defaultdict(Fraction))

    def stake(self, pair: Pair) -> Fraction:
        """Return an account's stake behind a validator."""
        return sum((lot.amount for lot in self.free[pair]), Fraction())

    def enter(self, pair: Pair, amount: Fraction, answers: tuple[Answer, ...] = ()) -> None:
        """Add stake behind a validator."""
        lots = self.free[pair]
        same = next((lot for lot in lots if lot.answers == answers), None)
        if same is not None:
            same.amount += amount
        elif answers:
            lots.append(Exact(amount, answers))
        else:
            lots.insert(0, Exact(amount))

    def leave(self, pair: Pair, answers: tuple[Answer, ...], amount: Fraction | None) -> Exact:
        """Take an amount from the lot with these liabilities. None takes all of it."""
        lot = next((lot for lot in self.free[pair] if lot.answers == answers), Exact(Fraction(), answers))
        part = lot.amount if amount is None else min(amount, lot.amount)
        lot.amount -= part
        self.free[pair] = [lot for lot in self.free[pair] if lot.amount]
        return Exact(part, answers)

    def slash(self, validator: Who, era: int, step: SlashStep) -> None:
        """Reduce the stake behind a validator, and all stake that is liable for its offence in that era."""
        # A raise: `taken` is already gone, so the factor applies to the rest.
        keep = Fraction(PPM - step.wanted, PPM - step.taken)
        for (_, behind), lots in self.free.items():
            for lot in lots:
                if behind == validator:
                    lot.amount *= keep
                lot.amount *= self._kept(lot, validator, era, keep)
        for chunk in self.waiting:
            chunk.amount *= self._kept(chunk, validator, era, keep)

    def forget(self, pair: Pair, kept: set[Answer]) -> None:
        """Forget expired liabilities: a lot without one of `kept` joins the lot without liabilities."""
        lots, self.free[pair] = self.free[pair], []
        for lot in lots:
            self.enter(pair, lot.amount, lot.answers if set(lot.answers) & kept else ())

    @staticmethod
    def _kept(lot: Exact, validator: Who, era: int, keep: Fraction) -> Fraction:
        return keep if any(whom == validator and until >= era for whom, until in lot.answers) else Fraction(1)
