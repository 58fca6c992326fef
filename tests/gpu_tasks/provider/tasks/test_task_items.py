"""The items of tasks, as tables: every way in which one is right, wrong, or beyond this machine."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from error_codes import raises_code
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.claim_delivery import DeliveredState, DeliveryError, encode_task_delivery, read_task_delivery
from gpu_tasks.data.sealing import SealError
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.claims.claims import ClaimStage, ClaimTerms, ResultClaim
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.draws import ITEM_WEIGHT
from gpu_tasks.market.claims.findings import ItemSample, ItemVote, Verdict
from gpu_tasks.market.claims.voting import is_well_formed
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import Slot, Task, TaskResult, TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.blobs.deliveries import RefusedDeliveryError
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.duties.item_sources import NO_FINGERPRINT
from gpu_tasks.provider.duties.sides import Patience
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.tasks import task_items
from gpu_tasks.provider.tasks.task_items import AskedRun, ClaimedSlot, FetchedSegments, TaskItemSource
from gpu_tasks.traces.trace import state_hash, trace_root
from gpu_tasks.workloads.fingerprints import first_trail, trail_fingerprint
from gpu_tasks.workloads.stepwise import states
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.form import TrainingForm
from gpu_tasks.workloads.train_int8.request import REQUEST
from gpu_tasks.workloads.train_int8.service import IntegerTraining
from priced_tasks import a_task
from task_village import TrainingExecutor
from training_requests import SMALL

ASKED = REQUEST.encode(replace(SMALL, steps=8, segment=2))
RUN = IntegerTraining(arithmetic("numpy")).begin(ASKED)
STATES = list(states(RUN))
DIGESTS = tuple(state_hash(state) for state in STATES)
TRAILS = [RUN.trailed(state, 2, first_trail(state))[1] for state in STATES[:-1]]
ROOT = trace_root(DIGESTS)
TASK, ME, SEED, OTHER = b"t" * 32, b"m" * 32, b"s" * 32, b"o" * 32
CLAIM = slot_case(TASK, 0)
SLOT = Slot(ME, b"d" * 32, 5, 50, 100, result=TaskResult(ROOT, b"b" * 32, 7))
ORDER = replace(a_task().order, segments=4, milestones=2)
CLAIMED = a_task(order=ORDER, state=TaskState.CLAIMED, milestones=2, slots=(SLOT,))
OPENED = UnitInput(1, b"z" * 32, b"k" * 32, ASKED)


class Workers:
    """The workers of a daemon, which train in this process."""

    def __init__(self) -> None:
        self.training = TrainingExecutor()

    async def begin(self, _form: object, request: bytes) -> Any:
        return await self.training.begin(request)

    async def advance(
        self, _form: object, request: bytes, state: bytes, steps: int, trail: bytes | None = None
    ) -> tuple[Any, None]:
        return await self.training.advance(request, state, steps, trail), None


def parts_of(**chain: Any) -> Any:
    return SimpleNamespace(workers=Workers(), chain=SimpleNamespace(**chain), identity=SimpleNamespace(stash=ME))


def asked_run(parts: Any = None) -> AskedRun:
    parts = parts or parts_of()
    return AskedRun(parts, TrainingForm(), OPENED, asyncio.run(parts.workers.begin(None, ASKED)))


def sample(index: int, seed: bytes = SEED) -> ItemSample:
    return ItemSample(index, ITEM_WEIGHT, trail_fingerprint(seed, [TRAILS[index]]))


def fetched(
    index: int, state: bytes, digests: tuple[bytes, ...] = DIGESTS, *, is_sound: bool = True, behind: int = 0
) -> FetchedSegments:
    """Return an item with the state that its provider has delivered before it."""
    task = replace(CLAIMED, behind=behind, milestones=2 - behind)
    delivered = {index: DeliveredState(digests, state, b"k" * 32)}
    return FetchedSegments(ClaimedSlot(CLAIM, TASK, task, 0), asked_run(), delivered, is_sound)


def other_after(index: int) -> tuple[bytes, ...]:
    """Return the hashes of a trace whose state after a segment is another one."""
    return (*DIGESTS[: index + 1], OTHER, *DIGESTS[index + 2 :])


@pytest.mark.parametrize("index", range(4))
def test_an_item_is_right_by_its_state_and_its_trail(index: int) -> None:
    items = fetched(index, STATES[index])
    assert asyncio.run(items.check(index, SEED, Activity.CHECKS)) == sample(index)
    assert not asyncio.run(items.is_confirmed_wrong(index, Activity.CHECKS))
    vote = asyncio.run(items.vote(index, (SEED, OTHER)))
    assert vote == ItemVote(Verdict.RIGHT, DIGESTS[index + 1], (sample(index), sample(index, OTHER)))
    assert is_well_formed(vote, 2)


def test_the_items_of_a_later_leg_are_its_own_segments() -> None:
    items = fetched(1, STATES[3], behind=1)
    (found,) = asyncio.run(items.vote(1, (SEED,))).samples
    assert found == ItemSample(1, ITEM_WEIGHT, trail_fingerprint(SEED, [TRAILS[3]]))
    with raises_code(ExecutionError, "no_such_point"):
        items.index_at(2 * ITEM_WEIGHT)
    assert items.index_at(2 * ITEM_WEIGHT - 1) == 1


@pytest.mark.parametrize(
    ("items", "answer"),
    [
        (fetched(1, STATES[1], other_after(1)), DIGESTS[2]),
        (fetched(1, STATES[1], is_sound=False), DIGESTS[2]),
        (fetched(1, STATES[2]), None),
        (fetched(1, STATES[0]), None),
        (fetched(1, b"no state"), None),
    ],
    ids=["another state after it", "no result", "a step ahead", "a step behind", "no state"],
)
def test_a_wrong_item_is_wrong_for_everybody(items: FetchedSegments, answer: bytes | None) -> None:
    assert asyncio.run(items.check(1, SEED, Activity.CHECKS)) is None
    assert asyncio.run(items.is_confirmed_wrong(1, Activity.CHECKS))
    vote = asyncio.run(items.vote(1, (SEED,)))
    nothing = ItemSample(0, 0, NO_FINGERPRINT)
    assert vote == ItemVote(Verdict.WRONG, answer or CLAIM, (sample(1) if answer else nothing,))
    assert is_well_formed(vote, 1)


def test_a_run_begins_with_the_initial_state() -> None:
    """Another state of the same step would be valid, and the rest would follow from it."""
    elsewhere = STATES[0][:40] + bytes((STATES[0][40] ^ 1,)) + STATES[0][41:]
    assert asyncio.run(asked_run().segment(1, STATES[1][:40] + elsewhere[40:41] + STATES[1][41:])) is not None
    assert asyncio.run(asked_run().segment(0, elsewhere)) is None
    assert asyncio.run(asked_run().segment(0, STATES[0])) == (STATES[1], TRAILS[0])


def test_a_glitch_of_a_checker_blames_nobody() -> None:
    items = fetched(1, STATES[1])
    assert items.run is not None
    training = items.run.parts.workers.training  # type: ignore[attr-defined]
    training.wrong_at = 4
    assert asyncio.run(items.check(1, SEED, Activity.CHECKS)) is None
    training.wrong_at = None
    assert not asyncio.run(items.is_confirmed_wrong(1, Activity.CHECKS))


def test_an_unusable_input_has_no_right_item_and_silences_a_checker() -> None:
    items = replace(fetched(1, STATES[1]), run=None)
    for question in (items.check(1, SEED, Activity.CHECKS), items.is_confirmed_wrong(1, Activity.CHECKS)):
        with raises_code(ExecutionError, "invalid_input"):
            asyncio.run(question)
    assert asyncio.run(items.vote(1, (SEED,))).verdict is Verdict.WRONG


# ---------------------------------------------------------------------------------------------------- where they are


def a_claim(root: bytes = ROOT, items: int = 4, points: tuple[int, ...] = ()) -> ResultClaim:
    terms = ClaimTerms(
        TrainingMarket.index, ME, b"c" * 32, root, items, items * ITEM_WEIGHT, ITEM_WEIGHT, 5, 100, 1, 1, 1, 1, 0, 9, ()
    )
    return ResultClaim(terms, 30, ClaimStage.COMMITTING, 1, points=points)


def source_of(
    monkeypatch: pytest.MonkeyPatch, task: Task | None = CLAIMED, opened: Exception | None = None
) -> TaskItemSource:
    """Return the source of a chain with this task, whose input opens, or fails with an error."""
    opening = AsyncMock(return_value=OPENED, side_effect=opened)
    monkeypatch.setattr(task_items, "open_task", opening)
    monkeypatch.setattr(task_items, "open_program", opening)
    monkeypatch.setattr(task_items, "form_of", lambda *_: TrainingForm())

    async def tasks(_ids: object, *, final: bool = False) -> dict[bytes, Task]:
        return {} if task is None else {TASK: task}

    parts = parts_of(tasks=tasks, task_of_claim=AsyncMock(return_value=TASK))
    return TaskItemSource(parts, SimpleNamespace(run=lambda *_: None))  # type: ignore[arg-type]


def delivering(monkeypatch: pytest.MonkeyPatch, is_sound: bool | Exception = True) -> list[int]:
    """Let the provider deliver. Return the segments that were asked for."""
    asked = list[int]()

    async def deliver(*given: Any) -> bytes:
        asked.append(given[4])
        return encode_task_delivery(DeliveredState(DIGESTS, STATES[given[4]], b"k" * 32))

    monkeypatch.setattr(task_items, "fetched_delivery", deliver)
    error = is_sound if isinstance(is_sound, Exception) else None
    monkeypatch.setattr(task_items, "is_sound", AsyncMock(return_value=is_sound, side_effect=error))
    return asked


def test_a_checker_fetches_each_drawn_item_once_and_a_voter_the_disputed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    source, asked = source_of(monkeypatch), delivering(monkeypatch)
    points = (0, ITEM_WEIGHT, 3 * ITEM_WEIGHT, 3 * ITEM_WEIGHT + 1)
    items = asyncio.run(source.fetched(CLAIM, a_claim(points=points)))
    assert (asked, sorted(items.delivered)) == ([0, 1, 3], [0, 1, 3])
    for terms in (SimpleNamespace(index=2, point=None), SimpleNamespace(index=0, point=2 * ITEM_WEIGHT + 5)):
        dispute: Any = SimpleNamespace(terms=terms)
        items = asyncio.run(source.fetched(CLAIM, a_claim(points=points), (b"d" * 32, dispute)))
        assert list(items.delivered) == [2]


@pytest.mark.parametrize(
    ("task", "claim", "error", "code"),
    [
        (None, a_claim(), ChainError, "task_not_final"),
        (replace(CLAIMED, slots=()), a_claim(), ChainError, "task_not_final"),
        (CLAIMED, a_claim(root=OTHER), ChainError, "task_not_final"),
        (replace(CLAIMED, slots=(replace(SLOT, result=None),)), a_claim(), ChainError, "task_not_final"),
        (CLAIMED, a_claim(items=3), ExecutionError, "no_trace"),
        (replace(CLAIMED, order=replace(ORDER, segments=0)), a_claim(items=1), ExecutionError, "no_trace"),
    ],
)
def test_only_the_claimed_result_of_the_chain_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, task: Task | None, claim: ResultClaim, error: type[Exception], code: str
) -> None:
    source, asked = source_of(monkeypatch, task), delivering(monkeypatch)
    for question in (source.fetched(CLAIM, replace(claim, points=(0,))), source.own(CLAIM, claim)):
        with raises_code(error, code):
            asyncio.run(question)
    assert not asked


def test_a_key_that_does_not_open_the_result_is_no_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider may have given the right key to others."""
    source = source_of(monkeypatch)
    delivering(monkeypatch, SealError("another key", code="other_key"))
    with raises_code(DeliveryError, "other_key"):
        asyncio.run(source.fetched(CLAIM, a_claim(points=(0,))))


