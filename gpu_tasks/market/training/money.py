"""The money table of a task, as data: in each outcome, who gets which part of what was locked for a slot.

`TABLE` is read by `settle`, by the tests and by the page `docs/training.md`, whose tables are made of it.
A slot is settled by a row for who worked, and, where somebody stood by, by a row for the standby. Who takes over is a
winner from then on, with the rest of the work as its task: its price is `remaining` of its own, its promise
`remaining_blocks`.
What judges of a case are paid the courts take before, out of the bond or the collateral of whoever was wrong.

Always: what leaves a purse arrives, grain by grain, and what no line names stays with the owner of the purse, locked
as long as the task goes on. The escrow covers whatever a row takes out of it. A customer gets no more than its own
money, penalties for lateness and failure, and for a proven lie half the collateral, at most the greatest price.

Roundings: a part of a price, a fee and half of anything round down, so the customer keeps the grain, or it burns with
the other half; bonds, penalties and the collateral asked for round up, against whoever locks or loses them; a promise
that is taken over rounds up, for who takes over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum

from gpu_tasks.market.courts.money import FIRST_JUDGES, audit_premium, judge_fee
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.terms import TaskTerms, covered
from runtime.encoding.codec import named
from runtime.pallets.staking.slashing import PPM, part

COMMITTEE = 3
"""Judges whom a dispute calls."""
CHALLENGED_PARTS = 4
"""Of a liar's collateral half is the customer's, a fourth is who proves the lie, and a fourth pays its judges."""


class TaskPayee(Enum):
    """Who can get something when a slot is settled."""

    CUSTOMER = "the customer"
    PROVIDER = "who was awarded the slot, or bid for it"
    STANDBY = "the runner-up"
    FEE = "the settlement fee: half burned, half the treasury's"
    POT = "the audit pot"
    BURNED = "burned"


class TaskPurse(Enum):
    """What is locked for a slot."""

    ESCROW = "the customer's: the greatest price, and what standby and audits may take beside it"
    CUSTOMER_BOND = "the customer's bond"
    DISPUTE_BOND = "the customer's bond of its dispute, as far as its judges left it"
    COLLATERAL = "the provider's collateral, as far as judges left it"
    STANDBY_COLLATERAL = "the standby's collateral"
    BID_BOND = "the bond of a bid"


OWNERS = {
    TaskPurse.ESCROW: TaskPayee.CUSTOMER,
    TaskPurse.CUSTOMER_BOND: TaskPayee.CUSTOMER,
    TaskPurse.DISPUTE_BOND: TaskPayee.CUSTOMER,
    TaskPurse.COLLATERAL: TaskPayee.PROVIDER,
    TaskPurse.STANDBY_COLLATERAL: TaskPayee.STANDBY,
    TaskPurse.BID_BOND: TaskPayee.PROVIDER,
}


class TaskSum(Enum):
    """How much: each is computed in `_amount`."""

    PRICE = "the price; of who took over, its own price x the share of the milestones that were left"
    MILESTONES = "price x milestones that check / all milestones"
    ELAPSED = (
        "price x blocks since the start / blocks promised in the bid, at most the price; the share of the milestones"
        " that all have stated, if that is more: their checkpoints are the customer's"
    )
    TIME = (
        "price x blocks since the start / blocks bought, at most to the end of the interval that runs; less what the"
        " intervals before were paid"
    )
    STANDBY = "`standby_share` (2 %) of the price"
    PREMIUM = "the audit rate x two judges' fees of the price, which is what an audit costs"
    LATE = "`late_penalty_factor` (5) x v for each late block of its own: what it waited for its partners is theirs"
    NO_START = "half of `no_start_penalty` (10 % of the greatest price)"
    NO_START_REST = "the other half"
    FAILURE = "`failure_penalty` (25 %) of the price that was not earned, at most L"
    FAILURE_REST = "what of that penalty is beyond L"
    COVER = "half of the collateral, at most the greatest price"
    FORFEIT = "half of `customer_bond` (5 %) of the price"
    FORFEIT_REST = "the other half of these 5 %"
    CANCEL = "`cancel_burn` (10 %) of it"
    HALF = "half of it"
    AGREED_PAY = "the pay that both signed"
    AGREED_BACK = "the return that both signed"
    ALL = "all that is left of it"


@named("ogpu::TaskOutcome")
class TaskOutcome(IntEnum):
    """How a slot, a standby or a bid can end."""

    ON_TIME = 0
    LATE = 1
    ACCEPTED_BY_SILENCE = 2
    DISPUTED_FALSELY = 3
    UNDECIDED = 4
    LIED = 5
    DIED = 6
    PARTNER_DIED = 7
    NOT_STARTED = 8
    INPUT_MISSING = 9
    NO_AWARD = 10
    CANCELLED_BEFORE_AWARD = 11
    CANCELLED_BEFORE_START = 12
    CANCELLED_RUNNING = 13
    CLOSED = 14
    STOOD_BY = 15
    STANDBY_NOT_STARTED = 16
    NOT_REVEALED = 17
    INTERVAL_PAID = 18
    TIME_OVER = 19
    LEFT = 20
    TIME_STOPPED = 21
    OUTVOTED = 22


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A sum that goes out of a purse to somebody, less the settlement fee where it is earned."""

    purse: TaskPurse
    payee: TaskPayee
    amount: TaskSum
    is_earned: bool = False


