"""Claims of tasks by daemons on the real pallets: checked, refuted, and decided by voters, from bid to payment."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from claiming_village import check_ends, outcomes, until
from gpu_tasks.data.blob_client import DELIVERY_PATH, BlobError
from gpu_tasks.data.claim_delivery import TASK_DELIVERY_MAX, gathered_delivery, read_task_delivery
from gpu_tasks.data.run_states import read_run_state
from gpu_tasks.data.sealing import SealError, opened_with
from gpu_tasks.market.claims.claim_events import (
    CheckerDrawn,
    FindingCommitted,
    FindingOpened,
    ItemDisputed,
    SamplesShown,
)
from gpu_tasks.market.claims.claims import CheckEnd, ClaimOutcome
from gpu_tasks.market.claims.dispute_events import DisputeEnded, VoteCommitted, VoteOpened, VoterCharged
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.training.events import ResultsClaimed, TaskDisputed
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task, TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.blobs.deliveries import part_question
from gpu_tasks.provider.earnings import losses, payments
from gpu_tasks.provider.tasks import checkpoint_blobs, task_runs
from provider_chain import Miner
from simulation.chains.market_chain import CUSTOMER
from staged import Scene
from task_village import TaskVillage, in_task_village, stop
from training_requests import SMALL

PRICE = "0.001 oGPU/block"
ALWAYS = {"TrainingMarket.check_rate": 1_000_000}
"""Every item is drawn, up to four."""
FOUR: dict[str, Any] = {"asked": replace(SMALL, steps=8, segment=2), "milestones": 3}
"""Four segments, so each is an item with a point of its own."""
ONE: dict[str, Any] = {"asked": replace(SMALL, steps=8, segment=8), "milestones": 1}
"""One segment: the whole result is the only item."""
LEAST = 6
"""A provider, a checker, and four voters."""


def in_claimed_village(size: int = LEAST, **numbers: Any) -> Callable[[Scene], Callable[..., None]]:
    """Stage a test in a village that checks every item."""
    return in_task_village(
        size, numbers={**ALWAYS, **{name.replace("__", "."): each for name, each in numbers.items()}}
    )


async def claimed(village: TaskVillage, asked: dict[str, Any], **order: Any) -> tuple[bytes, Miner]:
    """Buy a task, and follow it to its claim. Return its id and its provider."""
    task = await village.bought(PRICE, until=TaskState.CLAIMED, **asked, **order)
    return task, village.slot_miner(task)


async def ended(village: TaskVillage, task: bytes) -> TaskOutcome:
    """Follow a task to its end."""
    await village.until(task, TaskState.ENDED, blocks=400)
    (slot,) = village.task(task).slots
    assert slot.outcome is not None
    return TaskOutcome(slot.outcome)


def decided(village: TaskVillage) -> list[Verdict]:
    return [Verdict(event.vote.verdict) for event in village.happened(DisputeEnded) if event.vote is not None]


def dispute(village: TaskVillage, task: bytes, index: int) -> None:
    """Let the customer dispute an item."""
    village.node.calls.append((CUSTOMER.stash, ResultClaims.dispute(claim=slot_case(task, 0), index=index)))


@pytest.mark.parametrize("asked", [FOUR, ONE], ids=["segments", "a whole"])
@in_claimed_village()
async def test_a_right_result_is_checked_and_paid(village: TaskVillage, asked: dict[str, Any]) -> None:
    task = await village.bought(PRICE, **asked)
    assert await ended(village, task) is TaskOutcome.ON_TIME
    assert outcomes(village) == [ClaimOutcome.PASSED]
    assert set(check_ends(village)) == {CheckEnd.PASSED}
    assert not village.happened(ItemDisputed)
    assert village.node.failed == []
    for drawn in village.happened(CheckerDrawn):
        assert village.hands[drawn.checker].training.steps == asked["asked"].steps, "each item once"


@pytest.mark.parametrize("asked", [FOUR, ONE], ids=["segments", "a whole"])
@in_claimed_village()
async def test_a_wrong_segment_that_is_drawn_convicts_its_provider(village: TaskVillage, asked: dict[str, Any]) -> None:
    village.hands[village.miners[0].keys.stash].training.wrong_at = asked["asked"].segment
    task = await village.bought(PRICE, **asked)
    assert await ended(village, task) is TaskOutcome.LIED
    assert outcomes(village) == [ClaimOutcome.REFUTED]
    assert decided(village) == [Verdict.WRONG]
    assert len({event.vote for event in village.happened(VoteOpened)}) == 1
    assert not village.happened(VoterCharged)
    assert village.node.failed == []


@pytest.mark.parametrize("index", [1, 2])
@in_claimed_village(TrainingMarket__check_rate=100_000)
async def test_a_wrong_segment_that_is_disputed_convicts_its_provider(village: TaskVillage, index: int) -> None:
    """Only the item from one state to the wrong one is false. Later ones follow from it."""
    village.hands[village.miners[0].keys.stash].training.wrong_at = 4
    task, _ = await claimed(village, FOUR)
    dispute(village, task, index)
    await until(village, lambda: village.happened(DisputeEnded))
    assert decided(village) == [Verdict.WRONG if index == 1 else Verdict.RIGHT]
    assert len({event.vote for event in village.happened(VoteOpened)}) == 1
    if index == 1:
        assert await ended(village, task) is TaskOutcome.LIED
        assert outcomes(village) == [ClaimOutcome.REFUTED]
    assert not village.happened(VoterCharged)


@in_claimed_village()
async def test_a_disputed_right_segment_costs_its_disputer(village: TaskVillage) -> None:
    task, _ = await claimed(village, FOUR)
    dispute(village, task, 3)
    assert await ended(village, task) is TaskOutcome.ON_TIME
    assert decided(village) == [Verdict.RIGHT]
    assert outcomes(village) == [ClaimOutcome.PASSED]


@in_claimed_village()
async def test_a_provider_that_delivers_nothing_is_convicted(village: TaskVillage) -> None:
    task, provider = await claimed(village, FOUR)
    provider.daemon.server._deliverer = None
    assert await ended(village, task) is TaskOutcome.LIED
    assert decided(village) == [Verdict.UNAVAILABLE]
    assert not village.happened(VoterCharged)


@pytest.mark.parametrize("lost", ["customer", "checkers"])
@in_claimed_village()
async def test_only_a_result_that_its_customer_cannot_open_is_wrong(
    village: TaskVillage, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """A checker that the provider left out opens the result with the delivered key."""
    honestly = checkpoint_blobs._reader_keys

    async def others(parts: Any, task: Any, reply_key: bytes) -> list[bytes]:
        readers = await honestly(parts, task, reply_key)
        own = parts.identity.seal_key.public
        return [key for key in readers if key != reply_key] if lost == "customer" else [reply_key, own]

    monkeypatch.setattr(checkpoint_blobs, "_reader_keys", others)
    task = await village.bought(PRICE, **FOUR)
    assert await ended(village, task) is (TaskOutcome.LIED if lost == "customer" else TaskOutcome.ON_TIME)
    assert decided(village) == ([Verdict.WRONG] if lost == "customer" else [])
    assert not village.happened(VoterCharged)


@pytest.mark.parametrize(
    ("wrong_at", "delivers"),
    [(None, True), (2, True), (8, True), (8, False)],
    ids=["nobody lies", "the first segment", "the last segment", "withheld"],
)
@in_claimed_village(8)
async def test_of_a_gang_with_different_results_the_right_one_is_paid(
    village: TaskVillage, wrong_at: int | None, *, delivers: bool
) -> None:
    village.bid_for(PRICE, "0.002 oGPU/block")
    lies, liar = wrong_at is not None, village.miners[0].keys.stash
    village.hands[liar].training.wrong_at = wrong_at
    task = await village.submit(slots=2, time_value=0, **FOUR)
    if lies:
        await village.until(task, TaskState.DISPUTED, blocks=200)
        computed = {stash: hands.training.steps for stash, hands in village.hands.items()}
        village.miners[0].daemon.server._deliverer = village.miners[0].daemon.server._deliverer if delivers else None
        await until(village, lambda: village.happened(DisputeEnded))
        votes = village.happened(VoteOpened)
        assert len({event.vote for event in votes}) == 1
        for event in votes:
            steps = village.hands[event.voter].training.steps - computed[event.voter]
            assert steps == (4 if delivers else 2), "a segment of each result that was delivered"
    await village.until(task, TaskState.ENDED, blocks=400)
    assert [event.dispute for event in village.happened(TaskDisputed)] == [
        event.dispute for event in village.happened(DisputeEnded)
    ]
    assert decided(village) == ([Verdict.RIGHT] if lies else [])
    assert [event.claims for event in village.happened(ResultsClaimed)] == [1 if lies else 2]
    for slot in village.task(task).slots:
        assert slot.outcome is (TaskOutcome.LIED if lies and slot.provider == liar else TaskOutcome.ON_TIME)
    assert not village.happened(VoterCharged)
    assert village.node.failed == []


@pytest.mark.parametrize("stop_at", [ResultsClaimed, CheckerDrawn, FindingCommitted, SamplesShown, FindingOpened])
@in_claimed_village(4)
async def test_a_restart_at_any_step_of_a_check_loses_nothing(village: TaskVillage, stop_at: type[object]) -> None:
    """Everybody restarts: the provider keeps its run with the trails, and the checker its finding."""
    task = await village.bought(PRICE, **FOUR)
    await until(village, lambda: village.happened(stop_at))
    provider = village.task(task).slots[0].provider
    for miner in list(village.miners):
        await village.restart(miner)
    assert await ended(village, task) is TaskOutcome.ON_TIME
    assert set(check_ends(village)) == {CheckEnd.PASSED}
    assert len(village.happened(FindingCommitted)) == len(village.happened(CheckerDrawn))
    assert not village.hands[provider].training.steps, "the trails are on the disk"
    await village.blocks(4)
    base = village.miner(provider).daemon.settings.base_path
    assert not list((base / "tasks").iterdir()), "its states are gone"
    assert village.node.failed == []


@pytest.mark.parametrize("stop_at", [ItemDisputed, VoteCommitted, VoteOpened])
@pytest.mark.parametrize("lies", [False, True])
@in_claimed_village()
async def test_a_restart_at_any_step_of_a_vote_loses_nothing(
    village: TaskVillage, stop_at: type[object], *, lies: bool
) -> None:
    village.hands[village.miners[0].keys.stash].training.wrong_at = 4 if lies else None
    task, _ = await claimed(village, FOUR)
    dispute(village, task, 1)
    await until(village, lambda: village.happened(stop_at))
    for miner in list(village.miners):
        await village.restart(miner)
    assert await ended(village, task) is (TaskOutcome.LIED if lies else TaskOutcome.ON_TIME)
    assert decided(village) == [Verdict.WRONG if lies else Verdict.RIGHT]
    assert not village.happened(VoterCharged)
    assert village.node.failed == []


@pytest.mark.parametrize("lost", ["state-2", "trail-1", "state-0"])
@in_claimed_village(4)
async def test_a_lost_file_of_a_run_is_computed_again(village: TaskVillage, lost: str) -> None:
    """The provider delivers and shows its run after a power cut that tore a file."""
    task, provider = await claimed(village, FOUR)
    (folder,) = (provider.daemon.settings.base_path / "tasks").iterdir()
    (folder / lost).write_bytes(b"torn")
    await village.restart(provider)
    assert await ended(village, task) is TaskOutcome.ON_TIME
    assert set(check_ends(village)) == {CheckEnd.PASSED}


@pytest.mark.parametrize("is_elsewhere", [False, True])
@in_claimed_village(TrainingMarket__check_rate=100_000)
async def test_a_rest_that_begins_elsewhere_than_at_the_checkpoint_is_wrong(
    village: TaskVillage, monkeypatch: pytest.MonkeyPatch, *, is_elsewhere: bool
) -> None:
    """Every segment that its checkers compute follows from the state before, and the claim has the rest alone."""
    honestly = task_runs._first_state

    async def elsewhere(parts: Any, task: Task, *rest: Any) -> tuple[bytes, list[bytes]]:
        state, earlier = await honestly(parts, task, *rest)
        if task.behind and is_elsewhere:
            state = state[:36] + bytes(len(state) - 36)  # no weight, and no momentum
        return state, earlier

    monkeypatch.setattr(task_runs, "_first_state", elsewhere)
    task = await village.bought(PRICE, until=TaskState.RUNNING)
    while village.task(task).slots[0].reported < 1:
        await village.block()
    stated = village.task(task).slots[0].milestone
    assert stated is not None
    village.ask(TrainingMarket.confirm_checkpoint(task=task, number=1, root=stated.root))
    gone = village.slot_miner(task)
    await stop(village, gone)
    village.bid_for("0.002 oGPU/block")
    await village.until(task, TaskState.COMMITTING, blocks=200)
    await village.until(task, TaskState.CLAIMED, blocks=200)
    await until(village, lambda: village.task(task).open_claims)
    claim = village.node.chain.now()[ResultClaims].claims[slot_case(task, 0)]
    assert claim is not None
    assert claim.terms.items == 4, "two of six segments were computed before"
    dispute(village, task, 1)
    assert await ended(village, task) is (TaskOutcome.LIED if is_elsewhere else TaskOutcome.ON_TIME)
    assert decided(village)[0] is (Verdict.WRONG if is_elsewhere else Verdict.RIGHT)
    assert {event.voter for event in village.happened(VoterCharged)} <= {gone.keys.stash}, "for its silence"


def noted_money(miner: Miner) -> int:
    """Return the earnings less the losses that a provider noted."""
    base = miner.daemon.settings.base_path
    return sum(each.grains for each in payments(base)) - sum(each.grains for each in losses(base))


@pytest.mark.parametrize("kind", ["right", "refuted", "a false side"])
@in_claimed_village(8)
async def test_checkers_and_voters_note_what_they_earn(village: TaskVillage, kind: str) -> None:
    chain = village.node.chain
    village.bid_for(PRICE, "0.002 oGPU/block")
    working = {miner.keys.stash for miner in village.miners[:2]}
    if kind != "right":
        village.hands[village.miners[0].keys.stash].training.wrong_at = 4
    gang: dict[str, Any] = {"slots": 2, "time_value": 0} if kind == "a false side" else {}
    task = await village.submit(**FOUR, **gang)
    before = {miner.keys.stash: chain.owned(miner.keys.stash) for miner in village.miners}
    await village.until(task, TaskState.ENDED, blocks=400)
    await village.blocks(4)
    gained = {}
    for miner in (each for each in village.miners if each.keys.stash not in working):
        gained[miner.keys.stash] = chain.owned(miner.keys.stash) - before[miner.keys.stash]
        assert noted_money(miner) == gained[miner.keys.stash], miner.keys.name
    paid = {event.checker for event in village.happened(CheckerDrawn)} | {
        event.voter for event in village.happened(VoteOpened)
    }
    assert {stash for stash, grains in gained.items() if grains} == paid - working
    assert paid


@in_claimed_village(7)
async def test_items_are_for_checkers_and_voters_alone(village: TaskVillage) -> None:
    task, provider = await claimed(village, FOUR)
    await until(village, lambda: village.happened(CheckerDrawn))
    claim, url = slot_case(task, 0), f"http://127.0.0.1:{provider.daemon.server.port}"
    drawn = village.happened(CheckerDrawn)[0].checker
    checker = village.miner(drawn).daemon.parts.identity
    outside = (provider.keys.stash, drawn)
    stranger = next(miner for miner in village.miners if miner.keys.stash not in outside).daemon.parts.identity
    for item in range(4):
        sealed = await village.blobs.ask(url, DELIVERY_PATH, part_question(checker, claim, None, item, 0))
        with pytest.raises(SealError):
            stranger.seal_key.open(sealed)
        part = checker.seal_key.open(sealed)
        root = village.task(task).slots[0].result
        assert root is not None
        delivery = await gathered_delivery(AsyncMock(return_value=part), TASK_DELIVERY_MAX)
        delivered = read_task_delivery(delivery, root.root, 4, item)
        result = opened_with(delivered.key, provider.daemon.parts.store.get(root.blob) or b"")
        assert read_run_state(result.content, village.task(task).order, 3, root.root).digests == delivered.digests
    for question in (
        part_question(stranger, claim, None, 0, 0),
        part_question(stranger, claim, b"d" * 32, 0, 0),
        part_question(checker, claim, None, 4, 0),
        part_question(checker, claim, None, 0, 1),
        part_question(checker, slot_case(task, 1), None, 0, 0),
        part_question(checker, task, None, 0, 0),
    ):
        with pytest.raises(BlobError, match="answered 403"):
            await village.blobs.ask(url, DELIVERY_PATH, question)


@in_claimed_village(4)
async def test_who_is_not_the_provider_delivers_nothing(village: TaskVillage) -> None:
    """The standby has prepared the same run."""
    village.bid_for(PRICE, "0.002 oGPU/block")
    task = await village.submit(**FOUR)
    await village.until(task, TaskState.CLAIMED)
    await until(village, lambda: village.happened(CheckerDrawn))
    checker = village.miner(village.happened(CheckerDrawn)[0].checker).daemon.parts.identity
    question = part_question(checker, slot_case(task, 0), None, 0, 0)
    for miner in village.miners:
        is_provider = miner is village.slot_miner(task)
        url = f"http://127.0.0.1:{miner.daemon.server.port}"
        if is_provider:
            assert await village.blobs.ask(url, DELIVERY_PATH, question)
            continue
        with pytest.raises(BlobError, match="answered 403"):
            await village.blobs.ask(url, DELIVERY_PATH, question)
