"""Daemons at a roll call: honest, lying and silent ones, checks by others, and one that is killed in between."""

import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from chain_computers import HereComputer, LyingComputer
from gpu_tasks.data import proven_rates
from gpu_tasks.market.capacity import events as ev
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import OpenProof, ProvenRate, WorkShape, claim_of
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.claims.claim_events import ClaimEnded
from gpu_tasks.market.claims.claims import ClaimOutcome, ResultClaim
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass, device_id_of
from gpu_tasks.provider.chain import roll_calls
from gpu_tasks.provider.daemon import ROLL_CALLS_FOLDER
from gpu_tasks.provider.duties import roll_calls as duty
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS
from gpu_tasks.provider.duties.roll_calls import RollCallPolicy, RollStep, next_step, slots_for_work
from gpu_tasks.provider.execution.chain_process import ChainComputer
from gpu_tasks.provider.execution.chain_rates import MeasuredRate
from gpu_tasks.provider.execution.gpu import CPU_NAME, Hardware
from provider_chain import ROLL_CALL_WORK, SLOT_MS, FakeChain, Miner, Village, roll_call_of
from simulation.chains.market_chain import OGPU, Keys, MarketChain, named_keys, signed

NUMBERS = {"Capacity.roll_calls_enabled": 1, "Capacity.period": 100, "Capacity.cpu_rate_min": 1}
BLOCKS_MAX = 250


def hardware(keys: Keys) -> Hardware:
    return Hardware(CPU_NAME, f"CPU of {keys.name}", DeviceClass.CPU, 0, None)


def device(keys: Keys) -> bytes:
    return device_id_of(keys.stash, hardware(keys).uuid_hash)


async def settled(village: Village, *proving: Keys) -> None:
    """Give every validator a machine with one device. Only some answer roll calls."""
    chain = village.node.chain
    for keys in chain.validators:
        bring = Devices.register_device(kind=DeviceClass.CPU, uuid_hash=hardware(keys).uuid_hash, bond=OGPU)
        chain.block(signed(keys.stash, bring))
        await opened(village, keys, *proving)
    # Their stores have ports only now.
    chain.block(*village.registrations())


async def opened(village: Village, keys: Keys, *proving: Keys) -> Miner:
    """Start a validator's daemon."""
    village.hardware = [hardware(keys)]
    village.roll_calls = RollCallPolicy(keys in proving, ROLL_CALL_WORK)
    return await village.open(keys)


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
    capacity = chain.now()[Capacity]
    assert await roll_calls.newest_roll_call(client, at) == capacity.current.get()
    for claim, proof in capacity.open_proofs.items():
        assert await roll_calls.open_proof(client, claim, at) == proof
    able = {name for name in devices if capacity.has_proven(name, DeviceClass.CPU)}
    rates = await proven_rates.proven_rates(client, devices, at)
    assert {name for name in devices if rates.has_proven(name, DeviceClass.CPU)} == able
    assert set(await proven_rates.unproven(client, [*devices, bytes(32)], at)) == set(devices) - able


def proven(village: Village, keys: Keys) -> int:
    return village.node.chain.now()[Capacity].proven(device(keys))


async def test_a_device_that_answers_has_proven_it_and_a_liar_or_a_silent_one_has_not(tmp_path: Path) -> None:
    village = Village(tmp_path, 7, running=0, chain=MarketChain(named_keys(7), constants=NUMBERS))
    alice, bob, charlie = village.node.chain.validators[:3]
    village.chains |= {keys.name: HereComputer() for keys in village.node.chain.validators}
    village.chains[bob.name] = LyingComputer()
    async with village:
        await settled(village, alice, bob)
        await until(village, ev.CapacityStated)
        await reads_agree(village)
        await ended(village)
        await until(village, ev.CapacityRefuted)
        await reads_agree(village)
        assert [each.device for each in village.happened(ev.CapacityRefuted)] == [device(bob)]
        assert proven(village, alice) >= 1
        assert (proven(village, bob), proven(village, charlie)) == (0, 0)
        assert not village.node.failed, "nobody pays for a call that cannot succeed"
        assert {keys.name for keys in (alice, bob)} == {name for name, each in village.chains.items() if each.chains}
        assert village.chains[alice.name].looked, "its samples are computed again"
        outcomes = {each.claim: each.outcome for each in village.happened(ClaimEnded)}
        assert outcomes == {
            claim_of(device(alice), 1): ClaimOutcome.PASSED,
            claim_of(device(bob), 1): ClaimOutcome.REFUTED,
        }
        capacity = village.node.chain.now()[Capacity]
        able = [capacity.has_proven(device(one), DeviceClass.CPU) for one in (alice, bob, charlie)]
        assert able == [True, False, False]


