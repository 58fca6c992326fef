"""The payments of tasks, computed by the money table from a chain's blocks, against the accounts' real money."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from claimed_tasks import ALWAYS, FEE, K, end
from devnet.stage.measuring.task_claims import TaskCheats, TaskClaims
from devnet.stage.measuring.task_ledger import TaskLedger
from gpu_tasks.market.claims.claims import ClaimStage
from gpu_tasks.market.claims.draws import ITEM_WEIGHT
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.training.events import SlotSettled
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from replica_chain import begin, compute, offer
from runtime.blocks.digest import AUTHOR_ENGINE, PreRuntime
from runtime.frame.runtime import Bound
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionFeePaid
from simulation.catalogue import check_books
from simulation.chains.dispute_chain import VoteOf, voter_steps
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys, signed
from task_chain import (
    COLLATERAL,
    RIGHT,
    WRONG,
    Books,
    TaskChain,
    finish_and_pass,
    with_offers,
    work,
)
from unit_cases import checker_steps, vote_for

OFFERS = (6 * OGPU, 7 * OGPU, 8 * OGPU)


class BlocksOfATest:
    """Blocks as a client reads them: events and states of a chain that is driven block by block."""

    def __init__(self) -> None:
        self.bounds: list[Bound] = []
        self.rpc = self

    def remember(self, bound: Bound, issued: int) -> None:
        """Check the books, and remember the block."""
        if bound.overlay.events:
            check_books(bound, issued)
        self.bounds.append(bound)

    async def call(self, _: str, height: int) -> str:
        return f"0x{height:064x}"

    async def read(self, item: Any, *keys: Any, at: bytes) -> Any:
        if item is System.digest:
            return (PreRuntime(AUTHOR_ENGINE, b"a" * 32),)
        if item is System.account:
            return self.bounds[int.from_bytes(at) - 1][System].account[keys[0]]
        if item is ResultClaims.claims:
            return self.bounds[int.from_bytes(at) - 1][ResultClaims].claims[keys[0]]
        market = self.bounds[int.from_bytes(at) - 1][TrainingMarket]
        return market.tasks[keys[0]] if item is TrainingMarket.tasks else market.step_fee

    def ledger(self, cheats: TaskCheats | None = None) -> TaskLedger:
        """Return the ledger of all blocks."""
        found = TaskLedger(0, claims=TaskClaims(cheats or TaskCheats()))
        for height, bound in enumerate(self.bounds, 1):
            events = [event for _, event in bound.overlay.events]
            asyncio.run(found.take_block(self, height, events))  # type: ignore[arg-type]  # reads as a client does
        return found


class Seen:
    """A chain with Alice's task, and all accounts' money before."""

    def __init__(
        self,
        size: int = 7,
        constants: dict[str, Any] | None = None,
        collateral: int = COLLATERAL,
        offers: int = len(OFFERS),
        **order: Any,
    ) -> None:
        self.blocks, self.cheats = BlocksOfATest(), TaskCheats()
        self.chain = TaskChain(size=size, constants=constants or {}, check=self.blocks.remember)
        self.books = Books(self.chain)
        self.before = {keys.stash: self.chain.wealth(keys.stash) for keys in (*self.chain.keys, CUSTOMER)}
        self.chain.submit(**order)
        self.chain.auction(with_offers(self.chain.keys, *OFFERS[:offers], collateral=collateral))

    def with_liars(self, *places: int) -> "Seen":
        """Return this, with the truth that these providers have lied."""
        self.cheats = TaskCheats(false=frozenset(self.chain.keys[place].stash for place in places))
        return self

    def ledger(self) -> TaskLedger:
        """Return the ledger of all blocks so far."""
        return self.blocks.ledger(self.cheats)

    @property
    def people(self) -> list[Keys]:
        return [*self.chain.keys, CUSTOMER]

    def moved(self) -> dict[bytes, int]:
        return {stash: self.chain.wealth(stash) - before for stash, before in self.before.items()}


def check(seen: Seen, outcomes: list[str]) -> None:
    """Check that the table's sums equal the accounts' gains."""
    ledger = seen.ledger()
    (trace,) = ledger.tasks.values()
    assert [event.outcome.name for _, event in trace.all(SlotSettled)] == outcomes
    assert [sums.wrong for sums in ledger.sums.values()] == [[]]
    assert {keys.stash: ledger.moved(keys.stash) for keys in seen.people} == seen.moved()


def test_a_task_that_went_well() -> None:
    seen = Seen()
    alice = seen.chain.alice
    work(seen.chain, alice, milestones=3)
    finish_and_pass(seen.chain, alice)
    check(seen, ["ON_TIME"])


def test_a_winner_that_dies_and_a_standby_that_goes_on() -> None:
    seen = Seen()
    alice, bob = seen.chain.keys[:2]
    work(seen.chain, alice, milestones=2)
    seen.chain.until(TaskState.ASKING)
    seen.chain.start(bob)
    seen.chain.report(bob, 3)
    seen.chain.count(3)
    finish_and_pass(seen.chain, bob)
    check(seen, ["DIED", "ON_TIME"])


def test_who_does_not_start_and_a_bound_standby_that_takes_over() -> None:
    seen = Seen()
    bob = seen.chain.bob
    seen.chain.blocks(5)
    work(seen.chain, bob, milestones=0)
    finish_and_pass(seen.chain, bob)
    check(seen, ["NOT_STARTED", "ON_TIME"])


def test_a_gang_of_two() -> None:
    seen = Seen(slots=2)
    pair = seen.chain.keys[:2]
    for place, keys in enumerate(pair):
        seen.chain.start(keys, place)
    for number in range(1, 4):
        for place, keys in enumerate(pair):
            seen.chain.report(keys, number, place)
        seen.chain.count(number)
    for place, keys in enumerate(pair):
        seen.chain.finish(keys, place)
    seen.chain.until(TaskState.ENDED)
    check(seen, ["ON_TIME", "ON_TIME"])


# ------------------------------------------------------------------------------------------------ claims and disputes


def claimed(root: bytes = RIGHT, size: int = 20, extra: int = 0) -> Seen:
    """Return a task with an open claim of Alice's, which is surely checked. Her bid has `extra` collateral."""
    seen = Seen(size, ALWAYS, collateral=K + extra)
    seen.chain.start(seen.chain.alice)
    seen.chain.finish(seen.chain.alice, root=root)
    seen.chain.block()
    return seen