def test_own_samples_are_shown_from_the_claimed_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(monkeypatch)
    with raises_code(ExecutionError, "run_not_read"):
        asyncio.run(source.own(CLAIM, a_claim()))
    run = SimpleNamespace(is_whole=True, digests=list(DIGESTS), trails=TRAILS)
    source._book = SimpleNamespace(run=lambda *_: run)  # type: ignore[assignment]
    items = asyncio.run(source.own(CLAIM, a_claim()))
    assert asyncio.run(items.sample(items.index_at(2 * ITEM_WEIGHT), SEED)) == sample(2)
    run.digests = [*DIGESTS[:-1], OTHER]
    with raises_code(ExecutionError, "other_commitment"):
        asyncio.run(source.own(CLAIM, a_claim()))


def test_checkers_get_items_of_the_own_slot_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(monkeypatch)
    folder = SimpleNamespace(state=dict(enumerate(STATES)).get)
    run = SimpleNamespace(is_whole=True, digests=list(DIGESTS), folder=folder)
    source._book = SimpleNamespace(run=lambda *_: run)  # type: ignore[assignment]
    parts: Any = source._parts
    parts.store = SimpleNamespace(get=lambda _: b"blob")
    parts.identity.seal_key = SimpleNamespace(opened=lambda _: SimpleNamespace(key=b"k" * 32))
    delivery = asyncio.run(source.delivery(CLAIM, a_claim(), 3))
    assert read_task_delivery(delivery, ROOT, 4, 3) == DeliveredState(DIGESTS, STATES[3], b"k" * 32)
    with pytest.raises(RefusedDeliveryError):
        asyncio.run(source.delivery(CLAIM, a_claim(), 4))
    parts.identity.stash = OTHER
    with pytest.raises(RefusedDeliveryError):
        asyncio.run(source.delivery(CLAIM, a_claim(), 3))


