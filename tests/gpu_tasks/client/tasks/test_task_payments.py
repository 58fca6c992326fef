"""Payments, losses and refunds of a task's parties: the output equals the moved money, to the grain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from gpu_tasks.client.tasks.payments import JUDGES, TaskAccount, payments_of_task
from gpu_tasks.client.tasks.shifts import TaskEvents, shift_rows, shifts_of, task_events
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.events import FraudProven
from gpu_tasks.market.training.life.submitting import looks
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.tasks.task_check import AuctionRecords
from looked_at import audited, disputed, judged, says
from runtime.encoding.types import Finalization
from runtime.pallets.system import EventRecord
from runtime.state.overlay import Memory
from simulation.chains.market_chain import CUSTOMER, OGPU, MarketChain, hash_of
from task_chain import RIGHT, WRONG, Books, TaskChain, awarded, finish_and_accept, with_offers, work
from wallet.rpc import RpcError

Kept = dict[int, tuple[Memory, list[Any]]]


class Node:
    """A client of a node that keeps states and events from a block on; a block's id is its number."""

    def __init__(self, chain: TaskChain, kept: Kept, oldest: int) -> None:
        self._kept, self._oldest, self._height = kept, oldest, chain.height
        self.runtime, self.genesis_hash = chain.chain.runtime, hash_of(0)

    def _at(self, block: bytes) -> tuple[Memory, list[Any]]:
        height = int.from_bytes(block, "big")
        if height < self._oldest:
            raise RpcError(4003, "State already discarded")
        return self._kept[height]

    async def height(self, _block: bytes) -> int:
        return self._height

    async def block_id(self, height: int) -> bytes:
        return height.to_bytes(32, "big")

    async def events(self, block: bytes) -> tuple[EventRecord, ...]:
        return tuple(EventRecord(Finalization(), event) for event in self._at(block)[1])

    async def raw(self, keys: Sequence[bytes], *, at: bytes) -> dict[bytes, bytes | None]:
        return {key: self._at(at)[0].get(key) for key in keys}

    async def raw_keys(self, prefix: bytes, *, at: bytes, most: int) -> list[bytes]:
        return list(self._at(at)[0].keys(prefix))[: most + 1]


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    """State and events of every block of the test's chain."""
    found: Kept = {}
    make = MarketChain.block

    def block(self: MarketChain, *steps: Any, **named: Any) -> Any:
        made = make(self, *steps, **named)
        found[self.height] = (self.state, self.events)
        return made

    monkeypatch.setattr(MarketChain, "block", block)
    return found


def records(chain: TaskChain) -> list[AuctionRecords]:
    found = []
    for number in range(1, chain.now().auction + 1):
        auction = auction_id(chain.task, number)
        bids = {device: bid for device, bid in chain.market.bids.under(auction) if bid is not None}
        found.append(AuctionRecords(chain.market.awards[auction], bids))
    return found


def told(chain: TaskChain, kept: Kept, oldest: int = 0) -> TaskEvents:
    client = cast("Any", Node(chain, kept, oldest))
    return asyncio.run(task_events(client, chain.task, chain.now(), b""))


def account(chain: TaskChain, happened: TaskEvents, held: dict[int, int] | None = None) -> TaskAccount:
    task, auctions = chain.now(), records(chain)
    shifts = shifts_of(task, auctions, happened)
    return payments_of_task(chain.task, task, auctions, shifts, happened, held or {})


def on_time() -> tuple[TaskChain, Books]:
    chain, books = awarded()
    work(chain, chain.alice, milestones=3)
    finish_and_accept(chain, chain.alice)
    return chain, books


def silent() -> tuple[TaskChain, Books]:
    chain, books = awarded()
    work(chain, chain.alice, milestones=3)
    chain.blocks(2)
    chain.finish(chain.alice)
    chain.until(TaskState.ENDED)
    return chain, books


def late() -> tuple[TaskChain, Books]:
    chain = TaskChain()
    books = Books(chain)
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU, blocks=8))
    work(chain, chain.alice, milestones=3)
    chain.blocks(4)
    finish_and_accept(chain, chain.alice)
    return chain, books


def not_started() -> tuple[TaskChain, Books]:
    chain, books = awarded()
    chain.blocks(5)
    work(chain, chain.bob, milestones=3)
    finish_and_accept(chain, chain.bob)
    return chain, books


