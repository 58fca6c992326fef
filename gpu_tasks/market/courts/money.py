"""The money table of the courts, as data: who loses what in each outcome of a case, and who gets it.

`TABLE` is read by the pallet, by the tests and by the page `docs/courts.md`, whose tables are made of it.

Always: what is paid comes out of what was charged, grain by grain, and what nobody is due burns or stays with its
owner, so every sum is conserved; nobody pays more than it holds for the case; the customer gets at most the price once,
however many lied; nobody is rewarded for reporting; only the court takes a judge's seat.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from gpu_tasks.market.courts.benches import AUDIT_DELAYS
from runtime.encoding.codec import named


class Purse(Enum):
    """Who can be charged in a case, and from what."""

    BOND = "the appellant, its bond"
    CONVICTED = "a judge whom the court found wrong"
    LIED = "who computed wrongly, or never opened another answer than the right one"
    MISSED = "who opened too late, or not at all"
    DECLINED = "who declined a good input"
    SILENT = "a judge that did not commit, or did not open"
    CUSTOMER_BOND = "the customer, its bond"
    CUSTOMER_PRICE = "the customer, its price"
    CUSTOMER_SPARE = "the customer, what it set aside for who looks at a result that turns out right"
    POT = "the audit pot"


class Payee(Enum):
    """Who can be paid in a case."""

    JUDGES = "each judge with the opinion that the case ends with"
    APPELLANT = "the appellant"
    CUSTOMER = "the customer"


class Sum(Enum):
    """How much: each is computed in `_amount`."""

    FEE = "`judge_fee`"
    PRICE = "price"
    TWICE_PRICE = "twice the price"
    ALL = "all it holds for the case"
    LIE = (
        "its collateral (where no court of three exists, or all who were left sat in it, and judges with a third of the"
        " stake or less say so, at most price + fees + 25 % of price)"
    )
    MISS = "25 % of price + its share of the fees of the judges, five at most, of its collateral"
    FEES = "the fees of the judges"


class Remainder(Enum):
    """What becomes of a charge that nobody is due."""

    BURNS = "burns"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class Charge:
    """What every payer of a kind puts in, and what becomes of the part that pays nobody."""

    purse: Purse
    amount: Sum
    rest: Remainder = Remainder.BURNS


@dataclass(frozen=True, slots=True)
class Due:
    """What every payee of a kind is owed, and which charges pay it, in this order."""

    payee: Payee
    amount: Sum
    sources: tuple[Purse, ...]


@named("ogpu::CaseOutcome")
class CaseOutcome(IntEnum):
    """How a case can end."""

    DECIDED = 0
    COURT_DECIDED = 1
    UNDECIDED = 2
    AUDIT_RIGHT = 3
    AUDIT_WRONG = 4
    AUDIT_UNDECIDED = 5
    APPEAL_LOST = 6
    APPEAL_WON = 7
    APPEAL_UNDECIDED = 8
    INPUT_BAD = 9
    NOT_AUDITED = 10
    UNHEARD = 11


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """One outcome: charges and dues. Dues are served in their order."""

    says: str
    charges: tuple[Charge, ...]
    dues: tuple[Due, ...]


_PARTIES = (
    Charge(Purse.LIED, Sum.LIE),
    Charge(Purse.MISSED, Sum.MISS),
    Charge(Purse.DECLINED, Sum.MISS),
)
_SILENT = Charge(Purse.SILENT, Sum.FEE)
_CONVICTED = Charge(Purse.CONVICTED, Sum.ALL)
_POT = Charge(Purse.POT, Sum.ALL, Remainder.STAYS)
_FAULT = (Purse.CONVICTED, Purse.LIED, Purse.MISSED, Purse.DECLINED, Purse.SILENT, Purse.POT)
_SPARE = Charge(Purse.CUSTOMER_SPARE, Sum.FEES, Remainder.STAYS)
_BOND_AT_LAST = Charge(Purse.BOND, Sum.ALL, Remainder.STAYS)
_FEES = Due(Payee.JUDGES, Sum.FEE, _FAULT)
_SPARE_THEN_POT = (*_FAULT[:-1], Purse.CUSTOMER_SPARE, Purse.POT)
_BOND_THEN_FAULT = Due(Payee.JUDGES, Sum.FEE, (Purse.BOND, *_SPARE_THEN_POT))
_FAULT_THEN_BOND = Due(Payee.JUDGES, Sum.FEE, (*_FAULT[:-1], Purse.BOND, Purse.CUSTOMER_SPARE, Purse.POT))
_FAULT_BOND_POT = Due(Payee.JUDGES, Sum.FEE, (*_FAULT[:-1], Purse.BOND, Purse.POT))
_FAULT_THEN_SPARE = Due(Payee.JUDGES, Sum.FEE, _SPARE_THEN_POT)
_PRICE_BACK = Due(Payee.CUSTOMER, Sum.PRICE, (Purse.LIED,))

TABLE: dict[CaseOutcome, OutcomeRow] = {
    CaseOutcome.DECIDED: OutcomeRow(
        "A dispute: the committee decided, nobody appealed", (*_PARTIES, _SILENT, _POT), (_FEES, _PRICE_BACK)
    ),
    CaseOutcome.COURT_DECIDED: OutcomeRow(
        "The committee did not decide, the court did",
        (_CONVICTED, *_PARTIES, _SILENT, _SPARE, _POT),
        (_FAULT_THEN_SPARE, _PRICE_BACK),
    ),
    CaseOutcome.UNDECIDED: OutcomeRow("A dispute that nobody decided: everything is refunded", (_SILENT,), ()),
    CaseOutcome.UNHEARD: OutcomeRow(
        "Nobody decided, and fewer than half of the judges said anything: there was nothing to look at",
        (Charge(Purse.CUSTOMER_BOND, Sum.ALL),),
        (),
    ),
    CaseOutcome.AUDIT_RIGHT: OutcomeRow(
        "An audit found the result right", (*_PARTIES, _SILENT, _SPARE, _POT), (_FAULT_THEN_SPARE, _PRICE_BACK)
    ),
    CaseOutcome.AUDIT_WRONG: OutcomeRow(
        "An audit found the result wrong, nobody appealed", (*_PARTIES, _SILENT, _POT), (_FEES, _PRICE_BACK)
    ),
    CaseOutcome.AUDIT_UNDECIDED: OutcomeRow("An audit that nobody decided: the settlement stays", (_SILENT,), ()),
    CaseOutcome.APPEAL_LOST: OutcomeRow(
        "An appeal was lost",
        (Charge(Purse.BOND, Sum.ALL), _CONVICTED, *_PARTIES, _SILENT, _SPARE, _POT),
        (_BOND_THEN_FAULT, _PRICE_BACK),
    ),
    CaseOutcome.APPEAL_WON: OutcomeRow(
        "An appeal was won",
        (_CONVICTED, *_PARTIES, _SILENT, _BOND_AT_LAST, _POT),
        (Due(Payee.APPELLANT, Sum.TWICE_PRICE, (Purse.CONVICTED,)), _FAULT_BOND_POT, _PRICE_BACK),
    ),
    CaseOutcome.APPEAL_UNDECIDED: OutcomeRow(
        "The court did not decide an appeal: the first verdict stays",
        (*_PARTIES, _SILENT, _BOND_AT_LAST, _SPARE, _POT),
        (_FAULT_THEN_BOND, _PRICE_BACK),
    ),
    CaseOutcome.INPUT_BAD: OutcomeRow(
        "The input was found bad: a decline is upheld",
        (
            Charge(Purse.CUSTOMER_BOND, Sum.ALL),
            Charge(Purse.CUSTOMER_PRICE, Sum.FEES, Remainder.STAYS),
            Charge(Purse.BOND, Sum.ALL),
            _CONVICTED,
            _SILENT,
            _POT,
        ),
        (
            Due(Payee.APPELLANT, Sum.TWICE_PRICE, (Purse.CONVICTED,)),
            Due(
                Payee.JUDGES,
                Sum.FEE,
                (
                    Purse.BOND,
                    Purse.CONVICTED,
                    Purse.CUSTOMER_BOND,
                    Purse.SILENT,
                    Purse.CUSTOMER_PRICE,
                    Purse.POT,
                ),
            ),
        ),
    ),
    CaseOutcome.NOT_AUDITED: OutcomeRow("The beacon asked for no audit", (), ()),
}
"""Who is not named in a row pays nothing; seats and bonds that it does not name return. The bond of a
won appeal is charged where it put away "the input is bad": nobody's fault shows then, and somebody pays the court."""