@dataclass(frozen=True, slots=True)
class TaskRow:
    """An outcome: its lines are served in their order."""

    says: str
    lines: tuple[TaskLine, ...]


def _earned(amount: TaskSum, payee: TaskPayee = TaskPayee.PROVIDER) -> TaskLine:
    return TaskLine(TaskPurse.ESCROW, payee, amount, is_earned=True)


def _penalty(to_customer: TaskSum, burned: TaskSum, purse: TaskPurse = TaskPurse.COLLATERAL) -> tuple[TaskLine, ...]:
    return (TaskLine(purse, TaskPayee.CUSTOMER, to_customer), TaskLine(purse, TaskPayee.BURNED, burned))


def _split(purse: TaskPurse, to_provider: TaskSum, burned: TaskSum) -> tuple[TaskLine, ...]:
    return (TaskLine(purse, TaskPayee.PROVIDER, to_provider), TaskLine(purse, TaskPayee.BURNED, burned))


_DONE = (_earned(TaskSum.PRICE), TaskLine(TaskPurse.ESCROW, TaskPayee.POT, TaskSum.PREMIUM))
_LATE = TaskLine(TaskPurse.COLLATERAL, TaskPayee.CUSTOMER, TaskSum.LATE)
_DONE_LATE = (*_DONE, _LATE)
_NO_START = (TaskSum.NO_START, TaskSum.NO_START_REST)
_FORFEIT = _split(TaskPurse.CUSTOMER_BOND, TaskSum.FORFEIT, TaskSum.FORFEIT_REST)