def provider_died() -> tuple[TaskChain, Books]:
    chain, books = awarded()
    work(chain, chain.alice, milestones=2)
    chain.until(TaskState.ASKING)
    work(chain, chain.bob, milestones=1, first=3)
    finish_and_accept(chain, chain.bob)
    return chain, books


def died_where_that_costs_the_customer_little() -> tuple[TaskChain, Books]:
    """Of what who died loses most burns."""
    chain, books = awarded(6 * OGPU, 7 * OGPU, auctions=1, loss=OGPU // 100)
    work(chain, chain.alice, milestones=1)
    chain.until(TaskState.ENDED)
    return chain, books


def nobody_left() -> tuple[TaskChain, Books]:
    chain, books = awarded(6 * OGPU, 7 * OGPU, auctions=1)
    work(chain, chain.alice, milestones=1)
    chain.until(TaskState.ENDED)
    return chain, books


def found_right() -> tuple[TaskChain, Books]:
    chain, books = audited()
    judged(chain, says(RIGHT))
    return chain, books


def found_lying() -> tuple[TaskChain, Books]:
    chain, books = audited(root=WRONG)
    judged(chain, says(RIGHT))
    return chain, books


def disputed_falsely() -> tuple[TaskChain, Books]:
    chain, books = disputed()
    judged(chain, says(RIGHT))
    return chain, books


def cancelled() -> tuple[TaskChain, Books]:
    chain = TaskChain()
    books = Books(chain)
    chain.submit()
    chain.cancel()
    return chain, books


def taken_back() -> tuple[TaskChain, Books]:
    chain, books = awarded()
    chain.cancel()
    return chain, books


def stopped() -> tuple[TaskChain, Books]:
    chain, books = awarded()
    work(chain, chain.alice, milestones=1)
    chain.blocks(3)
    chain.stop()
    return chain, books


def gang() -> tuple[TaskChain, Books]:
    chain, books = awarded(5 * OGPU, 6 * OGPU, 7 * OGPU, 8 * OGPU, slots=2)
    first, second = chain.providers()
    chain.start(first)
    chain.start(second, 1)
    for place, keys in enumerate((first, second)):
        for _ in range(1):
            chain.report(keys, 1, place)
    chain.stop()
    return chain, books


def unopened() -> tuple[TaskChain, Books]:
    chain = TaskChain()
    books = Books(chain)
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU), unopened=(chain.keys[2],))
    work(chain, chain.alice, milestones=3)
    finish_and_accept(chain, chain.alice)
    return chain, books


TOLD_BY_RECORD = (on_time, silent, late, cancelled, taken_back, stopped, gang, unopened)
TOLD_BY_EVENTS = (
    not_started, provider_died, nobody_left, found_right, found_lying, disputed_falsely,
    died_where_that_costs_the_customer_little,
)  # fmt: skip
WITHOUT_JUDGES = (*TOLD_BY_RECORD, not_started, provider_died, nobody_left, died_where_that_costs_the_customer_little)


@pytest.mark.parametrize("scene", TOLD_BY_RECORD + TOLD_BY_EVENTS)
def test_what_is_shown_is_what_moved(scene: Callable[[], tuple[TaskChain, Books]], kept: Kept) -> None:
    chain, books = scene()
    assert chain.state() is TaskState.ENDED
    chain.blocks(3)
    found = account(chain, told(chain, kept))
    assert found.unknown == []
    for keys in (*chain.keys, CUSTOMER):
        mine = [each for each in found.parties if each.account == keys.stash]
        shown = sum((each.paid or 0) - (each.lost or 0) for each in mine)
        looks = 30_000 * chain_looks(chain) if keys is CUSTOMER else 0
        assert shown == chain.wealth(keys.stash) - books.before[keys] + looks, (keys.name, mine)


@pytest.mark.parametrize("scene", WITHOUT_JUDGES)
def test_what_somebody_lost_somebody_was_paid_or_it_burned(
    scene: Callable[[], tuple[TaskChain, Books]], kept: Kept
) -> None:
    chain, _ = scene()
    parties = account(chain, told(chain, kept)).parties
    assert sum(each.paid or 0 for each in parties) == sum(each.lost or 0 for each in parties) > 0


