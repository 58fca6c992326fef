"""The result of a batch beside the formula of docs/batches.md, in prices of the batch.

A gain compares the cheats' balances since the attempt with those after honest behaviour. Work costs its whole pay here,
so skipping it saves the most. Invariant: fractions are exact.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import inf

DEVIATIONS_MAX = 4


@dataclass(frozen=True)
class BatchScore:
    """The score of one batch."""

    unseen: Fraction
    """The gain without any inspection."""
    found: Fraction
    """The share of the outcomes, weighted by their chances, in which a cheat paid."""
    formula: Fraction
    """The mean gain, or its bound."""
    variance: Fraction
    """The variance of the gain."""
    gain: Fraction
    harm: Fraction
    """The largest loss of an honest party, without the customer's price and fee."""


@dataclass(frozen=True)
class Summary:
    """Means over all batches of a misdeed, and the worst harm."""

    batches: int
    unseen: Fraction
    found: Fraction
    formula: Fraction
    gain: Fraction
    harm: Fraction
    best: Fraction
    """The largest gain in a batch."""
    spread: Fraction
    """The variance of the mean."""

    @property
    def deviations(self) -> float:
        """The distance of the gain above the formula, in standard deviations of the mean."""
        above = self.gain - self.formula
        return float(above) / float(self.spread) ** 0.5 if self.spread else inf * above if above else 0.0


@dataclass(frozen=True)
class Misdeed:
    """A kind of misconduct about a batch, and its required result."""

    says: str
    play: Callable[[str], BatchScore]
    """Plays one batch, given its seed."""
    is_bound: bool = False
    """True if the formula is a bound of the mean, and not the mean."""
    always_loses: bool = False
    """True if every batch costs the cheat something, not just the mean."""
    harm_max: Fraction = Fraction(0)
    found_min: Fraction = Fraction(0)
    """The least share of batches, or of weighted outcomes, that are found."""


def summary(scores: list[BatchScore]) -> Summary:
    """Return the summary of a misdeed's batches."""
    count = len(scores)

    def mean(values: list[Fraction]) -> Fraction:
        return sum(values, Fraction(0)) / count

    return Summary(
        batches=count,
        unseen=mean([score.unseen for score in scores]),
        found=mean([score.found for score in scores]),
        formula=mean([score.formula for score in scores]),
        gain=mean([score.gain for score in scores]),
        harm=max(score.harm for score in scores),
        best=max(score.gain for score in scores),
        spread=sum((score.variance for score in scores), Fraction(0)) / count**2,
    )


def missed(misdeed: Misdeed, found: Summary) -> Iterator[str]:
    """Yield the failed requirements."""
    if found.deviations > DEVIATIONS_MAX or (not misdeed.is_bound and found.deviations < -DEVIATIONS_MAX):
        yield f"comes to {float(found.gain):+.4f} prices where the formula says {float(found.formula):+.4f}"
    if found.formula >= 0 or found.gain >= 0:
        yield f"does not lose: {float(found.gain):+.4f} prices, by the formula {float(found.formula):+.4f}"
    if misdeed.always_loses and found.best >= 0:
        yield f"gains {float(found.best):+.4f} prices once"
    if found.found < misdeed.found_min:
        yield f"is made to pay {float(found.found):.1%} of the time"
    if found.harm > misdeed.harm_max:
        yield f"costs an honest account {float(found.harm):+.4f} prices"