@pytest.mark.parametrize("is_lost", [False, True], ids=["kept", "lost"])
async def test_a_daemon_that_is_killed_after_its_proof_delivers_rows_from_the_disk_or_computes_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool
) -> None:
    village = Village(tmp_path, 4, running=0, chain=MarketChain(named_keys(4), constants=NUMBERS))
    alice = village.node.chain.validators[0]
    async with village:
        await settled(village, alice)
        await until(village, ev.CapacityStated)
        village.chains[alice.name] = HereComputer() if is_lost else LyingComputer()
        folder = tmp_path / alice.name / ROLL_CALLS_FOLDER
        if is_lost:
            shutil.rmtree(folder)
        again = await restarted(village, village.miner(alice.stash), alice)
        await until(village, ClaimEnded)
        assert [each.outcome for each in village.happened(ClaimEnded)] == [ClaimOutcome.PASSED]
        assert again.heard.names().count("roll_call") == is_lost
        assert list(folder.iterdir())
        with monkeypatch.context() as patch:
            patch.setattr(FakeChain, "claim", AsyncMock(return_value="is open"))
            await ended(village)
            for _ in range(ENDINGS_EVERY_BLOCKS):
                await one_block(village)
        assert list(folder.iterdir()), "voters may ask for rows"
        for _ in range(ENDINGS_EVERY_BLOCKS):
            await one_block(village)
        assert proven(village, alice) >= 1
        assert not village.node.failed
        assert not list(folder.iterdir()), "after its claim"


async def not_final(_chain: FakeChain, _claim: bytes, *, final: bool = False) -> ResultClaim | None:
    """The final chain has no claim of a proof yet."""
    assert final
    return None


@pytest.mark.parametrize("is_lost", [False, True], ids=["kept", "lost"])
async def test_rows_of_an_open_claim_outlive_a_roll_call_without_finality(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool
) -> None:
    chain = MarketChain(named_keys(4), constants=NUMBERS, epoch_blocks=2 * BLOCKS_MAX)
    village = Village(tmp_path, 4, running=0, chain=chain)
    alice = village.node.chain.validators[0]
    async with village:
        await settled(village, alice)
        await until(village, ev.CapacityStated)
        village.node.chain.final_lag = BLOCKS_MAX
        with monkeypatch.context() as patch:
            patch.setattr(FakeChain, "claim", not_final)
            await ended(village)
            for _ in range(2 * ENDINGS_EVERY_BLOCKS):
                await one_block(village)
        folder = tmp_path / alice.name / ROLL_CALLS_FOLDER
        assert list(folder.iterdir())
        if is_lost:
            shutil.rmtree(folder)
            await restarted(village, village.miner(alice.stash), alice)
        village.node.chain.final_lag = 1
        await until(village, ClaimEnded)
        assert [each.outcome for each in village.happened(ClaimEnded)] == [ClaimOutcome.PASSED]


@pytest.mark.nightly
async def test_a_daemon_that_is_killed_after_each_block_proves_once_and_leaves_nothing(tmp_path: Path) -> None:
    """Its calls take a block more, so each restart finds them in flight and unseen."""
    village = Village(tmp_path, 7, running=0, chain=MarketChain(named_keys(7), constants=NUMBERS))
    alice, bob = village.node.chain.validators[:2]
    village.chains[bob.name] = LyingComputer()
    async with village:
        await settled(village, alice, bob)
        await until(village, ev.RollCalled)
        village.node.is_late = True
        while len(village.happened(ClaimEnded)) < 2:
            await one_block(village)
            for miner in list(village.miners):
                await restarted(village, miner, alice, bob)
        assert not [each for each in village.node.failed if "prove" in each], "a second copy costs its fee"
        assert sorted(each.device for each in village.happened(ev.CapacityStated)) == sorted(map(device, (alice, bob)))
        await ended(village)
        assert (proven(village, alice) >= 1, proven(village, bob)) == (True, 0)
        for _ in range(ENDINGS_EVERY_BLOCKS):
            await one_block(village)
        for miner in village.miners:
            folder = tmp_path / miner.keys.name / ROLL_CALLS_FOLDER
            assert not folder.exists() or not list(folder.iterdir()), "after the claim"


