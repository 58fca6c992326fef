"""The payments at the end of a case, computed by the chain's own rules over the state before the block of the end.

Invariant: the end is the one in the block's event. If the state allows no such end, the result is None.
"""

from __future__ import annotations

from dataclasses import replace

from gpu_tasks.market.courts import closing
from gpu_tasks.market.courts.cases import CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.courts.money import Flow
from runtime.frame.runtime import Bound


def flows_at_end(bound: Bound, case_id: bytes, ended_case: CaseEnded) -> tuple[CourtCase, tuple[Flow, ...]] | None:
    """Return the payments at the end of a case, from the one of its three possible ends that the event names."""
    courts = bound[Courts]
    open_case = courts.cases[case_id]
    if open_case is None:
        return None
    # Without a court no appeal is possible: the case is decided and ends in one block, so the record before has no
    # verdict
    decided_now = replace(open_case, verdict=ended_case.verdict, has_court=False)
    ends = [(open_case, ended_case.verdict), (open_case, None)] + (
        [(decided_now, None)] if open_case.verdict is None else []
    )
    for record, decided in ends:
        outcome, verdict, flows = closing.reckoned(courts, case_id, record, decided)
        if (outcome, verdict) == (ended_case.outcome, ended_case.verdict):
            return record, flows
    return None
