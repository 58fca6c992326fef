"""Following a task: each change once, with why it waits; checkpoints are held meanwhile, and handed on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from cli.chain_time import ChainTime
from cli.output import Output
from gpu_tasks.client.tasks import progress
from gpu_tasks.client.tasks.progress import Hand, TaskFollower, show_changes
from gpu_tasks.client.tasks.results import CheckpointKeeper
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.sealing import address_of
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.tasks import HeldCheckpoint, Milestone, Task, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from planted_tasks import BOB, BOB_KEY, run_blob, run_root
from runtime.frame.call import Call
from simulation.chains.market_chain import OGPU
from task_chain import awarded
from wallet.client import ChainClient, Outcome
from wallet.errors import WalletError
from wallet.proved.refutation import NodeRefutedError

# A task as a chain shows it, block after block, to somebody who follows it; calls are noted, and sent nowhere.
PROVIDERS = {
    b"1" * 32: Provider(bytes(32), b"http://127.0.0.1:1", 0),
    b"2" * 32: Provider(bytes(32), b"http://127.0.0.1:2", 0),
}
NAME = b"n" * 32


class TaskFilm:
    """A chain that shows one task after the other, and a key that sends calls about it."""

    def __init__(self, frames: list[Task | None]) -> None:
        self.frames = frames
        self.shown = -1
        self.sent: list[Call] = []
        self.fails: str | None = None

    async def moments(self, _: ChainClient) -> AsyncIterator[None]:
        for number in range(len(self.frames)):
            self.shown = number
            yield

    async def finalized(self) -> bytes:
        return bytes(32)

    async def height(self, at: bytes | None = None) -> int:
        return 100 + self.shown

    async def send(self, call: Call) -> Outcome:
        self.sent.append(call)
        return Outcome(bytes(32), bytes(32), 1, 0, (), self.fails)


def follow(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    film: TaskFilm,
    *,
    is_customer: bool = True,
    hand: Hand | None = None,
) -> list[tuple[int, Task | None, dict[str, Any]]]:
    """All changes of the film."""

    async def frame(_client: Any, _task: bytes, _at: bytes) -> Task | None:
        return film.frames[film.shown]

    async def providers(_client: Any, _at: bytes) -> dict[bytes, Provider]:
        return PROVIDERS

    monkeypatch.setattr(progress, "moments", film.moments)
    monkeypatch.setattr(training_reads, "task", frame)
    monkeypatch.setattr(market_reads, "providers", providers)

    async def main() -> list[tuple[int, Task | None, dict[str, Any]]]:
        client: Any = film
        async with BlobClient(private=True) as pool:
            keeper = CheckpointKeeper(client, pool, BOB_KEY, folder) if is_customer else None
            follower = TaskFollower(client, NAME, keeper, film.send, hand)
            return [change async for change in follower.changes()]

    return asyncio.run(main())


def a_running_task(milestone: int = 0, blob: bytes = b"") -> Task:
    """Of Bob's, with the traces of `planted_tasks`; its provider has stated a milestone."""
    chain, _ = awarded(6 * OGPU, segments=10)
    chain.start(chain.alice)
    task = replace(chain.now(), customer=BOB)
    slot = replace(task.slots[0], provider=b"1" * 32)
    if milestone:
        stated = Milestone(milestone, run_root(milestone), 7, address_of(blob))
        slot = replace(slot, milestone=stated, reported=milestone)
    return replace(task, slots=(slot,))


def ended(task: Task) -> Task:
    return replace(task, state=TaskState.ENDED)


def test_each_change_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = a_running_task()
    later = replace(task, deadline=task.deadline + 1)
    changes = follow(tmp_path, monkeypatch, TaskFilm([task, task, later, later, ended(task)]))
    assert [height for height, _, _ in changes] == [100, 102, 104]
    assert [row["state"].split(",")[0] for _, _, row in changes] == ["running", "running", "ended"]


def test_secrets_are_handed_to_each_who_runs_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = a_running_task()
    waiting = replace(running, state=TaskState.STARTING)
    other = replace(running, slots=(replace(running.slots[0], provider=b"2" * 32),))
    handed: list[bytes] = []

    async def hand(task: Task, _final: bytes) -> None:
        handed.append(task.slots[0].provider)
        if len(handed) == 1:
            raise WalletError("nobody answers")

    film = TaskFilm([waiting, *[running] * 6, waiting, other, other, ended(other)])
    changes = follow(tmp_path, monkeypatch, film, hand=hand)
    assert handed == [b"1" * 32, b"1" * 32, b"2" * 32], "again where it failed, and to who took over"
    said = [row["why"] for _, _, row in changes]
    assert any("its secrets are not handed over: nobody answers" in why for why in said)
    assert any(why.endswith("handing over its secrets; then its program starts") for why in said)


def test_nobody_but_its_customer_hands_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hand(_task: Task, _final: bytes) -> None:
        raise AssertionError("it is another's task")

    follow(tmp_path, monkeypatch, TaskFilm([a_running_task()]), is_customer=False, hand=hand)


