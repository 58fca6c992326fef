"""The market at one final block, as `ogpu search` and `ogpu price` show it.

Always: offers and devices are of one block, and the lists are whole; what was paid of late is read out of the events of
the newest final blocks, as many as nodes keep the states of, and never more than `BLOCKS_LOOKED_AT`.
"""

from __future__ import annotations

from dataclasses import replace

from gpu_tasks.client.inventories import heard_inventories, reliability_of, with_claims
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.proven_rates import proven_rates
from gpu_tasks.market.inference.events import UnitSettled
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.tasks.offers import OfferRow, rows_of
from gpu_tasks.tasks.prices import SettledUnit
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError

BLOCKS_LOOKED_AT = 32


async def offers(client: ChainClient, at: bytes) -> list[OfferRow]:
    """All offers for open services at a block, the cheapest first, with how reliable their providers were."""
    devices = await market_reads.devices(client, at)
    rates = await proven_rates(client, [status.id for status in devices], at)
    rows = rows_of(devices, await market_reads.services(client, at), rates)
    past = await reliability_of(client, list(dict.fromkeys(row.provider for row in rows)), at)
    return [replace(row, reliability_ppm=past.get(row.provider)) for row in rows]


async def claimed(client: ChainClient, rows: list[OfferRow], at: bytes) -> tuple[list[OfferRow], dict[bytes, str]]:
    """The offers with what their providers claim of their machines now, and why the word of others does not count."""
    owners = list(dict.fromkeys(row.provider for row in rows))
    async with BlobClient(private=market_reads.is_development(client)) as blobs:
        heard = await heard_inventories(client, blobs, owners, at)
    return with_claims(rows, heard, await market_reads.devices(client, at)), heard.left_out


async def settled_of_late(client: ChainClient, at: bytes) -> list[SettledUnit]:
    """The units that the newest final blocks paid, by what kind of device, as far as its owner still has it."""
    height = await client.height(at)
    paid: dict[bytes, tuple[UnitSettled, int]] = {}
    first = max(1, height - BLOCKS_LOOKED_AT + 1)
    blocks = await client.final_ids(first, height) if first <= height else []
    for number, block in reversed(list(enumerate(blocks, first))):
        try:
            records = await client.events(block)
        except (RpcError, OddAnswerError):  # older states are gone: a node keeps the newest only
            break
        for record in records:
            if isinstance(record.event, UnitSettled):
                paid.setdefault(record.event.unit, (record.event, number))
    units = await market_reads.units(client, list(paid), at)
    kinds = {status.id: status.device.kind for status in await market_reads.devices(client, at)}
    found = []
    for (event, number), unit in zip(paid.values(), units, strict=True):
        device = None if unit is None else _device_of(unit, event.winner)
        if unit is not None and device in kinds:
            found.append(SettledUnit(unit.service, kinds[device], event.price, number))
    return found


def _device_of(unit: Unit, winner: bytes) -> bytes | None:
    return next((racer.device for racer in unit.racers if racer.owner == winner), None)