# --------------------------------------------------------------------------------------------------- other questions


@contextmanager
def waiting() -> Iterator[None]:
    yield


DISPUTE, SOON = b"d" * 32, Patience(9.0, lambda: False)


def a_dispute() -> Dispute:
    found: Any = SimpleNamespace(terms=SimpleNamespace(work=TASK, index=0, seeds=()), seed=SEED)
    return found  # type: ignore[no-any-return]


UNUSABLE = UnusableInputError("not for us", code="invalid_input")
Ask = Callable[[TaskItemSource], Coroutine[Any, Any, ItemVote]]
ABOUT: dict[str, Ask] = {
    "sides": lambda source: source.right_side((DISPUTE, a_dispute()), waiting, SOON),
    "input": lambda source: source.input_vote(a_dispute(), waiting),
}


@dataclass(frozen=True)
class Computed:
    """A run with all its states."""

    states: tuple[bytes, ...]

    @property
    def digests(self) -> tuple[bytes, ...]:
        return tuple(map(state_hash, self.states))

    @property
    def root(self) -> bytes:
        return trace_root(self.digests)


def flipped(state: bytes) -> bytes:
    """Return another valid state of the same step."""
    return state[:40] + bytes((state[40] ^ 1,)) + state[41:]


def false_after(index: int) -> Computed:
    """Return a run with a false state s(index), from which the rest follows."""
    found = [*STATES[:index], flipped(STATES[index])]
    while len(found) < len(STATES):
        found.append(RUN.trailed(found[-1], 2, b"")[0])
    return Computed(tuple(found))


