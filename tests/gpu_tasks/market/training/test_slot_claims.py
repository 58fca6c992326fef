"""Results of tasks as claims: the terms, the checks, and the three outcomes of each slot, to the grain."""

import pytest

from claimed_tasks import ALWAYS, FEE, PAID, STOOD_BY, K, claimed, end, gang, is_clean
from gpu_tasks.market.claims.claim_closing import vote_fee
from gpu_tasks.market.claims.claim_events import NotDisputable
from gpu_tasks.market.claims.claims import ClaimTerms
from gpu_tasks.market.claims.collateral import least_collateral
from gpu_tasks.market.claims.disputes import SEATS
from gpu_tasks.market.claims.draws import ITEM_WEIGHT, item_at
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.items import items_of, own_segments, segment_of
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TASK_ESCROW, TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.holds import Hold
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys, refused, signed, tolerant
from task_chain import COLLATERAL, PRICE, RIGHT, WRONG, Books, TaskChain, an_order, awarded, net, with_offers, work
from unit_cases import checker_steps, vote_for


def terms_of(chain: TaskChain, place: int = 0) -> ClaimTerms:
    return chain.chain.now()[ResultClaims].open_claim(slot_case(chain.task, place)).terms


def state_result(chain: TaskChain, keys: Keys) -> None:
    """Start, and state the right result. The next block opens its claim."""
    chain.start(keys)
    chain.finish(keys)
    chain.block()


def checkers(chain: TaskChain) -> list[bytes]:
    """Return the checkers of the first slot's claim."""
    claim = chain.chain.now()[ResultClaims].open_claim(slot_case(chain.task, 0))
    return [check.checker for check in claim.checks]


# ---------------------------------------------------------------------------------------------------------- the claim


def test_the_customer_reads_the_result_at_once_and_the_provider_waits_for_its_pay() -> None:
    chain, books = awarded()
    chain.start(chain.alice)
    chain.finish(chain.alice)
    task = chain.now()
    assert (task.state, task.open_claims) == (TaskState.CLAIMED, 0)
    assert task.slots[0].result is not None
    chain.block()
    assert (chain.state(), chain.now().open_claims, chain.now().deadline) == (TaskState.CLAIMED, 1, 0)
    assert chain.happened(ev.ResultsClaimed) == [ev.ResultsClaimed(chain.task, 1)]
    assert chain.chain.now()[ResultClaims].is_open(slot_case(chain.task, 0))
    assert books.change(chain.alice) == 0
    assert not chain.is_idle(chain.alice)


