"""The money table of tasks, to the grain, and the numbers that it goes by."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from genesis.parameters import CONSENSUS, numbers
from gpu_tasks.data.run_states import STATE_BYTES_MAX
from gpu_tasks.data.sealing import BLOB_BYTES_MAX
from gpu_tasks.market.claims.collateral import CLAIM_POINTS_MAX, PPM, RATES_PPM, item_rate
from gpu_tasks.market.claims.disputes import SEATS
from gpu_tasks.market.claims.draws import ITEM_WEIGHT, most_points
from gpu_tasks.market.training import money
from gpu_tasks.market.training.items import auction_items, items_of
from gpu_tasks.market.training.money import (
    OWNERS,
    TABLE,
    TaskMoney,
    TaskOutcome,
    TaskPayee,
    TaskPurse,
    TaskSum,
    settle,
)
from gpu_tasks.market.training.numbers import task_rules
from gpu_tasks.market.training.orders import MILESTONES_MAX, CheckedBy
from gpu_tasks.market.training.rules import DEFAULT_RULES, TaskRules
from gpu_tasks.market.training.table_page import task_outcomes_page, task_words_page
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.tasks.bid_terms import COMMIT_BLOCKS_LEAST, WINDOW_BLOCKS_LEAST
from gpu_tasks.traces.trace import SEGMENTS_MAX
from task_chain import an_order

OGPU = 10**8
PAGE = Path(__file__).parents[4] / "docs" / "training.md"
DEFAULTS = {name: parameter.default for name, parameter in TrainingMarket.parameters.items()}
CUSTOMER, PROVIDER, STANDBY = TaskPayee.CUSTOMER, TaskPayee.PROVIDER, TaskPayee.STANDBY
FEE, BURNED = TaskPayee.FEE, TaskPayee.BURNED
# A greatest price of 100, awarded at 80: round numbers, in hundredths of an oGPU.
UNIT = OGPU // 100
MAX, PRICE, ESCROW, BOND, COLLATERAL = 100 * UNIT, 80 * UNIT, 342 * UNIT, 5 * UNIT, 1_900 * UNIT
TERMS = TaskTerms(
    price_max=MAX, time_value=UNIT // 2, loss=25 * UNIT, blocks_max=50, collateral_min=COLLATERAL, slots=1
)
HELD = {
    TaskPurse.ESCROW: ESCROW,
    TaskPurse.CUSTOMER_BOND: BOND,
    TaskPurse.COLLATERAL: COLLATERAL,
    TaskPurse.STANDBY_COLLATERAL: COLLATERAL,
}
RUN = TaskMoney(
    DEFAULT_RULES,
    TERMS,
    HELD,
    price=PRICE,
    collateral=COLLATERAL,
    promised=20,
    elapsed=20,
    taken=20,
    milestones=10,
    done=10,
)


def gains(outcome: TaskOutcome, settled: TaskMoney) -> dict[TaskPayee, int]:
    """Return each party's gain or loss against its holds."""
    totals = Counter[TaskPayee]()
    for flow in settle(outcome, settled):
        totals[OWNERS[flow.purse]] -= flow.amount
        totals[flow.payee] += flow.amount
    return {payee: gain for payee, gain in totals.items() if gain}


def in_units(found: dict[TaskPayee, int]) -> dict[TaskPayee, float]:
    return {payee: amount / UNIT for payee, amount in found.items()}


