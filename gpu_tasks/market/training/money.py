"""The money table of a task, as data: the recipients of a slot's locked money in each outcome.

`settle`, the tests and the page `docs/training.md` read `TABLE`. One row settles a slot for its provider, and another
one for the standby, if there was one. A provider that takes over is a winner from then on, with the rest of the work as
its task. Its price is `remaining` of its own, its promise `remaining_blocks`. Claims and disputes move money before, by
their own table (`claims/money.py`): they pay checkers and voters, and take the collateral of a refuted result.

Invariants: every grain that leaves a purse arrives. Money that no line names stays with the owner of its purse, locked
as long as the task continues. The escrow covers every row's payments. A customer gets only its own money, penalties for
lateness and failure, and for a proven lie at most half the collateral and the greatest price.

Roundings: a part of a price, a fee and a half round down, so the customer keeps the grain, or it burns with the other
half. Bonds, penalties and required collateral round up, against the party that locks or loses them. A promise that is
taken over rounds up, in favour of the new provider.

`items` are those of `items.auction_items` for an auction, and of `items.items_of` for a leg. A leg costs at most what
its auction has locked for checks, because it has no higher price for each item.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum

from gpu_tasks.market.claims.collateral import ALWAYS_PPM, CLAIM_POINTS_MAX, check_fee, fees_max, least_collateral
from gpu_tasks.market.claims.disputes import SEATS
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.terms import TaskTerms, covered
from runtime.encoding.codec import named
from runtime.pallets.staking.slashing import PPM, part


class TaskPayee(Enum):
    """The recipients of money when a slot is settled."""

    CUSTOMER = "the customer"
    PROVIDER = "the provider of the slot, or the bidder"
    STANDBY = "the runner-up"
    FEE = "the settlement fee: half burned, half the treasury's"
    BURNED = "burned"


class TaskPurse(Enum):
    """The amounts locked for a slot."""

    ESCROW = "the customer's escrow: the greatest price, with the most for standby and checks"
    CUSTOMER_BOND = "the customer's bond"
    COLLATERAL = "the provider's collateral, after the payments of claims and disputes"
    STANDBY_COLLATERAL = "the standby's collateral"
    BID_BOND = "the bond of a bid"


OWNERS = {
    TaskPurse.ESCROW: TaskPayee.CUSTOMER,
    TaskPurse.CUSTOMER_BOND: TaskPayee.CUSTOMER,
    TaskPurse.COLLATERAL: TaskPayee.PROVIDER,
    TaskPurse.STANDBY_COLLATERAL: TaskPayee.STANDBY,
    TaskPurse.BID_BOND: TaskPayee.PROVIDER,
}


class TaskSum(Enum):
    """The sums of the table's lines. `_grains_of_sum` computes each."""

    PRICE = "the price; for a takeover, the provider's own price x the remaining share of milestones"
    MILESTONES = "price x counted milestones / all milestones"
    ELAPSED = (
        "price x blocks since the start / promised blocks, at most the price; or the share of the stated milestones if"
        " that is more, because the customer keeps their checkpoints"
    )
    TIME = (
        "price x blocks since the start / blocks bought, at most to the end of the running interval, less the "
        "payments for earlier intervals"
    )
    STANDBY = "`standby_share` (2 %) of the price"
    LATE = "`late_penalty_factor` (5) x v for each late block; waits for partners do not count"
    NO_START = "half of `no_start_penalty` (10 % of the greatest price)"
    NO_START_REST = "the other half"
    FAILURE = "`failure_penalty` (25 %) of the unearned price, at most L"
    FAILURE_REST = "the part of that penalty above L"
    COVER = "half of the collateral, at most the greatest price"
    FORFEIT = "half of `customer_bond` (5 %) of the price"
    FORFEIT_REST = "the other half of these 5 %"
    CANCEL = "`cancel_burn` (10 %) of it"
    ALL = "the rest of it"


