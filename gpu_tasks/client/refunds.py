"""Why a unit ended without a result: its record says only that the price went back, the event of its end says why."""

from __future__ import annotations

from gpu_tasks.market.inference.events import UnitRefunded
from gpu_tasks.market.inference.units import Refund, Unit
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError

REASONS = {
    Refund.CANCELLED: "cancelled by the key that posted it",
    Refund.EXPIRED: "no result in the time that a unit may wait for one",
    Refund.INPUT_BAD: "a committee found that its input cannot be used",
    Refund.INCONCLUSIVE: "no committee could decide; the bond is gone if hardly a judge had its input",
}


async def why_refunded(client: ChainClient, unit_id: bytes, unit: Unit) -> str:
    """A sentence: in which block a refunded unit ended, and why where the node still has that block's events."""
    refund = await reason_of(client, unit_id, unit)
    return f"refunded in block {unit.ended_at}" + ("" if refund is None else f": {REASONS[refund]}")


async def reason_of(client: ChainClient, unit_id: bytes, unit: Unit) -> Refund | None:
    """Why a refunded unit ended; None where the node has not its block's events any more."""
    try:
        # by a proof of its own: which block it is, the node may misstate, and then it holds no end of this unit
        records = await client.events(await client.block_id(unit.ended_at))
    except (RpcError, OddAnswerError):  # a node keeps the states of the newest blocks only
        return None
    refunds = (record.event for record in records if isinstance(record.event, UnitRefunded))
    return next((event.refund for event in refunds if event.unit == unit_id), None)
