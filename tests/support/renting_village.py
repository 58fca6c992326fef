"""Providers with fake container engines, on a chain that sells their time."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fake_engine import FakeEngine
from gpu_tasks.data.sealing import address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.events import SlotSettled
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy, TaskOrder
from gpu_tasks.market.training.tasks import TaskState, task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.programs.means import CONTAINER_KIND, ProgramMeans
from gpu_tasks.provider.tasks.policy import BidPolicy, price_of
from gpu_tasks.provider.tasks.policy_file import write_policy
from gpu_tasks.tasks.container_order import container_hash
from gpu_tasks.tasks.container_request import (
    CONTAINER_VERSION,
    CONTAINER_WORKLOAD,
    REQUEST,
    AskedLimits,
    ContainerNetwork,
    ContainerRequest,
    ImagePart,
    RegistryImage,
)
from provider_chain import CUSTOMER_SEAL, INPUT_SALT, seal_key
from runtime.cryptography.hashing import blake2_256
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, signed
from staged import Scene
from task_village import TaskVillage, in_task_village

REPOSITORY = "registry.test/tool"
PRICES = ("0.001 oGPU/block", "0.002 oGPU/block", "0.003 oGPU/block")
INTERVAL, INTERVALS = 5, 3
PROGRAM = ContainerRequest(
    version=CONTAINER_VERSION, image=RegistryImage(REPOSITORY, b"i" * 32), command=("run",), environment=(),
    secrets=(), inputs=(), ports=(), network=ContainerNetwork.NONE, limits=AskedLimits(memory_bytes=64 << 20), gpus=0,
    is_lease=False, keep_blocks=0,
)  # fmt: skip


class Renting(TaskVillage):
    """A village whose first providers run containers in fake engines."""

    def __init__(
        self, base: Path, count: int, *, is_of_one_price: bool = False, takes_archives: bool = False, **more: Any
    ) -> None:
        """With one price, all run containers. Otherwise only those with a price in `PRICES` do."""
        super().__init__(base, count, numbers={"TrainingMarket.grace_blocks": 6}, **more)
        self.fakes = {keys.name: FakeEngine() for keys in self.node.chain.validators}
        self.engines = dict(self.fakes)
        prices = PRICES[:1] * count if is_of_one_price else PRICES
        for keys, price in zip(self.node.chain.validators, prices, strict=False):
            means = ProgramMeans(images=(REPOSITORY,), any_archive=takes_archives)
            policy = BidPolicy(kinds=(CONTAINER_KIND,), least_price=price_of(price), containers=means)
            (base / keys.name).mkdir()
            write_policy(base / keys.name, policy)

    async def rent(self, program: ContainerRequest = PROGRAM, **changed: Any) -> bytes:
        """Submit a task of the customer's that pays for time. Return its id."""
        request = REQUEST.encode(program)
        content = encode_input(INPUT_SALT, CUSTOMER_SEAL.public, request)
        blob = seal(content, [CUSTOMER_SEAL.public, *(seal_key(each).public for each in self.node.chain.validators)])
        await self.blobs.put(blob, [self._endpoint(self.miners[-1].keys).decode()])
        classes = tuple(DeviceClass)
        order = TaskOrder(
            task_hash=container_hash(request, INTERVALS, classes), workload=CONTAINER_WORKLOAD,
            input_root=commitment_of(content), input_blob=address_of(blob), sealed_at=self.node.chain.height - 1,
            classes=0b111, milestones=INTERVALS, segments=0, run_blocks=0, price_max=OGPU, time_value=0, loss=None,
            blocks_max=INTERVAL * INTERVALS, collateral_min=0, slots=1, auctions=2,
            checked_by=CheckedBy.LEASED if program.is_lease else CheckedBy.METERED,
        )  # fmt: skip
        number = self.market.submission_counts[CUSTOMER.stash]
        call = TrainingMarket.submit(order=replace(order, **changed))
        self.node.chain.block(signed(CUSTOMER.stash, call))
        return task_id_of(GENESIS_HASH, CUSTOMER.stash, number)

    async def stored_parts(self, packed: bytes, part_bytes: int = 5_000) -> tuple[ImagePart, ...]:
        """Return the parts of an image's archive, stored by its customer for all possible bidders."""
        parts = []
        readers = [CUSTOMER_SEAL.public, *(seal_key(each).public for each in self.node.chain.validators)]
        for begin in range(0, len(packed), part_bytes):
            part = packed[begin : begin + part_bytes]
            blob = seal(part, readers)
            await self.blobs.put(blob, [self._endpoint(self.miners[-1].keys).decode()])
            parts.append(ImagePart(address_of(blob), blake2_256(part)))
        return tuple(parts)

    def engine_of(self, stash: bytes) -> FakeEngine:
        return self.fakes[self.miner(stash).keys.name]

    def settled(self) -> list[tuple[TaskOutcome, int]]:
        return [(each.outcome, each.earned) for each in self.happened(SlotSettled)]


def in_renting_village(count: int = 4, **more: Any) -> Callable[[Scene], Callable[..., None]]:
    """Stage a test among `count` providers that run containers."""
    return in_task_village(count, kind=Renting, **more)


def play(tmp_path: Path, scene: Scene, count: int = 4, **more: Any) -> None:
    """Play a scene among `count` providers that run containers."""
    in_renting_village(count, **more)(scene)(tmp_path)


async def begun(village: Renting, program: ContainerRequest = PROGRAM) -> tuple[bytes, Any, FakeEngine]:
    """Return a running program: its task, its provider, and its container."""
    task = await village.rent(program)
    running = await village.until(task, TaskState.RUNNING)
    await village.block()
    miner = village.miner(running.slots[0].provider)
    engine = village.engine_of(miner.keys.stash)
    assert len(engine.running) == 1
    return task, miner, engine
