"""Disputes of tasks: the bond, the named or computed item, the wait for a claim, and appeals."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import planted_tasks
from error_codes import ended_code
from gpu_tasks.client.commands import dispute, task_dispute
from gpu_tasks.client.commands.id_prefixes import known_task
from gpu_tasks.data import claim_reads
from gpu_tasks.market.claims.claims import ClaimStage, ClaimTerms, ResultClaim
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import Task, TaskResult, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from planted_state import chain_with
from planted_tasks import ALICE, BOB, MILESTONES, SEGMENTS, PlantedTask, run_blob, run_root
from runtime.cryptography import ss58
from simulation.chains.market_chain import OGPU
from task_customer import OF_BOB, ogpu, refusal
from wallet.client import ChainClient
from wallet_runner import answer

ITEM = ("--item", "5")
OF_CHARLIE = ("--key", "//Charlie")


@pytest.fixture
def claimed(tmp_path: Path, blobs: dict[bytes, bytes]) -> Iterator[tuple[PlantedTask, str]]:
    """A task with an open claim of Alice's result. Its price and its greatest price are 1 oGPU."""
    planted = PlantedTask(TaskState.CLAIMED, result=run_blob(MILESTONES))
    with chain_with(tmp_path, planted) as url:
        yield planted, url


def test_no_more_compensation_is_shown_than_the_claim_leaves_of_the_collateral(
    tmp_path: Path, blobs: dict[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planted_tasks, "OFFER", replace(planted_tasks.OFFER, collateral=3 * OGPU))
    planted = PlantedTask(TaskState.CLAIMED, result=run_blob(MILESTONES))
    with chain_with(tmp_path, planted) as url:
        dry = answer(ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, *ITEM, "--dry-run"))
    # 2.59 oGPU secure the claim.
    assert dry["compensation_if_wrong"]["ogpu"] == "0.41"


def test_an_item_of_a_result_is_disputed_with_a_bond(tmp_path: Path, claimed: tuple[PlantedTask, str]) -> None:
    planted, url = claimed
    shown = answer(ogpu(tmp_path, url, "task", "show", planted.name))
    (claim,) = shown["claims"]
    assert (shown["state"], claim["place"], claim["stage"], claim["actor"]) == ("claimed", 0, "drawing", "beacon")
    assert claim["provider"] == ss58.encode(ALICE)
    dry = answer(ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, *ITEM, "--dry-run"))
    # Nine voters at 0.12 oGPU for one of ten segments, and half of the 2.59 oGPU that secure the claim.
    assert (dry["bond"]["ogpu"], dry["lost_if_right"]) == ("2.375", dry["bond"])
    assert (dry["price_back_if_wrong"]["ogpu"], dry["compensation_if_wrong"]["ogpu"]) == ("1", "1")
    assert (dry["reward_if_wrong"]["ogpu"], dry["reward_only_before_block"]) == ("1.295", 17)
    assert (dry["place"], dry["item"], dry["segment"], dry["claim_stage"]) == (0, 5, 5, "drawing")
    assert int(dry["total"]["grains"]) == int(dry["bond"]["grains"]) + int(dry["fee"]["grains"])
    done = answer(ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, *ITEM, "--yes"))
    assert done["success"] is True
    (claim,) = answer(ogpu(tmp_path, url, "task", "show", planted.name))["claims"]
    assert (claim["stage"], claim["dispute"]["item"], claim["dispute"]["question"]) == ("disputed", 5, "item")
    again = ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, *ITEM, "--yes")
    assert ended_code(again) == "dispute_open"
    assert ended_code(ogpu(tmp_path, url, "task", "appeal", planted.name, *OF_BOB, "--yes")) == "no_decision"


def test_anybody_disputes_a_named_item_and_only_the_customer_computes(
    tmp_path: Path, claimed: tuple[PlantedTask, str]
) -> None:
    planted, url = claimed
    named = answer(ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_CHARLIE, *ITEM, "--dry-run"))
    assert named["bond"]["ogpu"] == "2.375"
    computed = ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_CHARLIE, "--compute", "--dry-run")
    assert (ended_code(computed), ss58.encode(BOB) in computed.stderr) == ("not_owner", True)


def computes(monkeypatch: pytest.MonkeyPatch, wrong: int | None) -> None:
    """Replace the computation: it ends at once, and finds this item of the stated run wrong."""

    async def digests(*_: object) -> tuple[bytes, ...]:
        return ()

    monkeypatch.setattr(task_dispute, "right_digests", digests)
    monkeypatch.setattr(task_dispute, "stated_digests", digests)
    monkeypatch.setattr(task_dispute, "first_wrong_item", lambda *_: wrong)


