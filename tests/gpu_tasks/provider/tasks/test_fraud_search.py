"""A challenger computes a doubted result again: a lie is found at its first segment and proved, a right one passes."""

import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from error_codes import raises_code
from gpu_tasks.market.training.events import FraudProven
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.execution.executor import LaterState
from gpu_tasks.provider.tasks.fraud_search import (
    CannotProveError,
    Fraud,
    Step,
    forget,
    found_or_searched,
    search,
    why_not,
)
from provider_chain import Miner
from runtime.encoding.codec import codec
from simulation.chains.market_chain import CUSTOMER
from task_village import TaskVillage, in_task_village
from wallet import private_file

PRICES = ("0.001 oGPU/block", "0.002 oGPU/block")
NO_AUDIT = {"TrainingMarket.trace_audit_ppm": 5_000}


async def blocks(village: TaskVillage) -> AsyncIterator[int]:
    """Return a check for each block."""
    while True:
        yield village.node.chain.height
        await village.block()


async def watched(village: TaskVillage, task: bytes, who: Miner, base: Path, seen: list[Step]) -> Fraud | None:
    return await search(who.daemon.parts, base, task, seen.append, blocks(village))


async def proven(village: TaskVillage, task: bytes, who: Miner, fraud: Fraud) -> None:
    """Send the claim and the proof, in two blocks, as the command does."""
    identity = who.daemon.parts.identity
    claim = TrainingMarket.claim_fraud(task=task, commitment=fraud.commitment(identity, task))
    salt = fraud.salt(identity, task)
    show = TrainingMarket.show_fraud(task=task, place=fraud.place, proof=fraud.proof, salt=salt)
    for call in (claim, show):
        await who.chain.submit(call)
        await village.block()
    assert not village.node.failed


@in_task_village(6, numbers=NO_AUDIT)
async def test_a_lie_is_found_where_it_begins_and_its_proof_is_paid(
    village: TaskVillage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    village.bid_for(PRICES[0])
    task, prover = await village.submit(), village.miners[3]
    liar = village.hands[village.miners[0].keys.stash].training
    seen: list[Step] = []

    rightly = liar.advance

    async def wrong_from_the_third_segment_on(request: bytes, state: bytes, steps: int) -> LaterState:
        liar.is_lying = int.from_bytes(state[32:36], "little") >= 4
        return await rightly(request, state, steps)

    monkeypatch.setattr(liar, "advance", wrong_from_the_third_segment_on)
    fraud = await watched(village, task, prover, tmp_path / "run", seen)
    assert fraud is not None
    assert fraud.place == 0
    assert fraud.proof.index == 2, "two segments of two steps were right"
    assert seen[0].waits_for == "another worker of this provider"
    assert [step.done for step in seen if not step.waits_for] == list(range(6))
    await proven(village, task, prover, fraud)
    ended = await village.until(task, TaskState.ENDED, blocks=300)
    assert ended.outcome is TaskOutcome.LIED
    (event,) = village.happened(FraudProven)
    assert event.reward == fraud.reward


@in_task_village(6, numbers=NO_AUDIT)
async def test_a_right_result_is_found_right_and_a_party_proves_nothing(village: TaskVillage, tmp_path: Path) -> None:
    task = await village.bought(PRICES[0])
    assert await watched(village, task, village.miners[3], tmp_path / "run", []) is None
    winner = village.slot_miner(task)
    with raises_code(CannotProveError, "nothing_to_prove"):
        await watched(village, task, winner, tmp_path / "other", [])
    found = village.task(task)
    stranger = village.miners[3].keys.stash
    assert why_not(found, stranger) is None
    assert "takes part" in str(why_not(found, CUSTOMER.stash))
    assert "no such task" in str(why_not(None, stranger))
    assert "no trace" in str(why_not(replace(found, order=replace(found.order, segments=0)), stranger))
    village.ask(TrainingMarket.accept(task=task))
    assert "accepted" in str(why_not(village.task(task), stranger))
    await village.until(task, TaskState.ENDED)
    assert why_not(village.task(task), stranger) is not None


@in_task_village(6, numbers=NO_AUDIT)
async def test_a_salt_is_the_same_again_and_another_for_each_task_and_slot(
    village: TaskVillage, tmp_path: Path
) -> None:
    village.bid_for(PRICES[0])
    village.hands[village.miners[0].keys.stash].training.is_lying = True
    task, prover = await village.submit(), village.miners[3]
    fraud = await watched(village, task, prover, tmp_path / "run", [])
    assert fraud is not None
    assert fraud.proof.index == 0
    mine, other = prover.daemon.parts.identity, village.miners[4].daemon.parts.identity
    salts = [
        fraud.salt(mine, task),
        fraud.salt(mine, b"t" * 32),
        replace(fraud, place=1).salt(mine, task),
        fraud.salt(other, task),
    ]
    assert len(set(salts)) == 4
    assert fraud.salt(mine, task) == salts[0]


def kept_in(folder: Path) -> list[Path]:
    """Return the recorded proofs."""
    return list(folder.glob("proof-*"))


@in_task_village(6, numbers=NO_AUDIT)
async def test_a_proof_that_was_found_is_not_computed_again(village: TaskVillage, tmp_path: Path) -> None:
    """Interrupted between claim and proof, an hour's run was repeated, and the claim's bond was lost."""
    village.bid_for(PRICES[0])
    village.hands[village.miners[0].keys.stash].training.is_lying = True
    task, prover = await village.submit(), village.miners[3]
    own, seen = village.hands[prover.keys.stash].training, list[Step]()

    async def found() -> Fraud | None:
        parts = prover.daemon.parts
        return await found_or_searched(parts, tmp_path, tmp_path / "run", task, seen.append, blocks(village))

    fraud = await found()
    assert fraud is not None
    steps, said = own.steps, len(seen)
    assert steps > 0
    shutil.rmtree(tmp_path / "run")
    assert await found() == fraud
    assert (own.steps, len(seen)) == (steps, said), "nothing was computed, and nothing awaited"
    (file,) = kept_in(tmp_path)
    assert file.stat().st_mode & 0o077 == 0, "an author that reads it would claim it"
    file.write_bytes(b"no proof")
    assert await found() == fraud, "what is none is found again"
    assert own.steps > steps
    other = replace(fraud, proof=replace(fraud.proof, right=fraud.proof.after.digest))
    private_file.replace(file, codec(Fraud).encode(other))
    assert await found() == fraud, "one that says nothing of this result too"
    forget(tmp_path, task)
    forget(tmp_path, task)
    assert not kept_in(tmp_path)