def test_a_checkpoint_is_held_and_its_file_goes_with_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[bytes, bytes]
) -> None:
    blob = run_blob(1)
    blobs[address_of(blob)] = blob
    stated = a_running_task(1, blob)
    film = TaskFilm([a_running_task(), stated])
    changes = follow(tmp_path, monkeypatch, film)
    holding = "; confirming milestone 1: "
    assert [holding in row["why"] for _, _, row in changes] == [False, True]
    assert film.sent == [TrainingMarket.confirm_checkpoint(task=NAME, number=1, root=run_root(1))]
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [blob]
    follow(tmp_path, monkeypatch, TaskFilm([ended(stated)]))
    assert not list(tmp_path.iterdir())


def test_who_is_no_customer_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[bytes, bytes]
) -> None:
    blob = run_blob(1)
    blobs[address_of(blob)] = blob
    film = TaskFilm([a_running_task(1, blob)])
    follow(tmp_path, monkeypatch, film, is_customer=False)
    assert film.sent == []


def test_what_cannot_be_held_says_why_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[bytes, bytes]
) -> None:
    blob = run_blob(1)
    task = a_running_task(1, blob)
    film = TaskFilm([task] * 8)
    _, (_, _, row) = follow(tmp_path, monkeypatch, film)
    assert "; not held: no store serves the checkpoint of milestone 1" in row["why"]
    assert film.sent == []
    blobs[address_of(blob)] = blob
    film = TaskFilm([task, replace(task, owed=1, done=1)])
    film.fails = "nobody knows"
    changes = follow(tmp_path, monkeypatch, film)
    assert "not held: TrainingMarket.confirm_checkpoint failed in block 1: nobody knows" in changes[1][2]["why"]
    film = TaskFilm([task, task, task, replace(task, owed=1, done=1)])
    del blobs[address_of(blob)]
    changes = follow(tmp_path, monkeypatch, film)
    assert ["not held" in row["why"] for _, _, row in changes] == [False, True, False]


def test_a_store_that_has_none_is_not_asked_in_every_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[bytes, bytes]
) -> None:
    asked = list[bytes]()

    async def get(self: BlobClient, address: bytes, endpoints: list[str], **_: Any) -> bytes:
        asked.append(address)
        raise BlobError("no store has it")

    monkeypatch.setattr(BlobClient, "get", get)
    follow(tmp_path, monkeypatch, TaskFilm([a_running_task(1, run_blob(1))] * 7))
    assert len(asked) == 3


def test_a_checkpoint_goes_to_other_stores_than_its_maker_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[bytes, bytes]
) -> None:
    blob, asked = run_blob(1), list[list[str]]()
    blobs[address_of(blob)] = blob

    async def put(self: BlobClient, blob: bytes, endpoints: list[str], copies: int = 1) -> list[str]:
        asked.append(endpoints)
        return endpoints

    monkeypatch.setattr(BlobClient, "put", put)
    follow(tmp_path, monkeypatch, TaskFilm([a_running_task(1, blob)]))
    assert asked == [["http://127.0.0.1:2"]]


def test_where_its_maker_alone_has_a_store_a_checkpoint_goes_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[bytes, bytes]
) -> None:
    blob = run_blob(1)
    blobs[address_of(blob)] = blob
    monkeypatch.delitem(PROVIDERS, b"2" * 32)
    film = TaskFilm([a_running_task(1, blob)])
    follow(tmp_path, monkeypatch, film)
    assert film.sent == [TrainingMarket.confirm_checkpoint(task=NAME, number=1, root=run_root(1))], (
        "it counts, or nothing is paid for"
    )


def test_a_held_checkpoint_is_handed_on_when_work_changes_hands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[bytes, bytes]
) -> None:
    blob = run_blob(1)
    blobs[address_of(blob)] = blob
    stated = a_running_task(1, blob)
    milestone = stated.slots[0].milestone
    assert milestone is not None
    held = replace(stated, owed=1, done=1, checkpoint=HeldCheckpoint(milestone, BOB))
    again = replace(held, state=TaskState.COMMITTING, auction=2, behind=1, done=0, owed=0, slots=())
    follow(tmp_path, monkeypatch, TaskFilm([stated]))
    blobs.clear()
    follow(tmp_path, monkeypatch, TaskFilm([held, held]))
    assert not blobs, "nothing has changed hands"
    follow(tmp_path, monkeypatch, TaskFilm([held, again]))
    assert list(blobs) == [address_of(blob)]


def test_what_another_machine_has_held_since_is_not_handed_on_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[bytes, bytes]
) -> None:
    blob = run_blob(1)
    blobs[address_of(blob)] = blob
    follow(tmp_path, monkeypatch, TaskFilm([a_running_task(1, blob)]))
    newer = HeldCheckpoint(Milestone(2, run_root(2), 7, address_of(run_blob(2))), BOB)
    held = replace(a_running_task(), owed=2, done=2, checkpoint=newer)
    blobs.clear()
    follow(tmp_path, monkeypatch, TaskFilm([held, replace(held, state=TaskState.COMMITTING, auction=2, slots=())]))
    assert not blobs, "the older one is of no use to anybody"


