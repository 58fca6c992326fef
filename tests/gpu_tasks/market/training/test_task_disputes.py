"""Disputes about tasks: different results of a gang, and missing inputs. The question, the ruling, and the money."""

from dataclasses import replace
from itertools import combinations_with_replacement

import pytest

from claimed_tasks import ALWAYS, PAID, STOOD_BY, K, end, gang, is_clean
from gpu_tasks.market.claims.collateral import RATES_PPM
from gpu_tasks.market.claims.disputes import PARTIES_MAX, SEATS, Dispute, DisputeQuestion, DisputeTerms
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import ItemVote, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training import money
from gpu_tasks.market.training.items import auction_items
from gpu_tasks.market.training.life.sides import vote_fee
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.rules import DEFAULT_RULES
from gpu_tasks.market.training.tasks import TASK_ESCROW, Slot, TaskResult, TaskState, dispute_id_of, slot_case
from gpu_tasks.market.training.terms import SLOTS_MAX, TaskTerms
from gpu_tasks.market.training.training_market import TrainingMarket
from priced_tasks import a_task
from runtime.frame.holds import Hold
from simulation.chains.dispute_chain import VoteOf, voter_steps
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys
from task_chain import BOND, PRICE, RIGHT, WRONG, Books, TaskChain, an_order, awarded, forfeit, net
from unit_cases import vote_for

ALICE, DEVICE, OTHER = b"a" * 32, b"d" * 32, b"o" * 32
FEE = 2 * PRICE * 6 // 5
"""The fee of a voter about two results of one item: by the greatest price, because bidders of one owner set the
price."""
INPUT_FEE = BOND // 2 // 9


def terms_of(chain: TaskChain) -> DisputeTerms:
    """Return the terms of the only open dispute."""
    ((dispute_id, dispute),) = chain.chain.now()[Disputes].disputes.items()
    assert dispute is not None
    assert dispute_id == dispute_id_of(chain.task, chain.now().disputes - 1)
    return dispute.terms


def ruled(chain: TaskChain, vote: VoteOf) -> None:
    """Let voters decide the dispute of a task."""
    while chain.state() is TaskState.DISPUTED:
        chain.block(*voter_steps(chain.chain, vote))


def nobody(_: Dispute) -> ItemVote | None:
    return None


def paid_voters(chain: TaskChain, books: Books, fee: int, *parties: Keys) -> int:
    """Return the number of accounts that have gained exactly this fee."""
    return sum(books.change(keys) == fee for keys in chain.keys if keys not in parties)


# --------------------------------------------------------------------------------------------------------------- sides


def test_voters_compute_an_item_of_each_result_if_partners_differ() -> None:
    chain, _, (first, second) = gang(roots=(RIGHT, WRONG), run_blocks=9)
    assert (chain.state(), chain.now().deadline, chain.now().open_claims) == (TaskState.DISPUTED, 0, 0)
    standby = chain.now().standby
    assert standby is not None
    assert terms_of(chain) == DisputeTerms(
        handler=TrainingMarket.index,
        question=DisputeQuestion.SIDES,
        work=chain.task,
        index=0,
        point=None,
        seeds=(),
        parties=(CUSTOMER.stash, first.stash, second.stash),
        excluded=(standby.provider,),
        fee=FEE,
        sealed_at=0,
        run_blocks=9,
    )
    dispute_id = dispute_id_of(chain.task, 0)
    assert chain.happened(ev.TaskDisputed) == [ev.TaskDisputed(chain.task, dispute_id, DisputeQuestion.SIDES)]
    assert not chain.happened(ev.ResultsClaimed)


def test_a_false_side_pays_the_voters_and_the_others_claim_their_pay() -> None:
    chain, books, (first, second) = gang(roots=(RIGHT, WRONG))
    ruled(chain, vote_for(Verdict.RIGHT, RIGHT))
    task = chain.now()
    assert (task.state, task.open_claims) == (TaskState.CLAIMED, 1)
    assert [slot.outcome for slot in task.slots] == [None, TaskOutcome.LIED]
    assert [chain.is_idle(keys) for keys in (first, second)] == [False, True]
    assert books.changes(first, second) == [0, -K]
    assert paid_voters(chain, books, FEE, first, second) == 9
    (settled,) = chain.happened(ev.SlotSettled)
    assert (settled.place, settled.outcome, settled.earned, settled.lost) == (1, TaskOutcome.LIED, 0, K)
    assert chain.market.provider_records[second.stash].failed == 5 * PAID
    assert chain.chain.now()[ResultClaims].is_open(slot_case(chain.task, 0))
    end(chain)
    assert chain.now().outcome is TaskOutcome.ON_TIME
    assert books.changes(first, second) == [net(PAID), -K]
    assert is_clean(chain)