HONEST = Computed(tuple(STATES))
NOTHING = ItemVote(Verdict.RIGHT, TASK, (ItemSample(0, 0, NO_FINGERPRINT),))


def right_run(index: int) -> ItemVote:
    """Return the vote for the honest run whose sample is that of a segment."""
    seed = seed_for(index)
    return ItemVote(Verdict.RIGHT, ROOT, (sample(index, seed),))


def seed_for(index: int, items: int = 4) -> bytes:
    """Return a seed that draws this segment of the leg."""
    return (items * 7 + index).to_bytes(32, "little")


@dataclass
class Gang:
    """A gang with different results, in the order of its slots. Some of its providers deliver nothing."""

    monkeypatch: pytest.MonkeyPatch
    runs: Sequence[Computed]
    silent: frozenset[int] = frozenset()
    changed: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[int, int]] = field(default_factory=list)
    """The providers and segments that were asked for."""

    def __post_init__(self) -> None:
        """Let the providers deliver."""
        slots = tuple(
            replace(SLOT, provider=bytes((number,)) * 32, result=TaskResult(run.root, b"b" * 32, 7))
            for number, run in enumerate(self.runs)
        )
        task = replace(CLAIMED, state=TaskState.DISPUTED, slots=slots, **self.changed)
        self.source = source_of(self.monkeypatch, task)
        self.monkeypatch.setattr(task_items, "fetched_delivery", self.deliver)

    async def deliver(self, *given: Any) -> bytes:
        """Return a delivery for a voter."""
        _, owner, work, dispute_id, item, _ = given
        assert (work, dispute_id) == (TASK, DISPUTE)
        number = owner[0]
        self.asked.append((number, item))
        if number in self.silent:
            raise DeliveryError("nothing here", code="store_slow")
        run = self.runs[number]
        return encode_task_delivery(DeliveredState(run.digests, run.states[item], b"k" * 32))

    def vote(self, index: int = 0, *, is_late: bool = False) -> ItemVote:
        """Return the vote if the seed draws this segment of the leg."""
        dispute: Any = SimpleNamespace(terms=SimpleNamespace(work=TASK, index=0, seeds=()), seed=seed_for(index))
        vote = asyncio.run(self.source.right_side((DISPUTE, dispute), waiting, Patience(9.0, lambda: is_late)))
        assert is_well_formed(vote, 1)
        return vote


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize(
    "others",
    [(1,), (4,), (1, 2, 3, 4), (2, 2), (3, 1)],
    ids=["the first segment", "the last segment", "each segment", "two alike", "two"],
)
def test_the_right_run_is_found_among_false_ones(
    monkeypatch: pytest.MonkeyPatch, others: tuple[int, ...], index: int
) -> None:
    runs = [*map(false_after, others), HONEST]
    for order in (runs, runs[::-1]):
        gang = Gang(monkeypatch, order)
        assert gang.vote(index) == right_run(index)
        workers: Any = gang.source._parts.workers
        assert workers.training.steps <= 2 * (len(set(others)) + 1), "a segment for each other root, and one more"
        assert not gang.source._sides._kept


