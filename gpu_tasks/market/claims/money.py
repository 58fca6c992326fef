"""The money table of claims and disputes, as data: charges and payments of each event.

The pallets, the tests and the page `docs/claims.md` read `TABLE`. The market holds the price, and returns or pays it
when the claim ends.

Invariants: every payment comes out of a charge, grain by grain. The rest burns or stays with its owner, so all sums are
conserved. No account pays more than it holds in a purse. An event pays an account at most once.
"""

from dataclasses import dataclass, field
from enum import Enum

from gpu_tasks.market.claims.collateral import finder_reward
from gpu_tasks.market.claims.disputes import VOTER_FEES

CONCESSION_FEES = 2
"""The fees that a concession costs: one for the provider, one for the replacements."""


class Purse(Enum):
    """The holds that an event can charge, with their owners."""

    CUSTOMER = "the customer's money for checks"
    FORFEITED = "the fees that silent and conceding checkers of this claim lost"
    PROVIDER = "the collateral K of the provider; if results differ, of each provider with a false one"
    CHECKER = "the collateral Kc of the checker, or of each false checker"
    DISPUTER = "the bond of the account that disputed an item; the miss fee of each provider that declined an input"
    INPUT = "the customer's bond for an input that can be opened"
    OUTVOTED = "the bond of each voter whose vote was a different one, and not `UNAVAILABLE`"
    UNHEARD = "the bond of each voter that did not commit, or did not open"


class Payee(Enum):
    """The recipients of payments."""

    CHECKER = "the checker that passed"
    REPLACEMENTS = "the forfeited fees of the claim, which pay the next checkers"
    PROVIDER = "the provider of the claim"
    FINDER = "the checker or disputer that found the false result"
    VOTERS = "each drawn voter that agreed with the decision"
    APPEAL_VOTERS = "each other voter of the appeal that agreed with it"


class Sum(Enum):
    """The sums of the table. `_charge_of` and `_due_of` compute each."""

    FEE = "f, the fee of the check"
    TWO_FEES = "2 f"
    VOTE_FEE = "the fee of a voter"
    TWO_VOTE_FEES = "two fees of a voter"
    REWARD = "F, half of the provider's collateral"
    HALF_OF_VOTES = "half of the fees of all voters that agreed, in both rounds"
    ALL = "the whole hold"


class Remainder(Enum):
    """The use of a charge's unpaid part."""

    BURNS = "burns"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge of every hold in a purse, and the use of its unpaid part."""

    purse: Purse
    amount: Sum
    rest: Remainder = Remainder.BURNS


@dataclass(frozen=True, slots=True)
class Due:
    """The amount due to every payee of a kind, and the purses that pay it, in this order.

    If they do not last, the payees get equal parts.
    """

    payee: Payee
    amount: Sum
    sources: tuple[Purse, ...]


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event: its charges, and its dues in the order of payment."""

    title: str
    charges: tuple[Charge, ...]
    dues: tuple[Due, ...] = ()


class MoneyEvent(Enum):
    """The events that move money."""

    PASSED = 0
    PROVIDER_FALSE = 1
    CHECKER_FALSE = 2
    BOTH_FALSE = 3
    CONCEDED = 4
    SILENT = 5
    UNOPENED = 6
    FETCHED = 7
    FALSE_DISPUTE = 8
    INPUT_BAD = 9
    VOTES_COUNTED = 10
    ENDED = 11


def _votes(*sources: Purse) -> tuple[Due, Due]:
    return Due(Payee.VOTERS, Sum.VOTE_FEE, sources), Due(Payee.APPEAL_VOTERS, Sum.VOTE_FEE, sources)


_PROVIDER, _CHECKER = Charge(Purse.PROVIDER, Sum.ALL), Charge(Purse.CHECKER, Sum.ALL)
_REWARD = Due(Payee.FINDER, Sum.REWARD, (Purse.PROVIDER,))
_ONE_FEE = Due(Payee.PROVIDER, Sum.FEE, (Purse.CHECKER,))
_REPLACED = Due(Payee.REPLACEMENTS, Sum.FEE, (Purse.CHECKER,))