@named("ogpu::TaskOutcome")
class TaskOutcome(IntEnum):
    """The outcomes of a slot, a standby or a bid."""

    ON_TIME = 0
    LATE = 1
    UNDECIDED = 2
    LIED = 3
    DIED = 4
    PARTNER_DIED = 5
    NOT_STARTED = 6
    INPUT_MISSING = 7
    NO_AWARD = 8
    CANCELLED_BEFORE_AWARD = 9
    CANCELLED_BEFORE_START = 10
    CANCELLED_RUNNING = 11
    STOOD_BY = 12
    STANDBY_NOT_STARTED = 13
    NOT_REVEALED = 14
    INTERVAL_PAID = 15
    TIME_OVER = 16
    LEFT = 17
    TIME_STOPPED = 18
    OUTVOTED = 19


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A sum that leaves a purse for a payee, less the settlement fee if it is earned."""

    purse: TaskPurse
    payee: TaskPayee
    amount: TaskSum
    is_earned: bool = False


@dataclass(frozen=True, slots=True)
class TaskRow:
    """An outcome. Its lines are paid in their order."""

    says: str
    lines: tuple[TaskLine, ...]


def _earned(task_sum: TaskSum, payee: TaskPayee = TaskPayee.PROVIDER) -> TaskLine:
    return TaskLine(TaskPurse.ESCROW, payee, task_sum, is_earned=True)


def _penalty(
    customer_sum: TaskSum, burned_sum: TaskSum, purse: TaskPurse = TaskPurse.COLLATERAL
) -> tuple[TaskLine, ...]:
    return (TaskLine(purse, TaskPayee.CUSTOMER, customer_sum), TaskLine(purse, TaskPayee.BURNED, burned_sum))


_DONE = _earned(TaskSum.PRICE)
# For results and stopped tasks only: a provider that gives up pays for the failure, and its standby starts earlier.
_LATE = TaskLine(TaskPurse.COLLATERAL, TaskPayee.CUSTOMER, TaskSum.LATE)
_NO_START = (TaskSum.NO_START, TaskSum.NO_START_REST)
_FORFEIT = (
    TaskLine(TaskPurse.CUSTOMER_BOND, TaskPayee.PROVIDER, TaskSum.FORFEIT),
    TaskLine(TaskPurse.CUSTOMER_BOND, TaskPayee.BURNED, TaskSum.FORFEIT_REST),
)

TABLE: dict[TaskOutcome, TaskRow] = {
    TaskOutcome.ON_TIME: TaskRow("The result has passed, within the promised blocks", (_DONE,)),
    TaskOutcome.LATE: TaskRow("The result has passed, and was late", (_DONE, _LATE)),
    TaskOutcome.UNDECIDED: TaskRow(
        "A dispute ended without a decision, or no majority of replicas agrees: no money moves", ()
    ),
    # Half for the customer, so that it gains less by a lie than the liar loses.
    TaskOutcome.LIED: TaskRow("A lie was proven", _penalty(TaskSum.COVER, TaskSum.ALL)),
    # The milestones that the customer has signed: no validator computes those of a dead provider.
    TaskOutcome.DIED: TaskRow(
        "The provider started and did not finish: counted milestones are paid",
        (_earned(TaskSum.MILESTONES), *_penalty(TaskSum.FAILURE, TaskSum.FAILURE_REST)),
    ),
    TaskOutcome.PARTNER_DIED: TaskRow(
        "A partner in the gang did not finish: counted milestones are paid", (_earned(TaskSum.MILESTONES),)
    ),
    TaskOutcome.NOT_STARTED: TaskRow("The provider did not start its awarded slot", _penalty(*_NO_START)),
    TaskOutcome.INPUT_MISSING: TaskRow("The input was not available", _FORFEIT),
    TaskOutcome.NO_AWARD: TaskRow("No bid won, or fewer bids than the gang has slots: no money moves", ()),
    # Bids were work, and there is no price yet.
    TaskOutcome.CANCELLED_BEFORE_AWARD: TaskRow(
        "The customer cancelled the task before the award",
        (TaskLine(TaskPurse.CUSTOMER_BOND, TaskPayee.BURNED, TaskSum.CANCEL),),
    ),
    TaskOutcome.CANCELLED_BEFORE_START: TaskRow(
        "The customer cancelled the task after the award and before the start", _FORFEIT
    ),
    TaskOutcome.CANCELLED_RUNNING: TaskRow(
        "The customer stopped the task", (_earned(TaskSum.ELAPSED), _LATE, *_FORFEIT)
    ),
    TaskOutcome.STOOD_BY: TaskRow(
        "The standby was ready until the first milestone or an earlier end, or took over",
        (_earned(TaskSum.STANDBY, TaskPayee.STANDBY),),
    ),
    TaskOutcome.STANDBY_NOT_STARTED: TaskRow(
        "The bound standby was asked to take over, and did not start",
        _penalty(*_NO_START, TaskPurse.STANDBY_COLLATERAL),
    ),
    # All of the bond: a bidder with two sealed bids must not gain by opening only one.
    TaskOutcome.NOT_REVEALED: TaskRow(
        "A bid was not revealed, or its collateral was missing",
        (TaskLine(TaskPurse.BID_BOND, TaskPayee.BURNED, TaskSum.ALL),),
    ),
    TaskOutcome.INTERVAL_PAID: TaskRow(
        "Time: an interval was attested, and the work continues", (_earned(TaskSum.TIME),)
    ),
    TaskOutcome.TIME_OVER: TaskRow("Time: the program has ended, or the bought time is over", (_earned(TaskSum.TIME),)),
    TaskOutcome.LEFT: TaskRow(
        "Time: the provider left or fell silent; attested intervals are paid",
        _penalty(TaskSum.FAILURE, TaskSum.FAILURE_REST),
    ),
    TaskOutcome.TIME_STOPPED: TaskRow(
        "Time: the customer left; the running interval is paid in full",
        (_earned(TaskSum.TIME), *_FORFEIT),
    ),
    # Nothing for the customer: its program could print a random bit to split honest replicas.
    TaskOutcome.OUTVOTED: TaskRow(
        "Replicas: the majority has another result, or the provider did not open its own beside a majority",
        (TaskLine(TaskPurse.COLLATERAL, TaskPayee.BURNED, TaskSum.ALL),),
    ),
}


@dataclass(frozen=True, slots=True)
class TaskMoney:
    """The state of a slot at its end: the agreed terms, its progress, and its locked money."""

    rules: TaskRules
    terms: TaskTerms
    held: Mapping[TaskPurse, int]
    """The grains in each purse now. A missing purse is empty."""
    price: int = 0
    """The awarded price. A provider that took over has `remaining` of its own price."""
    collateral: int = 0
    """The collateral locked at the award, before the payments of claims and disputes."""
    promised: int = 1
    """The promised blocks, counted from the start."""
    elapsed: int = 0
    """Blocks since the start."""
    milestones: int = 1
    done: int = 0
    """The number of checked milestones."""
    stated: int = 0
    """The number of milestones that all have stated, with or without a signature that their checkpoints are held."""
    taken: int = 0
    """The blocks since the start in which it did not wait for its partners."""
    due: int = 0
    """For bought time: blocks since the start to be paid by now, those of paid intervals included."""


@dataclass(frozen=True, slots=True)
class TaskFlow:
    """Grains that leave a purse."""

    purse: TaskPurse
    payee: TaskPayee
    amount: int


def settle(outcome: TaskOutcome, money: TaskMoney) -> tuple[TaskFlow, ...]:
    """Return all payments of a slot that ends with this outcome. Any other money stays with its owner."""
    remaining_by_purse = {purse: money.held.get(purse, 0) for purse in TaskPurse}
    payments: list[TaskFlow] = []
    for line in TABLE[outcome].lines:
        wanted_grains = _grains_of_sum(line.amount, money, remaining_by_purse[line.purse])
        assert wanted_grains <= remaining_by_purse[line.purse] or line.purse is not TaskPurse.ESCROW, (
            "the escrow covers the payments of a row"
        )
        # A collateral or a bond may fall short, because voters are paid from it before. The escrow never does.
        gross = min(wanted_grains, remaining_by_purse[line.purse])
        remaining_by_purse[line.purse] -= gross
        settlement_fee = part(gross, money.rules.settlement_fee) if line.is_earned else 0
        payments += [
            TaskFlow(line.purse, line.payee, gross - settlement_fee),
            TaskFlow(line.purse, TaskPayee.FEE, settlement_fee),
        ]
    return tuple(payment for payment in payments if payment.amount)


def escrow(rules: TaskRules, price_max: int, items: int) -> int:
    """Return the most that a slot costs its customer: greatest price, the standby's share of it, and the checks."""
    # All three, so that a task awarded at its greatest price can still be settled.
    return price_max + standby_max(rules, price_max) + check_fees_max(rules, price_max, items)