def test_the_claim_has_the_terms_of_the_task() -> None:
    chain, _ = awarded(size=12, segments=20, run_blocks=16, check_ppm=50_000, bids={"collateral": COLLATERAL})
    state_result(chain, chain.alice)
    fee = -(-PAID * 60_000 * 5 // (20 * 1_000_000))
    assert terms_of(chain) == ClaimTerms(
        handler=TrainingMarket.index, provider=chain.alice.stash, customer=CUSTOMER.stash, root=RIGHT, items=20,
        weight=20 * ITEM_WEIGHT, item_weight_max=ITEM_WEIGHT, price=PAID, collateral=372 * OGPU, rate_ppm=100_000,
        check_ppm=60_000, fee_min=OGPU // 1_000, fees_held=2 * fee, sealed_at=0, run_blocks=4,
        excluded=(chain.bob.stash,),
    )  # fmt: skip


@pytest.mark.parametrize(("segments", "rate"), [(0, 333_333), (12, 333_333), (13, 307_692), (1_023, 3_910)])
def test_a_long_trace_expects_at_most_four_points(segments: int, rate: int) -> None:
    chain, _ = awarded(segments=segments, constants={"TrainingMarket.check_rate": 333_333}, check_ppm=50_000)
    state_result(chain, chain.alice)
    terms = terms_of(chain)
    assert (terms.items, terms.rate_ppm) == (max(1, segments), rate)
    fee = -(-PRICE * 6 // (100 * terms.items))
    assert terms.collateral == least_collateral(PRICE, items=terms.items, rate_ppm=333_333, vote_fee=fee)


def test_a_higher_collateral_makes_no_check_dearer() -> None:
    """A checker locks as much as secures the claim. Otherwise only friends of a liar could afford to check."""
    chain, _ = awarded(size=12, collateral_min=2 * COLLATERAL, bids={"collateral": 2 * COLLATERAL})
    state_result(chain, chain.alice)
    assert (chain.now().slots[0].collateral, terms_of(chain).collateral) == (2 * COLLATERAL, 372 * OGPU)


def test_the_rest_of_a_run_has_its_own_segments_and_whoever_takes_it_over_is_surely_checked() -> None:
    """Its collateral is that of a long trace, of which four segments are always drawn."""
    numbers = {"TrainingMarket.check_rate": 333_333}
    chain, _ = awarded(constants=numbers, segments=16, check_ppm=50_000, bids={"collateral": 26 * OGPU})
    work(chain, chain.alice, milestones=2)
    chain.until(TaskState.ASKING)
    state_result(chain, chain.bob)
    terms = terms_of(chain)
    assert (terms.provider, terms.items, terms.price) == (chain.bob.stash, 8, 4 * OGPU)
    assert (terms.rate_ppm, terms.collateral) == (500_000, 259 * OGPU // 10)
    task = chain.now()
    assert own_segments(task.order, task.behind) == range(8, 16)
    assert [segment_of(task.order, task.behind, item_at(point)) for point in (0, ITEM_WEIGHT - 1, ITEM_WEIGHT)] == [
        8,
        8,
        9,
    ]


def test_the_short_rest_of_a_long_trace_has_the_collateral_of_the_whole() -> None:
    """Eighteen voters about one of two segments, at the greatest price of the whole, would be paid eight times that."""
    chain, books = awarded(size=14, segments=100, milestones=50, bids={"collateral": 26 * OGPU})
    work(chain, chain.alice, milestones=49)
    chain.until(TaskState.ASKING)
    state_result(chain, chain.bob)
    terms = terms_of(chain)
    assert (terms.provider, terms.items, terms.price) == (chain.bob.stash, 2, 8 * OGPU // 50)
    assert (terms.rate_ppm, terms.collateral) == (1_000_000, 26 * OGPU)
    assert terms.fees_held == 2 * terms.price * 6 // 5
    assert 2 * SEATS * vote_fee(terms) == 18 * terms.price * 6 // 10
    end(chain)
    assert chain.now().outcome is TaskOutcome.ON_TIME
    assert books.change(chain.bob) == net(8 * OGPU // 50) + net(7 * OGPU // 50)
    assert is_clean(chain)


@pytest.mark.parametrize(("segments", "behind", "items"), [(0, 0, 1), (0, 3, 1), (2, 3, 1), (9, 1, 7), (9, 3, 3)])
def test_a_leg_has_at_least_one_item(segments: int, behind: int, items: int) -> None:
    assert items_of(an_order(segments=segments), behind) == items


def test_a_set_that_is_too_small_for_checks_checks_nothing() -> None:
    chain, books = awarded(size=3)
    task = chain.now()
    assert (task.rules.check_rate_ppm, task.terms.collateral_min) == (0, K)
    held = chain.market.lock.locked(CUSTOMER.stash, Hold(TASK_ESCROW, slot_case(chain.task, 0)))
    assert held == PRICE + PRICE // 50
    state_result(chain, chain.alice)
    assert terms_of(chain).rate_ppm == 0
    end(chain)
    assert chain.now().outcome is TaskOutcome.ON_TIME
    assert books.change(CUSTOMER) == -PAID - STOOD_BY


# ------------------------------------------------------------------------------------------------------------ outcomes


def test_a_result_that_passes_pays_its_provider_and_its_checkers() -> None:
    chain, books = claimed()
    drawn: list[bytes] = []
    while chain.state() is TaskState.CLAIMED:
        if chain.now().open_claims:
            drawn = checkers(chain)
        chain.block(*checker_steps(chain.chain))
    assert chain.now().outcome is TaskOutcome.ON_TIME
    assert 1 <= len(drawn) <= 2
    assert len(set(drawn)) == len(drawn)
    assert books.change(chain.alice) == net(PAID)
    assert books.change(CUSTOMER) == -PAID - STOOD_BY - len(drawn) * FEE
    assert [books.change(chain.chain.keys_of(who)) for who in drawn] == [FEE] * len(drawn)
    (settled,) = chain.happened(ev.SlotSettled)
    assert (settled.outcome, settled.earned, settled.lost) == (TaskOutcome.ON_TIME, PAID, 0)
    assert chain.market.provider_records[chain.alice.stash].settled > 0
    assert is_clean(chain)


def test_a_late_result_pays_for_each_late_block_when_its_claim_has_passed() -> None:
    chain = TaskChain(constants=ALWAYS)
    chain.submit(milestones=1)
    chain.auction(with_offers(chain.keys, 6 * OGPU, PAID, blocks=4, collateral=K))
    books = Books(chain)
    chain.start(chain.alice)
    chain.blocks(6)
    chain.finish(chain.alice)
    end(chain)
    assert chain.now().outcome is TaskOutcome.LATE
    assert books.change(chain.alice) == net(PAID) - 3 * 5 * chain.now().terms.time_value


def test_a_liar_loses_its_collateral_by_the_table_of_claims_and_its_customer_gets_the_price_back() -> None:
    chain, books = claimed(size=20, root=WRONG)
    end(chain, Verdict.WRONG, vote_for(Verdict.WRONG))
    assert chain.now().outcome is TaskOutcome.LIED
    assert books.change(chain.alice) == -K
    assert books.change(CUSTOMER) == -STOOD_BY, "the standby was ready, and no check has passed"
    gained = sorted(books.change(keys) for keys in chain.keys if keys not in (chain.alice, chain.bob))
    assert gained[-10:] == [FEE] * 9 + [K // 2], "nine voters, and the checker"
    (settled,) = chain.happened(ev.SlotSettled)
    assert (settled.outcome, settled.earned, settled.lost) == (TaskOutcome.LIED, 0, K)
    assert chain.market.provider_records[chain.alice.stash].failed == 5 * PAID
    assert is_clean(chain)


def test_a_liar_with_more_collateral_pays_its_customer_out_of_the_rest() -> None:
    chain, books = awarded(size=20, constants=ALWAYS, bids={"collateral": K + 30 * OGPU})
    chain.start(chain.alice)
    chain.finish(chain.alice, root=WRONG)
    end(chain, Verdict.WRONG, vote_for(Verdict.WRONG))
    assert books.change(chain.alice) == -K - 30 * OGPU
    assert books.change(CUSTOMER) == PRICE - STOOD_BY, "half of the collateral, at most the greatest price"
    assert chain.happened(ev.SlotSettled)[-1].lost == K + 30 * OGPU


def test_without_a_decision_the_price_and_the_collateral_return() -> None:
    """Nobody votes about what the checker refutes."""
    chain, books = claimed(root=WRONG)
    end(chain, Verdict.WRONG)
    assert chain.now().outcome is TaskOutcome.UNDECIDED
    assert books.change(chain.alice) == 0
    assert books.change(CUSTOMER) == -STOOD_BY
    assert is_clean(chain)


def test_a_checker_that_is_wrong_pays_and_the_result_passes() -> None:
    chain, books = claimed(size=24)
    end(chain, Verdict.WRONG, vote_for(Verdict.RIGHT, weight=ITEM_WEIGHT))
    assert chain.now().outcome is TaskOutcome.ON_TIME
    assert books.change(chain.alice) == net(PAID) + len([1 for keys in chain.keys if books.change(keys) == -K]) * FEE
    assert min(books.change(keys) for keys in chain.keys) == -K
    assert books.change(CUSTOMER) == -PAID - STOOD_BY, "voters have checked the result"


def test_anybody_may_dispute_an_item_of_a_claim() -> None:
    chain, books = claimed(size=20, root=WRONG)
    call = ResultClaims.dispute(claim=slot_case(chain.task, 0), index=0)
    chain.block(refused(CUSTOMER.stash, ResultClaims.dispute(claim=slot_case(chain.task, 0), index=1), NotDisputable))
    chain.block(signed(CUSTOMER.stash, call))
    end(chain, vote=vote_for(Verdict.WRONG))
    assert chain.now().outcome is TaskOutcome.LIED
    assert books.change(CUSTOMER) == K // 2 - STOOD_BY
    assert books.change(chain.alice) == -K


# --------------------------------------------------------------------------------------------------------------- gangs


def test_each_slot_of_a_gang_has_a_claim_of_its_own() -> None:
    chain, books, whose = gang()
    chain.block()
    assert chain.now().open_claims == 2
    assert [terms_of(chain, place).provider for place in range(2)] == [keys.stash for keys in whose]
    standby = chain.now().standby
    assert standby is not None
    assert [set(terms_of(chain, place).excluded) for place in range(2)] == [
        {whose[1].stash, standby.provider}, {whose[0].stash, standby.provider},
    ]  # fmt: skip
    end(chain)
    assert [slot.outcome for slot in chain.now().slots] == [TaskOutcome.ON_TIME] * 2
    assert books.changes(*whose) == [net(PAID)] * 2
    assert is_clean(chain)


def test_a_slot_that_is_settled_is_free_while_its_partners_claim_is_open() -> None:
    chain, books, whose = gang()
    chain.block()
    # Disputes without voters delay the other claim.
    delay = ResultClaims.dispute(claim=slot_case(chain.task, 1), index=0)
    while chain.now().open_claims == 2:
        chain.block(*checker_steps(chain.chain), tolerant(signed(CUSTOMER.stash, delay)))
    settled = chain.now().slots[0]
    assert (settled.outcome, chain.now().slots[1].outcome) == (TaskOutcome.ON_TIME, None)
    assert chain.is_idle(whose[0])
    assert not chain.is_idle(whose[1])
    assert books.change(whose[0]) == net(PAID)
    assert chain.state() is TaskState.CLAIMED
    end(chain)
    assert is_clean(chain)
