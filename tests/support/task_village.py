"""Providers on a chain that sells tasks, in the test's process: real pallets, daemons, stores and small trainings.

Training runs in this process, in NumPy, because a worker process would only take longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fake_work import FakeExecutor, FakeForm
from gpu_tasks.data.run_states import read_run_state
from gpu_tasks.data.sealing import address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.tasks import Milestone, Task, TaskState, task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.execution.executor import (
    BadStateError,
    BegunRun,
    Execution,
    ExecutionError,
    Executor,
    LaterState,
)
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.tasks.policy import BidPolicy, price_of
from gpu_tasks.provider.tasks.policy_file import HostMachine, write_policy
from gpu_tasks.tasks.canonical import CanonicalTask, task_hash_of
from gpu_tasks.traces.trace import state_hash, trace_root
from gpu_tasks.workloads.fingerprints import TRAIL_BYTES
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.stepwise import states
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.form import TrainingForm
from gpu_tasks.workloads.train_int8.request import REQUEST
from gpu_tasks.workloads.train_int8.service import IntegerTraining
from provider_chain import CUSTOMER_SEAL, INPUT_SALT, Miner, Village, seal_key
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, PALLETS, MarketChain, named_keys, signed
from staged import Scene, staged
from task_chain import SMALL as WINDOWS
from training_requests import SMALL

ASKED = replace(SMALL, steps=12, segment=2)
"""Six segments of two steps: two segments for each of three milestones."""
MILESTONES = 3
CPU_MS = 7
"""The claimed duration of each step."""
PRICE = 2 * OGPU
NUMBERS = {
    **WINDOWS,
    "TrainingMarket.commit_blocks": 6,
    "TrainingMarket.reveal_blocks": 6,
    "TrainingMarket.start_blocks": 6,
}


class TrainingExecutor(FakeExecutor):
    """Trains in this process. A lying executor is wrong by a bit each time, a broken one makes invalid states.

    One that is wrong at a step is wrong by a bit there alone, and goes on from it.
    """

    def __init__(self) -> None:
        super().__init__(TrainingForm())
        self.training = IntegerTraining(arithmetic("numpy"))
        self.steps = 0
        self.is_lying = False
        self.wrong_at: int | None = None
        self.is_breaking = False

    async def run(self, request: bytes) -> Execution:
        raise ExecutionError("nobody here buys trainings as units")

    async def begin(self, request: bytes) -> BegunRun:
        run = self.training.begin(request)
        return BegunRun(run.initial_state(), tuple(run.boundary(index) for index in range(run.segments + 1)))

    async def advance(self, request: bytes, state: bytes, steps: int, trail: bytes | None = None) -> LaterState:
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble
        if self.is_breaking:
            done = int.from_bytes(state[32:36], "little") + steps
            broken = b"\xff\xff\xff\x7f" * ((len(state) - 36) // 4)  # no weight is so large
            return LaterState(state[:32] + done.to_bytes(4, "little") + broken if steps else state, done, trail)
        run = self.training.begin(request)
        try:
            later, found = run.trailed(state, steps, trail or bytes(TRAIL_BYTES))
        except (DecodeError, ValueError) as error:
            raise BadStateError(str(error)) from None
        self.steps += steps
        if steps and (self.is_lying or self.wrong_at == run.steps_done(later)):
            later = later[:40] + bytes((later[40] ^ 1,)) + later[41:]
        return LaterState(later, run.steps_done(later), None if trail is None else found, cpu_ms=CPU_MS * steps)

    async def metric(self, request: bytes, state: bytes) -> int:
        return 0 if self.is_breaking else self.training.begin(request).metric(state)


class Hand:
    """The workers of one provider: fakes for units, and one that trains."""

    def __init__(self) -> None:
        self.training = TrainingExecutor()
        self.units = FakeExecutor()

    def make(self, hardware: Hardware, form: WorkloadForm) -> Executor:
        return self.training if form.is_stepwise else self.units


class StillMachine(HostMachine):
    """A machine that is idle, on a Monday at noon."""

    def time_of_week(self) -> tuple[int, int]:
        return 0, 12 * 60

    def is_idle(self) -> bool:
        return True


class TaskVillage(Village):
    """Several providers with policies. The first is the cheapest."""

    def __init__(
        self, base: Path, count: int, *, running: int | None = None, numbers: dict[str, Any] | None = None
    ) -> None:
        chain = MarketChain(
            named_keys(count), constants=NUMBERS | (numbers or {}), pallets=PALLETS, check=lambda *_: None
        )
        super().__init__(base, count, running=running, chain=chain)
        self.forms = [FakeForm(), TrainingForm()]
        self.machine = StillMachine()
        self.hands: dict[bytes, Hand] = {}

    async def open(self, keys: Any, port: int = 0) -> Miner:
        hand = self.hands[keys.stash] = Hand()
        self.make = hand.make
        return await super().open(keys, port)

    def bid_for(self, *prices: str) -> None:
        """Give the first providers policies with these prices."""
        for miner, price in zip(self.miners, prices, strict=False):
            policy = BidPolicy(kinds=("train-int8",), least_price=price_of(price))
            write_policy(miner.daemon.settings.base_path, policy)

    async def submit(self, *, is_stored: bool = True, **changed: Any) -> bytes:
        """Submit a task of the customer's and return its id."""
        request = REQUEST.encode(changed.pop("asked", ASKED))
        content = encode_input(INPUT_SALT, CUSTOMER_SEAL.public, request)
        blob = seal(content, [CUSTOMER_SEAL.public, *(seal_key(each).public for each in self.node.chain.validators)])
        if is_stored:
            await self.blobs.put(blob, [self._endpoint(self.miners[-1].keys).decode()])
        named = {"input_blob": address_of(blob), "input_root": commitment_of(content)}
        slots, milestones = changed.get("slots", 1), changed.get("milestones", MILESTONES)
        order = replace(an_order(request, self.node.chain.height - 1, slots, milestones), **named | changed)
        number = self.market.submission_counts[CUSTOMER.stash]
        self.node.chain.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=order)))
        return task_id_of(GENESIS_HASH, CUSTOMER.stash, number)

    @property
    def market(self) -> TrainingMarket:
        return self.node.chain.now()[TrainingMarket]

    def task(self, task_id: bytes) -> Task:
        found = self.market.tasks[task_id]
        assert found is not None
        return found

    async def pause(self) -> None:
        """Let other tasks run."""
        await asyncio.sleep(0.001)

    async def bought(self, *prices: str, until: TaskState | None = None, **order: Any) -> bytes:
        """Submit a task to providers that bid at these prices, and follow it to a state. Return its id."""
        self.bid_for(*prices)
        task = await self.submit(**order)
        if until is not None:
            await self.until(task, until)
        return task

    async def until(self, task_id: bytes, *wanted: TaskState, blocks: int = 120) -> Task:
        """Make blocks until the task is in one of these states."""
        for _ in range(blocks):
            if self.task(task_id).state in wanted:
                return self.task(task_id)
            await self.block()
        raise AssertionError(f"still {self.task(task_id).state!r} after {blocks} blocks: {self.node.failed[-3:]}")

    def slot_miner(self, task_id: bytes) -> Miner:
        """Return the provider of the first slot."""
        return self.miner(self.task(task_id).slots[0].provider)

    def ask(self, call: Any) -> None:
        """Make a block with a call of the customer's."""
        self.node.chain.block(signed(CUSTOMER.stash, call))

    def checkpoint_root(self, task: Task, milestone: Milestone, blob: bytes) -> bytes:
        """Return the root of a blob's content, as the customer reads it."""
        found = read_run_state(CUSTOMER_SEAL.open(blob), task.order, milestone.number, milestone.root)
        return trace_root(found.digests)