def standby_max(rules: TaskRules, price_max: int) -> int:
    """Return the most pay for standing by for a slot."""
    return part(price_max, rules.standby_share)


def affordable(rules: TaskRules, escrow_left: int, items: int) -> int:
    """Return the greatest price with an escrow of at most `escrow_left`, for a second auction of a task's rest.

    It is up to three grains less by roundings.
    """
    if not rules.check_rate_ppm:
        return escrow_left * PPM // (PPM + rules.standby_share)
    # Each of two checks rounds up by less than a grain. A cheap one costs the least fee.
    checked = min(items, CLAIM_POINTS_MAX)
    by_share = (escrow_left - 2) * PPM * items // ((PPM + rules.standby_share) * items + 2 * rules.check_ppm * checked)
    by_least_fee = (escrow_left - 2 * rules.check_fee_min) * PPM // (PPM + rules.standby_share)
    return max(0, min(by_share, by_least_fee))


def vote_fee(rules: TaskRules, price: int, items: int) -> int:
    """Return the fee of a voter about a result of so many items: that of a check of one."""
    return check_fee(price, rules.check_ppm, rules.check_fee_min, weight=1, of=items)


def check_fees_max(rules: TaskRules, price: int, items: int) -> int:
    """Return the most that a customer pays for the checks of a result at this price: two, of the most drawn items."""
    if not rules.check_rate_ppm:
        return 0
    checked = min(items, CLAIM_POINTS_MAX)
    return fees_max(price, rules.check_ppm, rules.check_fee_min, weight=checked, of=items)


