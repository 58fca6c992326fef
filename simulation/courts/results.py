"""Gains of a habit over honest behaviour, and the losses of honest parties.

Money is in prices of a task. Computing costs a provider or a judge `COST` of a price off the chain, which a liar saves.
A result that stands is paid. A lie is brought before the courts with the chance of an audit only.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cache

from gpu_tasks.market.courts.cases import PartyClaim, fault_in
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseAppealed, CaseEnded, JudgeCharged
from gpu_tasks.market.courts.money import chance_found
from gpu_tasks.market.courts.opinions import Opinion
from simulation.chains.court_chain import PRICE
from simulation.chains.market_chain import CUSTOMER
from simulation.courts.habits import Brought, Habit, honest
from simulation.courts.season import Season, Setting

COST = PRICE * 40 // 100


@dataclass
class Result:
    """The outcome of a setting, in prices a case."""

    gain: float = 0.0
    """The gain of the coalition over honest behaviour, or over no task at all if nobody else needs the result."""
    provider: float = 0.0
    """The gain of an honest provider, over the price of its right result, or over nothing after its report."""
    judges: float = 0.0
    """The gain of all honest validators, with computing and appeal bonds."""
    honest_convicted: int = 0
    """Honest parties and judges that the last verdict convicted."""
    convicted_after_appeal: int = 0
    """Those of them that were convicted after an appeal."""
    appeals: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)


def play(setting: Setting) -> Result:
    """Play all cases of a setting."""
    result, habit = Result(), setting.habit
    for number in range(setting.cases):
        season = Season(setting, number)
        gained = _gains(season)
        _count_cases(result, season)
        own = sum(gained[who] for who in season.coalition)
        result.gain += (own - _expected(setting, number)) / setting.cases
        judges = sum(gained[keys.stash] for keys in season.chain.validators if keys.stash not in season.coalition)
        result.judges += judges / setting.cases
        if not habit.has_provider:
            due = (1 - COST / PRICE) if habit.brought.is_result else 0.0
            result.provider += (gained[season.provider.stash] - due) / setting.cases
    if habit.brought is Brought.WRONG:
        result.gain = _weighted(setting, result.gain)
    return result


def _weighted(setting: Setting, gain_before_courts: float) -> float:
    """Return the gain of a lie that is audited by chance. Otherwise it saves its computation."""
    found, of = chance_found(Season(setting, 0).chain.now()[Courts].audit_rate_ppm)
    saved = 0.0 if setting.habit.has_customer else COST / PRICE
    return (found * gain_before_courts + (of - found) * saved) / of


def _expected(setting: Setting, number: int) -> float:
    """Return the coalition's gain from the same case if it is honest, or 0 if it would post no task then."""
    habit = setting.habit
    if habit.has_customer and (habit.has_provider or not habit.brought.is_result):
        return 0.0
    return _honest(setting.size, setting.share_percent, honest(habit), setting.seed, number)


@cache
def _honest(size: int, share_percent: int, habit: Habit, seed: int, number: int) -> float:
    season = Season(Setting(size, share_percent, habit, has_appeals=True, cases=1, seed=seed), number)
    gained = _gains(season)
    return sum(gained[who] for who in season.coalition)


def _gains(season: Season) -> dict[bytes, float]:
    """Play a case, and return the gain of each account."""
    before = season.owned()
    season.play()
    after = season.owned()
    moved = {who: after[who] - before[who] - COST * season.worked[who] for who in season.keys}
    if season.habit.brought.is_result and season.fault is None:
        moved[season.provider.stash] += PRICE
        moved[CUSTOMER.stash] -= PRICE
    return {who: grains / PRICE for who, grains in moved.items()}


def _is_at_fault(season: Season, claim: PartyClaim, verdict: Opinion | None) -> bool:
    return season.last_case is not None and fault_in(season.last_case, claim, verdict) is not None


def _count_cases(result: Result, season: Season) -> None:
    ends, appeals = season.chain.happened(CaseEnded), season.chain.happened(CaseAppealed)
    judged = [event for event in season.chain.happened(JudgeCharged) if event.is_convicted]
    wrong = sum(event.judge not in season.coalition for event in judged)
    claims = season.last_case.terms.claims if season.last_case is not None else ()
    for event in ends:
        own = (claim for claim in claims if claim.account not in season.coalition)
        wrong += sum(_is_at_fault(season, claim, event.verdict) for claim in own)
    result.honest_convicted += wrong
    result.convicted_after_appeal += wrong if appeals else 0
    result.appeals += len(appeals)
    outcomes = Counter(result.outcomes) + Counter(event.outcome.name for event in ends)
    result.outcomes = dict(sorted(outcomes.items()))
