"""Results and checkpoints: which one is asked for, of whom, and what another one is worth."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.client.tasks.results import FetchedRun, RunBlobError, fetch_result, last_stated
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.sealing import address_of
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.tasks import HeldCheckpoint, Milestone, Slot, Task, TaskResult, TaskState
from planted_tasks import BOB, BOB_KEY, MILESTONES, STATES, order, run_blob, run_root
from priced_tasks import a_task

MAKER, OTHER = b"1" * 32, b"2" * 32
PROVIDERS = {stash: Provider(bytes(32), f"http://127.0.0.1:{stash[0]}".encode(), 0) for stash in (MAKER, OTHER)}
WHOLE = run_blob(MILESTONES)
COUNTED = HeldCheckpoint(Milestone(1, run_root(1), 7, address_of(run_blob(1))), BOB)


def with_results(*blobs: bytes) -> Task:
    """A task whose slots have stated the one root, in blobs of their own."""
    stated = (TaskResult(run_root(MILESTONES), address_of(blob), 7) for blob in blobs)
    slots = tuple(Slot(MAKER, bytes((place,)) * 32, 5, 50, 100, result=each) for place, each in enumerate(stated))
    return replace(a_task(state=TaskState.SUBMITTED, slots=slots), order=order())


def fetched(task: Task) -> FetchedRun:
    async def main() -> FetchedRun:
        async with BlobClient(private=True) as pool:
            return await fetch_result(pool, BOB_KEY, task, PROVIDERS)

    return asyncio.run(main())


def test_while_a_task_runs_its_checkpoint_is_no_result() -> None:
    task = replace(a_task(state=TaskState.RUNNING, checkpoint=COUNTED), order=order())
    assert last_stated(task) is None
    with pytest.raises(RunBlobError, match="there is no result yet"):
        fetched(task)
    assert last_stated(replace(task, state=TaskState.ENDED)) == COUNTED.milestone


def test_of_a_gang_any_blob_that_is_what_was_stated_will_do(blobs: dict[bytes, bytes]) -> None:
    wrong = run_blob(1)
    blobs[address_of(wrong)] = wrong
    task = with_results(b"nobody has it", wrong, WHOLE)
    with pytest.raises(RunBlobError, match=r"cannot be had now: .*; the result is not what was stated.*; the result"):
        fetched(task)
    blobs[address_of(WHOLE)] = WHOLE
    assert fetched(task).run.state == STATES[-1]


def test_who_made_it_is_asked_first_and_then_who_keeps_such_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[list[str]]()

    async def get(self: BlobClient, address: bytes, endpoints: list[str], **_: Any) -> bytes:
        asked.append(endpoints)
        raise BlobError("no store has it")

    monkeypatch.setattr(BlobClient, "get", get)
    with pytest.raises(RunBlobError):
        fetched(with_results(WHOLE))
    assert asked == [["http://127.0.0.1:49", "http://127.0.0.1:50"]]
