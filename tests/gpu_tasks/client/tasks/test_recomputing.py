"""A customer computes a run again: which segment of what is stated is wrong."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from gpu_tasks.client.commands import dispute
from gpu_tasks.client.tasks.results import RunBlobError, stated_digests
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.run_states import encode_run_state
from gpu_tasks.data.sealing import SealKey, address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.training.tasks import Slot, Task, TaskResult, TaskState
from gpu_tasks.traces.trace import state_hash, trace_root
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.stepwise import states, stepwise
from gpu_tasks.workloads.train_int8.form import TrainingForm
from priced_tasks import a_task
from provider_chain import keypair
from runtime.cryptography.hashing import blake2_256
from simulation.chains.market_chain import Keys
from training_requests import text_of

KEY = keypair(Keys("customer"))
FORM = TrainingForm()
REQUEST = FORM.encode(
    text_of(1, 1_500).decode("latin-1").encode("ascii", "ignore").decode(),
    8,
    {"context": "3", "width": "4", "hidden": "6", "batch": "8", "segment": "1"},
    bytes(32),
)
RUN = tuple(states(stepwise(FORM.open("numpy")).begin(REQUEST)))
RIGHT = tuple(state_hash(state) for state in RUN)


def lying_from(index: int) -> tuple[bytes, ...]:
    """Hashes that are wrong from s(index) on."""
    return (*RIGHT[:index], *(blake2_256(digest) for digest in RIGHT[index:]))


class Blobs:
    """Has what is stored."""

    def __init__(self, *blobs: bytes) -> None:
        self.stored = {address_of(blob): blob for blob in blobs}

    async def get(self, address: bytes, _stores: Sequence[str]) -> bytes:
        if address not in self.stored:
            raise BlobError("nobody has it")
        return self.stored[address]


def stated(digests: Sequence[bytes], **changed: Any) -> tuple[Task, Blobs]:
    """A task whose provider states this trace; its last state is whatever hashes to the last of them."""
    own = SealKey.of(KEY).public
    content = encode_input(b"s" * 32, own, REQUEST)
    asked, last = seal(content, [own]), b"another" if tuple(digests) != RIGHT else RUN[-1]
    digests = (*digests[:-1], state_hash(last))
    result = seal(encode_run_state(tuple(digests), last), [own])
    slot = replace(
        Slot(b"p" * 32, b"d" * 32, 5, 50, 100), result=TaskResult(trace_root(digests), address_of(result), 1)
    )
    task = a_task(state=TaskState.SUBMITTED, slots=(slot,))
    order: Any = {
        "workload": FORM.workload_id, "input_root": commitment_of(content), "input_blob": address_of(asked),
        "segments": len(RIGHT) - 1, "milestones": 4,
    }  # fmt: skip
    return replace(task, order=replace(task.order, **order), **changed), Blobs(asked, result)


def first_wrong(task: Task, blobs: Blobs, backend: str = "numpy", told: list[int] | None = None) -> Any:
    seen: list[int] = [] if told is None else told

    async def look() -> int | None:
        right = await dispute.right_digests(cast(BlobClient, blobs), KEY, task, {}, backend, seen.append)
        return dispute.first_wrong_segment(task, right, await stated_digests(cast(BlobClient, blobs), KEY, task, {}))

    return asyncio.run(look())


def test_of_a_right_trace_nothing_is_wrong_and_how_far_it_is_is_told() -> None:
    told: list[int] = []
    assert first_wrong(*stated(RIGHT), told=told) is None
    assert told == list(range(9))


@pytest.mark.parametrize(("index", "segment"), [(0, 0), (1, 0), (2, 1), (5, 4), (8, 7)])
def test_the_segment_before_the_first_wrong_state_is_named(index: int, segment: int) -> None:
    assert first_wrong(*stated(lying_from(index))) == segment


def test_what_goes_wrong_before_the_last_leg_is_nobodys_segment_there() -> None:
    assert first_wrong(*stated(lying_from(5), behind=2)) == 4
    with pytest.raises(RunBlobError, match="answers for segments from 4 on: dispute it without a segment"):
        first_wrong(*stated(lying_from(3), behind=2))


def test_what_is_not_to_be_had_or_computed_is_said() -> None:
    task, blobs = stated(RIGHT)
    with pytest.raises(RunBlobError, match="it cannot be computed here: no backend 'abacus'"):
        first_wrong(task, blobs, "abacus")
    with pytest.raises(RunBlobError, match="does not know what the task computes"):
        first_wrong(replace(task, order=replace(task.order, workload=b"x" * 32)), blobs)
    at_once = registry.form_named("textgen-int8").workload_id
    with pytest.raises(RunBlobError, match="does not know what the task computes"):
        first_wrong(replace(task, order=replace(task.order, workload=at_once)), blobs)
    with pytest.raises(RunBlobError, match="the input asks for 8 segments, and the task for 9"):
        first_wrong(replace(task, order=replace(task.order, segments=9)), blobs)
    with pytest.raises(RunBlobError, match="the input is another than was submitted"):
        first_wrong(replace(task, order=replace(task.order, input_root=b"x" * 32)), blobs)
    with pytest.raises(RunBlobError, match="the input cannot be had now"):
        first_wrong(replace(task, order=replace(task.order, input_blob=b"x" * 32)), blobs)
    with pytest.raises(RunBlobError, match="the result cannot be had now"):
        first_wrong(task, Blobs(blobs.stored[task.order.input_blob]))
    with pytest.raises(RunBlobError, match="there is no result yet"):
        first_wrong(replace(task, slots=(replace(task.slots[0], result=None),)), blobs)