def an_order(request: bytes, sealed_at: int, slots: int = 1, milestones: int = MILESTONES) -> TaskOrder:
    """Return the customer's order of one training."""
    form = TrainingForm()
    classes = tuple(DeviceClass)
    canonical = CanonicalTask(
        workload=form.workload_id,
        model=form.model_id,
        request=blake2_256(request),
        request_bytes=len(request),
        cost=form.cost_asked(request),
        milestones=milestones,
        slots=slots,
        classes=classes,
    )
    return TaskOrder(
        task_hash=task_hash_of(canonical),
        workload=form.workload_id,
        input_root=bytes(32),
        input_blob=bytes(32),
        sealed_at=sealed_at,
        classes=sum(1 << kind for kind in classes),
        milestones=milestones,
        segments=form.segments(request),
        run_blocks=10,
        price_max=PRICE,
        time_value=None,
        loss=None,
        blocks_max=200,
        collateral_min=0,
        slots=slots,
        auctions=2,
    )


def undisturbed_root(asked: Any = ASKED) -> bytes:
    """Return the root of the whole trace."""
    run = IntegerTraining(arithmetic("numpy")).begin(REQUEST.encode(asked))
    return trace_root([state_hash(state) for state in states(run)])


def in_task_village(
    count: int, *, kind: type[TaskVillage] = TaskVillage, **more: Any
) -> Callable[[Scene], Callable[..., None]]:
    """Stage a test in a village of `count` providers that bid for tasks."""
    return staged(lambda folder: kind(folder, count, **more))


def play_tasks(tmp_path: Path, count: int, scene: Scene, **more: Any) -> None:
    """Play a scene in a village of `count` providers that bid for tasks."""
    in_task_village(count, **more)(scene)(tmp_path)


async def stop(village: TaskVillage, miner: Miner) -> None:
    """Remove its machine, with all unsent messages."""
    await miner.daemon.__aexit__()
    village.miners.remove(miner)
    village.node.calls = [(account, call) for account, call in village.node.calls if account != miner.keys.provider]
    waiting = village.node.attestations
    gone = [place for place, signed in waiting.items() if signed.statement.provider_key == miner.keys.provider]
    for place in gone:
        del waiting[place]
