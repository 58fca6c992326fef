"""Payments, losses and refunds of a task's parties: the output equals the moved money, to the grain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from claimed_tasks import ALWAYS, FEE, PAID, K, claimed, end
from claimed_tasks import gang as claimed_gang
from gpu_tasks.client.tasks.payments import FOUND_FALSE, VOTERS, TaskAccount, payments_of_task
from gpu_tasks.client.tasks.shifts import TaskEvents, check_rows, shift_rows, shifts_of, task_events
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.draws import ITEM_WEIGHT
from gpu_tasks.market.claims.findings import ItemVote, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.life.submitting import looks
from gpu_tasks.market.training.tasks import TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.task_check import AuctionRecords
from runtime.encoding.types import Finalization
from runtime.frame.storage import StorageItem
from runtime.pallets.system import EventRecord
from runtime.state.overlay import Memory
from simulation.chains.dispute_chain import VoteOf, voter_steps
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys, MarketChain, hash_of, signed
from task_chain import PRICE, RIGHT, WRONG, Books, TaskChain, awarded, finish_and_pass, with_offers, work
from unit_cases import vote_for
from wallet.answers import hex_of, stored_of
from wallet.proved.keys import storage_key
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

    async def read(self, item: StorageItem, *keys: Any, at: bytes) -> Any:
        compiled = self.runtime.item(item)
        stored = self._at(at)[0].get(storage_key(compiled, keys))
        return stored_of(compiled, None if stored is None else hex_of(stored))

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
    finish_and_pass(chain, chain.alice)
    return chain, books


def late() -> tuple[TaskChain, Books]:
    chain = TaskChain()
    books = Books(chain)
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU, blocks=8))
    work(chain, chain.alice, milestones=3)
    chain.blocks(4)
    finish_and_pass(chain, chain.alice)
    return chain, books


def not_started() -> tuple[TaskChain, Books]:
    chain, books = awarded()
    chain.blocks(5)
    work(chain, chain.bob, milestones=3)
    finish_and_pass(chain, chain.bob)
    return chain, books


def provider_died() -> tuple[TaskChain, Books]:
    chain, books = awarded()
    work(chain, chain.alice, milestones=2)
    chain.until(TaskState.ASKING)
    work(chain, chain.bob, milestones=1, first=3)
    finish_and_pass(chain, chain.bob)
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


def checked() -> tuple[TaskChain, Books]:
    """Return a task with one or two checks."""
    chain, books = claimed(size=24)
    end(chain)
    return chain, books


def checked_gang() -> tuple[TaskChain, Books]:
    chain, books, _ = claimed_gang(size=24)
    end(chain)
    return chain, books


def checked_by_voters() -> tuple[TaskChain, Books]:
    """All checkers are silent, so voters compute the item."""
    chain, books = claimed(size=24)
    while chain.state() is not TaskState.ENDED:
        chain.block(*voter_steps(chain.chain, vote_for(Verdict.RIGHT, weight=ITEM_WEIGHT)))
    return chain, books


def wrongly_refuted() -> tuple[TaskChain, Books]:
    """A checker is convicted, and pays the provider."""
    chain, books = claimed(size=24)
    end(chain, Verdict.WRONG, vote_for(Verdict.RIGHT, weight=ITEM_WEIGHT))
    return chain, books


def not_served() -> tuple[TaskChain, Books]:
    """A checker could not fetch an item that voters could. Both pay half of the voters' fees."""
    chain, books = claimed(size=24)
    end(chain, Verdict.UNAVAILABLE, vote_for(Verdict.RIGHT, weight=ITEM_WEIGHT))
    return chain, books


def lied() -> tuple[TaskChain, Books]:
    chain, books = awarded(size=20, constants=ALWAYS, bids={"collateral": K + 30 * OGPU})
    chain.start(chain.alice)
    chain.finish(chain.alice, root=WRONG)
    end(chain, Verdict.WRONG, vote_for(Verdict.WRONG))
    return chain, books


def disputed_by_its_customer() -> tuple[TaskChain, Books]:
    chain, books = claimed(size=20, root=WRONG)
    chain.block(signed(CUSTOMER.stash, ResultClaims.dispute(claim=slot_case(chain.task, 0), index=0)))
    end(chain, vote=vote_for(Verdict.WRONG))
    return chain, books


def undecided() -> tuple[TaskChain, Books]:
    chain, books = claimed(root=WRONG)
    end(chain, Verdict.WRONG)
    return chain, books


def nobody(_: Dispute) -> ItemVote | None:
    return None


def ruled(chain: TaskChain, vote: VoteOf) -> None:
    while chain.state() is TaskState.DISPUTED:
        chain.block(*voter_steps(chain.chain, vote))


def false_side() -> tuple[TaskChain, Books]:
    chain, books, _ = claimed_gang(roots=(RIGHT, WRONG))
    ruled(chain, vote_for(Verdict.RIGHT, RIGHT))
    end(chain)
    return chain, books


def undecided_sides() -> tuple[TaskChain, Books]:
    chain, books, _ = claimed_gang(roots=(RIGHT, WRONG))
    ruled(chain, nobody)
    return chain, books


def sides_without_an_input() -> tuple[TaskChain, Books]:
    chain, books, _ = claimed_gang(roots=(RIGHT, WRONG))
    ruled(chain, vote_for(Verdict.UNAVAILABLE))
    return chain, books


def reported() -> tuple[TaskChain, Books]:
    chain, books = awarded(size=20, constants=ALWAYS, bids={"collateral": K})
    chain.do(chain.alice, TrainingMarket.report_input(task=chain.task, place=0))
    return chain, books


