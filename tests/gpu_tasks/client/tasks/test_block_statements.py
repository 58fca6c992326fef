"""What blocks hold of a task: calls, nested ones too, and attestations; of other tasks and of units nothing."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.client.tasks.shifts import LifeBlocks, SignedStep, life_blocks, steps_about, task_blocks
from gpu_tasks.data import market_reads
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.statement import Attestation, ProofKind, SignedAttestation
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.task_statement import (
    SignedTaskAttestation,
    Stated,
    StatedMilestone,
    StatedResult,
    TaskAttestation,
)
from gpu_tasks.market.training.tasks import Milestone, Task, TaskResult, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.task_statements import Holding, StatedStep
from played_node import DevChain
from priced_tasks import WINDOWS, a_task
from runtime.blocks.extrinsic import encode_bare
from runtime.frame.call import Call
from runtime.pallets.utility import Utility
from small_chain import ALICE
from wallet.client import ChainClient

TASK, OTHER = b"t" * 32, b"o" * 32
USAGE = Usage(0, 0, 0, 0, 0, 0)
MILESTONE, RESULT = Milestone(3, b"r" * 32, 5, b"b" * 32), TaskResult(b"e" * 32, b"b" * 32, 7)


def calls(task: bytes) -> tuple[Call, ...]:
    return (
        TrainingMarket.checkpoint(task=task, place=1, milestone=MILESTONE),
        TrainingMarket.hold_checkpoint(task=task, number=3, root=MILESTONE.root),
        TrainingMarket.finish(task=task, place=1, result=RESULT),
        TrainingMarket.accept(task=task),
    )


def test_calls_are_found_however_deep_and_others_not() -> None:
    chain = DevChain()
    nested = Utility.batch(calls=(*calls(OTHER), Utility.batch(calls=calls(TASK))))
    raws = [chain.signed(ALICE, nested), b"no extrinsic", chain.signed(ALICE, calls(TASK)[0])]
    stated = SignedStep(ALICE.account, False, 1, 3, MILESTONE.root)
    assert list(steps_about(chain.runtime, raws, TASK)) == [
        stated,
        SignedStep(ALICE.account, True, 0, 3, b""),
        SignedStep(ALICE.account, False, 1, None, RESULT.root),
        stated,
    ]


def attestation(task: bytes, stated: Stated) -> SignedTaskAttestation:
    statement = TaskAttestation(
        version=1, task=task, auction=1, place=1, provider_key=b"k" * 32, device=b"d" * 32, stated=stated,
        usage=USAGE, started_at=1, finished_at=2,
    )  # fmt: skip
    return SignedTaskAttestation(statement, bytes(64))


def test_attestations_of_a_task_are_steps_and_those_of_others_and_of_units_are_none() -> None:
    runtime = DevChain().runtime
    of_unit = Attestation(
        version=2, unit=TASK, attempt=1, replica=0, provider_key=b"k" * 32, device=TASK, workload=TASK, model=TASK,
        input_root=TASK, output_root=TASK, output_blob=TASK, totals=Totals(1, 0, 1, TASK), salt=TASK,
        proof_kind=ProofKind.EXACT_HASH, proof_hash=TASK, proof_inline=b"", usage=USAGE, started_at=1, finished_at=2,
    )  # fmt: skip
    attached = Attestations.attach(
        attestations=(
            SignedAttestation(of_unit, bytes(64)),
            attestation(OTHER, StatedMilestone(MILESTONE)),
            attestation(TASK, StatedMilestone(MILESTONE)),
            attestation(TASK, StatedResult(RESULT)),
        )
    )
    assert list(steps_about(runtime, [encode_bare(runtime, attached)], TASK)) == [
        SignedStep(b"k" * 32, False, 1, 3, MILESTONE.root),
        SignedStep(b"k" * 32, False, 1, None, RESULT.root),
    ]


HEAD, END = 5_000, 40
RUNNING = a_task(state=TaskState.RUNNING, submitted_at=10)
ENDED = a_task(state=TaskState.ENDED, submitted_at=10, deadline=END + WINDOWS.keep)


@pytest.mark.parametrize(
    ("task", "most", "first", "last"),
    [
        (ENDED, 30, 11, END),
        (ENDED, 29, 12, END),
        (RUNNING, HEAD, 11, HEAD),
        (RUNNING, 30, HEAD - 29, HEAD),
    ],
)
def test_the_newest_blocks_of_a_task_s_life_are_read_and_none_behind_its_end(
    task: Task, most: int, first: int, last: int
) -> None:
    asked: list[tuple[int, int]] = []

    async def height(_final: bytes) -> int:
        return HEAD

    async def final_ids(begin: int, end: int) -> list[bytes]:
        asked.append((begin, end))
        return []

    client: Any = SimpleNamespace(height=height, final_ids=final_ids)
    found = asyncio.run(life_blocks(cast(ChainClient, client), task, b"f" * 32, most))
    assert asked == [(first, last)]
    assert (found.first, found.last, found.is_whole) == (first, last, first == 11)


def test_who_states_stands_for_its_stash_and_who_holds_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint's holder is whoever signed, as the record of the task has it."""
    chain = DevChain()
    blocks = [[chain.signed(ALICE, calls(TASK)[number])] for number in (0, 1)]

    async def block(at: bytes) -> Any:
        return SimpleNamespace(extrinsics=blocks[at[0]])

    async def stash_of(*_: object) -> bytes:
        return b"s" * 32

    monkeypatch.setattr(market_reads, "stash_of", stash_of)
    client: Any = SimpleNamespace(runtime=chain.runtime, block=block)
    life = LifeBlocks(7, 8, True, [b"\0", b"\1"])
    found = asyncio.run(task_blocks(cast(ChainClient, client), TASK, life, b"f" * 32))
    assert found.statements == [StatedStep(7, 1, b"s" * 32, 3, MILESTONE.root)]
    assert found.holdings == [Holding(8, ALICE.account, 3)]
