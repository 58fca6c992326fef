"""A daemon's work for a task beside the chain, and its end: a node's claim alone changes nothing."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.run_states import VERSION, RunState, state_index
from gpu_tasks.market.claims.findings import CANNOT_FETCH, ItemVote, Verdict
from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.money import false_report_cost
from gpu_tasks.market.training.tasks import Milestone, Slot, Standby, Task, TaskResult, TaskState, dispute_id_of
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.containers.spec import ContainerPolicy
from gpu_tasks.provider.journal.table import FieldRow, JournalTable
from gpu_tasks.provider.journal.task_records import BidBasis, TaskEntry
from gpu_tasks.provider.programs.supervisor import ContainerSupervisor
from gpu_tasks.provider.tasks import task_disputes, working
from gpu_tasks.provider.tasks.places import OwnTask
from gpu_tasks.provider.tasks.task_book import TaskBook
from gpu_tasks.provider.tasks.task_disputes import own_dispute
from gpu_tasks.provider.tasks.working import WorkDuty
from heard import Heard
from priced_tasks import a_task
from runtime.encoding.codec import U8
from runtime.encoding.types import Hash

NO_PROGRAMS = ContainerSupervisor(None, ContainerPolicy(), dict)

TASK, ME, OTHER, DEVICE = b"t" * 32, b"m" * 32, b"o" * 32, b"d" * 32
KEY = (TASK, 1)
FIRST = Milestone(1, b"r" * 32, 7, b"b" * 32)
MINE = Slot(ME, DEVICE, 5, 50, 100)
THEIRS = Slot(OTHER, b"e" * 32, 5, 50, 100, milestone=FIRST, reported=1)
STANDBY = Standby(ME, DEVICE, 6, 50, 100)


def entry(result: TaskResult | None = None) -> TaskEntry:
    order = a_task().order
    basis = BidBasis(order.task_hash, order.input_root, order.input_blob)
    return TaskEntry(DEVICE, basis, BidOffer(5, 50, 100), b"s" * 32, result=result)


class Scene:
    """A duty over a chain whose best and final blocks differ."""

    def __init__(self, final: Task | None = None, *, drains: bool = False) -> None:
        self.final = final
        self.stands_at = 0
        self.noted: list[Collection[FieldRow]] = []
        self.tasks: JournalTable[Any, TaskEntry] = JournalTable(
            "tasks", tuple[Hash, U8], TaskEntry, self.noted.append, lambda *_: None
        )
        self.tasks.put(KEY, entry())
        self.started: list[Any] = []
        self.heard = Heard()
        self.watched: list[Any] = []
        chain = SimpleNamespace(tasks=self._tasks, bids=self._no_bids)
        parts = SimpleNamespace(
            chain=chain, identity=SimpleNamespace(stash=ME), telemetry=self.heard,
            workers=SimpleNamespace(advance=self._advance),
            journal=SimpleNamespace(tasks=self.tasks, step=contextlib.nullcontext),
            earnings=SimpleNamespace(note=lambda *_, **__: None), watch=self,
        )  # fmt: skip
        book = SimpleNamespace(prepare=self._prepare, run=lambda *_: None, wait=self._wait, forget=lambda _: None)
        self.duty = WorkDuty(cast(Parts[Any], parts), cast(TaskBook, book), NO_PROGRAMS, lambda: drains)
        self.waits: list[str] = []

    def begin(self, task: bytes, place: int, device: bytes, reader: bytes) -> None:
        self.watched.append(("begin", task, place, device, reader))

    def progress(self, task: bytes, done: int, total: int, step_us: int) -> None:
        self.watched.append(("progress", task, done, total, step_us))

    def end(self, task: bytes) -> None:
        self.watched.append(("end", task))

    async def _tasks(self, _ids: Sequence[bytes], *, final: bool = False) -> dict[bytes, Task]:
        return {} if self.final is None or not final else {TASK: self.final}

    async def _no_bids(self, _bids: object, *, final: bool = False) -> dict[Any, Any]:
        return {}

    async def _prepare(self, *_: object) -> Any:
        return SimpleNamespace(boundaries=tuple(range(0, 18, 2)), form=None, asked=SimpleNamespace(request=b""))

    async def _advance(self, *_: object) -> Any:
        return SimpleNamespace(done=self.stands_at), None

    def _wait(self, _task: bytes, _event: str, why: str, *, is_problem: bool = False) -> None:
        self.waits.append(why)


@pytest.mark.parametrize("is_final", [True, False])
def test_a_bid_is_over_once_the_final_chain_says_so(is_final: bool) -> None:
    """A node that denies a task could make its provider forget a promise, and lose its collateral."""
    scene = Scene(None if is_final else a_task(state=TaskState.RUNNING, slots=(MINE,)))
    asyncio.run(scene.duty._end_if_final(KEY, entry(), View(9, ())))
    assert len(scene.noted) == 1 + is_final
    assert scene.watched == ([("end", TASK)] if is_final else [])


@pytest.mark.parametrize(("slots", "place"), [((MINE,), 0), ((THEIRS, MINE), 1), ((THEIRS,), None)])
def test_who_has_a_slot_lets_its_customer_watch_and_nobody_else_does(
    slots: tuple[Slot, ...], place: int | None
) -> None:
    scene = Scene()
    asked = SimpleNamespace(reply_key=b"k" * 32)
    run: Any = SimpleNamespace(asked=asked, is_whole=False, boundaries=(0, 8), step_us=9)

    async def compute_next(tell: Callable[[int], None]) -> None:
        tell(4)
        run.is_whole = True

    async def none_to_note(*_: object) -> None:
        pass

    run.compute_next = compute_next
    scene.duty.book = cast(TaskBook, SimpleNamespace(prepare=AsyncMock(return_value=run)))
    scene.duty._note_milestones = cast(Any, none_to_note)  # type: ignore[method-assign]
    task = a_task(state=TaskState.RUNNING, slots=slots, standby=None if place is not None else STANDBY)
    asyncio.run(scene.duty._run_task(OwnTask(KEY, task, None), task, entry(), has_more=True))
    begun = [] if place is None else [("begin", TASK, place, DEVICE, b"k" * 32)]
    assert scene.watched == [*begun, ("progress", TASK, 4, 8, 9)]


@pytest.mark.parametrize("stands_at", [4, 5])
def test_who_stands_by_holds_a_checkpoint_that_stands_where_it_should(
    monkeypatch: pytest.MonkeyPatch, stands_at: int
) -> None:
    scene = Scene()
    scene.stands_at = stands_at
    task = a_task(state=TaskState.RUNNING, slots=(THEIRS,), standby=STANDBY)
    assert state_index(task.order, 1) == 2
    monkeypatch.setattr(working, "fetch_run", AsyncMock(return_value=RunState(VERSION, (), b"")))
    asyncio.run(scene.duty._fetch_to_hold(OwnTask(KEY, task, None), task, entry()))
    assert scene.duty._held == ({KEY: THEIRS.milestone} if stands_at == 4 else {})
    assert scene.waits == ([] if stands_at == 4 else [
        "milestone 1 is not confirmed: its checkpoint is at step 5 instead of 4"
    ])  # fmt: skip


@pytest.mark.parametrize("drains", [True, False])
def test_who_drains_prepares_no_rest(drains: bool) -> None:
    scene = Scene(drains=drains)
    task = a_task(state=TaskState.ASKING, standby=STANDBY)

    async def beside() -> None:
        scene.duty._work_beside(OwnTask(KEY, task, None), task, entry())
        scene.started += scene.duty.steps.tasks._tasks
        await scene.duty.steps.tasks.close()

    asyncio.run(beside())
    assert scene.started == ([] if drains else [KEY])


VOTE = ItemVote(Verdict.RIGHT, b"r" * 32, ())
RESULT = TaskResult(b"r" * 32, b"b" * 32, 7)


@pytest.mark.parametrize(
    ("result", "vote", "is_wronged"),
    [
        (RESULT, VOTE, False),
        (RESULT, replace(VOTE, answer=b"x" * 32), True),
        (RESULT, CANNOT_FETCH, True),
        (RESULT, None, False),
        (None, replace(VOTE, answer=b"x" * 32), False),
    ],
)
def test_a_decision_against_a_computed_result_is_appealed(
    result: TaskResult | None, vote: ItemVote | None, is_wronged: bool
) -> None:
    task = a_task(state=TaskState.DISPUTED, deadline=0, slots=(MINE,), disputes=2)
    own = own_dispute(cast(Any, Scene().duty.parts), OwnTask(KEY, task, None), entry(result))
    assert own is not None
    assert (own.id, own.subject, own.held) == (dispute_id_of(TASK, 1), {"task": TASK}, MINE.collateral)
    assert asyncio.run(own.is_wronged(cast(Any, SimpleNamespace(vote=vote)))) is is_wronged


@pytest.mark.parametrize(
    ("has_key", "opened", "verdict", "is_wronged"),
    [
        (True, UnusableInputError("bad", code="invalid_input"), Verdict.RIGHT, True),
        (True, UnusableInputError("bad", code="invalid_input"), Verdict.WRONG, False),
        (False, UnusableInputError("bad", code="invalid_input"), Verdict.RIGHT, False),
        (True, BlobError("away", code="away"), Verdict.RIGHT, False),
        (True, None, Verdict.RIGHT, False),
    ],
)
def test_a_reporter_appeals_if_its_own_copy_shows_the_input_to_be_unusable(
    monkeypatch: pytest.MonkeyPatch, has_key: bool, opened: Exception | None, verdict: Verdict, is_wronged: bool
) -> None:
    monkeypatch.setattr(task_disputes, "open_task", AsyncMock(side_effect=opened))
    monkeypatch.setattr(task_disputes, "form_of", lambda *_: None)
    inputs = SimpleNamespace(has_chain_key=AsyncMock(return_value=has_key))
    parts: Any = SimpleNamespace(identity=SimpleNamespace(stash=ME), inputs=inputs)
    task = a_task(state=TaskState.DISPUTED, deadline=0, slots=(MINE,), disputes=1, reported=0)
    own = own_dispute(parts, OwnTask(KEY, task, None), entry())
    assert own is not None
    assert own.held == min(MINE.collateral, false_report_cost(task.rules, task.terms.price_max))
    dispute: Any = SimpleNamespace(vote=replace(VOTE, verdict=verdict))
    assert asyncio.run(own.is_wronged(dispute)) is is_wronged


@pytest.mark.parametrize(
    "task",
    [
        a_task(state=TaskState.CLAIMED, slots=(MINE,)),
        a_task(state=TaskState.DISPUTED, slots=(THEIRS,), disputes=1),
        a_task(state=TaskState.DISPUTED, slots=(MINE, THEIRS), disputes=1, reported=1),
        None,
    ],
    ids=["no dispute", "of others", "reported by a partner", "unknown"],
)
def test_nothing_is_appealed_that_costs_this_provider_nothing(task: Task | None) -> None:
    parts: Any = SimpleNamespace(identity=SimpleNamespace(stash=ME))
    assert own_dispute(parts, OwnTask(KEY, task, None), entry(RESULT)) is None


@pytest.mark.parametrize(
    ("state", "has_run", "reported", "is_started"),
    [
        (TaskState.CLAIMED, None, None, True),
        (TaskState.CLAIMED, "part", None, True),
        (TaskState.CLAIMED, "whole", None, False),
        (TaskState.DISPUTED, None, None, True),
        (TaskState.DISPUTED, "whole", None, False),
        (TaskState.DISPUTED, None, 0, False),
    ],
)
def test_a_claimed_task_has_its_whole_run(
    state: TaskState, has_run: str | None, reported: int | None, is_started: bool
) -> None:
    scene = Scene()
    run = None if has_run is None else SimpleNamespace(is_whole=has_run == "whole")
    scene.duty.book = cast(TaskBook, SimpleNamespace(run=lambda *_: run))
    task = a_task(state=state, deadline=0, slots=(MINE,), reported=reported)

    async def beside() -> None:
        scene.duty._work_beside(OwnTask(KEY, task, None), task, entry(RESULT))
        scene.started += scene.duty.steps.tasks._tasks
        await scene.duty.steps.tasks.close()

    asyncio.run(beside())
    assert scene.started == ([KEY] if is_started else [])


@pytest.mark.parametrize("is_opened", [True, False])
def test_a_bid_that_is_opened_has_its_collateral_locked(monkeypatch: pytest.MonkeyPatch, is_opened: bool) -> None:
    """Locked money is no longer spendable. Counted as promised too, it would keep the stash from other bids."""
    scene, opened = Scene(), list[object]()
    monkeypatch.setattr(scene.duty.book, "note_opened", opened.append, raising=False)
    monkeypatch.setattr(scene.duty, "_work_beside", lambda *_: None)
    bid: Any = SimpleNamespace(opened=object() if is_opened else None)
    task = a_task(state=TaskState.AWARDING if is_opened else TaskState.COMMITTING)
    asyncio.run(scene.duty._take_step(OwnTask(KEY, task, bid), entry(), View(9, ())))
    assert opened == ([KEY] if is_opened else [])
    assert len(scene.waits) == 1