TABLE: dict[TaskOutcome, TaskRow] = {
    TaskOutcome.ON_TIME: TaskRow("The result was accepted, within the promised blocks", _DONE),
    TaskOutcome.LATE: TaskRow("The result was accepted, and late", _DONE_LATE),
    TaskOutcome.ACCEPTED_BY_SILENCE: TaskRow("The customer said nothing: the result is accepted", _DONE_LATE),
    TaskOutcome.DISPUTED_FALSELY: TaskRow(
        "The customer disputed a right result",
        (*_DONE_LATE, *_split(TaskPurse.DISPUTE_BOND, TaskSum.HALF, TaskSum.ALL)),
    ),
    TaskOutcome.UNDECIDED: TaskRow("The customer disputed a result, and nobody decided: nothing moves", ()),
    TaskOutcome.LIED: TaskRow("A lie was proven", _penalty(TaskSum.COVER, TaskSum.ALL)),
    TaskOutcome.DIED: TaskRow(
        "Who started did not end: the milestones that check are paid",
        (_earned(TaskSum.MILESTONES), *_penalty(TaskSum.FAILURE, TaskSum.FAILURE_REST)),
    ),
    TaskOutcome.PARTNER_DIED: TaskRow(
        "Another one of the gang did not end: the milestones that check are paid", (_earned(TaskSum.MILESTONES),)
    ),
    TaskOutcome.NOT_STARTED: TaskRow("Who was awarded the slot did not start", _penalty(*_NO_START)),
    TaskOutcome.INPUT_MISSING: TaskRow("The input was not to be had", _FORFEIT),
    TaskOutcome.NO_AWARD: TaskRow("No bid could win, or fewer than the gang needs: nothing moves", ()),
    TaskOutcome.CANCELLED_BEFORE_AWARD: TaskRow(
        "The customer took the task back before the award",
        (TaskLine(TaskPurse.CUSTOMER_BOND, TaskPayee.BURNED, TaskSum.CANCEL),),
    ),
    TaskOutcome.CANCELLED_BEFORE_START: TaskRow(
        "The customer took the task back after the award, before it started", _FORFEIT
    ),
    TaskOutcome.CANCELLED_RUNNING: TaskRow(
        "The customer stopped the task", (_earned(TaskSum.ELAPSED), _LATE, *_FORFEIT)
    ),
    TaskOutcome.CLOSED: TaskRow(
        "Both signed another end",
        (_earned(TaskSum.AGREED_PAY), TaskLine(TaskPurse.COLLATERAL, TaskPayee.CUSTOMER, TaskSum.AGREED_BACK)),
    ),
    TaskOutcome.STOOD_BY: TaskRow(
        "The standby was ready until the first milestone, or the end before it, or took over",
        (_earned(TaskSum.STANDBY, TaskPayee.STANDBY),),
    ),
    TaskOutcome.STANDBY_NOT_STARTED: TaskRow(
        "The standby was asked while it was bound, and did not start",
        _penalty(*_NO_START, TaskPurse.STANDBY_COLLATERAL),
    ),
    TaskOutcome.NOT_REVEALED: TaskRow(
        "A bid was not revealed, or its collateral was not there",
        (TaskLine(TaskPurse.BID_BOND, TaskPayee.BURNED, TaskSum.ALL),),
    ),
    TaskOutcome.INTERVAL_PAID: TaskRow(
        "Time: an interval was attested, and the work goes on", (_earned(TaskSum.TIME),)
    ),
    TaskOutcome.TIME_OVER: TaskRow("Time: the program has ended, or the time is up", (_earned(TaskSum.TIME),)),
    TaskOutcome.LEFT: TaskRow(
        "Time: who worked left or fell silent; the intervals that were attested are paid",
        _penalty(TaskSum.FAILURE, TaskSum.FAILURE_REST),
    ),
    TaskOutcome.TIME_STOPPED: TaskRow(
        "Time: the customer left; the interval that runs is paid whole",
        (_earned(TaskSum.TIME), *_FORFEIT),
    ),
    TaskOutcome.OUTVOTED: TaskRow(
        "Replicas: most found something else, and no jury has convicted anybody",
        _penalty(TaskSum.FAILURE, TaskSum.FAILURE_REST),
    ),
}


