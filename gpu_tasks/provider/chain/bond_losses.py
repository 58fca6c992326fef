"""Bond losses of a provider's devices, read in the final blocks that took them, with unit and cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_tasks.market.courts.cases import CourtCase, PartyFault
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, racer_of
from gpu_tasks.provider.chain.side_pay import blocks_since
from wallet.client import ChainClient
from wallet.rpc import RpcError


@dataclass(frozen=True, slots=True)
class BondLoss:
    """A loss of a device's bond."""

    block: int
    unit: bytes
    grains: int
    fault: PartyFault
    device: bytes | None = None
    """None for a missed race if the node no longer has the unit's state."""
    case: bytes | None = None
    """The case that found the fault; None for a missed race."""
    appealable_until: int = 0
    """The last block in which the verdict could be appealed; 0 without a higher court."""


async def bond_losses(client: ChainClient, stash: bytes, since: int) -> list[BondLoss]:
    """Return the losses of a stash's devices after a block, oldest first, as far back as the node has states."""
    first, ids = await blocks_since(client, since)
    found: list[BondLoss] = []
    # Newest first: a node without old states then loses the oldest losses only.
    for place in range(len(ids) - 1, -1, -1):
        if first + place <= since:
            break
        try:
            events = [record.event for record in await client.events(ids[place])]
        except RpcError:  # the node has discarded the states of older blocks
            break
        found += [await _loss(client, first, ids, place, event, events) for event in _own(events, stash)]
    return found[::-1]


def _own(events: Sequence[object], stash: bytes) -> list[RaceMissed | ProviderSlashed]:
    lost = (event for event in events if isinstance(event, RaceMissed | ProviderSlashed))
    return [event for event in lost if event.provider == stash][::-1]


async def _loss(
    client: ChainClient, first: int, ids: Sequence[bytes], place: int,
    event: RaceMissed | ProviderSlashed, events: Sequence[object],
) -> BondLoss:  # fmt: skip
    before = ids[place - 1] if place else None
    if isinstance(event, RaceMissed):  # the event names no device, and the unit's next race has other racers
        unit: Unit | None = await _value_at(client, InferenceMarket.units, event.unit, before)
        racer = None if unit is None else racer_of(unit, event.provider)
        device = None if racer is None else racer.device
        return BondLoss(first + place, event.unit, event.amount, PartyFault.MISSED, device)
    case = _case_of(event.unit, [each.case for each in events if isinstance(each, CaseEnded)])
    open_case: CourtCase | None = await _value_at(client, Courts.cases, case, before)
    until = 0 if open_case is None else open_case.appealable_until
    return BondLoss(first + place, event.unit, event.amount, event.fault, event.device, case, until)


def _case_of(unit: bytes, ended: list[bytes]) -> bytes:
    """Return the case that ended for a unit: its own, or the case about one of its leaves, which has its own id."""
    return ended[0] if unit not in ended and len(ended) == 1 else unit


async def _value_at(client: ChainClient, item: Any, key: bytes, block: bytes | None) -> Any:
    """Return a stored value; None without a block, or if the node has discarded the block's state."""
    try:
        return None if block is None else await client.read(item, key, at=block)
    except RpcError:
        return None
