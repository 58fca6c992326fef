"""Daemons at a roll call: honest, lying and silent ones, and one that is killed before it shows rows."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from chain_computers import BrokenComputer, HereComputer, LyingComputer
from gpu_tasks.data import proven_rates
from gpu_tasks.market.capacity import events as ev
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import ROWS_DRAWN, ROWS_MIN, SIZE_MIN, CapacityProof, WorkShape
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass, device_id_of
from gpu_tasks.provider.chain import roll_calls
from gpu_tasks.provider.daemon import ROLL_CALLS_FOLDER
from gpu_tasks.provider.duties.roll_calls import RollStep, can_wait, next_step
from gpu_tasks.provider.execution.gpu import CPU_NAME, Hardware
from provider_chain import Miner, Village, inspections_of, roll_call_of
from simulation.chains.market_chain import OGPU, Keys, MarketChain, named_keys, signed

SHAPE = WorkShape(SIZE_MIN, ROWS_MIN, 30)
NUMBERS = {"Capacity.roll_calls_enabled": 1, "Capacity.period": 100, "Capacity.cpu_rate_min": 1}
BLOCKS_MAX = 250


def hardware(keys: Keys) -> Hardware:
    return Hardware(CPU_NAME, f"CPU of {keys.name}", DeviceClass.CPU, 0, None)


def device(keys: Keys) -> bytes:
    return device_id_of(keys.stash, hardware(keys).uuid_hash)


async def settled(village: Village, *enrolled: Keys) -> None:
    """Give every validator a machine with one device, and enrol some."""
    chain = village.node.chain
    for keys in chain.validators:
        bring = Devices.register_device(kind=DeviceClass.CPU, uuid_hash=hardware(keys).uuid_hash, bond=OGPU)
        chain.block(signed(keys.stash, bring))
        village.hardware = [hardware(keys)]
        await village.open(keys)
    chain.block(*(signed(one.stash, Capacity.enrol(device=device(one), shape=SHAPE)) for one in enrolled))


def called(village: Village) -> RollCall | None:
    return village.node.chain.now()[Capacity].current.get()


async def until(village: Village, kind: type, *, without: tuple[Keys, ...] = (), blocks: int = BLOCKS_MAX) -> None:
    """Make blocks, with a step of each daemon after each, until a condition holds."""
    before = len(village.happened(kind))
    for _ in range(blocks):
        await one_block(village, without)
        if len(village.happened(kind)) > before:
            return
    raise AssertionError(f"no {kind.__name__} within {blocks} blocks")


async def one_block(village: Village, without: tuple[Keys, ...] = ()) -> None:
    village.node.block()
    for miner in list(village.miners):
        if miner.keys not in without:
            await miner.step()


async def ended(village: Village, without: tuple[Keys, ...] = ()) -> None:
    """Run to the block from which the newest roll call counts."""
    newest = called(village)
    assert newest is not None
    while village.node.chain.height < times.over_at(newest):
        await one_block(village, without)


async def reads_agree(village: Village) -> None:
    """Check that a provider's reads by keys equal the pallet's answers."""
    chain, client = village.node.chain, village.node.kept.client
    devices = [device(keys) for keys in chain.validators]
    assert await roll_calls.roll_call(client, devices) == roll_call_of(chain, devices)
    at = await client.finalized()
    for keys in chain.validators:
        read = await roll_calls.inspections(client, keys.stash, at)
        known = inspections_of(chain, keys.stash)
        assert {shown.device: shown for shown in read} == {shown.device: shown for shown in known}
    capacity = chain.now()[Capacity]
    able = {name for name in devices if capacity.has_proven(name, DeviceClass.CPU)}
    rates = await proven_rates.proven_rates(client, devices, at)
    assert {name for name in devices if rates.has_proven(name, DeviceClass.CPU)} == able
    assert set(await proven_rates.unproven(client, [*devices, bytes(32)], at)) == set(devices) - able


def proven(village: Village, keys: Keys) -> int:
    return village.node.chain.now()[Capacity].proven(device(keys))


async def test_who_answers_has_proven_it_and_who_lies_or_is_silent_has_not(tmp_path: Path) -> None:
    village = Village(tmp_path, 5, running=0, chain=MarketChain(named_keys(5), constants=NUMBERS))
    alice, bob, charlie = village.node.chain.validators[:3]
    village.chains |= {keys.name: HereComputer() for keys in village.node.chain.validators}
    village.chains[bob.name] = LyingComputer()
    async with village:
        await settled(village, alice, bob, charlie)
        await until(village, ev.RollCalled, without=(charlie,))
        await until(village, ev.InspectorsDrawn, without=(charlie,))
        await reads_agree(village)
        await ended(village, without=(charlie,))
        await reads_agree(village)
        assert proven(village, alice) >= 1
        assert (proven(village, bob), proven(village, charlie)) == (0, 0)
        objections = village.happened(ev.RowsObjected)
        assert {one.device for one in objections} == {device(bob)}
        assert len(objections) >= 2
        assert not village.node.failed, "nobody pays for a call that cannot succeed"
        looked = Counter(count for computer in village.chains.values() for count in computer.looked)
        assert set(looked) == {1, ROWS_DRAWN - 1}
        assert looked[1] == looked[ROWS_DRAWN - 1] + len(objections), "who computed nothing costs one row"
        capacity = village.node.chain.now()[Capacity]
        assert capacity.is_enforced.get()
        assert [capacity.has_proven(device(one), DeviceClass.CPU) for one in (alice, bob, charlie)] == [
            True,
            False,
            False,
        ]


@pytest.mark.parametrize("is_lost", [False, True], ids=["kept", "lost"])
async def test_a_daemon_that_is_killed_after_its_commit_shows_its_rows_from_the_disk_or_computes_them_again(
    tmp_path: Path, *, is_lost: bool
) -> None:
    village = Village(tmp_path, 4, running=0, chain=MarketChain(named_keys(4), constants=NUMBERS))
    alice = village.node.chain.validators[0]
    async with village:
        await settled(village, alice)
        await until(village, ev.CapacityCommitted)
        village.chains[alice.name] = HereComputer() if is_lost else BrokenComputer()
        if is_lost:
            shutil.rmtree(tmp_path / alice.name / ROLL_CALLS_FOLDER)
        village.hardware = [hardware(alice)]
        again = await village.restart(village.miner(alice.stash))
        await until(village, ev.RowsOpened, blocks=60)
        await ended(village)
        assert proven(village, alice) >= 1
        assert rolled(again) == is_lost
        assert not village.node.failed


@pytest.mark.nightly
async def test_a_daemon_that_is_killed_after_each_block_answers_once_and_leaves_nothing(tmp_path: Path) -> None:
    """Its calls take a block more, so each restart finds them in flight and unseen."""
    village = Village(tmp_path, 4, running=0, chain=MarketChain(named_keys(4), constants=NUMBERS))
    alice, bob = village.node.chain.validators[:2]
    village.chains[bob.name] = LyingComputer()
    async with village:
        await settled(village, alice, bob)
        await until(village, ev.RollCalled)
        village.node.is_late = True
        newest = called(village)
        assert newest is not None
        while village.node.chain.height < times.over_at(newest) + 2:
            await one_block(village)
            for miner in list(village.miners):
                village.hardware = [hardware(miner.keys)]
                await village.restart(miner)
        assert not village.node.failed, "a second copy costs its fee"
        happened = village.node.chain.happened
        for kind in (ev.CapacityCommitted, ev.RowsOpened):
            assert sorted(one.device for one in happened(kind)) == sorted((device(alice), device(bob)))
        objections = happened(ev.RowsObjected)
        assert len({one.inspector for one in objections}) == len(objections) >= 2
        assert (proven(village, alice) >= 1, proven(village, bob)) == (True, 0)
        await one_block(village)
        for miner in village.miners:
            folder = tmp_path / miner.keys.name / ROLL_CALLS_FOLDER
            assert not folder.exists() or not list(folder.iterdir()), "after the roll call"


def rolled(miner: Miner) -> bool:
    """Return True if a daemon computed its chain."""
    return "roll_call" in miner.heard.names()


ROOT, OTHER = b"r" * 32, b"o" * 32
WAITING = [
    (RollStep.COMMIT, 107, True), (RollStep.COMMIT, 108, True), (RollStep.COMMIT, 109, False),
    (RollStep.SHOW, 130, True), (RollStep.SHOW, 131, False),
    (RollStep.OBJECT, 171, True), (RollStep.OBJECT, 172, False),
]  # fmt: skip
CALLED = RollCall(3, 100, 1, bytes(32))
PROOF = CapacityProof(ROOT, SHAPE, 1, 1)
SHOWN = CapacityProof(ROOT, SHAPE, 1, 1, is_open=True)
ROWS_AT = times.rows_at(CALLED)


@pytest.mark.parametrize(
    ("proof", "kept", "newest", "step"),
    [
        (None, None, 100, RollStep.COMPUTE),
        (None, ROOT, 103, RollStep.NOTHING),
        (None, ROOT, 104, RollStep.COMMIT),
        (None, ROOT, 109, RollStep.COMMIT),
        (None, ROOT, 110, RollStep.NOTHING),
        (None, None, 110, RollStep.NOTHING),
        (PROOF, ROOT, ROWS_AT - 1, RollStep.NOTHING),
        (PROOF, ROOT, ROWS_AT, RollStep.SHOW),
        (PROOF, None, ROWS_AT, RollStep.COMPUTE),
        (PROOF, OTHER, ROWS_AT, RollStep.NOTHING),
        (PROOF, ROOT, ROWS_AT + times.OPEN_BLOCKS, RollStep.NOTHING),
        (SHOWN, ROOT, ROWS_AT, RollStep.NOTHING),
    ],
)
def test_what_a_roll_call_asks_for(
    proof: CapacityProof | None, kept: bytes | None, newest: int, step: RollStep
) -> None:
    assert next_step(CALLED, proof, kept, newest) is step


@pytest.mark.parametrize(("step", "newest", "can"), WAITING)
def test_what_was_sent_before_is_waited_for_while_a_block_later_counts_too(
    step: RollStep, newest: int, *, can: bool
) -> None:
    assert can_wait(CALLED, step, newest) is can