@pytest.mark.parametrize("roots", [(WRONG, OTHER), (WRONG, WRONG, OTHER)])
def test_without_a_right_side_all_have_lied(roots: tuple[bytes, ...]) -> None:
    chain, books, whose = gang(roots=roots)
    ruled(chain, vote_for(Verdict.RIGHT, RIGHT))
    assert (chain.state(), chain.now().outcome) == (TaskState.ENDED, TaskOutcome.LIED)
    assert [slot.outcome for slot in chain.now().slots] == [TaskOutcome.LIED] * len(roots)
    assert books.changes(*whose) == [-K] * len(roots)
    assert paid_voters(chain, books, FEE, *whose) == 9
    assert is_clean(chain)


def test_the_right_one_of_three_wins_against_two_that_lie_alike() -> None:
    chain, books, whose = gang(roots=(WRONG, RIGHT, WRONG))
    ruled(chain, vote_for(Verdict.RIGHT, RIGHT))
    end(chain)
    assert [slot.outcome for slot in chain.now().slots] == [TaskOutcome.LIED, TaskOutcome.ON_TIME, TaskOutcome.LIED]
    assert books.changes(*whose) == [-K, net(PAID), -K]
    assert is_clean(chain)


def test_without_a_decision_all_results_are_undecided_and_no_money_moves() -> None:
    chain, books, whose = gang(roots=(RIGHT, WRONG))
    ruled(chain, nobody)
    assert (chain.state(), chain.now().outcome) == (TaskState.ENDED, TaskOutcome.UNDECIDED)
    assert [slot.outcome for slot in chain.now().slots] == [TaskOutcome.UNDECIDED] * 2
    assert books.changes(*whose) == [0, 0]
    assert books.change(CUSTOMER) == -STOOD_BY - 4 * 30_000, "the standby, and the looks at a second slot"
    assert is_clean(chain)


