"""An appeal against a verdict about a unit: the verdict, the bond and the possible gain.

Invariant: the bond is the one that the chain's own rules would hold, over the state that the node proves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpu_tasks.data import market_reads
from gpu_tasks.market.courts import closing
from gpu_tasks.market.courts.cases import CaseStage, CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.courts.money import Flow
from gpu_tasks.market.courts.opinions import Answered, Opinion
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from wallet.amounts import Grains
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.trial import TrialError, attempt


# The payments at the end of a case, computed by the chain's own rules over the state before the block of the end.
#
# Invariant: the end is the one in the block's event. If the state allows no such end, the result is None.
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


class AppealError(WalletError):
    """There is no verdict to appeal against. The message gives the stage of the case."""


@dataclass(frozen=True, slots=True)
class Appeal:
    """The call, its facts for display, and the bond in grains (0 if the chain would refuse the call)."""

    call: Call
    facts: dict[str, Any]
    bond: int


async def appeal_against(client: ChainClient, unit_id: bytes, appellant: bytes) -> Appeal:
    """Return this account's appeal against the verdict about a unit. Raise AppealError if there is no verdict."""
    status = await market_reads.case(client, unit_id)
    if status is None:
        raise AppealError("this unit has no open case. None was brought, or it is over", code="no_case")
    open_case = status.case
    if open_case.stage is not CaseStage.APPEALABLE:
        raise AppealError(
            f"the case has no verdict to appeal now. It is at {open_case.stage.name.lower()}", code="no_verdict"
        )
    appeal_call = Courts.appeal(case_id=unit_id)
    bond = await _bond_of_appeal(client, appeal_call, appellant)
    facts = {
        "unit": unit_id,
        "verdict": _in_words(open_case.verdict),
        "stands_after_block": open_case.appealable_until,
        "bond": Grains(bond),
        "brings_if_won": Grains(2 * open_case.terms.price),
    }
    return Appeal(appeal_call, facts, bond)


async def _bond_of_appeal(client: ChainClient, appeal_call: Call, appellant: bytes) -> int:
    try:
        return (await attempt(client, [appeal_call], appellant)).amount
    except TrialError:  # The sender of the call sees this error
        return 0


def _in_words(verdict: Opinion | None) -> str:
    return f"the right result is 0x{verdict.root.hex()}" if isinstance(verdict, Answered) else "its input is unusable"