@dataclass(frozen=True, slots=True)
class TaskMoney:
    """A slot when it ends: what was agreed on, how far it came, and what is locked for it."""

    rules: TaskRules
    terms: TaskTerms
    held: Mapping[TaskPurse, int]
    """Grains in each purse now; none where it is not named."""
    price: int = 0
    """What the slot was awarded for; of who took over, what `remaining` gives of its own price."""
    collateral: int = 0
    """What was locked at the award, before judges took anything of it."""
    promised: int = 1
    """Blocks, from the start."""
    elapsed: int = 0
    """Blocks since the start."""
    milestones: int = 1
    done: int = 0
    """How many of the milestones check."""
    agreed_pay: int = 0
    """Where both signed: of the escrow, to the provider."""
    agreed_back: int = 0
    """Where both signed: of the collateral, to the customer."""
    added: int = 0
    """Of the promised blocks, those that the customer gave beside: what has elapsed is worth no less for them."""
    stated: int = 0
    """How many of the milestones all have stated, whether or not anybody has signed that it holds their checkpoints."""
    taken: int = 0
    """Of the blocks since the start, those in which it did not wait for its partners."""
    due: int = 0
    """Where time is paid: blocks since the start that are to be paid by now, those of paid intervals among them."""


@dataclass(frozen=True, slots=True)
class TaskFlow:
    """Grains that leave a purse."""

    purse: TaskPurse
    payee: TaskPayee
    amount: int


def settle(outcome: TaskOutcome, money: TaskMoney) -> tuple[TaskFlow, ...]:
    """Everything that moves when a slot ends so. What is not listed stays with its owner."""
    left = {purse: money.held.get(purse, 0) for purse in TaskPurse}
    flows: list[TaskFlow] = []
    for line in TABLE[outcome].lines:
        wanted = _amount(line.amount, money, left[line.purse])
        assert wanted <= left[line.purse] or line.purse is not TaskPurse.ESCROW, "the escrow covers what a row takes"
        gross = min(wanted, left[line.purse])
        left[line.purse] -= gross
        fee = part(gross, money.rules.settlement_fee) if line.is_earned else 0
        flows += [TaskFlow(line.purse, line.payee, gross - fee), TaskFlow(line.purse, TaskPayee.FEE, fee)]
    return tuple(flow for flow in flows if flow.amount)


def shares(outcome: TaskOutcome, money: TaskMoney) -> dict[TaskPayee, int]:
    """What each has of all that is locked, when a slot ends so; what stays in a purse is its owner's."""
    totals = dict.fromkeys(TaskPayee, 0)
    for purse, held in money.held.items():
        totals[OWNERS[purse]] += held
    for flow in settle(outcome, money):
        totals[OWNERS[flow.purse]] -= flow.amount
        totals[flow.payee] += flow.amount
    assert sum(totals.values()) == sum(money.held.values()), "every grain is somebody's, or burned"
    assert min(totals.values()) >= 0, "nobody pays more than it locked"
    return totals


def escrow(rules: TaskRules, price_max: int) -> int:
    """What a slot may cost its customer: the greatest price, the standby's share of it, and the audits'."""
    return price_max + standby_max(rules, price_max) + premium(rules, price_max)


def standby_max(rules: TaskRules, price_max: int) -> int:
    """What standing by for a slot is paid with at most: judges of an input, who are paid before, leave that."""
    return part(price_max, rules.standby_share)


def affordable(rules: TaskRules, left: int) -> int:
    """A greatest price for which an escrow is at most `left`: for what a second auction of a task's rest may cost."""
    return max(0, left - part(left, rules.standby_share) - premium(rules, left))


def premium(rules: TaskRules, price: int) -> int:
    """What a settlement pays into the audit pot, by the price that is paid.

    The escrow holds it for the greatest price: what the auction saves of it is the customer's again at the end.
    """
    return audit_premium(rules.audit_rate_ppm, fee_of_judge(rules, price))


def fee_of_judge(rules: TaskRules, price: int) -> int:
    """The fee of a judge.

    `price` is the price paid in an audit, which premiums of that price pay for. Whoever else calls judges names the
    greatest price: bidders of one owner set the price paid, and would set the fee.
    """
    return judge_fee(price, rules.judge_fee_ppm, rules.judge_fee_min)


def pot_max(rules: TaskRules, price: int) -> int:
    """The most that the audit pot gives to a case of a slot, by the price paid: so are the premiums that fill it."""
    return FIRST_JUDGES * fee_of_judge(rules, price)