def test_a_customer_whose_input_voters_cannot_open_pays_them_and_its_providers() -> None:
    chain, books, whose = gang(roots=(RIGHT, WRONG))
    ruled(chain, vote_for(Verdict.UNAVAILABLE))
    assert (chain.state(), chain.now().outcome) == (TaskState.ENDED, TaskOutcome.INPUT_MISSING)
    assert books.changes(*whose) == [forfeit(PAID) // 2] * 2
    assert books.change(CUSTOMER) == -STOOD_BY - 4 * 30_000 - BOND - forfeit(PAID)
    assert paid_voters(chain, books, INPUT_FEE, *whose) == 9
    assert is_clean(chain)


@pytest.mark.parametrize("segments", [0, 2, 9, 100])
@pytest.mark.parametrize("rate", [0, *RATES_PPM])
def test_the_collateral_of_false_sides_covers_the_fees_of_nine_voters(segments: int, rate: int) -> None:
    """Each right side makes it dearer by one root at most, and there is at least one false side."""
    rules, slot = replace(DEFAULT_RULES, check_rate_ppm=rate), Slot(ALICE, DEVICE, PAID, 40, 0)
    order = an_order(segments=segments)
    held = money.collateral_min(rules, PRICE, items=auction_items(order, 0))
    for side_count, false in combinations_with_replacement(range(SLOTS_MAX, 0, -1), 2):
        right = [RIGHT] * (side_count - false)
        roots = [*right, *(bytes((number,)) * 32 for number in range(false))]
        if len(set(roots)) > 1:
            slots = tuple(replace(slot, result=TaskResult(root, b"b" * 32, 7)) for root in roots)
            task = a_task(order=order, rules=rules, slots=slots, terms=TaskTerms(PRICE, 0, 0, 100, held))
            assert SEATS * vote_fee(task) <= false * held


def test_the_largest_gang_has_room_for_all_its_parties() -> None:
    slow = {"TrainingMarket.start_blocks": 40, "TrainingMarket.grace_blocks": 80}
    chain, books, whose = gang(size=48, roots=(RIGHT,) + (WRONG,) * 31, constants=slow)
    assert len(set(terms_of(chain).parties)) == PARTIES_MAX == 33
    ruled(chain, vote_for(Verdict.RIGHT, RIGHT))
    assert [slot.outcome for slot in chain.now().slots] == [None, *[TaskOutcome.LIED] * 31]
    assert books.changes(*whose) == [0, *[-K] * 31]
    end(chain)
    assert books.change(whose[0]) == net(chain.now().slots[0].price)
    assert is_clean(chain)


# -------------------------------------------------------------------------------------------------------------- inputs


def reported(*prices: int, size: int = 20, **order: object) -> tuple[TaskChain, Books]:
    """Return a task whose winner, Alice, has reported its input."""
    chain, books = awarded(*prices, size=size, constants=ALWAYS, bids={"collateral": K}, **order)
    chain.do(chain.alice, TrainingMarket.report_input(task=chain.task, place=0))
    return chain, books


def test_voters_look_for_a_reported_input() -> None:
    chain, _ = reported()
    assert (chain.state(), chain.now().reported) == (TaskState.DISPUTED, 0)
    assert terms_of(chain) == DisputeTerms(
        handler=TrainingMarket.index,
        question=DisputeQuestion.INPUT,
        work=chain.task,
        index=0,
        point=None,
        seeds=(),
        parties=(CUSTOMER.stash, chain.alice.stash),
        excluded=(chain.bob.stash,),
        fee=INPUT_FEE,
        sealed_at=0,
        run_blocks=0,
    )


def test_nobody_reports_an_input_after_its_start() -> None:
    chain, _ = awarded(*[PAID] * 4, size=20, constants=ALWAYS, bids={"collateral": K}, slots=2, milestones=1)
    first = chain.providers()[0]
    chain.start(first)
    chain.do(first, TrainingMarket.report_input(task=chain.task, place=0), ev.DoneAlready)


@pytest.mark.parametrize("verdict", [Verdict.UNAVAILABLE, Verdict.WRONG])
def test_a_missing_input_costs_its_customer_the_bond(verdict: Verdict) -> None:
    chain, books = reported()
    ruled(chain, vote_for(verdict))
    assert (chain.state(), chain.now().outcome) == (TaskState.ENDED, TaskOutcome.INPUT_MISSING)
    assert books.change(chain.alice) == forfeit(PAID) // 2
    assert books.change(CUSTOMER) == -BOND - STOOD_BY
    assert books.change(chain.bob) == net(STOOD_BY)
    assert paid_voters(chain, books, INPUT_FEE, chain.alice, chain.bob) == 9
    assert is_clean(chain)


def test_a_false_report_costs_a_missed_start_and_the_standby_takes_over() -> None:
    chain, books = reported()
    ruled(chain, vote_for(Verdict.RIGHT))
    task = chain.now()
    assert (task.state, task.reported, task.slots[0].provider) == (TaskState.STARTING, None, chain.bob.stash)
    assert books.change(chain.alice) == -PRICE // 10
    assert books.change(CUSTOMER) == 0
    assert paid_voters(chain, books, INPUT_FEE, chain.alice, chain.bob) == 9
    assert chain.is_idle(chain.alice)
    chain.start(chain.bob)
    chain.finish(chain.bob)
    end(chain)
    assert chain.now().outcome is TaskOutcome.ON_TIME
    assert is_clean(chain)


def test_without_a_decision_about_an_input_nobody_pays_and_the_reporter_is_replaced() -> None:
    chain, books = reported()
    ruled(chain, nobody)
    assert (chain.state(), chain.now().slots[0].provider) == (TaskState.STARTING, chain.bob.stash)
    assert books.changes(chain.alice, chain.bob, CUSTOMER) == [0, 0, 0]


def test_without_a_standby_a_reported_task_is_sold_again() -> None:
    chain, books = reported(6 * OGPU)
    ruled(chain, nobody)
    assert (chain.state(), chain.now().auction, chain.now().terms.price_max) == (TaskState.COMMITTING, 2, PRICE)
    assert books.change(chain.alice) == 0
    held = chain.market.lock.locked(CUSTOMER.stash, Hold(TASK_ESCROW, slot_case(chain.task, 0)))
    assert held == money.escrow(chain.now().rules, PRICE, items=1)
    chain.until(TaskState.ENDED)
    assert is_clean(chain)


def test_each_report_of_a_task_is_a_dispute_of_its_own() -> None:
    chain, _ = reported()
    ruled(chain, nobody)
    chain.do(chain.bob, TrainingMarket.report_input(task=chain.task, place=0))
    assert terms_of(chain).parties == (CUSTOMER.stash, chain.bob.stash)
    ruled(chain, nobody)
    assert [event.dispute for event in chain.happened(ev.TaskDisputed)] == [
        dispute_id_of(chain.task, number) for number in (0, 1)
    ]
    assert (chain.state(), chain.now().auction) == (TaskState.COMMITTING, 2)


@pytest.mark.parametrize("call", ["cancel", "stop", "start"])
def test_everybody_waits_for_the_voters(call: str) -> None:
    chain, _ = reported()
    if call == "cancel":
        chain.cancel(ev.WrongTaskState)
    elif call == "stop":
        chain.stop(ev.WrongTaskState)
    else:
        chain.do(chain.alice, TrainingMarket.start(task=chain.task, place=0), ev.WrongTaskState)


def test_a_dispute_of_a_cheap_task_pays_its_voters_as_far_as_the_bond_lasts() -> None:
    chain, books = awarded(1_000, size=20, constants=ALWAYS, price_max=1_000, bids={"collateral": OGPU})
    chain.do(chain.alice, TrainingMarket.report_input(task=chain.task, place=0))
    assert terms_of(chain).fee == OGPU // 1_000
    ruled(chain, vote_for(Verdict.UNAVAILABLE))
    assert paid_voters(chain, books, 25 // 9, chain.alice) == 9
    assert books.change(CUSTOMER) == -50