MISS_PRICE_PERCENT = 25
SMALL_SET_PRICE_PERCENT = 25
FIRST_JUDGES = 5
"""A pair and a committee: whom a lie that nobody appeals against can cause."""
COURT_FEES = 36
"""A seat pays so many fees, of a committee and a court of 33, beside twice the price."""
SEAT_FEES = 40
"""A seat holds so many fees at least: twice the price is at most four of them where a fee is half of it."""
PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class CaseMoney:
    """What a case has to move when it ends: its price and fee, who pays and can pay how much, who is due."""

    price: int
    fee: int
    takes_whole: bool
    """Whether a lie costs its whole collateral: a court of three exists, to which one could have appealed and in which
    not all sat who were left, or the verdict is that of more than a third of the stake in office."""
    payers: dict[Purse, tuple[tuple[bytes, int], ...]] = field(default_factory=dict)
    """Accounts with what each holds for the case; of a kind that is not charged in the outcome, nothing is taken."""
    payees: dict[Payee, tuple[bytes, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flow:
    """Grains that move: out of what `source` holds in a purse of a kind, to `payee`, or burned for None."""

    purse: Purse
    source: bytes
    payee: bytes | None
    amount: int


def settle(outcome: CaseOutcome, money: CaseMoney) -> tuple[Flow, ...]:
    """Everything that moves when a case ends so. What is not listed stays with its owner."""
    row = TABLE[outcome]
    left = {charge.purse: _charged(charge, money) for charge in row.charges}
    flows: list[Flow] = []
    for due in row.dues:
        for payee in money.payees.get(due.payee, ()):
            flows += _serve(payee, _amount(due.amount, money), due.sources, left)
    for charge in row.charges:
        if charge.rest is Remainder.BURNS:
            flows += [Flow(charge.purse, who, None, rest) for who, rest in left[charge.purse] if rest]
    return tuple(flows)


def judge_fee(price: int, share_ppm: int, least: int) -> int:
    """What a judge is paid: `share_ppm` of the price, at least `least`."""
    return max(price * share_ppm // PPM, least)


def case_collateral(price: int, rate_ppm: int, fee: int) -> int:
    """What who answers stands for: price / q, so that lying does not pay at the chance q of being found out.

    Who is found out keeps what it was paid, so a lie gains the price and loses q times this. At least the price and the
    fees of five judges: who lies about a unit that costs next to nothing pays its own judges, and no coalition draws
    fees from the audit pot for the price of dust.
    """
    found, of = chance_found(rate_ppm)
    return max(-(-price * of // found), price + FIRST_JUDGES * fee)


def chance_found(rate_ppm: int) -> tuple[int, int]:
    """The chance that a result is audited, as a fraction: 1 - (1 - rate / 4)^4, for each of four beacons may ask.

    Each asks with a quarter of the rate, whatever the others do (`benches.is_audited`): a little less than the rate.
    """
    draws = len(AUDIT_DELAYS)
    of = (draws * PPM) ** draws
    return of - (draws * PPM - rate_ppm) ** draws, of


def seat_hold(collateral: int, fee: int, price: int = 0) -> int:
    """What a judge holds from its draw until the case ends: what an appeal that shows it wrong may cost, at least.

    `price` is what the customer is due, which of a task is up to the greatest price, however low the fee is.
    """
    return max(collateral, SEAT_FEES * fee, COURT_FEES * fee + 2 * price)


def audit_premium(rate_ppm: int, fee: int) -> int:
    """What every settlement pays into the audit pot: the audit rate of two fees, rounded up."""
    return -(-2 * fee * rate_ppm // PPM)


def _charged(charge: Charge, money: CaseMoney) -> list[tuple[bytes, int]]:
    payers = money.payers.get(charge.purse, ())
    wanted = _amount(charge.amount, money, len(payers))
    return [(who, held if wanted is None else min(held, wanted)) for who, held in payers]


def _serve(
    payee: bytes, amount: int | None, sources: Iterable[Purse], left: dict[Purse, list[tuple[bytes, int]]]
) -> list[Flow]:
    """Pay one payee from the sources in order, as far as they go."""
    assert amount is not None, "what is due has a size"
    flows = []
    for purse in sources:
        holders = left.get(purse, [])
        for place, (who, rest) in enumerate(holders):
            part = min(rest, amount)
            if part:
                holders[place] = (who, rest - part)
                flows.append(Flow(purse, who, payee, part))
                amount -= part
    return flows


def _amount(wanted: Sum, money: CaseMoney, payers: int = 1) -> int | None:
    """The grains of a sum for each of so many payers; None: all that there is."""
    fees = money.fee * len(money.payees.get(Payee.JUDGES, ()))
    if wanted is Sum.LIE:
        limit = money.price + fees + _percent(money.price, SMALL_SET_PRICE_PERCENT)
        return None if money.takes_whole else limit
    amounts = {
        Sum.FEE: money.fee,
        Sum.PRICE: money.price,
        Sum.TWICE_PRICE: 2 * money.price,
        Sum.ALL: None,
        # a miss and a decline cause no court: what an input that is shown to one would cost who could not have it
        Sum.MISS: _percent(money.price, MISS_PRICE_PERCENT) + -(-min(fees, FIRST_JUDGES * money.fee) // max(payers, 1)),
        Sum.FEES: fees,
    }
    return amounts[wanted]


def _percent(amount: int, percent: int) -> int:
    """Of an amount, rounded up."""
    return -(-amount * percent // 100)