def customer_bond(rules: TaskRules, price_max: int) -> int:
    """The customer's side of the trust lock, for a slot."""
    return _up(price_max, rules.customer_bond)


def bid_bond(rules: TaskRules, price_max: int) -> int:
    """What a bid locks until it is revealed; it counts as a part of the collateral then."""
    return _up(price_max, rules.bid_bond)


def dispute_bond(rules: TaskRules, price_max: int, price: int) -> int:
    """What a customer locks to dispute a result: a part of the price, and what the committee is paid that it calls."""
    return _up(price, rules.dispute_bond) + COMMITTEE * fee_of_judge(rules, price_max)


def collateral_min(rules: TaskRules, price_max: int, asked: int = 0) -> int:
    """The least collateral of a bid: what makes lying not pay, or what the customer asks for, if that is more.

    M (1 - q) / q, for who is found out is not paid; at least the price and five judges, as in the courts, and as much
    as a fourth of it pays those. Of what is paid by time, where there is no lie, at least a part of the price, with
    the judges of an input.
    """
    lie = -(-price_max * (PPM - rules.found_ppm) // rules.found_ppm)
    judges = FIRST_JUDGES * fee_of_judge(rules, price_max)
    return max(lie, _up(price_max, rules.collateral_ppm) + judges, CHALLENGED_PARTS * judges, asked)


def remaining(price: int, done: int, milestones: int) -> int:
    """A price's part for the milestones that are left, rounded down: with what the others earned, at most M."""
    return price * (milestones - done) // milestones


def remaining_blocks(promised: int, done: int, milestones: int) -> int:
    """How many blocks who takes over has promised for the milestones that are left: at least one."""
    return -(-promised * (milestones - done) // milestones)


def fee_parts(fee: int) -> tuple[int, int]:
    """Of a settlement fee, what the treasury gets and what burns; an odd grain burns."""
    to_treasury = fee // 2
    return to_treasury, fee - to_treasury


def _amount(wanted: TaskSum, money: TaskMoney, left: int) -> int:
    """The grains of a sum, where `left` is what its purse still holds."""
    rules, terms, price = money.rules, money.terms, money.price
    milestones = price * money.done // money.milestones
    no_start = _up(terms.price_max, rules.no_start_penalty)
    failure = _up(price - milestones, rules.failure_penalty)
    own = money.promised - money.added
    forfeit = customer_bond(rules, price)
    amounts = {
        TaskSum.PRICE: price,
        TaskSum.MILESTONES: milestones,
        TaskSum.ELAPSED: max(price * min(money.elapsed, own) // own, price * money.stated // money.milestones),
        TaskSum.TIME: max(0, price * min(money.due, money.promised) // money.promised - milestones),
        TaskSum.STANDBY: part(price, rules.standby_share),
        TaskSum.PREMIUM: premium(rules, price),
        TaskSum.LATE: rules.late_penalty_factor * terms.time_value * max(0, money.taken - money.promised),
        TaskSum.NO_START: no_start // 2,
        TaskSum.NO_START_REST: no_start - no_start // 2,
        TaskSum.FAILURE: min(failure, terms.loss),
        TaskSum.FAILURE_REST: max(0, failure - terms.loss),
        TaskSum.COVER: covered(terms.price_max, money.collateral),
        TaskSum.FORFEIT: forfeit // 2,
        TaskSum.FORFEIT_REST: forfeit - forfeit // 2,
        TaskSum.CANCEL: part(left, rules.cancel_burn),
        TaskSum.HALF: left // 2,
        TaskSum.AGREED_PAY: money.agreed_pay,
        TaskSum.AGREED_BACK: money.agreed_back,
        TaskSum.ALL: left,
    }
    return amounts[wanted]


def _up(amount: int, ppm: int) -> int:
    """So many millionths of an amount, rounded up."""
    return -(-amount * ppm // PPM)
