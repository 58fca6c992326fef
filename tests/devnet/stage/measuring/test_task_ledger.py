"""The payments of tasks, computed by the money table from a chain's blocks, against the accounts' real money."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from devnet.stage.measuring import task_audits
from devnet.stage.measuring.task_audits import AuditedSlot, TaskAudits
from devnet.stage.measuring.task_ledger import TaskLedger
from gpu_tasks.market.courts.events import BenchDrawn, CaseEnded
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.training.events import SlotSettled
from gpu_tasks.market.training.fraud_claims import claim_commitment
from gpu_tasks.market.training.showing import refuted
from gpu_tasks.market.training.tasks import JudgedFor, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import proof_of_fraud
from looked_at import DIGESTS, OFTEN, SEGMENTS, TRACE, judged, judges_say, says
from runtime.blocks.digest import AUTHOR_ENGINE, PreRuntime
from runtime.frame.runtime import Bound
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionFeePaid
from simulation.catalogue import check_books
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, Keys
from task_chain import (
    COLLATERAL,
    RIGHT,
    WRONG,
    Books,
    TaskChain,
    finish_and_accept,
    with_offers,
    work,
)
from wallet.client import ChainClient

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
        if item is TrustStake.active_set:
            return self.bounds[int.from_bytes(at) - 1][TrustStake].active_set.get()
        market = self.bounds[int.from_bytes(at) - 1][TrainingMarket]
        return market.tasks[keys[0]] if item is TrainingMarket.tasks else market.step_fee

    def ledger(self, *, may_lie: bool = False) -> TaskLedger:
        """Return the ledger of all blocks."""
        found = TaskLedger(0, audits=TaskAudits(may_lie=may_lie))
        for height, bound in enumerate(self.bounds, 1):
            for _, event in bound.overlay.events:
                asyncio.run(found._take_event(self, height, event))  # type: ignore[arg-type]  # reads as a client does
        return found


class Seen:
    """A chain with Alice's task, and all accounts' money before."""

    def __init__(
        self,
        size: int = 7,
        constants: dict[str, Any] | None = None,
        seed: int = 1,
        bonds: tuple[int, ...] = TaskChain.bonds,
        **order: Any,
    ) -> None:
        self.blocks = BlocksOfATest()
        self.chain = TaskChain(size=size, constants=constants or {}, bonds=bonds, check=self.blocks.remember)
        self.chain.chain.chance.seed(seed)
        self.books = Books(self.chain)
        self.before = {keys.stash: self.chain.wealth(keys.stash) for keys in (*self.chain.keys, CUSTOMER)}
        self.chain.submit(**order)
        self.chain.auction(with_offers(self.chain.keys, *OFFERS))

    @property
    def people(self) -> list[Keys]:
        return [*self.chain.keys, CUSTOMER]

    def moved(self) -> dict[bytes, int]:
        return {stash: self.chain.wealth(stash) - before for stash, before in self.before.items()}


def check(seen: Seen, outcomes: list[str], *, may_lie: bool = False) -> None:
    """Check that the table's sums equal the accounts' gains."""
    ledger = seen.blocks.ledger(may_lie=may_lie)
    (trace,) = ledger.tasks.values()
    assert [event.outcome.name for _, event in trace.all(SlotSettled)] == outcomes
    assert [sums.wrong for sums in ledger.sums.values()] == [[]]
    assert {keys.stash: ledger.moved(keys.stash) for keys in seen.people} == seen.moved()


def test_a_task_that_went_well() -> None:
    seen = Seen()
    alice = seen.chain.alice
    work(seen.chain, alice, milestones=3)
    finish_and_accept(seen.chain, alice)
    check(seen, ["ON_TIME"])


def test_a_winner_that_dies_and_a_standby_that_goes_on() -> None:
    seen = Seen()
    alice, bob = seen.chain.keys[:2]
    work(seen.chain, alice, milestones=2)
    seen.chain.until(TaskState.ASKING)
    seen.chain.start(bob)
    seen.chain.report(bob, 3)
    seen.chain.count(3)
    finish_and_accept(seen.chain, bob)
    check(seen, ["DIED", "ON_TIME"])


def test_who_does_not_start_and_a_bound_standby_that_takes_over() -> None:
    seen = Seen()
    bob = seen.chain.bob
    seen.chain.blocks(5)
    work(seen.chain, bob, milestones=0)
    finish_and_accept(seen.chain, bob)
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
    seen.chain.until(TaskState.ENDED)  # the customer is silent
    check(seen, ["ACCEPTED_BY_SILENCE", "ACCEPTED_BY_SILENCE"])


def audited() -> Seen:
    """Return a task whose result the beacon audits."""
    for seed in range(20):
        seen = Seen(12, OFTEN, seed)
        seen.chain.start(seen.chain.alice)
        seen.chain.finish(seen.chain.alice)
        while not seen.chain.now().is_checked:
            seen.chain.block()
        if seen.chain.state() is not TaskState.SUBMITTED:
            return seen
    raise AssertionError("no beacon asks for an audit")


def test_the_judges_of_an_audit_are_paid_what_the_pot_has() -> None:
    seen = audited()
    assert judged(seen.chain, says(RIGHT)) is CaseOutcome.AUDIT_RIGHT
    check(seen, ["ON_TIME"])


def test_an_audit_that_finds_something_wrong_is_told() -> None:
    seen = audited()
    assert judged(seen.chain, says(WRONG)) is CaseOutcome.AUDIT_WRONG
    (sums,) = seen.blocks.ledger().sums.values()
    assert any("ended as AUDIT_WRONG" in wrong for wrong in sums.wrong)


def disputed(root: bytes = RIGHT, size: int = 12, bonds: tuple[int, ...] = TaskChain.bonds) -> Seen:
    """Return a task whose result the customer disputes."""
    seen = Seen(size, bonds=bonds)
    seen.chain.start(seen.chain.alice)
    seen.chain.finish(seen.chain.alice, root=root)
    seen.chain.ask(TrainingMarket.dispute(task=seen.chain.task, segment=None))
    return seen


@pytest.mark.parametrize("size", [6, 7, 12])
def test_a_lie_that_judges_find_costs_what_the_courts_take(size: int) -> None:
    seen = disputed(WRONG, size)
    assert judged(seen.chain, says(RIGHT)) is CaseOutcome.AUDIT_WRONG
    check(seen, ["LIED"], may_lie=True)


@pytest.mark.parametrize(("liars", "is_whole"), [(9, True), (10, False)])
def test_where_no_court_is_left_a_lie_costs_whole_what_more_than_a_third_says(liars: int, is_whole: bool) -> None:
    """All others of six judge, the standby too. Beside the liar they have five of fourteen, or of fifteen."""
    seen = disputed(WRONG, 6, (liars * 200 * OGPU, *(200 * OGPU,) * 5))
    assert judged(seen.chain, says(RIGHT)) is CaseOutcome.AUDIT_WRONG
    check(seen, ["LIED"], may_lie=True)
    assert (seen.moved()[seen.chain.alice.stash] == -COLLATERAL) is is_whole


def test_a_judge_that_seconds_a_lie_has_no_fee_of_it() -> None:
    seen = disputed(WRONG)
    lazy = seen.chain.keys[-1]
    assert judged(seen.chain, lambda keys: Answered(WRONG if keys is lazy else RIGHT)) is CaseOutcome.AUDIT_WRONG
    check(seen, ["LIED"], may_lie=True)


def test_a_right_result_that_is_disputed_is_paid_out_of_what_its_judges_leave_of_the_bond() -> None:
    seen = disputed()
    assert judged(seen.chain, says(RIGHT)) is CaseOutcome.AUDIT_RIGHT
    check(seen, ["DISPUTED_FALSELY"])


def test_a_dispute_about_which_nobody_says_anything() -> None:
    seen = disputed()
    assert judged(seen.chain, lambda _keys: None) is CaseOutcome.UNHEARD
    check(seen, ["DISPUTED_FALSELY"], may_lie=True)


@pytest.mark.parametrize("silent", [1, 2])
def test_silent_judges_are_fined_only_where_two_thirds_spoke(silent: int) -> None:
    seen = disputed(WRONG)

    def pair() -> tuple[bytes, ...]:
        drawn: BenchDrawn = seen.chain.happened(BenchDrawn)[0]
        return drawn.judges

    def opinion(keys: Keys) -> Answered | None:
        return None if keys.stash in pair()[:silent] else Answered(RIGHT)

    assert judged(seen.chain, opinion) is CaseOutcome.AUDIT_WRONG
    check(seen, ["LIED"], may_lie=True)
    fined = [judge for judge in pair() if seen.moved()[judge] < 0]
    assert len(fined) == (1 if silent == 1 else 0), "four of five are two thirds, and three are not"


def challenged() -> Seen:
    """Return a task with a challenged segment in its trace."""
    seen = Seen(14, segments=SEGMENTS)
    alice, maker = seen.chain.alice, seen.chain.keys[4]
    seen.chain.start(alice)
    seen.chain.finish(alice, root=TRACE)
    proof, salt, task = proof_of_fraud(DIGESTS, 7, b"n" * 32), b"s" * 32, seen.chain.task
    sealed = claim_commitment(GENESIS_HASH, task, maker.stash, 0, proof, salt)
    seen.chain.do(maker, TrainingMarket.claim_fraud(task=task, commitment=sealed))
    seen.chain.do(maker, TrainingMarket.show_fraud(task=task, place=0, proof=proof, salt=salt))
    return seen


def test_a_fraud_proof_that_is_right_is_paid_out_of_the_collateral() -> None:
    seen = challenged()
    assert judged(seen.chain, says(refuted(TRACE))) is CaseOutcome.AUDIT_WRONG
    check(seen, ["LIED"], may_lie=True)
    losses = seen.blocks.ledger(may_lie=True).sums[seen.chain.task].losses
    assert [(loss.what, loss.taken == loss.expected) for loss in losses] == [("LIED", True), ("a fraud proof", True)]
    assert sum(loss.taken for loss in losses) == -seen.moved()[seen.chain.alice.stash]


def test_a_fraud_proof_that_is_wrong_pays_its_judges_and_burns() -> None:
    seen = challenged()
    while seen.chain.state() is TaskState.JUDGED:
        seen.chain.block(*judges_say(seen.chain, says(TRACE)))
    seen.chain.until(TaskState.ENDED)
    check(seen, ["ACCEPTED_BY_SILENCE"])


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
    finish_and_accept(seen.chain, alice)
    for bound in seen.blocks.bounds:
        events = bound.overlay.events
        for place, (phase, event) in enumerate(events):
            if isinstance(event, SlotSettled):
                events[place] = (phase, replace(event, earned=event.earned + change))
    (sums,) = seen.blocks.ledger().sums.values()
    assert len(sums.wrong) == 1
    assert "the table says" in sums.wrong[0]


@pytest.mark.parametrize(("judges", "told"), [((), 0), ((b"j" * 32,), 1)])
def test_an_audit_that_nobody_is_left_for_is_no_fault_and_one_that_is_not_decided_is(
    judges: tuple[bytes, ...], told: int
) -> None:
    """Of four validators one is the customer, one has the task, one is the standby, and one is no bench."""
    audits = TaskAudits({b"c" * 32: AuditedSlot(b"t" * 32, OGPU, list(judges))})
    ended = CaseEnded(b"c" * 32, CaseOutcome.AUDIT_UNDECIDED, None)
    moved, faults = asyncio.run(audits.take(cast("ChainClient", None), 70, ended))
    assert (moved, len(faults)) == ([], told)


def test_what_judges_and_disputes_cost_goes_by_the_price_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_audits, "fee_of_case", lambda _task, slot: slot.price + 1)
    monkeypatch.setattr(task_audits, "pot_max", lambda _rules, price: price + 2)
    monkeypatch.setattr(task_audits, "dispute_bond", lambda _rules, price_max, price: 10 * price_max + price)
    slot = SimpleNamespace(
        result=SimpleNamespace(root=b"r" * 32), outcome=None, price=7, provider=b"p" * 32, collateral=30
    )
    terms = SimpleNamespace(price_max=1_000)
    task = SimpleNamespace(
        slots=[slot], challenge=None, rules=None, terms=terms, customer=b"c" * 32, judged_for=JudgedFor.DISPUTE
    )
    audits = TaskAudits()
    audits.open(b"t" * 32, cast("Any", task))
    (found,) = audits.slots.values()
    assert (found.fee, found.pot_max, found.bond, found.asker) == (8, 9, 10_007, b"c" * 32)
