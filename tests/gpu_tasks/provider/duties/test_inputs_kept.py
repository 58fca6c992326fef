"""Copies of inputs on providers' disks: present while the chain may need them, within the limit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from claiming_village import ALWAYS, check_ends
from gpu_tasks.data.pieces import PIECE_BYTES
from gpu_tasks.market.claims.claim_events import ClaimEnded
from gpu_tasks.market.claims.claims import CheckEnd
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.provider.blobs.store import Quota
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS
from provider_chain import Miner, Village
from simulation.chains.market_chain import MarketChain, named_keys
from staged import Scene, staged

BIG = b"no request".ljust(60_000)
ASKED = [b"complete this", *[BIG] * 40, b"complete it"]
"""2.4 MB in three pieces, most of which needs no computation."""
SIZE = 8
LIMIT = 4 * PIECE_BYTES


def in_village(**quota: int) -> Callable[[Scene], Callable[..., None]]:
    """Stage a test in a village whose chain checks every batch. `quota` limits each store."""

    def village(folder: Path) -> Village:
        made = Village(folder, SIZE, chain=MarketChain(named_keys(SIZE), [], ALWAYS))
        made.quota = Quota(**quota)
        return made

    return staged(village)


async def steps(village: Village, is_enough: Callable[[], bool], each: Callable[[], None] = lambda: None) -> None:
    """Make blocks, with a step of every provider after each, until a condition holds."""
    for _ in range(200):
        if is_enough():
            return
        await village.block()
        each()
    raise AssertionError("never enough")


def is_checked(village: Village, *units: bytes) -> bool:
    return {event.claim for event in village.happened(ClaimEnded)} >= set(units)


def inputs_of(miner: Miner) -> int:
    """Return the bytes of inputs that no client stored, checked against the files."""
    folder = miner.daemon.settings.base_path / "blobs"
    found = sum(path.stat().st_size for path in folder.iterdir() if path.suffix == ".input")
    assert found == miner.daemon.parts.store.input_bytes
    return found


@pytest.mark.parametrize("is_restarted", [False, True])
@in_village()
async def test_a_copy_is_there_until_its_claim_is_over_and_goes_then(village: Village, *, is_restarted: bool) -> None:
    unit = await village.post(ASKED, tokens_max=128)
    await steps(village, lambda: village.unit(unit).unit.state is UnitState.CLAIMED)
    kept = [miner for miner in village.racers(unit) if miner is not village.miners[0]]  # the customer chose it
    assert all(inputs_of(miner) > 2 * PIECE_BYTES for miner in kept)
    for miner in list(village.miners) if is_restarted else []:
        await village.restart(miner)

    def look() -> None:
        for miner in kept if not is_checked(village, unit) else []:
            assert inputs_of(miner) > 2 * PIECE_BYTES, "others may yet look at the batch"

    await steps(village, lambda: is_checked(village, unit), look)
    assert set(check_ends(village)) == {CheckEnd.PASSED}
    rounds = iter(range(2 * ENDINGS_EVERY_BLOCKS))
    await steps(village, lambda: next(rounds, None) is None)
    assert [inputs_of(miner) for miner in village.miners] == [0] * SIZE


@in_village(input_bytes_max=0)
async def test_a_provider_without_room_for_a_copy_answers_delivers_and_is_paid(village: Village) -> None:
    unit = await village.post(ASKED, tokens_max=128)
    await steps(village, lambda: is_checked(village, unit))
    assert set(check_ends(village)) == {CheckEnd.PASSED}
    assert not village.happened(ProviderSlashed)
    assert not village.happened(RaceMissed)
    assert not village.unit(unit).unit.declined_by
    told = [fields for miner in village.miners for name, fields in miner.heard.events if name == "input_not_kept"]
    assert {fields["unit"] for fields in told} == {unit}
    assert all("of 0 bytes" in str(fields["problem"]) for fields in told)
    assert [inputs_of(miner) for miner in village.miners] == [0] * SIZE


@in_village(input_bytes_max=LIMIT)
async def test_a_strangers_inputs_never_take_more_than_the_limit(village: Village) -> None:
    """Three at once, each above half of the limit: all are answered, and no disk exceeds it."""
    units = [await village.post([*ASKED, b"complete %d" % number], tokens_max=192) for number in range(3)]
    most: list[int] = []
    await steps(village, lambda: is_checked(village, *units), lambda: most.extend(map(inputs_of, village.miners)))
    assert 2 * PIECE_BYTES < max(most) <= LIMIT
    assert {village.unit(unit).unit.state for unit in units} == {UnitState.SETTLED}
    assert not village.happened(ProviderSlashed)
    assert not village.happened(RaceMissed)