async def test_a_proof_waits_until_the_final_chain_has_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node could name any seed, and the root of another seed costs the collateral."""
    village = Village(tmp_path, 4, running=0, chain=MarketChain(named_keys(4), constants=NUMBERS))
    alice = village.node.chain.validators[0]
    async with village:
        await settled(village, alice)
        await until(village, ev.RollCalled)
        newest = called(village)
        assert newest is not None
        with monkeypatch.context() as patch:
            patch.setattr(FakeChain, "final_roll_call", AsyncMock(return_value=replace(newest, seed=b"f" * 32)))
            while village.node.chain.height < newest.at + times.PROOFS_FROM + 1:
                await one_block(village)
            assert not village.happened(ev.CapacityStated)
            assert not village.node.calls
        await until(village, ev.CapacityStated, blocks=2)


async def test_a_stash_without_the_collateral_sends_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    village = Village(tmp_path, 4, running=0, chain=MarketChain(named_keys(4), constants=NUMBERS))
    alice = village.node.chain.validators[0]
    async with village:
        await settled(village, alice)
        miner = village.miner(alice.stash)
        await until(village, ev.RollCalled)
        held = await miner.chain.proof_hold()
        monkeypatch.setattr(FakeChain, "spendable", AsyncMock(return_value=held - 1))
        await ended(village)
        assert set(miner.heard.codes("refused")) == {"stash_too_poor"}
        assert not village.happened(ev.CapacityStated)
        assert not village.node.failed


async def test_a_daemon_measures_its_devices_before_a_roll_call_and_computes_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []

    async def measure(computer: ChainComputer, slot_ms: int) -> MeasuredRate:
        measured.append(slot_ms)
        return MeasuredRate(2)

    monkeypatch.setattr(duty, "measured_rate", measure)
    village = Village(tmp_path, 4, running=0, chain=MarketChain(named_keys(4), constants=NUMBERS))
    alice = village.node.chain.validators[0]
    async with village:
        await settled(village)
        village.miners.remove(alices := village.miner(alice.stash))
        await alices.daemon.__aexit__()
        village.hardware, village.roll_calls = [hardware(alice)], RollCallPolicy()
        await village.open(alice)
        await until(village, ev.RollCalled)
        assert measured == [SLOT_MS], "once for each planned roll call"
        await until(village, ev.CapacityStated)
        (proof,) = (proof for _, proof in village.node.chain.now()[Capacity].open_proofs.items())
        assert proof is not None
        assert proof.shape == MeasuredRate(2).work()
        assert proof.held == await village.miner(alice.stash).chain.proof_hold()
        assert measured == [SLOT_MS]


async def restarted(village: Village, miner: Miner, *proving: Keys) -> Miner:
    """Stop a daemon and start it again with its device."""
    village.hardware = [hardware(miner.keys)]
    village.roll_calls = RollCallPolicy(miner.keys in proving, ROLL_CALL_WORK)
    return await village.restart(miner)


CALLED = RollCall(3, 100, 1, bytes(32))
BEFORE, STATED = ProvenRate(2, 5), ProvenRate(3, 5, 5)
OPEN = OpenProof(bytes(32), bytes(32), 3, bytes(32), WorkShape(256, 4_096, 1), 1)


@pytest.mark.parametrize(
    ("proof", "opened", "has_rows", "newest", "step"),
    [
        (None, None, False, 100, RollStep.COMPUTE),
        (BEFORE, None, False, 109, RollStep.COMPUTE),
        (None, None, True, 103, RollStep.NOTHING),
        (None, None, True, 104, RollStep.PROVE),
        (BEFORE, None, True, 104, RollStep.PROVE),
        (None, None, True, 109, RollStep.PROVE),
        (None, None, True, 110, RollStep.NOTHING),
        (None, None, False, 110, RollStep.NOTHING),
        (STATED, OPEN, True, 108, RollStep.NOTHING),
        (STATED, OPEN, False, 108, RollStep.COMPUTE),
        (STATED, OPEN, False, 150, RollStep.COMPUTE),
        (STATED, None, False, 150, RollStep.NOTHING),
    ],
)
def test_the_next_step_of_a_device(
    proof: ProvenRate | None, opened: OpenProof | None, has_rows: bool, newest: int, step: RollStep
) -> None:
    assert next_step(CALLED, proof, opened, has_rows=has_rows, newest_height=newest) is step


def test_work_ends_in_time_for_the_last_block() -> None:
    assert [slots_for_work(CALLED, height) for height in range(100, 111)] == [7, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0]
