"""Bond losses of a provider's devices, read in the final blocks that took them, with unit and cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from gpu_tasks.market.claims.dispute_events import DisputeEnded
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, RacePassed
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, racer_of
from gpu_tasks.provider.chain.side_pay import blocks_since
from wallet.client import ChainClient
from wallet.rpc import RpcError

LossEvent = RaceMissed | RacePassed | ProviderSlashed


class Fault(Enum):
    """The cause of a loss."""

    LIED = auto()
    """A false or withheld result."""
    MISSED = auto()
    """A missed race, a result that was not revealed, or a declined input that can be opened."""
    PASSED = auto()
    """A race that the provider passed."""
    CHECK = auto()
    """A check without a finding, or with a false one."""
    VOTE = auto()
    """A vote that was outvoted, or not given."""


@dataclass(frozen=True, slots=True)
class BondLoss:
    """A loss of a device's bond."""

    block: int
    unit: bytes
    grains: int
    fault: Fault
    device: bytes | None = None
    """None for a missed or passed race if the node no longer has the unit's state."""
    case: bytes | None = None
    """The dispute that found the fault, if there was one."""
    appealable_until: int = 0
    """The last block in which its decision could be appealed; 0 if nine voters did not decide."""


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


def _own_losses(events: Sequence[object], stash: bytes) -> list[LossEvent]:
    loss_events = (event for event in events if isinstance(event, LossEvent))
    return [event for event in loss_events if event.provider == stash][::-1]


async def _bond_loss(
    client: ChainClient, first_height: int, block_ids: Sequence[bytes], index: int,
    event: LossEvent, events: Sequence[object],
) -> BondLoss:  # fmt: skip
    parent = block_ids[index - 1] if index else None
    height = first_height + index
    # The events of races name no device, and the unit's next race has other racers.
    if not isinstance(event, ProviderSlashed):
        unit: Unit | None = await _value_at(client, InferenceMarket.units, event.unit, parent)
        racer = None if unit is None else racer_of(unit, event.provider)
        device_id = None if racer is None else racer.device
        fault = Fault.MISSED if isinstance(event, RaceMissed) else Fault.PASSED
        return BondLoss(height, event.unit, event.amount, fault, device_id)
    for dispute_id in (ended.dispute for ended in events if isinstance(ended, DisputeEnded)):
        dispute: Dispute | None = await _value_at(client, Disputes.disputes, dispute_id, parent)
        if dispute is not None and dispute.terms.work == event.unit:
            until = dispute.appealable_until
            return BondLoss(height, event.unit, event.amount, Fault.LIED, event.device, dispute_id, until)
    return BondLoss(height, event.unit, event.amount, Fault.LIED, event.device)


async def _value_at(client: ChainClient, item: Any, key: bytes, block_hash: bytes | None) -> Any:
    """Return a stored value; None without a block, or if the node has discarded the block's state."""
    try:
        return None if block_hash is None else await client.read(item, key, at=block_hash)
    except RpcError:
        return None
