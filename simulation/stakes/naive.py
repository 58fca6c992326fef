"""The rule of stakes in fractions: each account by itself, every slash and every reward by a visit to everybody.

It knows no shares, no price, no index and no factor; what it says is what accumulators have to come to, to the grain.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

from runtime.pallets.staking.slash_factors import SlashStep
from runtime.pallets.staking.slashing import PPM

Who = int | bytes
Pair = tuple[Who, Who]
"""A staker and a validator; a validator's own bond is that of itself behind itself."""
Answer = tuple[Who, int]
"""A validator, and the era until which stake answers for what it did."""


@dataclass
class Exact:
    """Some stake: an amount, and for which validators' offences until when it answers."""

    amount: Fraction
    answers: tuple[Answer, ...] = ()


@dataclass
class Naive:
    """Who has what."""

    free: dict[Pair, list[Exact]] = field(default_factory=lambda: defaultdict(list))
    """What stands behind validators: what answers for nobody else first, then what came from others, as it came."""
    waiting: list[Exact] = field(default_factory=list)
    rewards: dict[Pair, Fraction] = field(default_factory=lambda: defaultdict(Fraction))

    def stake(self, pair: Pair) -> Fraction:
        """What an account has behind a validator."""
        return sum((lot.amount for lot in self.free[pair]), Fraction())

    def enter(self, pair: Pair, amount: Fraction, answers: tuple[Answer, ...] = ()) -> None:
        """More stands behind a validator."""
        lots = self.free[pair]
        same = next((lot for lot in lots if lot.answers == answers), None)
        if same is not None:
            same.amount += amount
        elif answers:
            lots.append(Exact(amount, answers))
        else:
            lots.insert(0, Exact(amount))

    def leave(self, pair: Pair, answers: tuple[Answer, ...], amount: Fraction | None) -> Exact:
        """Take so much out of the lot with these answers; None: all of it."""
        lot = next((lot for lot in self.free[pair] if lot.answers == answers), Exact(Fraction(), answers))
        part = lot.amount if amount is None else min(amount, lot.amount)
        lot.amount -= part
        self.free[pair] = [lot for lot in self.free[pair] if lot.amount]
        return Exact(part, answers)

    def slash(self, validator: Who, era: int, step: SlashStep) -> None:
        """Whatever stands behind the validator, and whatever answers for what it did in that era, loses its part."""
        keep = Fraction(PPM - step.wanted, PPM - step.taken)
        for (_, behind), lots in self.free.items():
            for lot in lots:
                if behind == validator:
                    lot.amount *= keep
                lot.amount *= self._kept(lot, validator, era, keep)
        for chunk in self.waiting:
            chunk.amount *= self._kept(chunk, validator, era, keep)

    def forget(self, pair: Pair, kept: set[Answer]) -> None:
        """Evidence grew too old: what answers for none of those that are kept stands as if it had never moved."""
        lots, self.free[pair] = self.free[pair], []
        for lot in lots:
            self.enter(pair, lot.amount, lot.answers if set(lot.answers) & kept else ())

    @staticmethod
    def _kept(lot: Exact, validator: Who, era: int, keep: Fraction) -> Fraction:
        return keep if any(whom == validator and until >= era for whom, until in lot.answers) else Fraction(1)