def dispute(seen: Seen) -> None:
    """Let the customer dispute the only item of the claim."""
    call = ResultClaims.dispute(claim=slot_case(seen.chain.task, 0), index=0)
    seen.chain.block(signed(CUSTOMER.stash, call))


def losses_of(seen: Seen) -> list[tuple[str, bool]]:
    """Return the reasons of all losses, each with whether it is the table's."""
    (sums,) = seen.ledger().sums.values()
    return [(loss.what, loss.taken == loss.expected) for loss in sums.losses]


def test_checks_that_pass_are_paid_by_the_customer() -> None:
    seen = claimed()
    end(seen.chain)
    check(seen, ["ON_TIME"])
    assert losses_of(seen) == []
    assert sum(grains == FEE for grains in seen.moved().values()) in (1, 2)


@pytest.mark.parametrize("extra", [0, 30 * OGPU])
def test_a_lie_that_a_checker_finds_costs_the_whole_collateral(extra: int) -> None:
    seen = claimed(WRONG, extra=extra).with_liars(0)
    end(seen.chain, Verdict.WRONG, vote_for(Verdict.WRONG))
    check(seen, ["LIED"])
    assert losses_of(seen) == [("LIED", True)]
    assert seen.moved()[seen.chain.alice.stash] == -K - extra