def input_charge(rules: TaskRules, price_max: int) -> int:
    """Return the part of a slot's customer bond that pays the voters if the input is missing: half of it.

    The other half is for the provider.
    """
    return customer_bond(rules, price_max) // 2


def input_fee(rules: TaskRules, price_max: int) -> int:
    """Return the fee of a voter that looks at the input."""
    return max(rules.check_fee_min, input_charge(rules, price_max) // SEATS)


def false_report_cost(rules: TaskRules, price_max: int) -> int:
    """Return the cost of reporting an input that can be opened. To report must not be cheaper than not to start."""
    return max(_rounded_up(price_max, rules.no_start_penalty), SEATS * input_fee(rules, price_max))


def customer_bond(rules: TaskRules, price_max: int) -> int:
    """Return the customer's bond for a slot."""
    return _rounded_up(price_max, rules.customer_bond)


def bid_bond(rules: TaskRules, price_max: int) -> int:
    """Return the bond that a bid holds until its reveal. Then it counts as a part of the collateral."""
    # Of the greatest price: a bidder accepts the bond before any price is known.
    return _rounded_up(price_max, rules.bid_bond)


def claim_collateral(rules: TaskRules, price_max: int, items: int, rate_ppm: int) -> int:
    """Return the collateral that secures a claim of so many items: the amount at which no lie pays."""
    # Voters alone look at claims of sets that are too small for checks.
    rate_ppm = rate_ppm or ALWAYS_PPM
    return least_collateral(price_max, items=items, rate_ppm=rate_ppm, vote_fee=vote_fee(rules, price_max, items))


def collateral_min(rules: TaskRules, price_max: int, *, items: int, customer_minimum: int = 0) -> int:
    """Return the least collateral of a bid: that of its claim, or the customer's own if more.

    Nobody checks bought time and replicas: their least collateral is a share of the price, and covers a false report.
    """
    if rules.collateral_ppm:
        fees = SEATS * input_fee(rules, price_max)
        return max(_rounded_up(price_max, rules.collateral_ppm), fees, customer_minimum)
    return max(claim_collateral(rules, price_max, items, rules.check_rate_ppm), customer_minimum)


def remaining(price: int, milestones_done: int, milestones: int) -> int:
    """Return the part of a price for the remaining milestones, rounded down. With the earned parts it is at most M."""
    return price * (milestones - milestones_done) // milestones


def remaining_blocks(promised: int, milestones_done: int, milestones: int) -> int:
    """Return the blocks that a provider promises for the remaining milestones when it takes over: at least one."""
    # Up, in favour of the new provider: no promise is rounded to zero blocks.
    return -(-promised * (milestones - milestones_done) // milestones)


def fee_parts(settlement_fee: int) -> tuple[int, int]:
    """Return the treasury's and the burned part of a settlement fee. An odd grain burns."""
    to_treasury = settlement_fee // 2
    return to_treasury, settlement_fee - to_treasury


def _grains_of_sum(wanted_sum: TaskSum, money: TaskMoney, purse_grains: int) -> int:
    """Return the grains of a sum. `purse_grains` is the rest of its purse."""
    rules, terms, price = money.rules, money.terms, money.price
    earned_grains = price * money.done // money.milestones
    # Of the greatest price: a bidder accepts this penalty before any price is known.
    no_start_penalty = _rounded_up(terms.price_max, rules.no_start_penalty)
    failure_penalty = _rounded_up(price - earned_grains, rules.failure_penalty)
    customer_forfeit = customer_bond(rules, price)
    grains_by_sum = {
        TaskSum.PRICE: price,
        TaskSum.MILESTONES: earned_grains,
        # The customer keeps all stated checkpoints, so a stopped task pays at least for them.
        TaskSum.ELAPSED: max(
            price * min(money.elapsed, money.promised) // money.promised,
            price * money.stated // money.milestones,
        ),
        TaskSum.TIME: max(0, price * min(money.due, money.promised) // money.promised - earned_grains),
        TaskSum.STANDBY: part(price, rules.standby_share),
        # `taken` leaves out waits for partners, which are not the provider's delay.
        TaskSum.LATE: rules.late_penalty_factor * terms.time_value * max(0, money.taken - money.promised),
        TaskSum.NO_START: no_start_penalty // 2,
        TaskSum.NO_START_REST: no_start_penalty - no_start_penalty // 2,
        TaskSum.FAILURE: min(failure_penalty, terms.loss),
        TaskSum.FAILURE_REST: max(0, failure_penalty - terms.loss),
        TaskSum.COVER: covered(terms.price_max, money.collateral),
        TaskSum.FORFEIT: customer_forfeit // 2,
        TaskSum.FORFEIT_REST: customer_forfeit - customer_forfeit // 2,
        TaskSum.CANCEL: part(purse_grains, rules.cancel_burn),
        TaskSum.ALL: purse_grains,
    }
    return grains_by_sum[wanted_sum]


def _rounded_up(grains: int, millionths: int) -> int:
    """Return `ppm` millionths of an amount, rounded up."""
    return -(-grains * millionths // PPM)
