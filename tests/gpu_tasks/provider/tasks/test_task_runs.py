"""The start of a leg's run on this machine, and its device: from the disk, or afresh if that lacks a part."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_tasks.data.run_states import RunState
from gpu_tasks.market.training.tasks import HeldCheckpoint, Milestone, Slot, Task
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.executor import BegunRun, LaterState
from gpu_tasks.provider.execution.gpu import Reading
from gpu_tasks.provider.tasks import task_runs
from gpu_tasks.provider.tasks.run_folder import RunFolder
from gpu_tasks.provider.tasks.task_book import TaskBook
from gpu_tasks.traces.trace import state_hash
from gpu_tasks.workloads.fingerprints import first_trail
from priced_tasks import a_task

TASK, FIRST, SECOND = b"t" * 32, b"1" * 32, b"2" * 32
STATES = [f"state {index}".encode() for index in range(9)]
DIGESTS = [state_hash(state) for state in STATES]
MILESTONE = Milestone(1, b"r" * 32, 0, b"b" * 32)
LATER_LEG = a_task(behind=1, checkpoint=HeldCheckpoint(MILESTONE, b"h" * 32))
"""Of eight segments in four milestones: it begins with the state at s(2)."""


class Disk:
    """A provider's disk and network, with a complete request and an available checkpoint."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = base
        self.begun: list[bytes] = []
        self.fetched = 0
        self.boundaries = tuple(range(9))
        self.keepers: list[bytes] = []
        self.checked: list[tuple[bytes, int]] = []
        self.stored = {LATER_LEG.order.input_blob: b"blob"}
        store = SimpleNamespace(get=self.stored.get, put=self._put)
        workers = SimpleNamespace(begin=self._begin)
        journal = SimpleNamespace(open_tasks=lambda: iter(()))
        chain = SimpleNamespace(stash_of=self._stash_of)
        self.parts = cast(Parts[Any], SimpleNamespace(store=store, workers=workers, journal=journal, chain=chain))
        replaced: dict[str, Callable[..., Any]] = {
            "form_of": lambda *_: None,
            "open_task": self._opened,
            "fetch_run": self._fetch,
            "check_state": self._check,
        }
        for name, stand_in in replaced.items():
            monkeypatch.setattr(task_runs, name, stand_in)

    async def _stash_of(self, provider_key: bytes) -> bytes | None:
        return b"s" * 32 if provider_key == b"k" * 32 else None

    def _put(self, blob: bytes, *, is_own: bool) -> None:
        assert is_own, "others' blobs make room for newer ones"
        self.stored[LATER_LEG.order.input_blob] = blob

    async def _begin(self, _form: Any, _request: bytes, device: bytes) -> BegunRun:
        self.begun.append(device)
        return BegunRun(STATES[0], self.boundaries)

    async def _opened(self, *_: Any) -> Any:
        return SimpleNamespace(request=b"request")

    async def _check(self, _parts: Parts[Any], _form: Any, _request: bytes, state: bytes, done: int) -> None:
        self.checked.append((state, done))

    async def _fetch(
        self, _parts: Parts[Any], _task: Task, _milestone: Milestone, keepers: Any, *, is_to_keep: bool
    ) -> RunState:
        assert is_to_keep, "who goes on from it may have to show it"
        self.fetched += 1
        self.keepers = list(keepers)
        return RunState(1, tuple(DIGESTS[:3]), STATES[2])


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Return an empty disk."""
    return Disk(tmp_path, monkeypatch)


def prepared(disk: Disk, leg: Task = LATER_LEG) -> task_runs.TaskRun:
    """Prepare the later leg's run."""
    return asyncio.run(task_runs.prepared_run(disk.parts, disk.base, TASK, leg, FIRST))


def test_a_later_leg_goes_on_from_the_disk_with_the_hashes_before_it(disk: Disk) -> None:
    assert prepared(disk).digests == DIGESTS[:3]
    assert prepared(disk).digests == DIGESTS[:3]
    assert disk.fetched == 1


@pytest.mark.parametrize("left", [0, 1, 3])
def test_a_first_state_without_the_hashes_before_it_is_fetched_again(disk: Disk, left: int) -> None:
    folder = RunFolder(disk.base, TASK, LATER_LEG.behind)
    folder.keep_state(2, STATES[2])
    folder.keep_earlier(DIGESTS[:left])
    assert prepared(disk).digests == DIGESTS[:3], "or the result's root is of a shorter trace"
    assert disk.fetched == 1


def test_a_checkpoint_is_had_of_who_holds_it_or_works_and_looked_at(disk: Disk) -> None:
    """A false state is found before any promise."""
    partners = tuple(Slot(name, b"d" * 32, 5, 50, 100) for name in (b"p" * 32, b"q" * 32))
    prepared(disk, replace(LATER_LEG, slots=partners))
    assert disk.keepers == [b"h" * 32, b"p" * 32, b"q" * 32]
    assert disk.checked == [(STATES[2], 2)]