TABLE: dict[MoneyEvent, EventRow] = {
    MoneyEvent.PASSED: EventRow(
        "A check passed, or voters computed the item in place of a checker",
        (Charge(Purse.FORFEITED, Sum.ALL, Remainder.STAYS), Charge(Purse.CUSTOMER, Sum.ALL, Remainder.STAYS)),
        (
            Due(Payee.CHECKER, Sum.FEE, (Purse.FORFEITED, Purse.CUSTOMER)),
            Due(Payee.VOTERS, Sum.VOTE_FEE, (Purse.FORFEITED,)),
        ),
    ),
    MoneyEvent.PROVIDER_FALSE: EventRow(
        "A provider is convicted: a false or withheld item, a false sample, or silence. The price returns",
        (_PROVIDER,),
        (_REWARD, *_votes(Purse.PROVIDER)),
    ),
    MoneyEvent.CHECKER_FALSE: EventRow("A checker is convicted", (_CHECKER,), (_ONE_FEE, *_votes(Purse.CHECKER))),
    MoneyEvent.BOTH_FALSE: EventRow(
        "A second check convicts the provider and the first checker. The price returns",
        (_PROVIDER, _CHECKER),
        (_REWARD, *_votes(Purse.PROVIDER, Purse.CHECKER)),
    ),
    MoneyEvent.CONCEDED: EventRow(
        "A checker concedes", (Charge(Purse.CHECKER, Sum.TWO_FEES, Remainder.STAYS),), (_ONE_FEE, _REPLACED)
    ),
    MoneyEvent.SILENT: EventRow(
        "A checker does not commit", (Charge(Purse.CHECKER, Sum.FEE, Remainder.STAYS),), (_REPLACED,)
    ),
    MoneyEvent.UNOPENED: EventRow("A checker commits, and does not open", (_CHECKER,), (_ONE_FEE,)),
    MoneyEvent.FETCHED: EventRow(
        "Voters fetched an item that a checker could not fetch. The check counts as passed",
        (
            Charge(Purse.PROVIDER, Sum.HALF_OF_VOTES, Remainder.STAYS),
            Charge(Purse.CHECKER, Sum.HALF_OF_VOTES, Remainder.STAYS),
        ),
        _votes(Purse.PROVIDER, Purse.CHECKER),
    ),
    MoneyEvent.FALSE_DISPUTE: EventRow(
        "A disputed item is right, or a declined input can be opened",
        (Charge(Purse.DISPUTER, Sum.ALL),),
        _votes(Purse.DISPUTER),
    ),
    MoneyEvent.INPUT_BAD: EventRow(
        "An input cannot be opened. The price returns", (Charge(Purse.INPUT, Sum.ALL),), _votes(Purse.INPUT)
    ),
    MoneyEvent.VOTES_COUNTED: EventRow(
        "A dispute is decided: the bonds of its voters",
        (Charge(Purse.OUTVOTED, Sum.TWO_VOTE_FEES), Charge(Purse.UNHEARD, Sum.VOTE_FEE)),
    ),
    MoneyEvent.ENDED: EventRow(
        "A claim ends. If nobody was convicted and no check could be made, the price returns",
        (Charge(Purse.FORFEITED, Sum.ALL),),
    ),
}
"""Accounts that a row does not name pay nothing. At the end of a claim all other holds return."""


@dataclass(frozen=True, slots=True)
class EventMoney:
    """The money around an event: its fees and collateral, the payers with their holds, and the payees."""

    fee: int
    """The fee of the check."""
    vote_fee: int
    """The fee of a voter, if there was a dispute."""
    collateral: int
    """K, the provider's collateral in the terms of the claim."""
    payers: dict[Purse, tuple[tuple[bytes, int], ...]] = field(default_factory=dict)
    """Accounts with their holds. Purses that the event does not charge pay nothing."""
    payees: dict[Payee, tuple[bytes, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flow:
    """Grains that leave the hold of `source` in a purse, to `payee`, or burned for None."""

    purse: Purse
    source: bytes
    payee: bytes | None
    amount: int


def settle(event: MoneyEvent, money: EventMoney) -> tuple[Flow, ...]:
    """Return all payments of an event. Any other money stays with its owner."""
    row = TABLE[event]
    left = {charge.purse: _charged(charge, money) for charge in row.charges}
    flows: list[Flow] = []
    paid: set[bytes] = set()
    for due in row.dues:
        payees = [payee for payee in dict.fromkeys(money.payees.get(due.payee, ())) if payee not in paid]
        if payees:
            rest = sum(held for purse in due.sources for _, held in left[purse])
            amount = min(_amount(due.amount, money), rest // len(payees))
            flows += [flow for payee in payees for flow in _serve(payee, amount, due.sources, left)]
            paid.update(payees)
    for charge in row.charges:
        if charge.rest is Remainder.BURNS:
            flows += [Flow(charge.purse, owner, None, rest) for owner, rest in left[charge.purse] if rest]
    return tuple(flows)


def _charged(charge: Charge, money: EventMoney) -> list[tuple[bytes, int]]:
    is_all = charge.amount is Sum.ALL
    payers = money.payers.get(charge.purse, ())
    return [(owner, held if is_all else min(held, _amount(charge.amount, money))) for owner, held in payers]


def _serve(
    payee: bytes, amount: int, sources: tuple[Purse, ...], left: dict[Purse, list[tuple[bytes, int]]]
) -> list[Flow]:
    """Pay one payee from the sources in order."""
    flows = []
    for purse in sources:
        for place, (owner, rest) in enumerate(left[purse]):
            part = min(rest, amount)
            if part:
                left[purse][place] = (owner, rest - part)
                flows.append(Flow(purse, owner, payee, part))
                amount -= part
    return flows


def _amount(wanted: Sum, money: EventMoney) -> int:
    """Return the grains of a sum."""
    votes = {*money.payees.get(Payee.VOTERS, ()), *money.payees.get(Payee.APPEAL_VOTERS, ())}
    amounts = {
        Sum.FEE: money.fee,
        Sum.TWO_FEES: CONCESSION_FEES * money.fee,
        Sum.VOTE_FEE: money.vote_fee,
        Sum.TWO_VOTE_FEES: VOTER_FEES * money.vote_fee,
        Sum.REWARD: finder_reward(money.collateral),
        Sum.HALF_OF_VOTES: -(-money.vote_fee * len(votes) // 2),
    }
    return amounts[wanted]