def test_a_provider_that_shows_no_samples_has_lied() -> None:
    seen = claimed().with_liars(0)
    while seen.chain.state() is not TaskState.ENDED:
        claim = seen.chain.chain.now()[ResultClaims].claims[slot_case(seen.chain.task, 0)]
        is_silent = claim is not None and claim.stage is ClaimStage.SHOWING
        seen.chain.block(*(() if is_silent else checker_steps(seen.chain.chain)))
    check(seen, ["LIED"])
    assert losses_of(seen) == [("LIED", True)]


def test_a_checker_that_calls_a_right_result_wrong_loses_its_bond() -> None:
    seen = claimed(size=24)
    end(seen.chain, Verdict.WRONG, vote_for(Verdict.RIGHT, weight=ITEM_WEIGHT))
    check(seen, ["ON_TIME"])
    assert {*losses_of(seen)} == {("CheckerBond", True)}


def test_a_checker_that_could_not_fetch_shares_the_fees_of_voters_with_the_provider() -> None:
    seen = claimed(size=24)
    seen.cheats = TaskCheats(deaf=frozenset(keys.stash for keys in seen.chain.keys))
    end(seen.chain, Verdict.UNAVAILABLE, vote_for(Verdict.RIGHT, weight=ITEM_WEIGHT))
    check(seen, ["ON_TIME"])
    assert {*losses_of(seen)} == {("CheckerBond", True), ("ON_TIME", True)}


def test_silent_checkers_lose_their_fees_and_voters_compute() -> None:
    seen = claimed(size=24)
    while seen.chain.state() is not TaskState.ENDED:
        seen.chain.block(*voter_steps(seen.chain.chain, vote_for(Verdict.RIGHT, weight=ITEM_WEIGHT)))
    check(seen, ["ON_TIME"])
    assert {*losses_of(seen)} == {("CheckerBond", True)}


@pytest.mark.parametrize("blocks", [0, 17])
def test_a_customer_that_finds_a_lie_is_rewarded_if_it_is_early(blocks: int) -> None:
    seen = claimed(WRONG).with_liars(0)
    seen.chain.blocks(blocks)
    dispute(seen)
    end(seen.chain, vote=vote_for(Verdict.WRONG))
    check(seen, ["LIED"])
    assert (seen.moved()[CUSTOMER.stash] > 0) is not blocks


def test_a_customer_that_disputes_a_right_result_loses_its_bond() -> None:
    seen = claimed()
    dispute(seen)
    end(seen.chain, vote=vote_for(Verdict.RIGHT))
    check(seen, ["ON_TIME"])
    assert losses_of(seen) == [("DisputeBond", True)]


def test_without_a_vote_only_the_silent_voters_pay() -> None:
    seen = claimed(WRONG).with_liars(0)
    end(seen.chain, Verdict.WRONG)
    check(seen, ["UNDECIDED"])
    assert {*losses_of(seen)} == {("VoterBond", True)}


def test_a_lie_that_is_taken_for_a_right_result_is_told() -> None:
    """The scenario knows the cheats, and the ledger does not believe the voters."""
    seen = claimed().with_liars(0)
    dispute(seen)
    end(seen.chain, vote=vote_for(Verdict.RIGHT))
    (sums,) = seen.ledger().sums.values()
    assert "the table says" in sums.wrong[0]


@pytest.mark.parametrize(
    ("vote", "liars", "outcomes"),
    [
        (vote_for(Verdict.RIGHT, RIGHT), (1,), ["LIED", "ON_TIME"]),
        (vote_for(Verdict.RIGHT, b"o" * 32), (0, 1), ["LIED", "LIED"]),
        (vote_for(Verdict.UNAVAILABLE), (), ["INPUT_MISSING", "INPUT_MISSING"]),
        (lambda _: None, (), ["UNDECIDED", "UNDECIDED"]),
    ],
)
def test_partners_with_different_results(vote: VoteOf, liars: tuple[int, ...], outcomes: list[str]) -> None:
    seen = Seen(20, ALWAYS, collateral=K, slots=2, milestones=1)
    whose = seen.chain.start_all()
    seen.cheats = TaskCheats(false=frozenset(whose[place].stash for place in liars))
    for place, root in enumerate((RIGHT, WRONG)):
        seen.chain.finish(whose[place], place, root)
    end(seen.chain, vote=vote)
    check(seen, outcomes)


