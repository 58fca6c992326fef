"""Two devices of one provider at work at the same time, with real worker processes. Chain and workload are fakes.

Each request ends only while another worker works too. If they ran in turn, the first would time out.
"""

import asyncio
from pathlib import Path

from fake_work import FakeForm
from gpu_tasks.batches.outcomes import Completed, decode_outcomes
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass, device_id_of
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.execution.executor import WorkerExecutor
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.limits import Limits
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.workloads import Workloads
from gpu_tasks.workloads.form import WorkloadForm
from provider_chain import Village
from simulation.chains.market_chain import OGPU, signed
from started_workers import hostile

DRAWN_WITHIN_BLOCKS = 30
GPUS = [Hardware(f"FAKE GPU {number}", f"GPU-{number}", DeviceClass.CONSUMER, 1, None) for number in range(2)]


def worker(hardware: Hardware, form: WorkloadForm) -> WorkerExecutor:
    return hostile(Limits(wall_seconds=60))


def meeting(folder: Path, name: str) -> bytes:
    folder.mkdir(exist_ok=True)
    return f"meet {folder} {name}".encode()


async def test_a_device_races_while_another_checks(tmp_path: Path) -> None:
    form = FakeForm()
    workers = WorkerPool(GPUS, Workloads([form]), worker)
    workers.serve({b"first": GPUS[0], b"second": GPUS[1]})
    (execution, _), checked = await asyncio.gather(
        workers.race(b"first", form, meeting(tmp_path / "m", "race")),
        workers.recompute_many(form, [meeting(tmp_path / "m", "check")]),
    )
    assert (execution.output, checked) == (b"race", [b"check"])
    await workers.close()


async def test_two_units_are_executed_at_the_same_time_by_the_two_devices_that_were_drawn(tmp_path: Path) -> None:
    village = Village(tmp_path, 1)
    village.hardware, village.make = GPUS, worker
    async with village:
        miner, chain = village.miners[0], village.node.chain
        devices = [device_id_of(miner.keys.stash, gpu.uuid_hash) for gpu in GPUS]
        for device, gpu in zip(devices, GPUS, strict=True):
            register = Devices.register_device(kind=gpu.kind, uuid_hash=gpu.uuid_hash, bond=10 * OGPU)
            offer = InferenceMarket.offer(device=device, service=0, ask=1)
            chain.block(signed(miner.keys.stash, register), signed(miner.keys.stash, offer))
        await miner.daemon.run()  # the processor of the genesis is not on this machine, and is paused
        village.node.block()
        chain.blocks(3)
        folder = tmp_path / "meeting"
        units = [await village.post(meeting(folder, name), racers=1) for name in ("a", "b")]
        for _ in range(DRAWN_WITHIN_BLOCKS):
            if miner.heard.names().count("assigned") == len(units):
                break
            village.node.block()
            await miner.daemon.step(miner.chain.view())
            await asyncio.sleep(0.01)
        await miner.step()
        journal = miner.daemon.parts.journal
        results = [journal.races[unit, 1].result for unit in units]
        assert [decode_outcomes(result.outcomes) for result in results if result] == [
            (Completed(text, 0, 1),) for text in (b"a", b"b")
        ]
        assert {journal.races[unit, 1].device for unit in units} == set(devices)
        told = [name for name in miner.heard.names() if name in ("assigned", "executed")]
        assert told == ["assigned", "assigned", "executed", "executed"]
