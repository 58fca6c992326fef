"""The money table of tasks, to the grain, and the numbers that it goes by."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genesis.parameters import CONSENSUS, numbers
from gpu_tasks.data.run_states import STATE_BYTES_MAX
from gpu_tasks.data.sealing import BLOB_BYTES_MAX
from gpu_tasks.market.courts.money import CaseMoney, CaseOutcome, Payee, Purse, chance_found, judge_fee
from gpu_tasks.market.courts.money import settle as settle_case
from gpu_tasks.market.training import money
from gpu_tasks.market.training.money import (
    OWNERS,
    TABLE,
    TaskMoney,
    TaskOutcome,
    TaskPayee,
    TaskPurse,
    TaskSum,
    settle,
    shares,
)
from gpu_tasks.market.training.numbers import task_rules
from gpu_tasks.market.training.rules import DEFAULT_RULES, TaskRules
from gpu_tasks.market.training.table_page import task_outcomes_page, task_words_page
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.tasks.bid_terms import COMMIT_BLOCKS_LEAST, WINDOW_BLOCKS_LEAST

OGPU = 10**8
PAGE = Path(__file__).parents[4] / "docs" / "training.md"
CUSTOMER, PROVIDER, STANDBY = TaskPayee.CUSTOMER, TaskPayee.PROVIDER, TaskPayee.STANDBY
FEE, POT, BURNED = TaskPayee.FEE, TaskPayee.POT, TaskPayee.BURNED
# A greatest price of 100, awarded at 80: round numbers, in hundredths of an oGPU.
UNIT = OGPU // 100
MAX, PRICE, ESCROW, BOND, COLLATERAL = 100 * UNIT, 80 * UNIT, 107 * UNIT, 5 * UNIT, 1_900 * UNIT
DISPUTE_BOND = 8 * UNIT
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
    totals = Counter(shares(outcome, settled))
    for purse, held in settled.held.items():
        totals[OWNERS[purse]] -= held
    return {payee: gain for payee, gain in totals.items() if gain}


def in_units(found: dict[TaskPayee, int]) -> dict[TaskPayee, float]:
    return {payee: amount / UNIT for payee, amount in found.items()}


PAID = {PROVIDER: 78.4, FEE: 1.6, POT: 4.0, CUSTOMER: -84.0}
OVER = {TaskPurse.DISPUTE_BOND: DISPUTE_BOND}
CASES: list[tuple[TaskOutcome, dict[str, Any], dict[TaskPayee, float]]] = [
    (TaskOutcome.ON_TIME, {}, PAID),
    (TaskOutcome.ON_TIME, {"elapsed": 3, "taken": 3}, PAID),
    (TaskOutcome.LATE, {"elapsed": 24, "taken": 24}, {**PAID, PROVIDER: 68.4, CUSTOMER: -74.0}),
    (TaskOutcome.LATE, {"elapsed": 10_000, "taken": 10_000}, {**PAID, PROVIDER: 78.4 - 1_900, CUSTOMER: 1_900 - 84.0}),
    (TaskOutcome.ACCEPTED_BY_SILENCE, {}, PAID),
    (TaskOutcome.ACCEPTED_BY_SILENCE, {"elapsed": 24, "taken": 24}, {**PAID, PROVIDER: 68.4, CUSTOMER: -74.0}),
    (TaskOutcome.DISPUTED_FALSELY, {"held": {**HELD, **OVER}},
     {**PAID, PROVIDER: 82.4, CUSTOMER: -92.0, BURNED: 4.0}),
    (TaskOutcome.UNDECIDED, {"held": {**HELD, **OVER}}, {}),
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
    (TaskOutcome.CLOSED, {"agreed_pay": 50 * UNIT, "agreed_back": 30 * UNIT},
     {PROVIDER: 49.0 - 30, FEE: 1.0, CUSTOMER: -20.0}),
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


@pytest.mark.parametrize("price", [1, PRICE, MAX])
def test_the_pot_gets_what_an_audit_costs_whatever_the_work_went_for(price: int) -> None:
    """Judges are paid by the same price. Otherwise a bid of a grain, to an own customer, let the pot pay them."""
    fee = money.fee_of_judge(DEFAULT_RULES, price)
    found, of = chance_found(DEFAULT_RULES.audit_rate_ppm)
    for outcome in (TaskOutcome.ON_TIME, TaskOutcome.LATE, TaskOutcome.ACCEPTED_BY_SILENCE):
        assert gains(outcome, replace(RUN, price=price))[POT] * of >= 2 * fee * found


@pytest.mark.parametrize("guess", [1, 2, 126])
def test_a_greatest_price_that_is_too_high_costs_its_customer_nothing(guess: int) -> None:
    """More is locked for it. A result, a stop and a missing input cost by the paid price, except for judges."""
    terms = replace(TERMS, price_max=guess * MAX)
    held = {
        **HELD,
        TaskPurse.ESCROW: money.escrow(DEFAULT_RULES, guess * MAX),
        TaskPurse.CUSTOMER_BOND: money.customer_bond(DEFAULT_RULES, guess * MAX),
    }
    guessed = replace(RUN, terms=terms, held=held)
    for outcome in (
        TaskOutcome.ON_TIME, TaskOutcome.ACCEPTED_BY_SILENCE, TaskOutcome.INPUT_MISSING, TaskOutcome.STOOD_BY,
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
    assert money.dispute_bond(DEFAULT_RULES, 1_001, 997) == 100 + 3 * 100_000
    assert money.remaining(997, 1, 3) == 664
    assert [money.remaining_blocks(20, done, 3) for done in range(3)] == [20, 14, 7]
    assert money.remaining_blocks(1, 49, 50) == 1
    assert money.fee_parts(7) == (3, 4)


def test_what_is_locked() -> None:
    assert money.escrow(DEFAULT_RULES, MAX) == ESCROW
    assert money.customer_bond(DEFAULT_RULES, MAX) == BOND
    assert money.bid_bond(DEFAULT_RULES, MAX) == 10 * UNIT
    assert money.dispute_bond(DEFAULT_RULES, MAX, PRICE) == DISPUTE_BOND + 3 * 50 * UNIT
    assert money.premium(DEFAULT_RULES, MAX) == 5 * UNIT


@pytest.mark.parametrize(
    ("price_max", "found", "asked", "least"),
    [
        (MAX, 50_000, 0, 1_900 * UNIT),
        (MAX, 1_000_000, 0, 4 * 5 * MAX // 2),
        (MAX, 50_000, 1_900 * UNIT + 1, 1_900 * UNIT + 1),
        (MAX, 50_000, 1_900 * UNIT - 1, 1_900 * UNIT),
        (1, 50_000, 0, 4 * 5 * 100_000),
        (MAX + 1, 70_000, 0, (MAX + 1) * 93 // 7 + 1),
    ],
)
def test_the_least_collateral(price_max: int, found: int, asked: int, least: int) -> None:
    """The greatest price x (1 - q) / q, at least four times the cost of five judges, or the customer's own number."""
    assert money.collateral_min(replace(DEFAULT_RULES, found_ppm=found), price_max, asked) == least


