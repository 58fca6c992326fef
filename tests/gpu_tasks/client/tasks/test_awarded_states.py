"""Earlier auctions of a task, whose slots its record has no more: compared in the state of their award, or why not."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from gpu_tasks.client.commands.auctions import GONE, NO_SLOTS, TOO_OLD, with_winners
from gpu_tasks.client.tasks.shifts import LifeBlocks
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.selection import Selection
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks import task_check
from gpu_tasks.tasks.task_check import AuctionRecords, TaskCheck, check_task, selection_of
from runtime.state.overlay import Memory
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU
from task_chain import TaskChain, with_offers
from wallet.client import ChainClient
from wallet.rpc import RpcError


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
    """What is found where the blocks from `first` on are looked at, and the node has the states from `oldest` on."""
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
    checks = check_task(GENESIS_HASH, chain.task, now, chain.market.submitted[CUSTOMER.stash], found)
    return {check.what: check for check in checks}


def test_the_first_award_is_compared_in_the_state_of_its_block(auctioned_again: tuple[History, int]) -> None:
    chain, awarded_at = auctioned_again
    begin = chain.now().submitted_at + 1
    for first in (begin, begin + 2, awarded_at):
        checks = compared(chain, first=first)
        assert checks["auction 1"].is_right
        assert checks["auction 1"].says == f"1 of 2 bids win, for 7 oGPU, as it was in block {awarded_at}"
        assert checks["auction 2"].says == "1 of 2 bids win, for 3 oGPU, as it is"


def test_an_award_that_is_not_the_selection_s_is_found(
    auctioned_again: tuple[History, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, awarded_at = auctioned_again

    def other(award: Any, bids: Any) -> Selection:
        found = selection_of(award, bids)
        return replace(found, places=tuple(replace(each, pay=each.pay + 1) for each in found.places))

    monkeypatch.setattr(task_check, "selection_of", other)
    check = compared(chain, first=awarded_at)["auction 1"]
    assert check.is_right is False
    assert "slot 0 is not its winner's" in check.says


def test_where_later_states_alone_are_there_the_winner_is_found_in_those(auctioned_again: tuple[History, int]) -> None:
    chain, awarded_at = auctioned_again
    check = compared(chain, first=chain.now().submitted_at + 1, oldest=awarded_at + 1)["auction 1"]
    assert check.says == f"1 of 2 bids win, for 7 oGPU, as it was in block {awarded_at + 1}"
    check = compared(chain, first=awarded_at + 2)["auction 1"]
    assert check.says == f"1 of 2 bids win, for 7 oGPU, as it was in block {awarded_at + 2}"


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
        assert check.is_right is None
        assert check.says == f"1 of 2 bids win, for 7 oGPU; not compared with who got the slots: {why}"


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
