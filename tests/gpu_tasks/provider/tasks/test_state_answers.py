"""The states that a judge receives: of the own leg, once in memory, while the disk has them."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from gpu_tasks.data.sealing import readers_of
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.showing import TraceStretch
from gpu_tasks.market.training.tasks import Challenge, Slot, Task, slot_case
from gpu_tasks.provider.blobs.deliveries import RefusedDeliveryError
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.tasks.state_answers import SHOWN_STATE, ShownState, StateAnswers, question
from gpu_tasks.provider.tasks.task_book import TaskBook
from gpu_tasks.traces.trace import state_hash, traced_state
from priced_tasks import a_task
from provider_chain import keypair, seal_key
from simulation.chains.market_chain import GENESIS_HASH, Keys

MAKER, JUDGE = Keys("maker"), Keys("judge")
TASK, OTHER, DEVICE = b"t" * 32, b"o" * 32, b"d" * 32
CASE = slot_case(TASK, 0)
SEGMENTS = 8
STATES = [f"state {index}".encode() for index in range(SEGMENTS + 1)]
DIGESTS = [state_hash(state) for state in STATES]


def shown(
    first: int, end: int | None = None, *, behind: int = 0, known: int = SEGMENTS, lost: int | None = None,
    named: int | None = None,
) -> ShownState:  # fmt: skip
    """Return the states for a judge of the maker's slot, if the maker has the states up to s(`known`) in memory.

    `behind` of the four milestones were another provider's; the file of state `lost` is gone. A fraud proof names the
    judged segment, which is `first` unless another is `named`.
    """
    slot = Slot(MAKER.stash, DEVICE, 5, 50, 100)
    judged = Challenge(b"e" * 32, 0, first if named is None else named, 1, 1)
    task = a_task(slots=(slot,), behind=behind, challenge=judged)
    folder = SimpleNamespace(state=lambda index: None if index == lost else STATES[index])
    run = SimpleNamespace(index=known, digests=DIGESTS[: known + 1], folder=folder)
    answers = StateAnswers(parts_of(task), cast(TaskBook, SimpleNamespace(run=lambda name, _: {TASK: run}.get(name))))
    judge = Identity.of(JUDGE.stash, keypair(JUDGE), GENESIS_HASH)
    sealed = asyncio.run(answers.answer(question(judge, CASE, TraceStretch(first, first + 1 if end is None else end))))
    assert readers_of(sealed) == 1, "for who asked alone"
    return SHOWN_STATE.decode(seal_key(JUDGE).open(sealed))


def parts_of(task: Task) -> Parts[Any]:
    """Return the parts of the maker, which works for two tasks. On its chain the judge sits in its slot's case."""

    async def case(_case: bytes) -> Any:
        return SimpleNamespace(benches=(SimpleNamespace(members=(JUDGE.stash,)),))

    async def provider(_stash: bytes) -> Provider:
        return Provider(seal_key(JUDGE).public, b"http://127.0.0.1:1", 0)

    async def tasks(_ids: list[bytes]) -> dict[bytes, Task]:
        return {OTHER: task, TASK: task}

    chain = SimpleNamespace(case=case, stash_of=AsyncMock(return_value=JUDGE.stash), provider=provider, tasks=tasks)
    journal = SimpleNamespace(
        open_tasks=lambda: iter([((name, 1), SimpleNamespace(device=DEVICE)) for name in (OTHER, TASK)])
    )
    identity = Identity.of(MAKER.stash, keypair(MAKER), GENESIS_HASH)
    return cast(Parts[Any], SimpleNamespace(chain=chain, journal=journal, identity=identity))


@pytest.mark.parametrize("segment", [2, 5, SEGMENTS - 1])
def test_a_state_is_shown_with_its_place_and_that_of_the_next(segment: int) -> None:
    expected = ShownState(traced_state(DIGESTS, segment), traced_state(DIGESTS, segment + 1), STATES[segment])
    assert shown(segment, behind=1) == expected


@pytest.mark.parametrize("first", [0, 1, 3, 5, SEGMENTS])
def test_what_is_not_looked_at_is_not_shown(first: int) -> None:
    """Above all the state after a stretch: the judge could take it over instead of computing."""
    with pytest.raises(RefusedDeliveryError, match="part of the"):
        shown(first, behind=1, named=4)
    with pytest.raises(RefusedDeliveryError, match="part of the"):
        shown(first, first + 2, behind=1)


def test_a_run_that_is_not_read_whole_shows_what_it_has_and_asks_for_patience_with_the_rest() -> None:
    assert shown(3, known=4).state == STATES[3]
    with pytest.raises(RefusedDeliveryError, match="ask again"):
        shown(4, known=4)


def test_a_state_whose_file_is_gone_is_said_to_be_gone() -> None:
    with pytest.raises(RefusedDeliveryError, match="no longer here"):
        shown(3, lost=3)