PAID = {PROVIDER: 78.4, FEE: 1.6, CUSTOMER: -80.0}
CASES: list[tuple[TaskOutcome, dict[str, Any], dict[TaskPayee, float]]] = [
    (TaskOutcome.ON_TIME, {}, PAID),
    (TaskOutcome.ON_TIME, {"elapsed": 3, "taken": 3}, PAID),
    (TaskOutcome.LATE, {"elapsed": 24, "taken": 24}, {**PAID, PROVIDER: 68.4, CUSTOMER: -70.0}),
    (TaskOutcome.LATE, {"elapsed": 10_000, "taken": 10_000}, {**PAID, PROVIDER: 78.4 - 1_900, CUSTOMER: 1_900 - 80.0}),
    (TaskOutcome.UNDECIDED, {}, {}),
    (TaskOutcome.LIED, {}, {PROVIDER: -1_900, CUSTOMER: 100.0, BURNED: 1_800}),
    (TaskOutcome.LIED, {"held": {**HELD, TaskPurse.COLLATERAL: 60 * UNIT}}, {PROVIDER: -60.0, CUSTOMER: 60.0}),
    (TaskOutcome.LIED, {"collateral": 150 * UNIT, "held": {TaskPurse.COLLATERAL: 150 * UNIT}},
     {PROVIDER: -150.0, CUSTOMER: 75.0, BURNED: 75.0}),
    (TaskOutcome.OUTVOTED, {}, {PROVIDER: -1_900, BURNED: 1_900}),
    (TaskOutcome.OUTVOTED, {"collateral": 150 * UNIT, "held": {TaskPurse.COLLATERAL: 60 * UNIT}},
     {PROVIDER: -60.0, BURNED: 60.0}),
    (TaskOutcome.DIED, {"done": 4}, {PROVIDER: 32 * 0.98 - 12, FEE: 0.64, CUSTOMER: 12.0 - 32}),
    (TaskOutcome.DIED, {"done": 0}, {PROVIDER: -20.0, CUSTOMER: 20.0}),
    (TaskOutcome.DIED, {"done": 0, "terms": replace(TERMS, loss=7 * UNIT)},
     {PROVIDER: -20.0, CUSTOMER: 7.0, BURNED: 13.0}),
    (TaskOutcome.PARTNER_DIED, {"done": 4}, {PROVIDER: 32 * 0.98, FEE: 0.64, CUSTOMER: -32.0}),
    (TaskOutcome.NOT_STARTED, {}, {PROVIDER: -10.0, CUSTOMER: 5.0, BURNED: 5.0}),
    (TaskOutcome.INPUT_MISSING, {}, {PROVIDER: 2.0, CUSTOMER: -4.0, BURNED: 2.0}),
    (TaskOutcome.NO_AWARD, {}, {}),
    (TaskOutcome.CANCELLED_BEFORE_AWARD, {}, {CUSTOMER: -0.5, BURNED: 0.5}),
    (TaskOutcome.CANCELLED_BEFORE_START, {}, {PROVIDER: 2.0, CUSTOMER: -4.0, BURNED: 2.0}),
    (TaskOutcome.CANCELLED_RUNNING, {"elapsed": 5, "taken": 5, "stated": 1},
     {PROVIDER: 20 * 0.98 + 2, FEE: 0.4, CUSTOMER: -24.0, BURNED: 2.0}),
    (TaskOutcome.CANCELLED_RUNNING, {"elapsed": 5, "taken": 5, "stated": 5, "done": 3},
     {PROVIDER: 40 * 0.98 + 2, FEE: 0.8, CUSTOMER: -44.0, BURNED: 2.0}),
    (TaskOutcome.CANCELLED_RUNNING, {"elapsed": 22, "taken": 22, "stated": 5},
     {PROVIDER: 78.4 + 2 - 5, FEE: 1.6, CUSTOMER: -79.0, BURNED: 2.0}),
    (TaskOutcome.STOOD_BY, {}, {STANDBY: 1.6 * 0.98, FEE: 0.032, CUSTOMER: -1.6}),
    (TaskOutcome.STANDBY_NOT_STARTED, {}, {STANDBY: -10.0, CUSTOMER: 5.0, BURNED: 5.0}),
    (TaskOutcome.NOT_REVEALED, {"held": {TaskPurse.BID_BOND: 10 * UNIT}}, {PROVIDER: -10.0, BURNED: 10.0}),
    (TaskOutcome.INTERVAL_PAID, {"due": 2, "done": 0}, {PROVIDER: 8 * 0.98, FEE: 0.16, CUSTOMER: -8.0}),
    (TaskOutcome.TIME_OVER, {"due": 3, "done": 1}, {PROVIDER: 4 * 0.98, FEE: 0.08, CUSTOMER: -4.0}),
    (TaskOutcome.LEFT, {"done": 4}, {PROVIDER: -12.0, CUSTOMER: 12.0}),
    (TaskOutcome.TIME_STOPPED, {"due": 4, "done": 1}, {PROVIDER: 9.84, FEE: 0.16, CUSTOMER: -12.0, BURNED: 2.0}),
]  # fmt: skip