def test_what_could_not_be_handed_on_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[bytes, bytes]
) -> None:
    blob, tries = run_blob(1), list[int]()
    blobs[address_of(blob)] = blob
    stated = a_running_task(1, blob)
    milestone = stated.slots[0].milestone
    assert milestone is not None
    held = replace(stated, owed=1, done=1, checkpoint=HeldCheckpoint(milestone, BOB))
    again = replace(held, state=TaskState.COMMITTING, auction=2, behind=1, done=0, owed=0, slots=())
    follow(tmp_path, monkeypatch, TaskFilm([stated]))

    async def put(self: BlobClient, blob: bytes, endpoints: list[str], copies: int = 1) -> list[str]:
        tries.append(len(tries))
        if len(tries) == 1:
            raise BlobError("all are full")
        return endpoints

    monkeypatch.setattr(BlobClient, "put", put)
    changes = follow(tmp_path, monkeypatch, TaskFilm([held, *[again] * 6]))
    assert len(tries) == 2
    assert ["all are full" in row["why"] for _, _, row in changes] == [False, False, True, False]
    assert changes[1][2]["why"].endswith("milestone 1 again, for the successor")


def test_a_node_that_is_refuted_ends_the_following(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[bytes, bytes]
) -> None:
    blob = run_blob(1)
    blobs[address_of(blob)] = blob

    async def lie(self: CheckpointKeeper, *_: Any) -> Call:
        raise NodeRefutedError("it shows another header")

    monkeypatch.setattr(CheckpointKeeper, "take", lie)
    with pytest.raises(NodeRefutedError):
        follow(tmp_path, monkeypatch, TaskFilm([a_running_task(1, blob)]))


def test_a_checkpoint_that_does_not_go_on_from_what_counts_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[bytes, bytes]
) -> None:
    """The new winner began at a state of its choice. A signed confirmation would make others continue from it."""
    blob = run_blob(2)
    blobs[address_of(blob)] = blob
    counted = [HeldCheckpoint(Milestone(1, root, 1, bytes(32)), BOB) for root in (b"x" * 32, run_root(1))]
    other, own = (replace(a_running_task(2, blob), checkpoint=each, done=1, owed=1) for each in counted)
    film = TaskFilm([other])
    _, (_, _, row) = follow(tmp_path, monkeypatch, film)
    assert "not held: the checkpoint of milestone 2 does not continue from the confirmed milestone 1" in row["why"]
    assert film.sent == []
    film = TaskFilm([own])
    follow(tmp_path, monkeypatch, film)
    assert film.sent == [TrainingMarket.confirm_checkpoint(task=NAME, number=2, root=run_root(2))]


def test_a_task_that_is_gone_ends_the_following(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ((_, task, row),) = follow(tmp_path, monkeypatch, TaskFilm([None]))
    assert (task, row["state"]) == (None, "forgotten by the chain")


@pytest.mark.parametrize("as_json", [True, False])
def test_changes_are_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> None:
    task = a_running_task()
    film = TaskFilm([task, ended(task)])

    async def frame(_client: Any, _task: bytes, _at: bytes) -> Task | None:
        return film.frames[film.shown]

    monkeypatch.setattr(progress, "moments", film.moments)
    monkeypatch.setattr(training_reads, "task", frame)
    pace = ChainTime(height=1, now_ms=0, passed_ms=2_000, passed_blocks=1, epoch_blocks=60, era_epochs=1)
    monkeypatch.setattr(progress, "read_time", AsyncMock(return_value=pace))
    client: Any = film
    last = asyncio.run(show_changes(TaskFollower(client, NAME, None, film.send), Output(as_json=as_json)))
    assert last == ended(task)
    first, second = capsys.readouterr().out.splitlines()
    if as_json:
        row = json.loads(first)
        assert (row["height"], row["task"], row["price_max"]["ogpu"]) == (100, "0x" + NAME.hex(), "10")
        assert "block" in row["why"]
        assert "about" not in row["why"], "a program computes times itself"
    else:
        assert f"block {task.deadline} ({replace(pace, height=100).distance_text(task.deadline)})" in first
        assert first.startswith("block 100  running, milestone 0 of 4  at work: milestone 1 is due by block ")
        assert second.startswith("block 101  ended, ")


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[bytes, bytes]
) -> None:
    blob = run_blob(1)
    blobs[address_of(blob)] = blob
    (tmp_path / "file").write_text("")
    film = TaskFilm([a_running_task(1, blob)])
    _, (_, _, row) = follow(tmp_path / "file", monkeypatch, film)
    assert "not held: the checkpoint cannot be kept in" in row["why"]
    assert film.sent == []