def input_missing() -> tuple[TaskChain, Books]:
    chain, books = reported()
    ruled(chain, vote_for(Verdict.UNAVAILABLE))
    return chain, books


def falsely_reported() -> tuple[TaskChain, Books]:
    chain, books = reported()
    ruled(chain, vote_for(Verdict.RIGHT))
    chain.start(chain.bob)
    chain.finish(chain.bob)
    end(chain)
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
    finish_and_pass(chain, chain.alice)
    return chain, books


TOLD_BY_RECORD = (
    cancelled, taken_back, stopped, gang, undecided_sides, sides_without_an_input, input_missing,
)  # fmt: skip
TOLD_BY_EVENTS = (
    on_time, late, unopened, not_started, provider_died, nobody_left, died_where_that_costs_the_customer_little,
    checked, checked_gang, checked_by_voters, wrongly_refuted, not_served, lied, disputed_by_its_customer, undecided,
    false_side, falsely_reported,
)  # fmt: skip
UNNAMED = (
    checked_by_voters, wrongly_refuted, not_served, lied, disputed_by_its_customer, undecided, false_side,
    sides_without_an_input, input_missing, falsely_reported, undecided_sides,
)  # fmt: skip
"""Scenes with voters, whose payments are shown as one sum."""


@pytest.mark.parametrize("scene", TOLD_BY_RECORD + TOLD_BY_EVENTS)
def test_what_is_shown_is_what_moved(scene: Callable[[], tuple[TaskChain, Books]], kept: Kept) -> None:
    chain, books = scene()
    assert chain.state() is TaskState.ENDED
    chain.blocks(3)
    found = account(chain, told(chain, kept))
    assert found.unknown == []
    named = [keys for keys in chain.keys if any(each.account == keys.stash for each in found.parties)]
    of_checkers = {each.account for each in found.parties if each.party == "checker"}
    for keys in (*(named if scene in UNNAMED else chain.keys), CUSTOMER):
        if scene in UNNAMED and keys.stash in of_checkers:
            continue  # Its losses to voters are not named.
        mine = [each for each in found.parties if each.account == keys.stash]
        shown = sum((each.paid or 0) - (each.lost or 0) for each in mine)
        looks = 30_000 * chain_looks(chain) if keys is CUSTOMER else 0
        more = gain_of(chain, scene).get(keys, 0)
        assert shown + more == chain.wealth(keys.stash) - books.before[keys] + looks, (keys.name, mine)


def gain_of(chain: TaskChain, scene: object) -> dict[Keys, int]:
    """Return the gains that are no payments of the task: a disputer's reward, and the fee of a convicted checker."""
    if scene is disputed_by_its_customer:
        return {CUSTOMER: K // 2}
    return {chain.alice: FEE} if scene is wrongly_refuted else {}


@pytest.mark.parametrize("scene", TOLD_BY_RECORD + TOLD_BY_EVENTS)
def test_what_somebody_lost_somebody_was_paid_or_it_burned(
    scene: Callable[[], tuple[TaskChain, Books]], kept: Kept
) -> None:
    chain, _ = scene()
    parties = account(chain, told(chain, kept)).parties
    assert sum(each.paid or 0 for each in parties) == sum(each.lost or 0 for each in parties) > 0


def parties_of(chain: TaskChain, happened: TaskEvents) -> dict[str, list[int | None]]:
    found: dict[str, list[int | None]] = {}
    for each in account(chain, happened).parties:
        found.setdefault(each.party, []).append(each.paid)
    return found


def test_each_checker_is_named_with_its_fee(kept: Kept) -> None:
    chain, _ = checked()
    happened = told(chain, kept)
    rows = check_rows(happened)
    assert {(row["place"], row["end"], row["fee"]) for row in rows} == {(0, "passed", FEE)}
    assert parties_of(chain, happened)["checker"] == [FEE] * len(rows)
    assert happened.claims[0].fees_paid == len(rows) * FEE


def test_voters_in_place_of_checkers_are_paid_by_those_that_failed_and_by_the_customer(kept: Kept) -> None:
    chain, books = checked_by_voters()
    happened = told(chain, kept)
    paid = happened.claims[0].fees_paid
    assert books.change(CUSTOMER) == -PAID - PAID // 50 - paid
    assert parties_of(chain, happened).get("voters", [0]) == [paid]


def test_a_liars_collateral_goes_to_its_customer_and_to_those_who_found_it(kept: Kept) -> None:
    chain, books = lied()
    found = parties_of(chain, told(chain, kept))
    assert found[FOUND_FALSE] == [K + 30 * OGPU - PRICE]
    assert found["provider"] == [0]
    assert books.change(CUSTOMER) == PRICE - PAID // 50
    chain, _ = false_side()
    assert parties_of(chain, told(chain, kept))[FOUND_FALSE] == [K]
    chain, _ = input_missing()
    assert parties_of(chain, told(chain, kept))[VOTERS] == [PRICE // 40]


def test_checks_that_nobody_can_see_any_more_are_named_with_the_most_that_they_cost(kept: Kept) -> None:
    chain, _ = checked_gang()
    record = account(chain, told(chain, kept, chain.height + 1))
    assert [text for text in record.unknown if "at most 16.8 oGPU" in text] == record.unknown
    assert len(record.unknown) == 2
    assert record.cost(1) is None


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
    assert [text for text in record.unknown if text.startswith("the checks of place 0, ")] == record.unknown
    of_alice = [[each for each in one.parties if each.account == chain.alice.stash] for one in (full, record)]
    assert of_alice[0] == of_alice[1]


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