def test_a_checkpoint_that_was_signed_for_with_a_provider_key_is_asked_of_its_stash(disk: Disk) -> None:
    """Stores are known by stash. The one store that surely has it was asked last or, on a large chain, never."""
    prepared(disk, replace(LATER_LEG, checkpoint=HeldCheckpoint(MILESTONE, b"k" * 32)))
    assert disk.keepers == [b"s" * 32]


def test_a_measurement_doubles_its_steps_until_it_takes_long_enough(disk: Disk) -> None:
    run, asked, now = prepared(disk), list[int](), [0]

    async def advance(_form: Any, _request: bytes, state: bytes, steps: int, _device: bytes, trail: None) -> Any:
        asked.append(steps)
        now[0] += steps * 50_000 * 1_000  # a twentieth of a second each
        return LaterState(state, 0, trail), Reading(is_gpu=False, energy_mj=0, memory_peak_bytes=0)

    run.parts.workers.advance = advance  # type: ignore[method-assign, assignment]
    run.clock = lambda: now[0]
    measured = asyncio.run(run.measure())
    assert asked == [1, 1, 2, 4], "one warms up, and eight would be too long"
    assert measured.step_us == 50_000


class Steps:
    """Workers whose runs have the states 0, 1, 2, .., and trails that name their steps."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def advance(
        self, _form: Any, _request: bytes, state: bytes, steps: int, _device: bytes | None = None,
        trail: bytes | None = None,
    ) -> Any:  # fmt: skip
        index = STATES.index(state)
        self.asked += range(index, index + steps)
        later = None if trail is None else trail + bytes(range(index, index + steps))
        return LaterState(STATES[index + steps], index + steps, later), Reading(False, 0, 0)


def trails(*segments: tuple[int, ...]) -> list[bytes]:
    return [first_trail(STATES[steps[0]]) + bytes(steps) for steps in segments]


def computed(disk: Disk, steps: Steps, states: int) -> task_runs.TaskRun:
    """Compute these states of a run in segments of two steps, in chunks of one."""
    disk.parts.workers.advance = steps.advance  # type: ignore[method-assign, assignment]
    run = prepared(disk)
    run.step_us = task_runs.CHUNK_US
    while run.index < states:
        asyncio.run(run.compute_next())
        run.step_us = task_runs.CHUNK_US
    return run


def test_each_segment_of_a_leg_has_a_trail_of_all_its_steps_and_keeps_it(disk: Disk) -> None:
    disk.boundaries = (0, 1, 2, 4, 6, 8)
    ran = Steps()
    run = computed(disk, ran, 4)
    assert ran.asked == [2, 3, 4, 5]
    assert run.trails == trails((2, 3), (4, 5))
    again = computed(disk, Steps(), 4)
    assert (again.trails, again.digests, again.newest) == (run.trails, run.digests, run.newest)


def test_a_lost_trail_is_computed_again_and_nothing_else_is(disk: Disk) -> None:
    disk.boundaries = (0, 1, 2, 4, 6, 8)
    run = computed(disk, Steps(), 5)
    for file in ("trail-3", "trail-2"):
        (run.folder.path / file).unlink()
        ran = Steps()
        again = computed(disk, ran, 5)
        assert ran.asked == ([4, 5] if file == "trail-3" else [2, 3])
        assert (again.trails, again.digests, again.newest) == (run.trails, run.digests, run.newest)
        assert run.folder.trail(2) == trails((2, 3))[0]


async def test_steps_in_chunks_give_one_state_and_one_trail(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Steps()
    disk.parts.workers.advance = ran.advance  # type: ignore[method-assign, assignment]
    monkeypatch.setattr(task_runs, "CHUNK_US", 1)
    found = await task_runs.stepped(disk.parts, cast(Any, None), b"request", STATES[1], 4)
    assert found == (STATES[5], trails((1, 2, 3, 4))[0])
    assert await task_runs.stepped(disk.parts, cast(Any, None), b"", STATES[1], 0) == (
        STATES[1], first_trail(STATES[1]),
    )  # fmt: skip


def test_an_input_that_the_store_has_lost_is_on_the_disk(disk: Disk) -> None:
    """Its customer's stores may drop it during the task."""
    prepared(disk)
    disk.stored.clear()
    prepared(disk)
    assert disk.stored == {LATER_LEG.order.input_blob: b"blob"}


async def test_a_run_is_prepared_once_for_a_device_and_anew_for_another(disk: Disk) -> None:
    book = TaskBook(disk.parts, disk.base)
    run = await book.prepare(TASK, LATER_LEG, FIRST)
    assert await book.prepare(TASK, LATER_LEG, FIRST) is run
    other = await book.prepare(TASK, LATER_LEG, SECOND)
    assert other.device == SECOND, "what was promised is measured on the device that was bid"
    assert book.run(TASK, LATER_LEG) is other
    assert disk.begun == [FIRST, SECOND]
