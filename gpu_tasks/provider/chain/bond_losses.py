"""What the chain took from a provider's devices, read in the final blocks that took it: for which unit, and why."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tasks.market.courts.cases import CourtCase, PartyFault
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed
from gpu_tasks.provider.chain.side_pay import blocks_since
from wallet.client import ChainClient


@dataclass(frozen=True, slots=True)
class BondLoss:
    """A part of a device's bond that is gone."""

    block: int
    unit: bytes
    grains: int
    fault: PartyFault
    device: bytes | None = None
    """None where the event names none: a missed race."""
    case: bytes | None = None
    """The case that found the fault; None for a missed race."""
    appealable_until: int = 0
    """The last block in which the verdict could be appealed; 0 where there was no court to appeal to."""


async def bond_losses(client: ChainClient, stash: bytes, since: int) -> list[BondLoss]:
    """Return what a stash's devices lost after a block; not endlessly far back."""
    first, ids = await blocks_since(client, since)
    found: list[BondLoss] = []
    for place, block in enumerate(ids):
        if first + place <= since:
            continue
        events = [record.event for record in await client.events(block)]
        cases = [event.case for event in events if isinstance(event, CaseEnded)]
        for event in events:
            if isinstance(event, RaceMissed) and event.provider == stash:
                found.append(BondLoss(first + place, event.unit, event.amount, PartyFault.MISSED))
            elif isinstance(event, ProviderSlashed) and event.provider == stash:
                case = _case_of(event.unit, cases)
                until = await _deadline(client, case, ids[place - 1]) if place else 0
                found.append(BondLoss(first + place, event.unit, event.amount, event.fault, event.device, case, until))
    return found


def _case_of(unit: bytes, ended: list[bytes]) -> bytes:
    """The case that ended for a unit: its own, or the one about a leaf of it, which has an id of its own."""
    return ended[0] if unit not in ended and len(ended) == 1 else unit


async def _deadline(client: ChainClient, case: bytes, before: bytes) -> int:
    open_case: CourtCase | None = await client.read(Courts.cases, case, at=before)
    return 0 if open_case is None else open_case.appealable_until
