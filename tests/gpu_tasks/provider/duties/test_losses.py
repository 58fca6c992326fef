"""Devices' losses: reported with amount, case and deadline, and recorded once, over restarts too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest

from claiming_village import until
from gpu_tasks.market.claims.dispute_events import DisputeDecided
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.chain import task_records
from gpu_tasks.provider.chain.bond_losses import BondLoss, Fault
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.duties.losses import LOOKED_BACK_BLOCKS, LossNotes, newest_losses
from gpu_tasks.provider.earnings import LostPart, losses
from provider_chain import SLOT_MS, Miner, Village, in_village
from simulation.chains.market_chain import OGPU, signed
from wallet.rpc import RpcError


def noted(miner: Miner) -> list[LostPart]:
    return losses(miner.daemon.settings.base_path)


def bond_of(village: Village, miner: Miner) -> int:
    device = village.node.chain.now()[Devices].devices[miner.keys.device]
    assert device is not None
    return device.bond


async def live(village: Village, *miners: Miner, blocks: int = 8) -> None:
    for _ in range(blocks):
        village.node.block()
        for miner in miners:
            await miner.step()


@in_village(13)
async def test_a_slash_is_told_and_noted_with_amount_dispute_and_deadline(village: Village) -> None:
    liar = village.miners[0]
    await live(village, *village.miners)
    before = bond_of(village, liar)
    liar.executor.spoil = True
    while not village.happened(ProviderSlashed):
        if liar in village.drawn(unit := await village.post()):
            await until(village, lambda: village.happened(ProviderSlashed))
        else:
            await village.run(unit)
    await live(village, *village.miners)
    (slash,) = village.happened(ProviderSlashed)
    (part,) = noted(liar)
    assert (part.grains, part.fault, part.device) == (slash.amount, "lied", "0x" + liar.keys.device.hex())
    assert part.grains == before - bond_of(village, liar) > 0
    with patch.object(task_records, "slot_ms", return_value=SLOT_MS):
        newest = await newest_losses(village.node.kept.client, liar.keys.stash, Path("none"))
    (read,) = newest.values()
    assert newest.keys() == {liar.keys.device}
    assert replace(read, at_ms=0, until_ms=0) == replace(part, at_ms=0, until_ms=0), "the chain has it before the file"
    (decided,) = village.happened(DisputeDecided)
    assert (part.case, part.appealable_until) == ("0x" + decided.dispute.hex(), decided.appealable_until)
    (told,) = [fields for name, fields in liar.heard.events if name == "lost"]
    assert (told["grains"], told["case"], told["block"]) == (slash.amount, decided.dispute, part.block)
    (warning,) = [fields for name, fields in liar.heard.events if name == "found_wrong"]
    assert (warning["appealable_until"], warning["grains"]) == (part.appealable_until, slash.amount)
    assert part.until_text
    again = await village.restart(liar)
    again.daemon.parts.pauses.note(again.keys.device, bond=before)  # as after a crash between the two notes
    await live(village, again)
    assert noted(again) == [part]
    assert "lost" not in again.heard.names()


@in_village(2)
async def test_a_miss_while_the_daemon_was_away_is_noted_when_it_is_back(village: Village) -> None:
    await live(village, *village.miners)
    before = [bond_of(village, miner) for miner in village.miners]
    await village.post()
    while not village.happened(RaceMissed):
        village.node.block()
    for miner, bond in zip(list(village.miners), before, strict=True):
        back = await village.restart(miner)
        await live(village, back)
        lost = noted(back)
        assert sum(part.grains for part in lost) == bond - bond_of(village, back) > 0
        assert {(part.fault, part.case) for part in lost} == {("missed", "")}


@in_village(1)
async def test_no_loss_is_looked_for_while_no_bond_falls(village: Village) -> None:
    miner = village.miners[0]
    miner.chain.bond_losses = AsyncMock(side_effect=AssertionError)  # type: ignore[method-assign]
    await live(village, miner)


@pytest.mark.parametrize(("height", "until_ms"), [(100, 10**9 + 60 * SLOT_MS), (10**7, 0)])
@in_village(1)
async def test_the_deadline_of_an_appeal_is_noted_as_a_time(village: Village, height: int, until_ms: int) -> None:
    miner = village.miners[0]
    device, book = miner.keys.device, miner.daemon.parts.pauses
    asked, loss = list[int](), BondLoss(7, b"u" * 32, 5, Fault.LIED, device, b"c" * 32, 160)

    async def found(since: int) -> list[BondLoss]:
        asked.append(since)
        return [loss]

    miner.chain.bond_losses = found  # type: ignore[method-assign]
    own = await miner.chain.own_devices()
    book.note(device, bond=own[0].device.bond + 5)
    notes = LossNotes(miner.daemon.parts, lambda: 10**15)
    for later in (0, 4):
        await notes.step(height + later, own)
    assert asked == [height - LOOKED_BACK_BLOCKS, height]
    (told,) = [fields for name, fields in miner.heard.events if name == "lost"]
    assert [told[name] for name in ("device", "unit", "grains", "block", "case")] == [
        device, loss.unit, 5, 7, loss.case,
    ]  # fmt: skip
    (part,) = noted(miner)
    assert part == LostPart(
        10**9, f"loss 0x{loss.unit.hex()} 7", f"0x{device.hex()}", 5, "lied", 7, f"0x{b'c'.hex() * 32}", 160,
        until_ms,
    )  # fmt: skip


@in_village(2)
async def test_a_miss_is_noted_for_the_device_that_raced(village: Village) -> None:
    """The bonds of two devices fell while the daemon was away, and one of them missed a race."""
    miner = village.miners[0]
    chain, stash = village.node.chain, miner.keys.stash
    chain.block(signed(stash, Devices.register_device(kind=DeviceClass.CONSUMER, uuid_hash=b"u" * 32, bond=100 * OGPU)))
    second = chain.now()[Devices].device_of_uuid[b"u" * 32]
    assert second is not None
    chain.block(signed(stash, InferenceMarket.offer(device=second, service=0, ask=1)))
    await live(village, miner)
    other, racing = (status.id for status in await miner.chain.own_devices())
    chain.block(signed(stash, Devices.pause(device=other)))
    await village.post()
    while not chain.happened(RaceMissed):
        village.node.block()
    (missed,) = [event for event in chain.happened(RaceMissed) if event.provider == stash]
    book = miner.daemon.parts.pauses
    book.note(other, bond=book.read()[other].bond + 5)
    back = await village.restart(miner)
    await live(village, back)
    assert {(part.device, part.fault, part.grains) for part in noted(back)} == {
        ("0x" + racing.hex(), "missed", missed.amount), ("0x" + other.hex(), "unknown", 5),
    }  # fmt: skip


@in_village(2)
async def test_a_loss_whose_block_cannot_be_read_is_noted_all_the_same(village: Village) -> None:
    miner = village.miners[0]
    await live(village, *village.miners)
    before = bond_of(village, miner)
    await village.post()
    while not village.happened(RaceMissed):
        village.node.block()
    miner = await village.restart(miner)
    miner.chain.bond_losses = AsyncMock(side_effect=ChainError("the node has no state any more"))  # type: ignore[method-assign]
    await live(village, miner)
    (part,) = noted(miner)
    assert (part.grains, part.fault) == (before - bond_of(village, miner), "unknown")
    assert miner.heard.names().count("lost") == 1
    book = miner.daemon.parts.pauses
    book.note(miner.keys.device, bond=book.read()[miner.keys.device].bond + 5)
    await live(village, miner)
    assert [each.grains for each in noted(miner)] == [part.grains, 5], "another loss, not the same one again"


@in_village(2)
async def test_a_node_that_keeps_few_states_hides_no_newer_loss(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    await live(village, *village.miners)
    await village.post()
    while not village.happened(RaceMissed):
        village.node.block()
    client, first_kept = village.node.kept.client, village.node.chain.height - 2
    events = client.events

    async def few(at: bytes) -> Any:
        if await client.height(at) < first_kept:
            raise RpcError(4003, "State already discarded")
        return await events(at)

    monkeypatch.setattr(client, "events", few)
    back = await village.restart(village.miners[0])
    await live(village, back)
    assert [part.fault for part in noted(back)] == ["missed"]