def test_who_showed_a_lie_was_paid_by_the_liar(kept: Kept) -> None:
    chain, _ = found_lying()
    happened = told(chain, kept)
    alone = account(chain, happened)
    happened.told.insert(0, (chain.height, FraudProven(chain.task, 0, chain.keys[5].stash, 77)))
    shown = account(chain, happened)
    (before,), (after,) = ([each for each in one.parties if each.party == "provider"] for one in (alone, shown))
    assert before.lost is not None
    assert after.lost == before.lost + 77
    assert [(each.account, each.paid) for each in shown.parties if each.party == "fraud prover"] == [
        (chain.keys[5].stash, 77)
    ]


def chain_looks(chain: TaskChain) -> int:
    order = chain.now().order
    return looks(order.auctions, order.slots)


@pytest.mark.parametrize("scene", TOLD_BY_RECORD + TOLD_BY_EVENTS)
def test_what_a_node_that_has_forgotten_shows_is_right_or_said_to_be_unknown(
    scene: Callable[[], tuple[TaskChain, Books]], kept: Kept
) -> None:
    chain, _ = scene()
    full, record = account(chain, told(chain, kept)), account(chain, told(chain, kept, chain.height + 1))
    assert bool(record.unknown) == (scene in TOLD_BY_EVENTS)
    known = {(each.party, each.account, each.why): each for each in full.parties if each.account != CUSTOMER.stash}
    for each in record.parties:
        whole = known.get((each.party, each.account, each.why))
        for name in ("paid", "lost", "returned"):
            if whole is not None and each.account in {keys.stash for keys in chain.keys}:
                assert getattr(each, name) in (None, getattr(whole, name)), (each, name)


def test_who_died_behind_checkpoints_that_its_customer_held_is_reckoned_without_events(kept: Kept) -> None:
    chain, _ = provider_died()
    full = account(chain, told(chain, kept))
    record = account(chain, TaskEvents(), {1: 2})
    assert record.unknown == []
    assert record.parties == full.parties


def test_what_a_customer_has_back_of_an_audited_task_needs_no_events(kept: Kept) -> None:
    """Without events, only the receivers of the audit pot's money are unknown."""
    for scene, is_known in ((found_right, True), (found_lying, False)):
        chain, _ = scene()
        full = account(chain, told(chain, kept))
        record = account(chain, TaskEvents())
        (whole,), (mine,) = ([each for each in one.parties if each.party == "customer"] for one in (full, record))
        assert JUDGES in record.unknown
        assert (mine == whole) is is_known


def test_who_began_who_took_over_from_which_checkpoint_and_why_is_said(kept: Kept) -> None:
    chain, _ = provider_died()
    for happened in (told(chain, kept), TaskEvents()):
        first, second = shift_rows(shifts_of(chain.now(), records(chain), happened))
        assert (first["role"], first["from"], first["outcome"]) == ("began", "the beginning", "died")
        assert (second["role"], second["from"]) == ("took over", "the checkpoint of milestone 2")
        (_, of_time) = shift_rows(shifts_of(chain.now(), records(chain), happened), is_time=True)
        assert of_time["from"] == "interval 3, its program begun anew"
        assert second["outcome"] == "on_time"
    chain, _ = not_started()
    first, second = shift_rows(shifts_of(chain.now(), records(chain), TaskEvents()))
    assert first["outcome"] is None
    assert first["why"].startswith("it did not start, or stated no milestone that counted")
    assert (second["role"], second["from"]) == ("took over", "the beginning")
    assert shift_rows(shifts_of(chain.now(), records(chain), told(chain, kept)))[0]["outcome"] == "not_started"


def test_who_worked_in_each_auction_of_a_task_is_told_apart(kept: Kept) -> None:
    chain, books = awarded(6 * OGPU)
    chain.blocks(5)
    chain.auction(with_offers(chain.keys, 6 * OGPU))
    work(chain, chain.alice, milestones=1)
    chain.until(TaskState.ENDED)
    happened = told(chain, kept)
    first, second = shift_rows(shifts_of(chain.now(), records(chain), happened))
    assert [(each["auction"], each["outcome"]) for each in (first, second)] == [(1, "not_started"), (2, "died")]
    found = account(chain, happened)
    assert found.unknown == []
    mine = [each for each in found.parties if each.account == chain.alice.stash]
    assert sum((each.paid or 0) - (each.lost or 0) for each in mine) == books.change(chain.alice)
    forgotten = shift_rows(shifts_of(chain.now(), records(chain), TaskEvents()))
    assert [each["why"] for each in forgotten] == ["it is gone: why, the node does not show any more"] * 2
