"""Whether a verdict has to be appealed: it says that a provider's own result is wrong.

A committee's majority decides until somebody appeals, and who does not loses its collateral to two of three: the daemon
appeals by itself. The bond returns with twice the price if the court finds the result right.
"""

from __future__ import annotations

from gpu_tasks.market.api import UnitStatus
from gpu_tasks.market.courts.cases import CaseStage, PartyFault, fault_of
from gpu_tasks.provider.journal.journal import RaceKey


def is_wronged(status: UnitStatus | None, key: RaceKey, stash: bytes) -> bool:
    """Whether the verdict about a unit can be appealed now, and finds an answer of this provider's wrong."""
    case = None if status is None else status.case
    if status is None or case is None or status.unit.attempt != key[1] or case.stage is not CaseStage.APPEALABLE:
        return False
    own = (claim for claim in case.terms.claims if claim.account == stash and claim.root is not None)
    return any(fault_of(claim, case.verdict) is PartyFault.LIED for claim in own)