@pytest.mark.parametrize(("outcome", "changes", "expected"), CASES)
def test_who_gains_and_loses_what(
    outcome: TaskOutcome, changes: dict[str, Any], expected: dict[TaskPayee, float]
) -> None:
    assert in_units(gains(outcome, replace(RUN, **changes))) == pytest.approx(expected)


def test_every_outcome_has_a_case() -> None:
    assert {outcome for outcome, _, _ in CASES} == set(TABLE) == set(TaskOutcome)


@pytest.mark.parametrize("guess", [1, 2, 126])
def test_a_greatest_price_that_is_too_high_costs_its_customer_nothing(guess: int) -> None:
    """More is locked for it. A result, a stop and a missing input cost by the paid price, except for voters."""
    terms = replace(TERMS, price_max=guess * MAX)
    held = {
        **HELD,
        TaskPurse.ESCROW: money.escrow(DEFAULT_RULES, guess * MAX, items=1),
        TaskPurse.CUSTOMER_BOND: money.customer_bond(DEFAULT_RULES, guess * MAX),
    }
    guessed = replace(RUN, terms=terms, held=held)
    for outcome in (
        TaskOutcome.ON_TIME, TaskOutcome.INPUT_MISSING, TaskOutcome.STOOD_BY,
        TaskOutcome.CANCELLED_BEFORE_START, TaskOutcome.CANCELLED_RUNNING, TaskOutcome.TIME_STOPPED,
    ):  # fmt: skip
        assert gains(outcome, guessed) == gains(outcome, RUN)


def test_odd_grains_go_where_the_module_says() -> None:
    """Prices, fees and halves round down, bonds and penalties up."""
    odd = replace(RUN, terms=replace(TERMS, price_max=1_001, loss=10**6), price=997, milestones=3, done=1)
    assert gains(TaskOutcome.DIED, odd) == {PROVIDER: 332 - 6 - 167, FEE: 6, CUSTOMER: 167 - 332}
    assert gains(TaskOutcome.NOT_STARTED, odd) == {PROVIDER: -101, CUSTOMER: 50, BURNED: 51}
    assert gains(TaskOutcome.STOOD_BY, odd) == {STANDBY: 19, CUSTOMER: -19}
    bonded = replace(odd, held={TaskPurse.CUSTOMER_BOND: 51})
    assert gains(TaskOutcome.INPUT_MISSING, bonded) == {PROVIDER: 25, CUSTOMER: -50, BURNED: 25}
    assert gains(TaskOutcome.INPUT_MISSING, replace(bonded, price=1_001)) == {PROVIDER: 25, CUSTOMER: -51, BURNED: 26}
    assert gains(TaskOutcome.CANCELLED_BEFORE_AWARD, bonded) == {CUSTOMER: -5, BURNED: 5}
    assert money.customer_bond(DEFAULT_RULES, 1_001) == 51
    assert money.bid_bond(DEFAULT_RULES, 1_001) == 101
    assert money.remaining(997, 1, 3) == 664
    assert [money.remaining_blocks(20, done, 3) for done in range(3)] == [20, 14, 7]
    assert money.remaining_blocks(1, 49, 50) == 1
    assert money.fee_parts(7) == (3, 4)


def test_what_is_locked() -> None:
    assert money.escrow(DEFAULT_RULES, MAX, items=1) == ESCROW
    assert money.escrow(DEFAULT_RULES, MAX, items=50) == 126 * UNIT
    assert money.customer_bond(DEFAULT_RULES, MAX) == BOND
    assert money.bid_bond(DEFAULT_RULES, MAX) == 10 * UNIT
    fees = [money.check_fees_max(DEFAULT_RULES, MAX, items) for items in (1, 5, 10, 50)]
    assert fees == [240 * UNIT, 240 * UNIT, 120 * UNIT, 24 * UNIT], "of five items at most"
    assert money.check_fees_max(replace(DEFAULT_RULES, check_rate_ppm=0), MAX, items=1) == 0
    assert money.check_fees_max(DEFAULT_RULES, 1, items=1) == 2 * OGPU // 1_000
    assert [money.vote_fee(DEFAULT_RULES, MAX, items) for items in (1, 7, 120)] == [120 * UNIT, 17_142_858, UNIT]


