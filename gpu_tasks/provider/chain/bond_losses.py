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


async def bond_losses(chain_client: ChainClient, provider_stash: bytes, since_height: int) -> list[BondLoss]:
    """Return the losses of a stash's devices after a block, oldest first, as far back as the node has states."""
    first_height, block_ids = await blocks_since(chain_client, since_height)
    found_losses: list[BondLoss] = []
    # Newest first: a node without old states then loses the oldest losses only.
    for block_index in range(len(block_ids) - 1, -1, -1):
        if first_height + block_index <= since_height:
            break
        try:
            block_events = [event_record.event for event_record in await chain_client.events(block_ids[block_index])]
        except RpcError:  # the node has discarded the states of older blocks
            break
        found_losses += [
            await _bond_loss(chain_client, first_height, block_ids, block_index, loss_event, block_events)
            for loss_event in _own_losses(block_events, provider_stash)
        ]
    return found_losses[::-1]


def _own_losses(block_events: Sequence[object], provider_stash: bytes) -> list[RaceMissed | ProviderSlashed]:
    loss_events = (loss_event for loss_event in block_events if isinstance(loss_event, RaceMissed | ProviderSlashed))
    return [loss_event for loss_event in loss_events if loss_event.provider == provider_stash][::-1]


async def _bond_loss(
    chain_client: ChainClient, first_height: int, block_ids: Sequence[bytes], block_index: int,
    loss_event: RaceMissed | ProviderSlashed, block_events: Sequence[object],
) -> BondLoss:  # fmt: skip
    parent_hash = block_ids[block_index - 1] if block_index else None
    if isinstance(loss_event, RaceMissed):  # the event names no device, and the unit's next race has other racers
        unit_record: Unit | None = await _value_at(chain_client, InferenceMarket.units, loss_event.unit, parent_hash)
        own_racer = None if unit_record is None else racer_of(unit_record, loss_event.provider)
        device_id = None if own_racer is None else own_racer.device
        return BondLoss(first_height + block_index, loss_event.unit, loss_event.amount, PartyFault.MISSED, device_id)
    case_id = _case_of(
        loss_event.unit, [block_event.case for block_event in block_events if isinstance(block_event, CaseEnded)]
    )
    open_case: CourtCase | None = await _value_at(chain_client, Courts.cases, case_id, parent_hash)
    appealable_until = 0 if open_case is None else open_case.appealable_until
    return BondLoss(
        first_height + block_index,
        loss_event.unit,
        loss_event.amount,
        loss_event.fault,
        loss_event.device,
        case_id,
        appealable_until,
    )


def _case_of(unit_id: bytes, ended_cases: list[bytes]) -> bytes:
    """Return the case that ended for a unit: its own, or the case about one of its leaves, which has its own id."""
    return ended_cases[0] if unit_id not in ended_cases and len(ended_cases) == 1 else unit_id


async def _value_at(chain_client: ChainClient, storage_item: Any, storage_key: bytes, block_hash: bytes | None) -> Any:
    """Return a stored value; None without a block, or if the node has discarded the block's state."""
    try:
        return None if block_hash is None else await chain_client.read(storage_item, storage_key, at=block_hash)
    except RpcError:
        return None
