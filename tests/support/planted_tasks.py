"""Tasks of Bob's in the first state of a development chain, made by the pallet's own calls.

The chain's only provider is Alice, who wins. Invariant: the pallet makes every hold, device and agenda item. Only
beacon values, which the played chain lacks, are planted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from genesis import dev_accounts
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.run_states import encode_run_state, root_of, state_index
from gpu_tasks.data.sealing import SealKey, address_of, seal
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.training.bids import BidOffer, auction_id, bid_commitment
from gpu_tasks.market.training.life import awarding, slot_claims
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.tasks import Milestone, Task, TaskResult, TaskState, task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import state_hash
from gpu_tasks.workloads import model_forms
from runtime.encoding.types import GRAINS_PER_OGPU, Signed
from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from runtime.pallets.system import System
from task_chain import an_order
from wallet.suri import keypair_from_suri

ALICE, BOB = dev_accounts.stash("Alice"), dev_accounts.stash("Bob")
ALICE_KEY = dev_accounts.key("Alice", dev_accounts.PROVIDER)
BOB_KEY = keypair_from_suri("//Bob")
SALT = b"s" * 32
SEGMENTS, MILESTONES = 10, 4
STATES = [f"state {number}".encode() for number in range(SEGMENTS + 1)]
DIGESTS = tuple(state_hash(state) for state in STATES)
PRICE = GRAINS_PER_OGPU
OFFER = BidOffer(PRICE // 2, 40, 100 * GRAINS_PER_OGPU)


def order() -> TaskOrder:
    """A task of four milestones over ten segments."""
    workload = model_forms.form_named("train-int8").workload_id
    return an_order(workload=workload, segments=SEGMENTS, milestones=MILESTONES, price_max=PRICE)


def run_blob(milestone: int, *readers: bytes) -> bytes:
    """Return Alice's stored blob of her run at a milestone, sealed to Bob unless other readers are named."""
    index = state_index(order(), milestone)
    content = encode_run_state(DIGESTS[: index + 1], STATES[index])
    return seal(content, readers or [SealKey.of(BOB_KEY).public])


def run_root(milestone: int) -> bytes:
    """Return the root that she states for it."""
    return root_of(DIGESTS[: state_index(order(), milestone) + 1])


@dataclass
class PlantedTask:
    """Brings one task to a stage. `id` is known once it is planted. Use as `plant` of `chain_with`."""

    state: TaskState = TaskState.RUNNING
    milestone: int = 0
    """The newest stated milestone of Alice, with `checkpoint` as its blob."""
    checkpoint: bytes = b""
    result: bytes = b""
    change: Callable[[Task], Task] | None = None
    """A change of the final record."""
    id: bytes = b""

    @property
    def name(self) -> str:
        """The task's name as a user types it."""
        return "0x" + self.id.hex()

    def __call__(self, bound: Bound) -> None:
        """Put it there."""
        market, number = bound[TrainingMarket], bound[System].number
        number.set(1)  # events of block 0 look as if they never happened to a search by height
        self.id = task_id_of(bound[System].block_hash[0], BOB, market.submission_counts[BOB])
        bound.dispatch(TrainingMarket.submit(order=order()), Signed(BOB))
        for step in (self._bid, self._open, self._award, self._start, self._finish):
            if self._now(market).state is self.state:
                break
            step(bound)
        if self._now(market).state is TaskState.CLAIMED:
            slot_claims.step(market, self.id, self._now(market))
        if self.change is not None:
            market.put(self.id, self.change(self._now(market)))
        number.set(0)

    def _now(self, market: TrainingMarket) -> Task:
        found = market.tasks[self.id]
        assert found is not None
        return found

    def _bid(self, bound: Bound) -> None:
        market, device = bound[TrainingMarket], self._device(bound)
        genesis = bound[System].block_hash[0]
        sealed = bid_commitment(genesis, auction_id(self.id, 1), ALICE, device, OFFER, SALT)
        bound.dispatch(TrainingMarket.commit_bid(task=self.id, device=device, commitment=sealed), Signed(ALICE_KEY))
        awarding.close_commits(market, self.id, self._now(market))

    def _open(self, bound: Bound) -> None:
        market, device = bound[TrainingMarket], self._device(bound)
        reveal = TrainingMarket.reveal_bid(task=self.id, device=device, offer=OFFER, salt=SALT)
        bound.dispatch(reveal, Signed(ALICE_KEY))
        awarding.close_reveals(market, self.id, self._now(market))

    def _award(self, bound: Bound) -> None:
        market = bound[TrainingMarket]
        task = self._now(market)
        bound[Beacon].values[task.beacon_at] = b"z" * 32
        awarding.award(market, self.id, task)
        del bound[Beacon].values[task.beacon_at]
        market.final_agenda.drop(self.id)

    def _start(self, bound: Bound) -> None:
        bound.dispatch(TrainingMarket.start(task=self.id, place=0), Signed(ALICE_KEY))
        for number in range(1, self.milestone + 1):
            stated = Milestone(number, run_root(number), 1_000 - number, address_of(self.checkpoint))
            bound.dispatch(TrainingMarket.report_milestone(task=self.id, place=0, milestone=stated), Signed(ALICE_KEY))

    def _finish(self, bound: Bound) -> None:
        result = TaskResult(run_root(MILESTONES), address_of(self.result), 7)
        bound.dispatch(TrainingMarket.finish(task=self.id, place=0, result=result), Signed(ALICE_KEY))

    def _device(self, bound: Bound) -> bytes:
        return next(name for name, device in bound[Devices].devices.items() if device and device.owner == ALICE)


def stored_in(blobs: dict[bytes, bytes], patch: pytest.MonkeyPatch) -> None:
    """Make this the store of every client."""

    async def put(self: BlobClient, blob: bytes, endpoints: list[str], copies: int = 1) -> list[str]:
        if not endpoints:
            raise BlobError("no store took the blob (no store to ask)")
        blobs[address_of(blob)] = blob
        return endpoints[:copies]

    async def get(self: BlobClient, address: bytes, endpoints: list[str], **_: Any) -> bytes:
        if not endpoints or address not in blobs:
            raise BlobError(f"blob 0x{address.hex()} was not found (no store has it)")
        return blobs[address]

    patch.setattr(BlobClient, "put", put)
    patch.setattr(BlobClient, "get", get)
