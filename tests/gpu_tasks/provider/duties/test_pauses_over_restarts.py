"""A restart never undoes a pause by the operator or for a refuted result: real daemons, and their notes on disk."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed
from gpu_tasks.provider.device_watch import DeviceReview
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS
from gpu_tasks.provider.duties.resumer import KEPT, RESUME_AFTER_BLOCKS, STAYING
from gpu_tasks.provider.earnings import losses
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.journal.journal import RaceKey
from gpu_tasks.provider.journal.pause_book import NotedDevice, PauseBook, PauseCause, pause_notes
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, open_journal
from gpu_tasks.provider.tasks.policy_file import set_draining
from gpu_tasks.workloads.form import WorkloadForm
from provider_chain import Miner, Village, in_village
from runtime.frame.call import Call
from simulation.chains.market_chain import signed

CARD = Hardware("FAKE GPU", "GPU-FAKE-7", DeviceClass.CONSUMER, 24_576, 0)
LONG_ENOUGH = RESUME_AFTER_BLOCKS[0] + 10


async def is_paused(miner: Miner) -> bool:
    return (await miner.chain.own_devices())[0].device.is_paused


async def live(village: Village, miner: Miner, blocks: int = LONG_ENOUGH) -> None:
    """Start as `run` does, and follow some blocks."""
    await miner.daemon.run()
    await follow(village, miner, blocks)


async def follow(village: Village, miner: Miner, blocks: int = LONG_ENOUGH) -> None:
    for _ in range(blocks):
        village.node.block()
        await miner.step()


def pause_on_chain(village: Village, miner: Miner) -> None:
    village.node.chain.block(signed(miner.keys.provider, Devices.pause(device=miner.keys.device)))


def noted(miner: Miner) -> NotedDevice:
    return miner.daemon.parts.pauses.read()[miner.keys.device]


@pytest.mark.parametrize("is_running", [True, False])
@in_village(2)
async def test_what_the_operator_paused_stays_paused_over_restarts(village: Village, *, is_running: bool) -> None:
    miner = village.miners[0]
    await live(village, miner, 4)
    pause_on_chain(village, miner)
    if is_running:
        await live(village, miner, 8)
    for _ in range(2):
        miner = await village.restart(miner)
        await live(village, miner)
        assert await is_paused(miner)
        assert noted(miner).cause is PauseCause.OPERATOR
        assert miner.heard.reasons("not_resumed") == [STAYING[PauseCause.OPERATOR]]
        assert not miner.heard.problems("missed")


@in_village(5)
async def test_a_refuted_device_stays_paused_over_restarts(village: Village) -> None:
    liar = village.miners[0]
    liar.executor.spoil = True
    races = liar.daemon.parts.journal.races
    causes, change = list[PauseCause | None](), races.change

    def changed(key: RaceKey, **changes: Any) -> None:
        if "end" in changes:
            causes.append(noted(liar).cause)
        change(key, **changes)

    races.change = changed  # type: ignore[method-assign]
    while not village.happened(ProviderSlashed):
        await village.run(await village.post())
    await live(village, liar, 8)
    assert causes[-1:] == [PauseCause.REFUTED], "noted before the journal forgets the race"
    assert liar.heard.problems("not_resumed") == [STAYING[PauseCause.REFUTED]]
    assert not liar.heard.problems("missed"), "it answered, and wrongly"
    for _ in range(2):
        liar = await village.restart(liar)
        await live(village, liar)
        assert await is_paused(liar)
        assert noted(liar).cause is PauseCause.REFUTED
        assert liar.heard.problems("not_resumed") == [STAYING[PauseCause.REFUTED]]
    village.node.chain.block(signed(liar.keys.provider, Devices.resume(device=liar.keys.device)))
    await live(village, liar, 8)
    assert noted(liar).cause is None, "the operator resumed it"


@in_village(5)
async def test_a_refutation_that_came_while_the_daemon_was_away_is_no_miss(village: Village) -> None:
    liar = village.miners[0]
    liar.executor.spoil = True
    while not village.happened(ProviderSlashed):
        await village.post()
        for _ in range(40):
            village.node.block()
            if village.happened(ProviderSlashed):
                break
            for miner in village.miners:
                await miner.step()
    liar = await village.restart(liar)
    await live(village, liar)
    assert await is_paused(liar)
    assert noted(liar).cause is PauseCause.REFUTED


@in_village(2)
async def test_after_a_miss_the_wait_goes_on_over_a_restart_and_the_operator_may_end_it(village: Village) -> None:
    for miner in village.miners:
        await live(village, miner, 1)
    await village.post()
    while not village.happened(RaceMissed):
        village.node.block()  # both are away for the whole lease
    first, second = [await village.restart(miner) for miner in list(village.miners)]
    for miner in (first, second):
        await live(village, miner, 4)
        assert noted(miner).cause is PauseCause.MISSED
    resumes_at = noted(first).resumes_at
    first = await village.restart(first)
    await first.daemon.run()
    assert noted(first).resumes_at == resumes_at
    second.daemon.parts.pauses.note(second.keys.device, cause=PauseCause.OPERATOR, resumes_at=None)
    for _ in range(LONG_ENOUGH):
        village.node.block()
        await first.step()
        await second.step()
    assert (await is_paused(first), await is_paused(second)) == (False, True)


@pytest.mark.parametrize("drained_before", [True, False])
@in_village(1)
async def test_a_daemon_that_keeps_paused_devices_resumes_not_even_its_own(
    village: Village, *, drained_before: bool
) -> None:
    village.keep_paused = drained_before
    miner = await village.restart(village.miners[0])
    await live(village, miner, 4)
    set_draining(miner.daemon.settings.base_path, drains=True)
    await live(village, miner, 4)
    assert noted(miner).cause is PauseCause.DRAINED
    village.keep_paused = True
    if not drained_before:
        miner = await village.restart(miner)
    set_draining(miner.daemon.settings.base_path, drains=False)
    await (follow(village, miner) if drained_before else live(village, miner))
    assert await is_paused(miner)
    village.keep_paused = False
    miner = await village.restart(miner)
    await live(village, miner, 4)
    assert not await is_paused(miner)


@in_village(1)
async def test_a_pause_of_the_daemons_is_over_once_the_chain_shows_the_device_at_work(village: Village) -> None:
    miner = village.miners[0]
    miner.daemon.parts.pauses.note(miner.keys.device, is_paused=True, cause=PauseCause.DRAINED, why="it drains")
    await follow(village, miner, 8)
    assert noted(miner).cause is None
    pause_on_chain(village, miner)
    await live(village, miner, 8)
    assert (await is_paused(miner), noted(miner).cause) == (True, PauseCause.OPERATOR)


@pytest.mark.parametrize("cause", [PauseCause.OPERATOR, PauseCause.REFUTED])
@in_village(1)
async def test_a_device_that_is_paused_for_another_cause_meanwhile_is_not_resumed(
    village: Village, cause: PauseCause
) -> None:
    miner = village.miners[0]
    book, start = miner.daemon.parts.pauses, miner.daemon.parts.workers.start

    async def noting(device: bytes, form: WorkloadForm) -> None:
        await start(device, form)
        book.note(device, cause=cause)

    pause_on_chain(village, miner)
    book.note(miner.keys.device, is_paused=True, cause=PauseCause.MISSED, resumes_at=0)
    miner.daemon.parts.workers.start = noting  # type: ignore[method-assign]
    await follow(village, miner, 8)
    assert (await is_paused(miner), noted(miner).cause) == (True, cause)


@in_village(1)
async def test_each_pause_is_reported_once(village: Village) -> None:
    miner = village.miners[0]
    await live(village, miner, 4)
    for _ in range(2):
        pause_on_chain(village, miner)
        await follow(village, miner, 8)
        village.node.chain.block(signed(miner.keys.provider, Devices.resume(device=miner.keys.device)))
        await follow(village, miner, 8)
    assert miner.heard.reasons("not_resumed") == [STAYING[PauseCause.OPERATOR]] * 2
    (working,) = await miner.chain.own_devices()
    paused = replace(working, id=b"p" * 32, device=replace(working.device, is_paused=True))
    for _ in range(2):
        await miner.daemon.duty(DeviceReview).resumer.step(village.node.chain.height, [paused, working], {})
    assert len(miner.heard.problems("not_resumed")) == 1, "the other device works"


@in_village(1)
async def test_a_resume_that_is_lost_is_sent_again_after_a_while(village: Village) -> None:
    miner, sent, due = village.miners[0], list[int](), 3 * ENDINGS_EVERY_BLOCKS
    assert village.node.chain.height < due

    async def lost(call: Call) -> None:
        assert call.name == "Devices.resume"
        sent.append(village.node.chain.height)

    miner.chain.submit = lost  # type: ignore[method-assign]
    pause_on_chain(village, miner)
    miner.daemon.parts.pauses.note(miner.keys.device, is_paused=True, cause=PauseCause.MISSED, resumes_at=due)
    await follow(village, miner)
    assert sent == [due, due + RESUME_AFTER_BLOCKS[0]]


@in_village(2)
async def test_with_keep_paused_a_device_that_missed_a_race_waits_for_the_operator(village: Village) -> None:
    for miner in village.miners:
        await live(village, miner, 1)
    await village.post()
    while not village.happened(RaceMissed):
        village.node.block()
    village.keep_paused = True
    miner = await village.restart(village.miners[0])
    await live(village, miner)
    assert await is_paused(miner)
    assert (noted(miner).cause, noted(miner).resumes_at) == (PauseCause.MISSED, None)
    assert miner.heard.problems("missed") == [KEPT]


@in_village(2)
async def test_a_daemon_notes_its_devices_as_it_starts_and_forgets_misses_once_one_is_paid(village: Village) -> None:
    for miner in village.miners:
        device = (await miner.chain.own_devices())[0].device
        assert (noted(miner).bond, noted(miner).cause) == (device.bond, None)
        miner.daemon.parts.pauses.note(miner.keys.device, misses=3)
        miner.daemon.parts.pauses.note(b"x" * 32, misses=1)
    await village.run(await village.post())
    await village.blocks(LONG_ENOUGH)
    for miner in village.miners:
        assert list(miner.daemon.parts.pauses.read()) == [miner.keys.device], "another is registered no more"
    assert [noted(miner).misses for miner in village.miners] == [0, 0]


@in_village(2)
async def test_a_daemon_that_drains_resumes_no_device_that_missed_a_race(village: Village) -> None:
    for miner in village.miners:
        await live(village, miner, 1)
    await village.post()
    while not village.happened(RaceMissed):
        village.node.block()
    (miner, _) = [await village.restart(miner) for miner in list(village.miners)]
    set_draining(miner.daemon.settings.base_path, drains=True)
    await live(village, miner)
    assert (await is_paused(miner), noted(miner).cause) == (True, PauseCause.MISSED)
    set_draining(miner.daemon.settings.base_path, drains=False)
    await live(village, miner, 8)
    assert not await is_paused(miner)


@in_village(2)
async def test_a_daemon_resumes_after_a_drain_what_it_paused_for_it_and_nothing_else(village: Village) -> None:
    drained, paused = village.miners
    pause_on_chain(village, paused)
    restarted = []
    for miner in (drained, paused):
        set_draining(miner.daemon.settings.base_path, drains=True)
        await live(village, miner, 4)
        assert await is_paused(miner)
        restarted.append(await village.restart(miner))
    for miner in restarted:
        await live(village, miner, 4)
        assert await is_paused(miner)
        set_draining(miner.daemon.settings.base_path, drains=False)
        await live(village, miner)
    assert [await is_paused(miner) for miner in restarted] == [False, True]


@pytest.mark.parametrize("cause", [PauseCause.DRAINED, PauseCause.UNSERVED])
@in_village(1)
async def test_a_pause_that_was_noted_and_never_came_is_forgotten(village: Village, cause: PauseCause) -> None:
    miner = village.miners[0]
    await live(village, miner, 4)
    miner.daemon.parts.pauses.note(miner.keys.device, cause=cause, why="it drains")
    await miner.daemon.run()
    assert (noted(miner).cause, noted(miner).why) == (None, "")
    pause_on_chain(village, miner)
    await live(village, miner, 8)
    assert (await is_paused(miner), noted(miner).cause) == (True, PauseCause.OPERATOR)


@pytest.mark.parametrize("cause", [PauseCause.DRAINED, PauseCause.UNSERVED])
@in_village(1)
async def test_the_daemon_notes_its_own_pause_before_it_sends_the_call(village: Village, cause: PauseCause) -> None:
    miner = village.miners[0]
    found: list[PauseCause | None] = []

    async def noting(call: Call) -> None:
        assert call.name == "Devices.pause"
        found.append(pause_notes(miner.daemon.settings.base_path)[call.named_arguments["device"]].cause)

    miner.chain.submit = noting  # type: ignore[method-assign]
    if cause is PauseCause.DRAINED:
        set_draining(miner.daemon.settings.base_path, drains=True)
    else:
        miner.daemon.parts.workers.hardware = (CARD,)
    await miner.daemon.run()
    assert found == [cause]


@in_village(2)
async def test_a_pause_whose_reason_is_not_known_here_stays_and_is_said(village: Village, tmp_path: Path) -> None:
    miner = village.miners[0]
    await live(village, miner, 4)
    pause_on_chain(village, miner)
    village.miners.remove(miner)
    await miner.daemon.__aexit__()
    village.base = tmp_path / "new base path"
    miner = await village.open(miner.keys)
    await live(village, miner)
    assert await is_paused(miner)
    assert miner.heard.problems("not_resumed") == [STAYING[PauseCause.UNKNOWN]]


def test_notes_of_devices_that_are_registered_no_more_go(tmp_path: Path) -> None:
    database = open_journal(tmp_path / "base" / JOURNAL_FILE)
    book = PauseBook(database)
    book.note(b"a" * 32, misses=1)
    book.note(b"b" * 32, misses=2)
    assert [note.misses for note in book.read().values()] == [1, 2]
    book.forget_others([b"b" * 32])
    database.close()
    assert list(pause_notes(tmp_path / "base")) == [b"b" * 32]


def test_a_daemon_and_a_command_lose_none_of_each_others_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemons, commands = (PauseBook(open_journal(tmp_path / JOURNAL_FILE)) for _ in range(2))
    noting = threading.Thread(target=partial(commands.note, b"a" * 32, misses=1))
    read = daemons.read

    def read_slowly() -> dict[bytes, NotedDevice]:
        found = read()
        noting.start()
        noting.join(0.3)  # it waits for the daemon's note
        return found

    monkeypatch.setattr(daemons, "read", read_slowly)
    daemons.note(b"b" * 32, misses=2)
    noting.join()
    assert {device: note.misses for device, note in commands.read().items()} == {b"a" * 32: 1, b"b" * 32: 2}


@pytest.mark.parametrize("is_noted", [True, False])
@in_village(2)
async def test_a_race_missed_between_register_and_the_first_run_is_a_miss_and_a_loss(
    village: Village, *, is_noted: bool
) -> None:
    bonds = {}
    for miner in village.miners:
        (status,) = await miner.chain.own_devices()
        bonds[status.id] = status.device.bond
    await village.post()
    while not village.happened(RaceMissed):
        village.node.block()  # registered, and no daemon runs
    for registered in list(village.miners):
        base, device = registered.daemon.settings.base_path, registered.keys.device
        registered.daemon.parts.pauses.forget_others([])
        if is_noted:
            registered.daemon.parts.pauses.note_registered(device, bonds[device])
        miner = await village.restart(registered)
        lost = list[int]()
        for _ in range(2):
            await live(village, miner, 4)
            lost = [part.grains for part in losses(base)]
        (status,) = await miner.chain.own_devices()
        assert noted(miner).cause is (PauseCause.MISSED if is_noted else PauseCause.UNKNOWN)
        assert sum(lost) == (bonds[device] - status.device.bond if is_noted else 0)
        await follow(village, miner)
        assert await is_paused(miner) is not is_noted
