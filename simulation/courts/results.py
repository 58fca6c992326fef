"""Gains and losses over the units of a setting.

Money is in prices of a unit. Computing costs a racer or judge `COST` of a price off the chain, which a liar saves. The
coalition's gain is the growth of all its accounts, less its costs of computing. A unit that may be audited is played
both ways, each weighted by its chance.
"""

from collections import Counter
from dataclasses import dataclass, field

from gpu_tasks.market.courts.cases import PartyClaim, fault_in
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseAppealed, CaseEnded, JudgeCharged
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Opinion
from simulation.chains.market_chain import CUSTOMER
from simulation.courts.chances import chance_of_audit
from simulation.courts.habits import Against
from simulation.courts.network import PRICE
from simulation.courts.season import Season, Setting

COST = PRICE * 40 // 100


@dataclass
class Result:
    """The outcome of a setting, in prices a unit."""

    coalition: float = 0.0
    racers: float = 0.0
    """The gain of all honest validators that raced for a unit, with appeal bonds and computing."""
    judges: float = 0.0
    """The gain of all other honest validators, judges and idle ones."""
    honest_convicted: int = 0
    """Honest parties and judges that the last verdict convicted."""
    convicted_after_appeal: int = 0
    """Those of them that were convicted after an appeal."""
    cases: int = 0
    appeals: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)


def play(setting: Setting) -> Result:
    """Play all units of a setting."""
    result = Result()
    for number in range(setting.units):
        season, before = _played(setting, number, is_audited=False)
        asked = chance_of_audit(
            season.chain.now()[Courts].audit_rate_ppm, setting.share_percent if setting.habit.grinds else 0
        )
        _count(result, season, before, 1 - asked if season.was_watched else 1.0)
        if season.was_watched:
            season, before = _played(setting, number, is_audited=True)
            _count(result, season, before, asked)
    return result


def _played(setting: Setting, number: int, *, is_audited: bool) -> tuple[Season, dict[bytes, int]]:
    season = Season(setting, number, is_audited=is_audited)
    before = season.owned()
    season.play()
    return season, before


def _count(result: Result, season: Season, before: dict[bytes, int], chance: float) -> None:
    after, weight = season.owned(), chance / season.setting.units
    gained = {who: (after[who] - before[who] - COST * season.worked[who]) / PRICE * weight for who in season.keys}
    ours = set(season.coalition)
    if season.habit.party is not Against.STRANGERS:
        ours.add(CUSTOMER.stash)
    result.coalition += sum(gained[who] for who in ours)
    honest = [keys.stash for keys in season.network.others]
    result.racers += sum(gained[who] for who in honest if who in season.raced)
    result.judges += sum(gained[who] for who in honest if who not in season.raced)
    _count_cases(result, season, ours)


def _is_at_fault(season: Season, claim: PartyClaim, verdict: Opinion | None) -> bool:
    return season.last_case is not None and fault_in(season.last_case, claim, verdict) is not None


def _count_cases(result: Result, season: Season, ours: set[bytes]) -> None:
    ends = [event for event in season.chain.happened(CaseEnded) if event.outcome is not CaseOutcome.NOT_AUDITED]
    appeals = season.chain.happened(CaseAppealed)
    judged = [event for event in season.chain.happened(JudgeCharged) if event.is_convicted]
    wrong = sum(event.judge not in ours for event in judged)
    claims = season.last_case.terms.claims if season.last_case is not None else ()
    for event in ends:
        wrong += sum(claim.account not in ours and _is_at_fault(season, claim, event.verdict) for claim in claims)
    result.honest_convicted += wrong
    result.convicted_after_appeal += wrong if appeals else 0
    result.cases += len(ends)
    result.appeals += len(appeals)
    outcomes = Counter(result.outcomes) + Counter(event.outcome.name for event in ends)
    result.outcomes = dict(sorted(outcomes.items()))