def test_of_one_that_lies_nobody_needs_a_delivery_to_find_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Honest votes are equal, whichever voters a liar serves."""
    runs, silent = [false_after(2), HONEST], frozenset({0})
    with raises_code(DeliveryError, "store_slow"):
        Gang(monkeypatch, runs, silent).vote()
    assert Gang(monkeypatch, runs, silent).vote(1, is_late=True) == Gang(monkeypatch, runs).vote(1) == right_run(1)


def test_one_owner_of_each_result_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [false_after(2), HONEST, HONEST, false_after(2)]
    assert Gang(monkeypatch, runs, frozenset({1, 3})).vote(3) == right_run(3)
    assert Gang(monkeypatch, runs, frozenset({0, 2})).vote(3) == right_run(3)


def test_a_delivery_is_fetched_once_while_another_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = Gang(monkeypatch, [HONEST, false_after(1)], frozenset({1}))
    for _ in range(3):
        with raises_code(DeliveryError, "store_slow"):
            gang.vote()
    assert gang.asked == [(0, 0), *[(1, 0)] * 3]


@pytest.mark.parametrize(("runs", "index"), [((2, 3), 2), ((1, 3), 2), ((4, 1), 3)])
def test_without_a_right_run_the_task_is_the_answer(
    monkeypatch: pytest.MonkeyPatch, runs: tuple[int, int], index: int
) -> None:
    """The drawn segment of the last one is false too."""
    assert Gang(monkeypatch, list(map(false_after, runs))).vote(index) == NOTHING


def test_the_last_run_with_a_right_drawn_segment_becomes_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    last = false_after(3)
    assert Gang(monkeypatch, [false_after(1), last]).vote(1) == replace(right_run(1), answer=last.root)


def test_without_any_delivery_the_task_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = Gang(monkeypatch, [HONEST, false_after(1)], frozenset({0, 1}))
    assert gang.vote(is_late=True) == NOTHING


def test_a_run_that_begins_with_another_state_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = false_after(0)
    assert Gang(monkeypatch, [elsewhere, HONEST]).vote(2) == right_run(2)
    assert Gang(monkeypatch, [elsewhere, false_after(2)]).vote(1) == NOTHING


def test_a_run_of_a_later_leg_begins_at_its_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can deliver the states before. So a run with other hashes there is out without a computation."""
    leg = {"behind": 1, "milestones": 1, "begun_from": trace_root(DIGESTS[:3])}
    gang = Gang(monkeypatch, [false_after(1), false_after(4), HONEST], changed=leg)
    seed = seed_for(1)
    assert gang.vote(1) == ItemVote(Verdict.RIGHT, ROOT, (replace(sample(3, seed), index=1),))
    assert {item for _, item in gang.asked} == {2, 3}


