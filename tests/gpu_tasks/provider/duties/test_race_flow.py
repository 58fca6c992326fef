"""Whole races and disputes: real pallets, daemons, journals and blob servers; a fake node and fake work."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from fake_work import FakeExecutor, FakeForm
from gpu_tasks.batches.outcomes import Completed, decode_outcomes
from gpu_tasks.data.sealing import SealError
from gpu_tasks.data.unit_output import ANSWERS_BYTES_MAX, answers_bytes
from gpu_tasks.market.inference.events import RaceMissed, RacePassed, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.race_results import result
from gpu_tasks.market.inference.units import Refund, UnitState
from gpu_tasks.provider.duties.race import RaceDuty
from gpu_tasks.provider.execution.executor import Execution, ExecutionError
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.journal.records import End
from gpu_tasks.workloads.form import WorkloadForm
from provider_chain import CUSTOMER_SEAL, REQUEST, Village, in_village, play
from simulation.chains.market_chain import CUSTOMER, OGPU, WORKLOAD, signed


@in_village(2)
async def test_two_racers_agree_and_are_paid(village: Village) -> None:
    unit = await village.post()
    status = await village.run(unit)
    assert status.unit.state is UnitState.SETTLED
    outcome = result(status.unit.racers, status.unit.output_root or b"")
    assert outcome is not None
    assert outcome.witness is not None
    assert outcome.winner.reveal is not None
    winner = village.miner(outcome.winner.owner)
    blob = winner.daemon.parts.store.get(outcome.winner.reveal.output_blob)
    assert blob is not None
    assert decode_outcomes(CUSTOMER_SEAL.open(blob)) == (Completed(REQUEST[::-1], 0, len(REQUEST)),)
    with pytest.raises(SealError):
        winner.daemon.parts.identity.seal_key.open(blob)
    assert [len(miner.executor.runs) for miner in village.miners] == [1, 1]
    await village.blocks(4)  # until the endings are noted
    ends = {miner.keys.stash: miner.daemon.parts.journal.races[unit, 1] for miner in village.miners}
    assert ends[outcome.winner.owner].end is End.WON
    price = status.unit.price * len(REQUEST) // 64  # of the tokens that were asked for, those that it took
    assert ends[outcome.winner.owner].paid == price - price * 2 // 100
    assert ends[outcome.witness.owner].end is End.WITNESSED
    gross = price * 30 // 100
    assert ends[outcome.witness.owner].paid == gross - gross * 2 // 100


@pytest.mark.parametrize("stop_after", range(1, 9))
@in_village(2)
async def test_a_provider_that_restarts_at_any_block_executes_once_and_is_paid(
    village: Village, stop_after: int
) -> None:
    unit = await village.post()
    miner = village.miners[0]
    before = 0
    for block in range(40):
        await village.block()
        if block == stop_after:
            before = len(miner.executor.runs)
            miner = await village.restart(miner)
        if village.unit(unit).unit.ended_at:
            break
    assert village.happened(UnitSettled)
    assert not village.happened(RaceMissed)
    assert before + len(miner.executor.runs) == 1


@in_village(2)
async def test_a_machine_that_fails_costs_its_owner_and_not_the_customer(village: Village) -> None:
    broken = village.miners[0]
    broken.executor.trouble = ExecutionError("out of memory")
    while not village.happened(RacePassed):
        status = await village.run(await village.post(racers=1), blocks=120)
        assert status.unit.state is UnitState.SETTLED  # the other one did it, in the end
    assert [passed.provider for passed in village.happened(RacePassed)] == [broken.keys.stash]
    assert not village.happened(RaceMissed)
    assert "declined" not in broken.heard.names()
    assert broken.heard.names().count("hindered") > 5
    assert not (await broken.chain.own_devices())[0].device.is_paused
    assert not village.node.failed


@in_village(2)
async def test_a_node_that_is_away_for_a_while_costs_nothing(village: Village) -> None:
    unit = await village.post()
    village.node.block()
    views = []
    while not village.racers(unit):
        village.node.block()
    views = [miner.chain.view() for miner in village.miners]
    for miner in village.miners:
        miner.chain.is_away = True
    for _ in range(5):
        for miner, view in zip(village.miners, views, strict=True):
            await miner.daemon.step(view)
            while miner.daemon.duty(RaceDuty).book.tasks._tasks:
                await asyncio.sleep(0.001)
        village.node.block()
    for miner in village.miners:
        miner.chain.is_away = False
    assert (await village.run(unit)).unit.state is UnitState.SETTLED
    assert not village.happened(RaceMissed)


@in_village(2)
async def test_attestations_that_authors_leave_out_go_as_transactions(village: Village) -> None:
    village.node.is_omitting = True
    status = await village.run(await village.post())
    assert status.unit.state is UnitState.SETTLED
    assert not village.node.failed
    ways = [fields["way"] for miner in village.miners for name, fields in miner.heard.events if name == "attested"]
    assert "reveal" in ways
    assert not village.happened(RaceMissed)


async def test_an_attestation_states_what_the_workload_counts_and_not_bytes(tmp_path: Path) -> None:
    village = Village(tmp_path, 2)
    village.forms = [FakeForm(bytes_a_token=4)]
    async with village:
        status = await village.run(await village.post(tokens_max=len(REQUEST) // 4, price_max=OGPU // 10))
        assert status.unit.state is UnitState.SETTLED
        counts = [racer.reveal.output_tokens for racer in status.unit.racers if racer.reveal is not None]
        assert counts == [len(REQUEST) // 4] * 2


async def test_a_device_serves_two_services_of_different_workloads(tmp_path: Path) -> None:
    """Each has its own worker, whose outputs count in that workload's unit."""
    other = FakeForm(bytes_a_token=2)
    other.workload_id = b"2" * 32
    workers: list[FakeExecutor] = []

    def make(hardware: Hardware, form: WorkloadForm) -> FakeExecutor:
        workers.append(FakeExecutor(form))
        return workers[-1]

    village = Village(tmp_path, 1)
    village.forms, village.make = [FakeForm(), other], make
    async with village:
        chain, keys = village.node.chain, village.miners[0].keys
        terms = replace((await village.miners[0].chain.service(0)).terms, workload=other.workload_id)
        chain.block(
            signed(CUSTOMER.stash, InferenceMarket.create_service(terms=terms)),
            signed(keys.stash, InferenceMarket.offer(device=keys.device, service=1, ask=1)),
        )
        chain.blocks(3)
        counts = []
        for service in (0, 1, 0):
            status = await village.run(await village.post(racers=1, service=service))
            counts += [racer.reveal.output_tokens for racer in status.unit.racers if racer.reveal is not None]
        assert counts == [len(REQUEST), len(REQUEST) // 2, len(REQUEST)]
        assert [(worker.workload_id, len(worker.runs)) for worker in workers] == [
            (WORKLOAD, 2),
            (other.workload_id, 1),
        ]


def test_answers_that_may_not_fit_a_blob_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any computation, because the racer could not store the answers, and would be late."""
    least = ANSWERS_BYTES_MAX - answers_bytes([0])
    monkeypatch.setattr(FakeForm, "output_bytes", lambda _form, request: least + (request == REQUEST))

    async def scene(village: Village) -> None:
        await village.run(await village.post())
        assert [refunded.refund for refunded in village.happened(UnitRefunded)] == [Refund.INPUT_BAD]
        told = [fields for miner in village.miners for name, fields in miner.heard.events if name == "bad_input"]
        assert {fields["problem"] for fields in told} == {"its answers may exceed the 1,048,576 bytes of a blob"}
        assert not any(miner.executor.runs for miner in village.miners)
        await village.run(await village.post(request=b"complete: less"))
        assert village.happened(UnitSettled)

    play(tmp_path, 5, scene)


@in_village(2)
async def test_a_race_that_has_ended_is_worked_on_no_more(village: Village) -> None:
    """The race was passed during the computation: the device is free again, and nothing is committed."""
    slow, started = village.miners[0], asyncio.Event()

    async def never(request: bytes) -> Execution:
        started.set()
        return await asyncio.Future()

    slow.executor.run = never  # type: ignore[method-assign]  # a fake that hangs
    unit = await village.post(racers=1)
    while not started.is_set():
        village.node.block()
        await slow.daemon.step(slow.chain.view())
        await asyncio.sleep(0.001)
        status = village.unit(unit)
        if slow.keys.stash not in [racer.owner for racer in status.unit.racers]:
            await village.miners[1].step()
        if status.unit.ended_at:  # it was the other's: another unit
            unit = await village.post(racers=1)
    while slow.daemon.duty(RaceDuty).book.tasks._tasks:
        village.node.block()
        await slow.daemon.step(slow.chain.view())
        await asyncio.sleep(0.001)
    await village.run(unit)
    await village.blocks(4)
    assert slow.daemon.parts.journal.races[unit, 1].end is End.UNPAID
    assert slow.daemon.duty(RaceDuty).book._sent_at == {}
    assert slow.daemon.parts.workers._line.is_free(slow.keys.device)
