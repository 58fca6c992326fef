"""The blocks of a task's life, and the slots of its earlier auctions."""

import asyncio
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.client.commands.auctions import GONE, NO_SLOTS, TOO_OLD, with_winners
from gpu_tasks.client.tasks.shifts import LifeBlocks, SignedStep, life_blocks, steps_about, task_blocks
from gpu_tasks.data import market_reads
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.statement import Attestation, ProofKind, SignedAttestation
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.selection import Selection
from gpu_tasks.market.training.task_statement import (
    SignedTaskAttestation,
    Stated,
    StatedMilestone,
    StatedResult,
    TaskAttestation,
)
from gpu_tasks.market.training.tasks import Milestone, Task, TaskResult, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks import task_check
from gpu_tasks.tasks.task_check import AuctionRecords, TaskCheck, check_task, selection_of
from gpu_tasks.tasks.task_statements import Holding, StatedStep
from played_node import DevChain
from priced_tasks import WINDOWS, a_task
from runtime.blocks.extrinsic import encode_bare
from runtime.frame.call import Call
from runtime.pallets.utility import Utility
from runtime.state.overlay import Memory
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU
from small_chain import ALICE
from task_chain import TaskChain, with_offers
from wallet.client import ChainClient
from wallet.rpc import RpcError

# What blocks hold of a task: calls, nested ones too, and attestations; of other tasks and of units nothing.


TASK, OTHER = b"t" * 32, b"o" * 32
USAGE = Usage(0, 0, 0, 0, 0, 0)
MILESTONE, RESULT = Milestone(3, b"r" * 32, 5, b"b" * 32), TaskResult(b"e" * 32, b"b" * 32, 7)


def calls(task: bytes) -> tuple[Call, ...]:
    return (
        TrainingMarket.report_milestone(task=task, place=1, milestone=MILESTONE),
        TrainingMarket.confirm_checkpoint(task=task, number=3, root=MILESTONE.root),
        TrainingMarket.finish(task=task, place=1, result=RESULT),
        TrainingMarket.cancel(task=task),
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


# Earlier auctions of a task, whose slots its record has no more: compared in the state of their award, or why not.


class History(TaskChain):
    """A chain of which every state is kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.states: dict[int, Memory] = {}
        make = self.chain.block

        def block(*steps: Any, **more: Any) -> Any:
            made = make(*steps, **more)
            self.states[self.chain.height] = self.chain.state
            return made

        self.chain.block = block  # type: ignore[method-assign]


class Client:
    """A node that keeps the states of some blocks; a block's id is its height."""

    def __init__(self, chain: History, oldest: int) -> None:
        self.chain, self.oldest = chain, oldest
        self.reads = 0

    async def read(self, item: Any, key: bytes, *, at: bytes) -> Any:
        height = int.from_bytes(at, "big")
        if height < self.oldest:
            raise RpcError(4003, "the state is gone")
        self.reads += 1
        market = self.chain.chain.runtime.at(self.chain.states[height])[TrainingMarket]
        return getattr(market, item.attribute)[key]


@pytest.fixture(scope="module")
def auctioned_again() -> tuple[History, int]:
    """A task whose first winner is gone, so that its rest was sold again; the block of its first award."""
    chain = History()
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU))
    awarded_at = chain.height
    chain.start(chain.alice)
    chain.until(TaskState.COMMITTING)
    chain.auction(with_offers(chain.keys[2:], 2 * OGPU, 3 * OGPU, blocks=20))
    chain.start(chain.keys[2])
    return chain, awarded_at


def compared(chain: History, *, first: int, oldest: int = 0, task: Task | None = None) -> dict[str, TaskCheck]:
    """Return the findings in the blocks from `first` on, at a node with the states from `oldest` on."""
    now, last = task or chain.now(), chain.height
    life = LifeBlocks(
        first, last, first == now.submitted_at + 1, [height.to_bytes(32, "big") for height in range(first, last + 1)]
    )
    client, found = Client(chain, oldest), []
    for number in range(1, now.auction + 1):
        auction = auction_id(chain.task, number)
        bids = {device: bid for device, bid in chain.market.bids.under(auction) if bid is not None}
        records = AuctionRecords(chain.market.awards[auction], bids)
        reading = with_winners(cast(ChainClient, client), chain.task, now, number, records, life)
        found.append(asyncio.run(reading))
    assert client.reads <= 2 * now.auction + len(life.ids).bit_length() * now.auction
    checks = check_task(GENESIS_HASH, chain.task, now, chain.market.submission_counts[CUSTOMER.stash], found)
    return {check.what: check for check in checks}


def test_the_first_award_is_compared_in_the_state_of_its_block(auctioned_again: tuple[History, int]) -> None:
    chain, awarded_at = auctioned_again
    begin = chain.now().submitted_at + 1
    for first in (begin, begin + 2, awarded_at):
        checks = compared(chain, first=first)
        assert checks["auction 1"].is_right
        assert re.findall("[0-9]+", checks["auction 1"].says) == ["1", "2", "7", f"{awarded_at}"]
        assert re.findall("[0-9]+", checks["auction 2"].says) == ["1", "2", "3"]


def test_an_award_that_is_not_the_selection_s_is_found(
    auctioned_again: tuple[History, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, awarded_at = auctioned_again

    def other(award: Any, bids: Any) -> Selection:
        found = selection_of(award, bids)
        return replace(found, places=tuple(replace(each, pay=each.pay + 1) for each in found.places))

    monkeypatch.setattr(task_check, "selection_of", other)
    check = compared(chain, first=awarded_at)["auction 1"]
    assert (check.is_right, check.codes) == (False, ("slot",))


def test_where_later_states_alone_are_there_the_winner_is_found_in_those(auctioned_again: tuple[History, int]) -> None:
    chain, awarded_at = auctioned_again
    check = compared(chain, first=chain.now().submitted_at + 1, oldest=awarded_at + 1)["auction 1"]
    assert re.findall("[0-9]+", check.says) == ["1", "2", "7", f"{awarded_at + 1}"]
    check = compared(chain, first=awarded_at + 2)["auction 1"]
    assert re.findall("[0-9]+", check.says) == ["1", "2", "7", f"{awarded_at + 2}"]


def test_what_is_not_compared_is_said_with_the_reason(auctioned_again: tuple[History, int]) -> None:
    chain, _ = auctioned_again
    begin, last = chain.now().submitted_at + 1, chain.height
    for first, oldest, why in (
        (begin, last, GONE),
        (begin, last + 1, GONE),
        (last, 0, TOO_OLD),
        (last + 1, 0, TOO_OLD),
    ):
        check = compared(chain, first=first, oldest=oldest)["auction 1"]
        assert (check.is_right, check.codes) == (None, ("not_compared",))
        assert re.findall("[0-9]+", check.says)[:3] == ["1", "2", "7"]
        assert check.says.endswith(why)


def test_an_award_without_a_slot_is_said(auctioned_again: tuple[History, int]) -> None:
    chain, awarded_at = auctioned_again
    without = History.__new__(History)
    without.__dict__.update(chain.__dict__)
    bound = chain.chain.runtime.at(chain.states[awarded_at])
    task = bound[TrainingMarket].tasks[chain.task]
    assert task is not None
    bound[TrainingMarket].tasks[chain.task] = replace(task, slots=())
    without.states = chain.states | {awarded_at: chain.states[awarded_at].updated(bound.overlay.changes())}
    assert NO_SLOTS in compared(without, first=chain.now().submitted_at + 1)["auction 1"].says
