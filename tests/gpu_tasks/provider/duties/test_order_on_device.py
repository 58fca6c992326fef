"""The order in which a device computes the units that were drawn for it."""

import asyncio
from pathlib import Path

import pytest

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.provider.blobs.kept_inputs import InputUse
from gpu_tasks.provider.duties import race
from provider_chain import Village
from simulation.chains.market_chain import MarketChain, named_keys


async def runs_of_two(folder: Path, delay_seconds: float, error: Exception | None = None) -> tuple[list[bytes], bytes]:
    """Return the requests that a device computed, with the input of its first unit late, and that unit's request."""
    async with Village(folder, 1, chain=MarketChain(named_keys(1), queue=3)) as village:
        (miner,) = village.miners
        requests = {await village.post(request, racers=1): request for request in (b"complete a", b"complete b")}
        for unit in requests:
            village.drawn(unit)
        duties = {duty.before: duty.id for duty in miner.chain.view().duties}
        assert set(duties) == {0, 1}
        open_input = miner.daemon.parts.inputs.open

        async def slow(unit_id: bytes, unit: Unit, use: InputUse) -> UnitInput:
            if unit_id == duties[0]:
                await asyncio.sleep(delay_seconds)
                if error is not None:
                    raise error
            return await open_input(unit_id, unit, use)

        miner.daemon.parts.inputs.open = slow  # type: ignore[method-assign]
        await miner.step()
        return miner.executor.runs, requests[duties[0]]


async def test_a_late_input_does_not_pass_a_units_turn_to_the_next(tmp_path: Path) -> None:
    """The chain counts the first unit's time already. A whole other unit before it could be more than it has."""
    runs, first = await runs_of_two(tmp_path, 0.2)
    assert runs[0] == first
    assert len(runs) == 2


async def test_a_device_does_not_wait_for_an_input_that_does_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, first = await runs_of_two(tmp_path / "failing", 0.1, BlobError("no store has it"))
    assert len(runs) == 1
    assert first not in runs
    monkeypatch.setattr(race, "EARLIER_INPUT_SECONDS", 0.05)
    runs, first = await runs_of_two(tmp_path / "late", 1.0)
    assert runs[1:] == [first]