@pytest.mark.parametrize(
    ("rate", "check_ppm", "items", "asked", "least"),
    [
        (333_333, 1_200_000, 1, 0, 18 * 120 * UNIT),
        (333_333, 1_200_000, 2, 0, 9 * 120 * UNIT),
        (333_333, 1_200_000, 3, 0, 904 * UNIT),
        (333_333, 1_200_000, 12, 0, 904 * UNIT),
        (333_333, 1_200_000, 13, 0, 259 * UNIT),
        (1_000_000, 1_200_000, 8, 0, 270 * UNIT),
        (1_000_000, 1_200_000, 9, 0, 259 * UNIT),
        (333_333, 60_000, 1, 0, 904 * UNIT),
        (333_333, 60_000, 12, 0, 904 * UNIT),
        (333_333, 60_000, 13, 0, 259 * UNIT),
        (100_000, 60_000, 1, 0, 3_720 * UNIT),
        (0, 60_000, 1, 0, 259 * UNIT),
        (333_333, 60_000, 1, 904 * UNIT + 1, 904 * UNIT + 1),
        (333_333, 60_000, 1, 904 * UNIT - 1, 904 * UNIT),
    ],
)
def test_the_least_collateral_is_that_of_the_claim(
    rate: int, check_ppm: int, items: int, asked: int, least: int
) -> None:
    """Or that of eighteen voters, or the customer's own number."""
    rules = replace(DEFAULT_RULES, check_rate_ppm=rate, check_ppm=check_ppm)
    assert money.collateral_min(rules, MAX, items=items, customer_minimum=asked) == least