def test_a_lie_costs_the_same_by_the_table_of_the_courts() -> None:
    """If a case's price is the sum that the collateral covers. Judges are paid first."""
    cover = 100 * UNIT
    parties: dict[Purse, tuple[tuple[bytes, int], ...]] = {Purse.LIED: ((b"liar", COLLATERAL),)}
    payees: dict[Payee, tuple[bytes, ...]] = {Payee.CUSTOMER: (b"customer",)}
    flows = settle_case(CaseOutcome.DECIDED, CaseMoney(cover, 50 * UNIT, True, parties, payees))
    assert {flow.payee: flow.amount for flow in flows} == {b"customer": cover, None: COLLATERAL - cover}
    assert gains(TaskOutcome.LIED, RUN)[CUSTOMER] == cover


def test_to_end_late_is_dearer_than_on_time_and_to_lie_is_dearest() -> None:
    def lost(outcome: TaskOutcome, **changes: Any) -> int:
        return -gains(outcome, replace(RUN, **changes)).get(PROVIDER, 0)

    assert lost(TaskOutcome.ON_TIME) < lost(TaskOutcome.LATE, taken=21) < lost(TaskOutcome.LATE, taken=22)
    died = [lost(TaskOutcome.DIED, done=done) for done in range(10)]
    assert died == sorted(died, reverse=True)
    assert lost(TaskOutcome.LIED) > max(died)
    assert lost(TaskOutcome.NOT_STARTED) < died[0], "who cannot start says so rather than start and die"


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
        audit_rate_ppm=draw(st.integers(1_000, 1_000_000)),
    )


