"""What the end of a case moved, reckoned by the chain's own rules over the state before the block of the end.

Always: the end is the one that the block's event tells of; where the state bears no such way out nothing is claimed.
"""

from __future__ import annotations

from dataclasses import replace

from gpu_tasks.market.courts import closing
from gpu_tasks.market.courts.cases import CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.courts.money import Flow
from runtime.frame.runtime import Bound


def flows_at_end(bound: Bound, case_id: bytes, ended: CaseEnded) -> tuple[CourtCase, tuple[Flow, ...]] | None:
    """What the end of a case moved: the one of the three ways for it to end that the event tells of."""
    courts = bound[Courts]
    case = courts.cases[case_id]
    if case is None:
        return None
    # where there is no court nobody can appeal: it is decided and ends in one block, so the record before says neither
    at_once = replace(case, verdict=ended.verdict, has_court=False)
    ways = [(case, ended.verdict), (case, None)] + ([(at_once, None)] if case.verdict is None else [])
    for found, decided in ways:
        outcome, verdict, flows = closing.reckoned(courts, case_id, found, decided)
        if (outcome, verdict) == (ended.outcome, ended.verdict):
            return found, flows
    return None