@pytest.mark.parametrize(
    ("checked_by", "least"),
    [(CheckedBy.METERED, 30 * UNIT), (CheckedBy.LEASED, 30 * UNIT), (CheckedBy.REPLICATED, MAX)],
)
def test_what_nobody_checks_has_a_collateral_of_its_own(checked_by: CheckedBy, least: int) -> None:
    rules = task_rules(DEFAULTS.__getitem__, check_fee_min=OGPU // 1_000, checked_by=checked_by)
    assert (rules.check_rate_ppm, rules.check_ppm) == (0, 0)
    assert money.collateral_min(rules, MAX, items=1) == least
    assert money.collateral_min(rules, 1, items=1) == 9 * OGPU // 1_000, "the fees of nine voters"


def test_voters_about_an_input_share_half_of_the_bond() -> None:
    assert money.input_charge(DEFAULT_RULES, MAX) == 250 * UNIT // 100
    assert money.input_fee(DEFAULT_RULES, MAX) == 250 * UNIT // 100 // 9
    assert money.input_fee(DEFAULT_RULES, 1) == OGPU // 1_000
    assert money.false_report_cost(DEFAULT_RULES, MAX) == 10 * UNIT
    assert money.false_report_cost(DEFAULT_RULES, 1) == 9 * OGPU // 1_000


@pytest.mark.parametrize("rate", RATES_PPM)
def test_the_rules_of_a_task_follow_the_parameters(rate: int) -> None:
    numbers = {**DEFAULTS, "check_rate": rate}
    rules = task_rules(numbers.__getitem__, check_fee_min=7, check_ppm=50_000)
    assert (rules.check_rate_ppm, rules.check_ppm, rules.check_fee_min, rules.collateral_ppm) == (rate, 60_000, 7, 0)
    numbers["check_rate"] = rate + 1
    assert task_rules(numbers.__getitem__, check_fee_min=7).check_rate_ppm == rate, "a rate without a game"
    small = task_rules(numbers.__getitem__, check_fee_min=7, is_checked=False)
    assert (small.check_rate_ppm, small.check_ppm) == (0, 1_200_000)


@st.composite
def any_rules(draw: st.DrawFn) -> TaskRules:
    shares_of_all = st.integers(0, 1_000_000)
    return TaskRules(
        settlement_fee=draw(st.integers(0, 50_000)),
        standby_share=draw(shares_of_all),
        cancel_burn=draw(shares_of_all),
        no_start_penalty=draw(shares_of_all),
        failure_penalty=draw(shares_of_all),
        late_penalty_factor=draw(st.integers(0, 10)),
        check_rate_ppm=draw(st.sampled_from((0, *RATES_PPM))),
        check_ppm=draw(st.integers(2, 1_200_000)),
        check_fee_min=draw(st.integers(1, 10**8)),
    )


@st.composite
def slots(draw: st.DrawFn) -> TaskMoney:
    """Draw any locked and agreed amounts of a slot. Voters may have taken any part of bond and collateral."""
    rules = draw(st.just(DEFAULT_RULES) | any_rules())
    price_max = draw(st.integers(1, 100) | st.integers(1, 21 * 10**14))
    collateral = draw(st.integers(0, 20 * price_max))
    milestones = draw(st.integers(1, 50))
    amounts = st.integers(0, 2 * price_max)
    held = {
        TaskPurse.ESCROW: money.escrow(rules, price_max, draw(st.integers(1, 1_024))),
        TaskPurse.CUSTOMER_BOND: draw(amounts),
        TaskPurse.COLLATERAL: draw(st.integers(0, collateral)),
        TaskPurse.STANDBY_COLLATERAL: draw(amounts),
        TaskPurse.BID_BOND: draw(amounts),
    }
    return TaskMoney(
        rules=rules,
        terms=TaskTerms(price_max, draw(amounts), draw(amounts), 100, collateral),
        held=held,
        price=draw(st.integers(1, price_max)),
        collateral=collateral,
        promised=draw(st.integers(1, 100)),
        elapsed=draw(st.integers(0, 300)),
        taken=draw(st.integers(0, 300)),
        stated=draw(st.integers(0, milestones)),
        milestones=milestones,
        done=draw(st.integers(0, milestones)),
    )


@given(st.sampled_from(TaskOutcome), slots())
def test_every_grain_is_somebodys(outcome: TaskOutcome, slot: TaskMoney) -> None:
    left, received = Counter(slot.held), Counter[TaskPayee]()
    for flow in settle(outcome, slot):
        assert flow.amount > 0
        left[flow.purse] -= flow.amount
        received[flow.payee] += flow.amount
    assert min(left.values()) >= 0
    assert left.total() + received.total() == sum(slot.held.values())


@given(st.sampled_from(TaskOutcome), slots())
def test_purses_that_an_outcome_does_not_name_stay_whole(outcome: TaskOutcome, slot: TaskMoney) -> None:
    named = {line.purse for line in TABLE[outcome].lines}
    assert {flow.purse for flow in settle(outcome, slot)} <= named


@given(st.sampled_from(TaskOutcome), slots())
def test_a_fee_is_on_what_is_earned_alone(outcome: TaskOutcome, slot: TaskMoney) -> None:
    taken = {flow.purse for flow in settle(outcome, slot) if flow.payee is FEE}
    assert taken <= {TaskPurse.ESCROW}


@given(slots())
def test_a_customer_gains_at_most_its_losses_by_a_failure(slot: TaskMoney) -> None:
    full = replace(slot, held={**slot.held, TaskPurse.COLLATERAL: slot.collateral})
    assert gains(TaskOutcome.DIED, replace(full, done=0)).get(CUSTOMER, 0) <= slot.terms.loss
    assert gains(TaskOutcome.LIED, full).get(CUSTOMER, 0) <= min(slot.collateral // 2, slot.terms.price_max)


@given(any_rules(), st.integers(0, 100_000) | st.integers(0, 21 * 10**14), st.integers(1, 1_024))
def test_what_is_left_pays_for_a_second_auction(rules: TaskRules, left: int, items: int) -> None:
    price_max = money.affordable(rules, left, items)
    assert price_max == 0 or money.escrow(rules, price_max, items) <= left
    assert money.escrow(rules, price_max + 4, items) > left


@given(
    st.just(DEFAULT_RULES) | any_rules(),
    st.integers(1, MILESTONES_MAX).flatmap(lambda all_: st.tuples(st.just(all_), *[st.integers(0, all_ - 1)] * 2)),
    st.integers(0, SEGMENTS_MAX),
    st.integers(1, 1_000) | st.integers(1, 21 * 10**14),
    st.integers(0, 1_000_000),
)
@example(DEFAULT_RULES, (8, 1, 2), 100, 10**12, 0)
def test_a_leg_costs_at_most_the_checks_and_voters_that_its_auction_has_secured(
    rules: TaskRules, milestones: tuple[int, int, int], segments: int, price_max: int, discount_ppm: int
) -> None:
    """Behind some milestones a task is sold, and behind more of them a standby may take it over."""
    in_all, sold, taken = milestones[0], *sorted(milestones[1:])
    order = an_order(milestones=in_all, segments=segments)
    price = money.remaining(price_max - price_max * discount_ppm // PPM, taken - sold, in_all - sold)
    in_auction, in_leg = auction_items(order, sold), items_of(order, taken)
    secured = money.collateral_min(rules, price_max, items=in_auction)
    assert money.check_fees_max(rules, price, in_leg) <= money.check_fees_max(rules, price_max, in_auction)
    assert 2 * SEATS * money.vote_fee(rules, price, in_leg) <= secured
    # A winner of the auction has a claim of its rate. Voters about different results are paid by the greatest price.
    in_first_leg = items_of(order, sold)
    assert money.claim_collateral(rules, price_max, in_first_leg, rules.check_rate_ppm) <= secured
    assert 2 * SEATS * money.vote_fee(rules, price_max, in_first_leg) <= secured


@given(st.integers(1, SEGMENTS_MAX), st.sampled_from(RATES_PPM))
def test_a_check_has_no_more_points_than_its_escrow_pays_for(items: int, rate: int) -> None:
    assert most_points(items, items * ITEM_WEIGHT, item_rate(items, rate)) <= CLAIM_POINTS_MAX


@pytest.mark.parametrize(
    ("name", "percent", "word"),
    [
        ("standby_share", 2, TaskSum.STANDBY),
        ("no_start_penalty", 10, TaskSum.NO_START),
        ("failure_penalty", 25, TaskSum.FAILURE),
        ("cancel_burn", 10, TaskSum.CANCEL),
        ("customer_bond", 5, TaskSum.FORFEIT),
    ],
)
def test_the_words_name_the_rules(name: str, percent: int, word: TaskSum) -> None:
    assert getattr(DEFAULT_RULES, name) == percent * 10_000
    assert f"`{name}` ({percent} %" in word.value


def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(part in page for part in (task_outcomes_page(), task_words_page()))


# --------------------------------------------------------------------------------------------------- windows in seconds


PAGE_TEXT = (Path(__file__).parents[4] / "docs" / "training.md").read_text(encoding="utf-8")
WINDOWS = (
    "commit_blocks", "reveal_blocks", "start_blocks", "grace_blocks", "ask_blocks", "task_keep",
)  # fmt: skip
FETCHING = ("start_blocks", "grace_blocks", "ask_blocks")
LINE_BYTES_PER_SECOND = 1_000_000 // 8
"""Of a line with 1 Mbit/s."""


def blocks(preset: str, window: str) -> int:
    found: int = numbers(preset).get(f"TrainingMarket.{window}", getattr(TrainingMarket, window).default)
    return found


def seconds(preset: str, window: str) -> int:
    """Return the seconds of a window if each slot has a block."""
    return blocks(preset, window) * CONSENSUS[preset].slot_ms // 1_000


def in_words(span: int) -> str:
    for unit, length in (("h", 3_600), ("min", 60)):
        if span % length == 0:
            return f"{span // length} {unit}"
    return f"{span} s"


@pytest.mark.parametrize("window", WINDOWS)
def test_the_page_says_how_long_a_window_is(window: str) -> None:
    times = [in_words(seconds(preset, window)) for preset in ("devnet", "mainnet")]
    assert f"| `{window}` | {' | '.join(times)} |" in PAGE_TEXT


def test_the_page_says_how_large_a_blob_is_and_how_much_rarer_blocks_may_be() -> None:
    assert f"{BLOB_BYTES_MAX:,} bytes at most" in PAGE_TEXT
    assert BLOB_BYTES_MAX / LINE_BYTES_PER_SECOND < 9
    assert STATE_BYTES_MAX <= 1_000_000
    assert CONSENSUS["mainnet"].heartbeat_slots == 10
    assert "every tenth slot" in PAGE_TEXT


def test_mainnet_leaves_a_slow_line_time_for_a_blob_to_come_and_to_go() -> None:
    for window in FETCHING:
        assert seconds("mainnet", window) > 60 > 2 * BLOB_BYTES_MAX / LINE_BYTES_PER_SECOND
    assert seconds("mainnet", "commit_blocks") > 2 * BLOB_BYTES_MAX / LINE_BYTES_PER_SECOND


@pytest.mark.parametrize("preset", CONSENSUS)
def test_providers_find_every_window_long_enough_to_bid(preset: str) -> None:
    assert all(blocks(preset, window) >= WINDOW_BLOCKS_LEAST for window in WINDOWS)
    assert blocks(preset, "commit_blocks") > COMMIT_BLOCKS_LEAST