@pytest.mark.parametrize(
    ("vote", "outcomes"),
    [
        (vote_for(Verdict.UNAVAILABLE), ["INPUT_MISSING"]),
        (vote_for(Verdict.RIGHT), ["PARTNER_DIED", "ON_TIME"]),
        (lambda _: None, ["PARTNER_DIED", "ON_TIME"]),
    ],
)
def test_a_reported_input(vote: VoteOf, outcomes: list[str]) -> None:
    seen = Seen(20, ALWAYS, collateral=K)
    seen.chain.do(seen.chain.alice, TrainingMarket.report_input(task=seen.chain.task, place=0))
    while seen.chain.state() is TaskState.DISPUTED:
        seen.chain.block(*voter_steps(seen.chain.chain, vote))
    if seen.chain.state() is TaskState.STARTING:
        seen.chain.start(seen.chain.bob)
        seen.chain.finish(seen.chain.bob)
    end(seen.chain)
    check(seen, outcomes)


def test_an_outvoted_replica_loses_its_whole_collateral() -> None:
    order: dict[str, Any] = {
        "checked_by": CheckedBy.REPLICATED,
        "slots": 3,
        "milestones": 1,
        "run_blocks": 0,
        "auctions": 1,
    }
    seen = Seen(10, collateral=11 * OGPU, offers=2, **order)
    offer(seen.chain, *seen.chain.keys[1:7])
    seen.chain.until(TaskState.STARTING)
    whose = begin(seen.chain)
    compute(seen.chain, whose, RIGHT, WRONG, RIGHT)
    check(seen, ["ON_TIME", "OUTVOTED", "ON_TIME"])
    assert losses_of(seen) == [("OUTVOTED", True)]


def test_a_bid_that_is_not_opened_burns() -> None:
    blocks = BlocksOfATest()
    chain = TaskChain(check=blocks.remember)
    before = {keys.stash: chain.wealth(keys.stash) for keys in chain.keys}
    chain.submit()
    chain.auction(with_offers(chain.keys, *OFFERS), unopened=(chain.keys[2],))
    chain.blocks(2)
    ledger, charlie = blocks.ledger(), chain.keys[2].stash
    assert ledger.moved(charlie) == chain.wealth(charlie) - before[charlie] < 0
    (loss,) = ledger.sums[chain.task].losses
    assert (loss.account, loss.what) == (charlie, "NOT_REVEALED")
    assert loss.taken == loss.expected == -ledger.moved(charlie)


def test_a_tip_is_paid_by_who_signs_and_is_the_authors() -> None:
    ledger, blocks = TaskLedger(0), BlocksOfATest()
    asyncio.run(ledger._take_event(blocks, 1, TransactionFeePaid(b"s" * 32, 7, 5)))  # type: ignore[arg-type]
    assert (ledger.moved(b"s" * 32), ledger.moved(b"a" * 32)) == (-7, 5)


@pytest.mark.parametrize("change", [1, -1])
def test_a_grain_more_or_less_than_the_table_says_is_told(change: int) -> None:
    seen = Seen()
    alice = seen.chain.alice
    work(seen.chain, alice, milestones=3)
    finish_and_pass(seen.chain, alice)
    for bound in seen.blocks.bounds:
        events = bound.overlay.events
        for place, (phase, event) in enumerate(events):
            if isinstance(event, SlotSettled):
                events[place] = (phase, replace(event, earned=event.earned + change))
    (sums,) = seen.ledger().sums.values()
    assert len(sums.wrong) == 1
    assert "the table says" in sums.wrong[0]