def test_what_is_no_state_of_the_request_puts_all_runs_with_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [Computed((*STATES[:2], b"no state", STATES[3], last)) for last in (STATES[4], STATES[3])]
    assert Gang(monkeypatch, runs).vote() == right_of(runs[0])
    assert Gang(monkeypatch, runs).vote(2) == NOTHING


def right_of(run: Computed) -> ItemVote:
    return replace(right_run(0), answer=run.root)


def test_a_result_without_a_trace_gets_no_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = Gang(monkeypatch, [HONEST, false_after(1)], changed={"order": replace(ORDER, segments=0)})
    with raises_code(ExecutionError, "no_trace"):
        gang.vote()


@pytest.mark.parametrize(
    ("changed", "segment"),
    [({}, 4), ({"behind": 1}, 1), ({"slots": ()}, 0), ({"slots": (replace(SLOT, result=None),)}, 0)],
)
def test_only_segments_of_the_own_leg_are_delivered_to_voters(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], segment: int
) -> None:
    source = source_of(monkeypatch, replace(CLAIMED, **changed))
    with pytest.raises(RefusedDeliveryError):
        asyncio.run(source.delivery(TASK, None, segment))


@pytest.mark.parametrize("about", ABOUT)
@pytest.mark.parametrize("checked_by", [CheckedBy.EXECUTED, CheckedBy.METERED])
def test_an_input_that_nobody_can_use_is_wrong(
    monkeypatch: pytest.MonkeyPatch, about: str, checked_by: CheckedBy
) -> None:
    source = source_of(monkeypatch, replace(CLAIMED, order=replace(ORDER, checked_by=checked_by)), UNUSABLE)
    vote = asyncio.run(ABOUT[about](source))
    assert vote == ItemVote(Verdict.WRONG, TASK, (ItemSample(0, 0, NO_FINGERPRINT),))
    assert is_well_formed(vote, 1)


@pytest.mark.parametrize("checked_by", [CheckedBy.EXECUTED, CheckedBy.METERED])
def test_an_input_that_opens_is_right(monkeypatch: pytest.MonkeyPatch, checked_by: CheckedBy) -> None:
    source = source_of(monkeypatch, replace(CLAIMED, order=replace(ORDER, checked_by=checked_by)))
    assert asyncio.run(source.input_vote(a_dispute(), waiting)).verdict is Verdict.RIGHT


@pytest.mark.parametrize("about", ABOUT)
def test_a_missing_input_or_task_is_no_vote(monkeypatch: pytest.MonkeyPatch, about: str) -> None:
    for task, opened, error in (
        (CLAIMED, BlobError("away", code="away"), BlobError), (None, None, ChainError),
    ):  # fmt: skip
        with pytest.raises(error):
            asyncio.run(ABOUT[about](source_of(monkeypatch, task, opened)))
