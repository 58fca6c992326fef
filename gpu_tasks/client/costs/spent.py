"""What was locked for a unit, what it cost, and what came back: from its record, and from the block that posted it.

Always: only what the chain proves is told; a fee whose block no node shows any more is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_tasks.client.batches.sums import UnitSums
from gpu_tasks.client.results import cost_of
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import UnitPosted
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, is_open
from runtime.encoding.types import ApplyExtrinsic
from runtime.pallets.transaction_payment import TransactionFeePaid
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError


@dataclass(slots=True)
class SpentMoney:
    """Says it of units; what blocks and parameters say is asked for once."""

    client: ChainClient
    _fees: dict[int, dict[bytes, int]] = field(default_factory=dict)
    """By block, and by unit that it posted."""
    _duty_fee: int | None = None

    async def of(self, unit_id: bytes, unit: Unit) -> UnitSums:
        """What was locked for a unit that is in a final block, and what became of that so far."""
        paid, returned = paid_and_returned(unit)
        return UnitSums(
            locked=unit.escrow + unit.bond + unit.deposit,
            prepaid=await self.prepaid(unit),
            fees=await self._fee(unit_id, unit.posted_at),
            paid=paid,
            returned=returned,
        )

    async def prepaid(self, unit: Unit) -> int:
        """Return the prepaid cost of duty calls, at the current price of a call; Root may have changed it since."""
        if self._duty_fee is None:
            self._duty_fee = await self.client.read(InferenceMarket.duty_fee.item)
        checks = money.CHECK_CALLS if unit.leaf_audit_ppm else 0
        return self._duty_fee * (money.duty_calls(unit.terms.racers) + checks)

    async def _fee(self, unit_id: bytes, height: int) -> int | None:
        """The unit's share of what its extrinsic cost."""
        if height not in self._fees:
            self._fees[height] = await _fees_of(self.client, height)
        return self._fees[height].get(unit_id)


def paid_and_returned(unit: Unit) -> tuple[int, int]:
    """Of what was locked for a unit's outcome; the deposit beside it returns with the record."""
    if is_open(unit):
        return 0, 0
    paid = cost_of(unit)
    return paid, unit.escrow + unit.bond - paid


async def _fees_of(client: ChainClient, height: int) -> dict[bytes, int]:
    """The shares of all units that a block posted: those of one extrinsic add up to its fee."""
    try:
        records = await client.events(await client.block_id(height))
    except (RpcError, OddAnswerError):  # nodes keep the states of the newest final blocks
        return {}
    units: dict[int, list[bytes]] = {}
    fees: dict[int, int] = {}
    for record in records:
        if isinstance(record.phase, ApplyExtrinsic) and isinstance(record.event, UnitPosted):
            units.setdefault(record.phase.index, []).append(record.event.unit)
        elif isinstance(record.phase, ApplyExtrinsic) and isinstance(record.event, TransactionFeePaid):
            fees[record.phase.index] = record.event.actual_fee
    return {
        unit: fees[index] * (at + 1) // len(posted) - fees[index] * at // len(posted)
        for index, posted in units.items()
        for at, unit in enumerate(posted)
    }
