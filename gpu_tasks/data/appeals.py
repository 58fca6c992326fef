"""An appeal against what judges have said of a unit: what it is against, what it binds and what it brings.

Always: the bond is what the chain's own rules would hold now, over the state that the node proves.
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


# What the end of a case moved, reckoned by the chain's own rules over the state before the block of the end.
#
# Always: the end is the one that the block's event tells of; where the state bears no such way out nothing is claimed.
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


class AppealError(WalletError):
    """There is nothing to appeal against; the text says how far the case is."""


@dataclass(frozen=True, slots=True)
class Appeal:
    """The call, what of it a person is shown, and the bond in grains (0 where the chain would refuse it)."""

    call: Call
    facts: dict[str, Any]
    bond: int


async def appeal_against(client: ChainClient, unit_id: bytes, appellant: bytes) -> Appeal:
    """What an appeal by this account against the verdict about a unit would be; AppealError where there is none."""
    status = await market_reads.case(client, unit_id)
    if status is None:
        raise AppealError("no case about this unit is open: nobody has brought it before judges, or it is over")
    case = status.case
    if case.stage is not CaseStage.APPEALABLE:
        raise AppealError(f"there is no verdict to appeal against now: the case is at {case.stage.name.lower()}")
    call = Courts.appeal(case_id=unit_id)
    bond = await _bond(client, call, appellant)
    facts = {
        "unit": unit_id,
        "verdict": _in_words(case.verdict),
        "stands_after_block": case.appealable_until,
        "bond": Grains(bond),
        "brings_if_won": Grains(2 * case.terms.price),
    }
    return Appeal(call, facts, bond)


async def _bond(client: ChainClient, call: Call, appellant: bytes) -> int:
    try:
        return (await attempt(client, [call], appellant)).amount
    except TrialError:  # who sends the call is told so
        return 0


def _in_words(verdict: Opinion | None) -> str:
    return f"the right result is 0x{verdict.root.hex()}" if isinstance(verdict, Answered) else "its input is unusable"
