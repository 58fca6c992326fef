"""Units of `render-tile` with made-up answers: settled records, with their outputs in the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from genesis import dev_accounts
from gpu_tasks.batches.outcomes import Completed, encode_outcomes
from gpu_tasks.data import market_reads
from gpu_tasks.data.sealing import SealKey, address_of, seal
from gpu_tasks.data.unit_input import decode_input
from gpu_tasks.data.unit_output import output_of
from gpu_tasks.market.inference.gpu_tasks_api import UnitStatus
from gpu_tasks.market.inference.units import Racer, Reveal, Unit, UnitState
from gpu_tasks.workloads.model_forms import open_workload
from wallet.client import ChainClient
from wallet.keypair import Keypair

ALICE = dev_accounts.stash("Alice")
COST = 12_000_000
COST_OF_TILE = 1

Painter = Callable[[bytes, bytes], bytes]
"""A provider's answer to a request, made from the honest answer."""


def honestly(_: bytes, output: bytes) -> bytes:
    """Nothing is changed."""
    return output


def painted(
    unit_id: bytes, unit: Unit, genesis: bytes, key: Keypair, blobs: dict[bytes, bytes], paint: Painter = honestly
) -> Unit:
    """Return the unit with Alice's paid answer. Its output is in `blobs`, as the input was."""
    content = decode_input(SealKey.of(key).open(blobs[unit.terms.input_root]))
    output = paint(content.request, open_workload("render-tile", "numpy").run(content.request))
    outcomes = [Completed(output, 0, COST_OF_TILE)]
    blob = seal(encode_outcomes(outcomes), [SealKey.of(key).public])
    blobs[address_of(blob)] = blob
    root = output_of(genesis, unit_id, content.salt, outcomes).root
    racer = Racer(ALICE, b"d" * 32, 1, b"h" * 32, 9, Reveal(root, address_of(blob), COST_OF_TILE, 10))
    return replace(unit, state=UnitState.SETTLED, racers=(racer,), output_root=root, price=COST, paid=COST, ended_at=12)


class PaintedReads:
    """Clients' reads of units, with painted answers in place of real ones. Other reads stay those of the chain."""

    def __init__(self, key: Keypair, blobs: dict[bytes, bytes]) -> None:
        """`key` opens the inputs."""
        self._key, self._blobs = key, blobs
        self._units, self._unit = market_reads.units, market_reads.unit
        self._found: dict[bytes, Unit] = {}
        self.paint: Callable[[bytes], Painter | None] = lambda _: honestly
        """The painter of each request's answer, or None for a waiting unit."""

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the reads from here on."""
        monkeypatch.setattr(market_reads, "units", self.units)
        monkeypatch.setattr(market_reads, "unit", self.unit)

    async def units(self, client: ChainClient, ids: Sequence[bytes], at: bytes | None = None) -> list[Unit | None]:
        """Read units as `market_reads.units`, painted."""
        found = await self._units(client, ids, at)
        return [None if unit is None else self._seen(client, name, unit) for name, unit in zip(ids, found, strict=True)]

    async def unit(self, client: ChainClient, unit_id: bytes, at: bytes | None = None) -> UnitStatus | None:
        """Read a unit as `market_reads.unit`, painted."""
        found = await self._unit(client, unit_id, at)
        return None if found is None else replace(found, unit=self._seen(client, unit_id, found.unit))

    def _seen(self, client: ChainClient, unit_id: bytes, unit: Unit) -> Unit:
        if unit.ended_at or unit.terms.input_root not in self._blobs:
            return self._found.get(unit_id, unit)
        if unit_id not in self._found:
            request = decode_input(SealKey.of(self._key).open(self._blobs[unit.terms.input_root])).request
            paint = self.paint(request)
            if paint is None:
                return unit
            self._found[unit_id] = painted(unit_id, unit, client.genesis_hash, self._key, self._blobs, paint)
        return self._found[unit_id]
