"""The money table of the courts, as data: charges and payments in each outcome of a case.

The pallet, the tests and the page `docs/courts.md` read `TABLE`.

Invariants: every payment comes out of a charge, grain by grain. The rest burns or stays with its owner, so all sums are
conserved. No account pays more than it holds for the case. The customer gets at most the price, once, for any number of
liars. Reporting is not rewarded. Only a court takes a judge's seat.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from gpu_tasks.market.courts.benches import AUDIT_DELAYS
from runtime.encoding.codec import named


class Purse(Enum):
    """The accounts that a case can charge, with the charged holds."""

    BOND = "the appellant, its bond"
    CONVICTED = "a judge with a refuted opinion"
    LIED = "a party with a wrong answer, or with a commitment never opened to the right one"
    MISSED = "a party that opened the right answer too late, or gave none"
    DECLINED = "a party that declined a good input"
    SILENT = "a judge that did not commit, or did not open"
    CUSTOMER_BOND = "the customer, its bond"
    CUSTOMER_PRICE = "the customer, its price"
    CUSTOMER_SPARE = "the customer, its prepayment for the judges of a right result"
    POT = "the audit pot"


class Payee(Enum):
    """The recipients of a case's payments."""

    JUDGES = "each judge with the final opinion of the case"
    APPELLANT = "the appellant"
    CUSTOMER = "the customer"


class Sum(Enum):
    """The sums of the table. `_amount` computes each."""

    FEE = "`judge_fee`"
    PRICE = "price"
    TWICE_PRICE = "twice the price"
    ALL = "all its holds for the case"
    LIE = (
        "its collateral; at most price + fees + 25 % of price if the judges with this opinion have at most a third of"
        " the stake, and no court of three exists beside one of all remaining validators"
    )
    MISS = "25 % of price + its share of the fees of at most five judges, out of its collateral"
    FEES = "the fees of the judges"


