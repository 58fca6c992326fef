"""The inputs of a search for a lie: the task's record on the final chain, the own leg, the own store."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from error_codes import raises_code
from gpu_tasks.data.run_states import VERSION, RunState
from gpu_tasks.market.training.tasks import Acceptance, Milestone, Slot, Task, TaskResult, TaskState
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.tasks import fraud_search
from gpu_tasks.provider.tasks.fraud_search import KEPT_BYTES_MAX, CannotProveError, Fraud, found_or_searched, search
from gpu_tasks.traces.trace import SEGMENTS_MAX, proof_of_fraud, state_hash, trace_root
from priced_tasks import a_task
from runtime.encoding.codec import codec
from wallet import private_file

TASK, ME, LIAR = b"t" * 32, b"m" * 32, b"l" * 32


def states(segments: int, wrong_from: int | None = None) -> tuple[bytes, ...]:
    """Return the hashes of a run that is wrong from a state on."""
    wrong_from = segments + 1 if wrong_from is None else wrong_from
    return tuple(state_hash(b"%d %d" % (number, number >= wrong_from)) for number in range(segments + 1))


def submitted(stated: Sequence[bytes], **changed: Any) -> Task:
    """Return a task whose liar states this run."""
    slot = Slot(LIAR, b"d" * 32, 5, 50, 100, result=TaskResult(trace_root(stated), b"b" * 32, 7))
    return a_task(segments=len(stated) - 1, state=TaskState.SUBMITTED, slots=(slot,), **changed)


class Scene:
    """A prover whose chain shows one task after the other, and then the last one."""

    def __init__(self, base: Path, stated: Sequence[bytes], *tasks: Task) -> None:
        self.base = base
        self.tasks = list(tasks)
        self.stated = tuple(stated)
        self.computed: list[int] = []
        self.fetched: list[tuple[Milestone, list[bytes]]] = []
        chain = SimpleNamespace(tasks=self.read)
        self.parts = cast(Parts[Any], SimpleNamespace(chain=chain, identity=SimpleNamespace(stash=ME)))

    async def prepared_run(self, _parts: Parts[Any], _base: Path, _id: bytes, task: Task, _device: object) -> Any:
        """Prepare the right run. The part before the leg comes from its checkpoint, so nothing is computed."""
        self.computed.append(task.behind)
        return SimpleNamespace(is_whole=True, digests=list(states(task.order.segments)))

    async def fetch_run(self, _parts: Parts[Any], _task: Task, milestone: Milestone, keepers: list[bytes]) -> RunState:
        self.fetched.append((milestone, keepers))
        return RunState(VERSION, self.stated, b"")

    async def read(self, ids: Sequence[bytes], *, final: bool = False) -> dict[bytes, Task]:
        assert final, "a node's best block may say anything of a task"
        task = self.tasks.pop(0) if len(self.tasks) > 1 else self.tasks[0]
        return dict.fromkeys(ids, task)

    def found(self, *, is_kept: bool = False) -> Fraud | None:
        """Return the finding of a search in the shown blocks."""
        return asyncio.run(self._kept() if is_kept else search(self.parts, self.base, TASK, _unheard, _looks()))

    async def _kept(self) -> Fraud | None:
        return await found_or_searched(self.parts, self.base, self.base, TASK, _unheard, _looks())


def _unheard(_: object) -> None:
    """Ignore the progress of a search."""


async def _looks() -> AsyncIterator[int]:
    for number in range(9):
        yield number


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def of(stated: Sequence[bytes], *tasks: Task) -> Scene:
        made = Scene(tmp_path, stated, *tasks)
        monkeypatch.setattr(fraud_search, "prepared_run", made.prepared_run)
        monkeypatch.setattr(fraud_search, "fetch_run", made.fetch_run)
        return made

    return of


def test_the_whole_run_is_had_of_who_stated_it(scene: Any) -> None:
    stated = states(8, 6)
    looked = scene(stated, submitted(stated))
    fraud = looked.found()
    assert fraud is not None
    assert fraud.proof.index == 5
    ((milestone, keepers),) = looked.fetched
    assert (milestone.number, milestone.root, keepers) == (4, trace_root(stated), [LIAR])


def test_nobody_is_accused_of_what_was_wrong_before_its_leg(scene: Any) -> None:
    stated = states(8, 3)
    with raises_code(CannotProveError, "outside_own_segments"):
        scene(stated, submitted(stated, behind=2)).found()
    stated = states(8, 5)
    fraud = scene(stated, submitted(stated, behind=2)).found()
    assert fraud is not None
    assert fraud.proof.index == 4, "the first of its own"


def test_a_leg_that_another_one_took_over_is_computed_anew(scene: Any) -> None:
    stated = states(8, 6)
    first = replace(submitted(stated), state=TaskState.RUNNING)
    looked = scene(stated, first, first, submitted(stated, behind=2))
    assert looked.found() is not None
    assert looked.computed == [0, 2]


def test_what_happened_while_it_was_computed_counts(scene: Any) -> None:
    stated = states(8, 6)
    task = submitted(stated)
    with raises_code(CannotProveError, "nothing_to_prove"):
        scene(stated, task, replace(task, accepted=Acceptance.ACCEPTED)).found()


def test_the_proof_of_the_longest_run_is_kept(scene: Any, tmp_path: Path) -> None:
    stated = states(SEGMENTS_MAX, SEGMENTS_MAX)
    looked = scene(stated, submitted(stated))
    fraud = looked.found(is_kept=True)
    assert fraud is not None
    assert len(codec(Fraud).encode(fraud)) <= KEPT_BYTES_MAX
    assert looked.found(is_kept=True) == fraud
    assert looked.computed == [0], "it was found once"


@pytest.mark.parametrize("place", [0, 1])
def test_a_proof_that_is_kept_of_another_place_or_leg_is_found_again(scene: Any, tmp_path: Path, place: int) -> None:
    stated, right = states(8, 6), states(8)
    task = submitted(stated, behind=2)
    other = proof_of_fraud(stated, 5 if place else 2, right[6] if place else b"r" * 32)
    private_file.replace(tmp_path / f"proof-{TASK.hex()}", codec(Fraud).encode(Fraud(place, other, 5, 10)))
    looked = scene(stated, task)
    fraud = looked.found(is_kept=True)
    assert fraud is not None
    assert (fraud.place, fraud.proof.index, looked.computed) == (0, 5, [2])