def test_the_first_wrong_item_is_disputed(
    tmp_path: Path, claimed: tuple[PlantedTask, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    computes(monkeypatch, 7)
    planted, url = claimed
    done = answer(ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--compute", "--yes"))
    assert (done["item"], done["success"]) == (7, True)


def test_no_dispute_names_what_is_not_there_or_is_right(
    tmp_path: Path, claimed: tuple[PlantedTask, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    computes(monkeypatch, None)
    planted, url = claimed
    words = ("task", "dispute", planted.name, *OF_BOB, "--dry-run")
    assert ended_code(ogpu(tmp_path, url, *words)) == "item_not_named"
    assert ended_code(ogpu(tmp_path, url, *words, "--item", str(SEGMENTS))) == "no_such_item"
    assert ended_code(ogpu(tmp_path, url, *words, *ITEM, "--place", "1")) == "no_such_place"
    right = answer(ogpu(tmp_path, url, *words, "--compute"))
    assert (right["computed"], right["agree"], right["sent"]) == (SEGMENTS, SEGMENTS, False)
    assert dispute.NOTHING_TO_DISPUTE in right["result"]
    assert ended_code(ogpu(tmp_path, url, *words[:-1], "--compute")) == "no_terminal"
    assert ogpu(tmp_path, url, *words, "--compute", *ITEM).exit_code == 2


def changed(tmp_path: Path, *words: str, **fields: Any) -> str:
    """Return the code of a refused dispute of a task whose order has these fields."""
    planted = PlantedTask(TaskState.CLAIMED, result=run_blob(MILESTONES))
    planted.change = lambda task: replace(task, order=replace(task.order, **fields))
    with chain_with(tmp_path, planted) as url:
        return ended_code(ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--dry-run", *words))


@pytest.mark.parametrize("checked_by", [CheckedBy.REPLICATED, CheckedBy.METERED, CheckedBy.LEASED])
def test_nobody_disputes_what_is_no_claim(tmp_path: Path, checked_by: CheckedBy) -> None:
    assert changed(tmp_path, checked_by=checked_by) == "not_disputable"


def test_each_provider_of_a_gang_has_a_claim_of_its_own(tmp_path: Path) -> None:
    assert changed(tmp_path, *ITEM, slots=2) == "place_not_named"


def test_a_run_without_a_trace_has_no_segment_to_name(tmp_path: Path) -> None:
    planted = PlantedTask(TaskState.CLAIMED, result=run_blob(MILESTONES))
    planted.change = lambda task: replace(task, order=replace(task.order, segments=0))
    with chain_with(tmp_path, planted) as url:
        dry = answer(ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--dry-run", "--item", "0"))
        computed = ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--dry-run", "--compute")
    assert (dry["item"], "segment" in dry) == (0, False)
    assert ended_code(computed) == "no_trace"


def test_nothing_is_computed_that_can_never_be_disputed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def computed(*_: object) -> None:
        raise AssertionError("hours of it")

    monkeypatch.setattr(task_dispute, "right_digests", computed)
    ended = PlantedTask(TaskState.CLAIMED, result=run_blob(MILESTONES))
    ended.change = lambda task: replace(task, state=TaskState.ENDED, deadline=1_000)
    with chain_with(tmp_path, ended) as url:
        for words in (["--compute"], [*ITEM]):
            said = ogpu(tmp_path, url, "task", "dispute", ended.name, *OF_BOB, "--dry-run", *words)
            assert ended_code(said) == "claim_over"


def test_a_task_without_a_result_has_nothing_to_dispute(tmp_path: Path) -> None:
    running = PlantedTask()
    with chain_with(tmp_path, running) as url:
        said = ogpu(tmp_path, url, "task", "dispute", running.name, *OF_BOB, "--dry-run", *ITEM)
    assert ended_code(said) == "no_result"


TERMS = ClaimTerms(
    TrainingMarket.index, ALICE, BOB, b"r" * 32, SEGMENTS, 640, 640, OGPU, 22 * OGPU, 100_000, 240_000,
    OGPU // 1_000, 2 * OGPU, 0, 30, (),
)  # fmt: skip


def awaits(monkeypatch: pytest.MonkeyPatch, *steps: tuple[TaskState, ClaimStage | None]) -> None:
    """Each look shows the task in the next of these states, with a claim at this stage. The last one stays."""
    left = list(steps)

    async def shown(client: ChainClient, task_id: bytes, at: bytes) -> Task:
        found = await known_task(client, task_id, at)
        (slot,) = found.slots
        slot = replace(slot, result=TaskResult(run_root(MILESTONES), bytes(32), 7))
        return replace(found, state=left[0][0], slots=(slot,))

    async def claims(*_: object) -> list[ResultClaim | None]:
        stage = left[0][1]
        return [None if stage is None else ResultClaim(TERMS, 90, stage, 0)]

    async def heads(_: ChainClient) -> AsyncIterator[object]:
        async def each() -> AsyncIterator[object]:
            while len(left) > 1:
                del left[0]
                yield None

        return each()

    monkeypatch.setattr(task_dispute, "known_task", shown)
    monkeypatch.setattr(claim_reads, "claims", claims)
    monkeypatch.setattr(ChainClient, "finalized_heads", heads)


def test_a_run_that_is_computed_first_waits_for_its_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computes(monkeypatch, 5)
    planted = PlantedTask(milestone=1, checkpoint=run_blob(1))
    with chain_with(tmp_path, planted) as url:
        words = ("task", "dispute", planted.name, *OF_BOB, "--dry-run", "--compute")
        awaits(
            monkeypatch,
            (TaskState.ASKING, None),
            (TaskState.RUNNING, None),
            (TaskState.DISPUTED, None),
            (TaskState.CLAIMED, None),
            (TaskState.CLAIMED, ClaimStage.DISPUTED),
            (TaskState.CLAIMED, ClaimStage.COMMITTING),
        )
        said = ogpu(tmp_path, url, *words)
        assert "the run is computed here, and this command waits" in said.stderr
        facts = json.loads(said.stdout)
        assert (facts["item"], facts["claim_stage"]) == (5, "committing")
        awaits(monkeypatch, (TaskState.RUNNING, None), (TaskState.ENDED, None))
        assert "nothing can be disputed any more" in refusal(ogpu(tmp_path, url, *words))
