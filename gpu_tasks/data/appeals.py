"""An appeal against what judges have said of a unit: what it is against, what it binds and what it brings.

Always: the bond is what the chain's own rules would hold now, over the state that the node proves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_tasks.data import market_reads
from gpu_tasks.market.courts.cases import CaseStage
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Opinion
from runtime.frame.call import Call
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.output import Grains
from wallet.trial import TrialError, attempt


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
