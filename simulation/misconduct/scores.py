"""What came of a batch beside what the formula of docs/batches.md says, in prices of the batch.

A gain is what all who cheat own more, since what is tried began, than if they were honest; work costs all that is paid
for it, so that not to do it saves most. Always: exact fractions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import inf

DEVIATIONS_MAX = 4


@dataclass(frozen=True)
class BatchScore:
    """Of one batch."""

    unseen: Fraction
    """The gain where nobody looks."""
    found: Fraction
    """The part of the outcomes, as likely as they are, in which somebody was made to pay."""
    formula: Fraction
    """The gain on average, or what it is at most."""
    variance: Fraction
    """Of the gain, about that."""
    gain: Fraction
    harm: Fraction
    """What somebody honest lost at most; the customer's price and fee apart."""


@dataclass(frozen=True)
class Summary:
    """Means over all batches of a misdeed; the worst harm."""

    batches: int
    unseen: Fraction
    found: Fraction
    formula: Fraction
    gain: Fraction
    harm: Fraction
    best: Fraction
    """The greatest gain in a batch."""
    spread: Fraction
    """The variance of the mean."""

    @property
    def deviations(self) -> float:
        """By how many standard deviations of the mean the gain is above what the formula says."""
        above = self.gain - self.formula
        return float(above) / float(self.spread) ** 0.5 if self.spread else inf * above if above else 0.0


@dataclass(frozen=True)
class Misdeed:
    """What is done wrongly about a batch, and what has to come of it."""

    says: str
    play: Callable[[str], BatchScore]
    """One batch, by its seed."""
    is_bound: bool = False
    """Whether the formula says the most that the mean can be, and not the mean."""
    always_loses: bool = False
    """Whether every batch costs who does it, and not the mean alone."""
    harm_max: Fraction = Fraction(0)
    found_min: Fraction = Fraction(0)
    """Of the batches, or of their outcomes as likely as they are."""


def summary(scores: list[BatchScore]) -> Summary:
    """Over the batches of a misdeed."""
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
    """What is not as it has to be."""
    if found.deviations > DEVIATIONS_MAX or (not misdeed.is_bound and found.deviations < -DEVIATIONS_MAX):
        yield f"comes to {float(found.gain):+.4f} prices where the formula says {float(found.formula):+.4f}"
    if found.formula >= 0 or found.gain >= 0:
        yield f"does not lose: {float(found.gain):+.4f} prices, by the formula {float(found.formula):+.4f}"
    if misdeed.always_loses and found.best >= 0:
        yield f"gains {float(found.best):+.4f} prices once"
    if found.found < misdeed.found_min:
        yield f"is made to pay {float(found.found):.1%} of the time"
    if found.harm > misdeed.harm_max:
        yield f"costs somebody honest {float(found.harm):+.4f} prices"