@st.composite
def slots(draw: st.DrawFn) -> TaskMoney:
    """Draw any locked and agreed amounts of a slot. Judges may have taken any part of bond and collateral."""
    rules = draw(st.just(DEFAULT_RULES) | any_rules())
    price_max = draw(st.integers(1, 100) | st.integers(1, 21 * 10**14))
    collateral = draw(st.integers(0, 20 * price_max))
    milestones = draw(st.integers(1, 50))
    amounts = st.integers(0, 2 * price_max)
    held = {
        TaskPurse.ESCROW: money.escrow(rules, price_max),
        TaskPurse.CUSTOMER_BOND: draw(amounts),
        TaskPurse.DISPUTE_BOND: draw(amounts),
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
        agreed_pay=draw(st.integers(0, price_max)),
        agreed_back=draw(st.integers(0, collateral)),
    )


@given(slots())
def test_the_pot_has_its_rate_of_two_fees_of_the_price_that_is_paid(slot: TaskMoney) -> None:
    fee = judge_fee(slot.price, slot.rules.judge_fee_ppm, slot.rules.judge_fee_min)
    in_pot = sum(flow.amount for flow in settle(TaskOutcome.ON_TIME, slot) if flow.payee is POT)
    assert in_pot == -(-2 * fee * slot.rules.audit_rate_ppm // 1_000_000)


@given(st.sampled_from(TaskOutcome), slots())
def test_every_grain_is_somebodys(outcome: TaskOutcome, slot: TaskMoney) -> None:
    left, received = Counter(slot.held), Counter[TaskPayee]()
    for flow in settle(outcome, slot):
        assert flow.amount > 0
        left[flow.purse] -= flow.amount
        received[flow.payee] += flow.amount
    assert min(left.values()) >= 0
    assert left.total() + received.total() == sum(slot.held.values())
    for purse, amount in left.items():
        received[OWNERS[purse]] += amount
    assert shares(outcome, slot) == {payee: received[payee] for payee in TaskPayee}


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


@given(slots())
def test_nobody_gains_by_an_outvoted_replica(slot: TaskMoney) -> None:
    """Its customer could otherwise gain by a program that prints a random bit."""
    held = slot.held[TaskPurse.COLLATERAL]
    assert gains(TaskOutcome.OUTVOTED, slot) == ({PROVIDER: -held, BURNED: held} if held else {})


@given(any_rules(), st.integers(0, 100_000) | st.integers(0, 21 * 10**14))
def test_what_is_left_pays_for_a_second_auction(rules: TaskRules, left: int) -> None:
    price_max = money.affordable(rules, left)
    assert price_max == 0 or money.escrow(rules, price_max) <= left


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


# ---------------------------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize(("rate", "trace_rate"), [(50_000, 250_000), (1_000_000, 5_000), (1_000, 1_000_000)])
def test_what_a_lie_in_one_segment_costs_is_reckoned_by_the_chance_to_find_it(rate: int, trace_rate: int) -> None:
    """An audit of a trace computes four parts of twenty, and all without a trace."""
    numbers = {name: parameter.default for name, parameter in TrainingMarket.parameters.items()}
    numbers |= {
        "audit_rate_ppm": rate,
        "trace_audit_ppm": trace_rate,
        "judge_fee_ppm": 400_000,
        "trace_fee_ppm": 80_000,
    }
    whole, traced = (task_rules(numbers.__getitem__, has_trace=has_trace) for has_trace in (False, True))
    assert (whole.audit_rate_ppm, whole.judge_fee_ppm) == (rate, 400_000)
    assert (traced.audit_rate_ppm, traced.judge_fee_ppm) == (trace_rate, 80_000)
    for rules, share in ((whole, 1.0), (traced, 0.2)):
        assert rules.found_ppm == pytest.approx(
            1_000_000 * share * (1 - (1 - rules.audit_rate_ppm / 4_000_000) ** 4), abs=1
        )


# --------------------------------------------------------------------------------------------------- windows in seconds


PAGE_TEXT = (Path(__file__).parents[4] / "docs" / "training.md").read_text(encoding="utf-8")
WINDOWS = (
    "commit_blocks", "reveal_blocks", "start_blocks", "grace_blocks", "ask_blocks", "dispute_blocks", "accept_blocks",
    "show_blocks", "task_keep",
)  # fmt: skip
FETCHING = ("start_blocks", "grace_blocks", "ask_blocks", "show_blocks")
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
    assert seconds("mainnet", "dispute_blocks") >= 3_600


@pytest.mark.parametrize("preset", CONSENSUS)
def test_providers_find_every_window_long_enough_to_bid(preset: str) -> None:
    assert all(blocks(preset, window) >= WINDOW_BLOCKS_LEAST for window in WINDOWS)
    assert blocks(preset, "commit_blocks") > COMMIT_BLOCKS_LEAST
