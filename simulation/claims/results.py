"""Gains of a habit over honest behaviour of the same coalition, with their errors, and the losses of honest parties.

Each play is paired with an honest one, with the same draws up to the first difference. Gains are in prices, a unit for
providers and a duty for checkers, voters and disputers.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean, stdev

from gpu_tasks.market.claims.collateral import PPM
from simulation.chains.claim_chain import PRICE
from simulation.claims.habits import Habit, Party, honest
from simulation.claims.network import Setting
from simulation.claims.play import Play, saved

ERRORS = 3
"""The statistical error of a gain in standard errors. The table has this sum."""


@dataclass
class Result:
    """The outcome of all plays of a habit in a setting."""

    gain: float
    error: float
    """The statistical error of the gain."""
    losses: dict[str, float] = field(default_factory=dict)
    """The greatest loss of an honest party in a play, in prices, by its role. Its own costs do not count."""
    outcomes: dict[str, int] = field(default_factory=dict)
    appeals: int = 0


def measured(setting: Setting, habit: Habit, plays: int) -> Result:
    """Play a habit and its honest counterpart."""
    gains, duties, losses, outcomes, appeals = [], [], dict[str, float](), Counter[str](), 0
    for number in range(plays):
        play = Play(setting, habit, number)
        play.run()
        expected, ballots = _honest(setting, honest(habit), number)
        gains.append(play.gained - expected)
        duties.append(ballots if habit.party is Party.VOTER else 1)
        for role, loss in play.losses().items():
            losses[role] = max(loss, losses.get(role, 0.0))
        outcomes[play.outcome.name] += 1
        appeals += play.is_appealed
    gain, error = ratio(gains, duties)
    if habit.party is Party.PROVIDER and habit.items == 1:
        # All plays are of drawn claims. Nobody finds a lie in the others.
        chance = setting.rate_ppm / PPM
        gain, error = chance * gain + (1 - chance) * saved(habit) / PRICE, chance * error
    return Result(gain, error, losses, dict(sorted(outcomes.items())), appeals)


def ratio(gains: list[float], duties: list[int]) -> tuple[float, float]:
    """Return the gain a duty, and its error: that of the part of each play's gain that its duties do not explain."""
    mean = sum(gains) / max(1, sum(duties))
    rests = [gain - mean * number for gain, number in zip(gains, duties, strict=True)]
    spread = stdev(rests) if len(rests) > 1 else 0.0
    return mean, ERRORS * spread / len(rests) ** 0.5 / max(1.0, fmean(duties))


@cache
def _honest(setting: Setting, habit: Habit, number: int) -> tuple[float, int]:
    play = Play(setting, habit, number)
    play.run()
    return play.gained, play.ballots
