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


async def bond_losses(client: ChainClient, stash: bytes, since_height: int) -> list[BondLoss]:
    """Return the losses of a stash's devices after a block, oldest first, as far back as the node has states."""
    first_height, block_ids = await blocks_since(client, since_height)
    losses: list[BondLoss] = []
    # Newest first: a node without old states then loses the oldest losses only.
    for index in range(len(block_ids) - 1, -1, -1):
        if first_height + index <= since_height:
            break
        try:
            events = [record.event for record in await client.events(block_ids[index])]
        except RpcError:  # the node has discarded the states of older blocks
            break
        losses += [
            await _bond_loss(client, first_height, block_ids, index, event, events)
            for event in _own_losses(events, stash)
        ]
    return losses[::-1]


def _own_losses(events: Sequence[object], stash: bytes) -> list[RaceMissed | ProviderSlashed]:
    loss_events = (event for event in events if isinstance(event, RaceMissed | ProviderSlashed))
    return [event for event in loss_events if event.provider == stash][::-1]


async def _bond_loss(
    client: ChainClient, first_height: int, block_ids: Sequence[bytes], index: int,
    event: RaceMissed | ProviderSlashed, events: Sequence[object],
) -> BondLoss:  # fmt: skip
    parent = block_ids[index - 1] if index else None
    if isinstance(event, RaceMissed):  # the event names no device, and the unit's next race has other racers
        unit: Unit | None = await _value_at(client, InferenceMarket.units, event.unit, parent)
        racer = None if unit is None else racer_of(unit, event.provider)
        device_id = None if racer is None else racer.device
        return BondLoss(first_height + index, event.unit, event.amount, PartyFault.MISSED, device_id)
    case_id = _case_of(event.unit, [block_event.case for block_event in events if isinstance(block_event, CaseEnded)])
    open_case: CourtCase | None = await _value_at(client, Courts.cases, case_id, parent)
    appealable_until = 0 if open_case is None else open_case.appealable_until
    return BondLoss(
        first_height + index, event.unit, event.amount, event.fault, event.device, case_id, appealable_until
    )


def _case_of(unit_id: bytes, ended_cases: list[bytes]) -> bytes:
    """Return the case that ended for a unit: its own, or the case about one of its leaves, which has its own id."""
    return ended_cases[0] if unit_id not in ended_cases and len(ended_cases) == 1 else unit_id


async def _value_at(client: ChainClient, item: Any, key: bytes, block_hash: bytes | None) -> Any:
    """Return a stored value; None without a block, or if the node has discarded the block's state."""
    try:
        return None if block_hash is None else await client.read(item, key, at=block_hash)
    except RpcError:
        return None