class Remainder(Enum):
    """The use of a charge's unpaid part."""

    BURNS = "burns"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge of every payer of a kind, and the use of its unpaid part."""

    purse: Purse
    amount: Sum
    rest: Remainder = Remainder.BURNS


@dataclass(frozen=True, slots=True)
class Due:
    """The amount due to every payee of a kind, and the charges that pay it, in this order."""

    payee: Payee
    amount: Sum
    sources: tuple[Purse, ...]


@named("ogpu::CaseOutcome")
class CaseOutcome(IntEnum):
    """The outcomes of a case."""

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
    """One outcome: its charges, and its dues in the order of payment."""

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
        "A dispute: the committee decided, and no appeal followed", (*_PARTIES, _SILENT, _POT), (_FEES, _PRICE_BACK)
    ),
    CaseOutcome.COURT_DECIDED: OutcomeRow(
        "The committee did not decide, and the court did",
        (_CONVICTED, *_PARTIES, _SILENT, _SPARE, _POT),
        (_FAULT_THEN_SPARE, _PRICE_BACK),
    ),
    CaseOutcome.UNDECIDED: OutcomeRow("A dispute without a decision: everything is refunded", (_SILENT,), ()),
    CaseOutcome.UNHEARD: OutcomeRow(
        "No decision, and fewer than half of the judges answered: the input was not available",
        (Charge(Purse.CUSTOMER_BOND, Sum.ALL),),
        (),
    ),
    CaseOutcome.AUDIT_RIGHT: OutcomeRow(
        "An audit found the result right", (*_PARTIES, _SILENT, _SPARE, _POT), (_FAULT_THEN_SPARE, _PRICE_BACK)
    ),
    CaseOutcome.AUDIT_WRONG: OutcomeRow(
        "An audit found the result wrong, and no appeal followed", (*_PARTIES, _SILENT, _POT), (_FEES, _PRICE_BACK)
    ),
    CaseOutcome.AUDIT_UNDECIDED: OutcomeRow("An audit without a decision: the settlement stays", (_SILENT,), ()),
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
        "The input is bad: a decline is upheld",
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
    CaseOutcome.NOT_AUDITED: OutcomeRow("The beacon ordered no audit", (), ()),
}
"""Accounts that a row does not name pay nothing. Seats and bonds that it does not name return. The bond of a won appeal
is charged if the first verdict was "the input is bad": no fault shows then, and the court must be paid."""

MISS_PRICE_PERCENT = 25
SMALL_SET_PRICE_PERCENT = 25
FIRST_JUDGES = 5
"""A pair and a committee: the judges that a lie without an appeal causes."""
COURT_FEES = 36
"""A seat holds this many fees, for a committee and a court of 33, beside twice the price."""
SEAT_FEES = 40
"""A seat holds at least this many fees. Twice the price is at most four fees where a fee is half of the price."""
PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class CaseMoney:
    """The money of a case that ends: its price and fee, the payers with their holds, and the payees."""

    price: int
    fee: int
    takes_whole: bool
    """True if a lie costs the whole collateral. Either a court of three exists, to which the liar could have appealed
    and which is not all remaining validators. Or the verdict has more than a third of the active set's stake."""
    payers: dict[Purse, tuple[tuple[bytes, int], ...]] = field(default_factory=dict)
    """Accounts with their holds for the case. Kinds that the outcome does not charge pay nothing."""
    payees: dict[Payee, tuple[bytes, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flow:
    """Grains that leave the hold of `source` in a purse, to `payee`, or burned for None."""

    purse: Purse
    source: bytes
    payee: bytes | None
    amount: int


def settle(outcome: CaseOutcome, money: CaseMoney) -> tuple[Flow, ...]:
    """Return all payments of a case that ends with this outcome. Any other money stays with its owner."""
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
    """Return the fee of a judge: `share_ppm` of the price, at least `least`."""
    return max(price * share_ppm // PPM, least)


def case_collateral(price: int, rate_ppm: int, fee: int) -> int:
    """Return the collateral of an answer: price / q, so that a lie does not pay at the chance q of being found.

    A found liar keeps its pay, so a lie gains the price and loses q times the collateral. It is at least the price and
    five fees. So a liar about a cheap unit pays its own judges, and no coalition draws fees from the audit pot by cheap
    units.
    """
    found, of = chance_found(rate_ppm)
    return max(-(-price * of // found), price + FIRST_JUDGES * fee)


def chance_found(rate_ppm: int) -> tuple[int, int]:
    """Return the chance that a result is audited, as a fraction: 1 - (1 - rate / 4)^4, for four beacons.

    Each beacon orders an audit independently with a quarter of the rate (`benches.is_audited`). The sum is a little
    less than the rate.
    """
    draws = len(AUDIT_DELAYS)
    of = (draws * PPM) ** draws
    return of - (draws * PPM - rate_ppm) ** draws, of


def seat_hold(collateral: int, fee: int, price: int = 0) -> int:
    """Return a judge's hold from its draw to the end of the case: at least the cost of an appeal that refutes it.

    `price` is the amount due to the customer. For a task it is up to the greatest price, however low the fee is.
    """
    return max(collateral, SEAT_FEES * fee, COURT_FEES * fee + 2 * price)


def audit_premium(rate_ppm: int, fee: int) -> int:
    """Return the amount that every settlement pays into the audit pot: the audit rate of two fees, rounded up."""
    return -(-2 * fee * rate_ppm // PPM)


def _charged(charge: Charge, money: CaseMoney) -> list[tuple[bytes, int]]:
    payers = money.payers.get(charge.purse, ())
    wanted = _amount(charge.amount, money, len(payers))
    return [(who, held if wanted is None else min(held, wanted)) for who, held in payers]


def _serve(
    payee: bytes, amount: int | None, sources: Iterable[Purse], left: dict[Purse, list[tuple[bytes, int]]]
) -> list[Flow]:
    """Pay one payee from the sources in order, as far as they last."""
    assert amount is not None, "a due has an amount"
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
    """Return the grains of a sum for each of `payers` payers, or None for the whole hold."""
    fees = money.fee * len(money.payees.get(Payee.JUDGES, ()))
    if wanted is Sum.LIE:
        limit = money.price + fees + _percent(money.price, SMALL_SET_PRICE_PERCENT)
        return None if money.takes_whole else limit
    amounts = {
        Sum.FEE: money.fee,
        Sum.PRICE: money.price,
        Sum.TWICE_PRICE: 2 * money.price,
        Sum.ALL: None,
        # A miss and a decline cause no court, so they pay for five judges at most: an input shown only to the court
        # would otherwise ruin the honest decliner.
        Sum.MISS: _percent(money.price, MISS_PRICE_PERCENT) + -(-min(fees, FIRST_JUDGES * money.fee) // max(payers, 1)),
        Sum.FEES: fees,
    }
    return amounts[wanted]


def _percent(amount: int, percent: int) -> int:
    """Return `percent` of an amount, rounded up."""
    return -(-amount * percent // 100)
