"""The tiles of a picture while providers work on them: waited for, fetched, checked, put together.

Always: a tile is taken only if its bytes hash to what the chain paid for, if it is the tile that was asked for, and if
drawn pixels of it, computed here, are right; what was found wrong is written down before anything else is done.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from gpu_tasks.client.picture_record import PictureRecord
from gpu_tasks.client.refunds import why_refunded
from gpu_tasks.client.results import ResultError, cost_of, paid_output, progress, winner_of
from gpu_tasks.client.waiting import look, why_queued
from gpu_tasks.client.watching import moments
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.side_by_side import all_side_by_side
from gpu_tasks.market.inference.units import Unit, UnitState, is_open
from gpu_tasks.workloads.pictures import PictureOrder, SpotCheckedWorkload
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.keypair import Keypair

FETCHES_AT_ONCE = 4
FETCH_TRIES = 5
"""How many final blocks after its settlement a tile is asked for, where no store serves it."""
SEED_BYTES = 32
FORGOTTEN = (
    "the chain has forgotten units of this picture, and whether they were answered: --again posts all of its tiles anew"
)


class PictureSaleError(WalletError):
    """The picture cannot be bought as asked; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class PictureTile:
    """A tile that came, who made it and what it cost, in grains."""

    number: int
    unit: bytes
    provider: bytes
    device: bytes
    cost: int
    block: int
    """Where it was settled."""
    pixels_checked: int
    output: bytes


@dataclass(frozen=True, slots=True)
class PixelCheck:
    """How many drawn pixels of a tile are computed again, and on what; no workload: none are."""

    workload: SpotCheckedWorkload | None
    count: int

    def wrong(self, request: bytes, output: bytes) -> int | None:
        """A pixel of the tile that is wrong, out of some that nobody could foresee; None where all are right."""
        if self.workload is None:
            return None
        found = self.workload.spot_check(request, output, os.urandom(SEED_BYTES), self.count)
        return None if found.valid else found.first_wrong or 0


async def tiles_to_post(client: ChainClient, record: PictureRecord, count: int) -> list[int]:
    """Tiles that no unit stands for: never posted, ended without a result, or found wrong. PictureSaleError."""
    known = record.units
    found = await market_reads.units(client, list(known.values()), await client.finalized())
    if None in found:
        raise PictureSaleError(FORGOTTEN)
    lost = {
        tile
        for (tile, unit_id), unit in zip(known.items(), found, strict=True)
        if unit is not None and (unit.state is UnitState.REFUNDED or unit.is_refuted or unit_id.hex() in record.wrong)
    }
    return [tile for tile in range(count) if tile not in known or tile in lost]


@dataclass
class TileCollector:
    """Waits for the units of a picture; use once."""

    client: ChainClient
    blobs: BlobClient
    key: Keypair
    order: PictureOrder
    record: PictureRecord
    check: PixelCheck
    tell: Callable[[int, str], None]
    """How many tiles have come, and what the others wait for, whenever that changes."""
    came: dict[int, PictureTile] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)
    """By tile, why there is none."""
    _tries: dict[int, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Until each tile has come, or will not."""
        waiting = dict(sorted(self.record.units.items()))
        async for _ in moments(self.client):
            final = await self.client.finalized()
            units = await market_reads.units(self.client, list(waiting.values()), final)
            if None in units:
                raise PictureSaleError(FORGOTTEN)
            known = {tile: unit for tile, unit in zip(waiting, units, strict=True) if unit is not None}
            await self._take(waiting, known, final)
            waiting = {tile: unit for tile, unit in waiting.items() if not self._is_over(tile)}
            self.tell(len(self.came), await self._waits_for([known[tile] for tile in waiting], final))
            if not waiting:
                return

    def _is_over(self, tile: int) -> bool:
        return tile in self.came or tile in self.problems

    async def _take(self, ids: Mapping[int, bytes], units: Mapping[int, Unit], final: bytes) -> None:
        """What has ended by this block."""
        ended = [(tile, unit) for tile, unit in units.items() if not is_open(unit)]
        fetches = [partial(self._fetch, tile, ids[tile], unit, final) for tile, unit in ended]
        await all_side_by_side(fetches, at_once=FETCHES_AT_ONCE)

    async def _fetch(self, tile: int, unit_id: bytes, unit: Unit, final: bytes) -> None:
        if unit.state is UnitState.REFUNDED:
            self.problems[tile] = why_refunded(unit)
            return
        if unit.is_refuted or unit_id.hex() in self.record.wrong:
            self.problems[tile] = self.record.wrong.get(unit_id.hex(), "an audit found it wrong, its price came back")
            return
        try:
            found = await paid_output(self.client, self.blobs, self.key, unit_id, unit, final)
        except ResultError as error:
            self._tries[tile] = self._tries.get(tile, 0) + 1
            if self._tries[tile] >= FETCH_TRIES:
                self.problems[tile] = f"it cannot be had now, and is not posted again: {error}"
            return
        output = found.outputs[0]
        assert output is not None, "a single request is declined where it is none"
        wrong = await self._wrong(tile, found.requests[0], output)
        if wrong is not None:
            self.record.wrong[unit_id.hex()] = self.problems[tile] = wrong
            self.record.save()
            return
        self._came(tile, unit_id, unit, output)

    async def _wrong(self, tile: int, request: bytes, output: bytes) -> str | None:
        """Why it is not taken, as a sentence."""
        problem = self.order.problem(tile, output)
        if problem is not None:
            return f"what was paid for {problem}"
        pixel = await asyncio.to_thread(self.check.wrong, request, output)
        if pixel is None:
            return None
        place = self.order.places[tile]
        row, column = divmod(pixel, place.columns)
        return f"its pixel at column {place.left + column}, row {place.top + row} is not what the scene gives"

    def _came(self, tile: int, unit_id: bytes, unit: Unit, output: bytes) -> None:
        winner, place = winner_of(unit), self.order.places[tile]
        assert winner is not None, "a settled unit has who was paid"
        checked = 0 if self.check.workload is None else min(self.check.count, place.columns * place.rows)
        self.came[tile] = PictureTile(
            tile, unit_id, winner.owner, winner.device, cost_of(unit), unit.ended_at, checked, output
        )

    async def _waits_for(self, units: Sequence[Unit], final: bytes) -> str:
        """What is awaited, in few words: what most units do, and why the first of those that are queued waits."""
        if not units:
            return ""
        queued = [unit for unit in units if unit.state is UnitState.QUEUED]
        said = (
            [progress(next(unit for unit in units if unit.state is not UnitState.QUEUED))]
            if len(queued) < len(units)
            else []
        )
        view = await look(self.client, queued[:1], final)
        if view is not None:
            said.append(f"{len(queued)} queued: {why_queued(queued[0], view)}")
        return "; ".join(said)
