"""System, Balances, TransactionPayment: all grains, reserved and held, by account, reason and case."""

from typing import Any

from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionPayment
from simulation.actors import always, one_of
from simulation.books import CAP, CASES, EVERYBODY, LIMITS, Books, Keys, PalletBooks, Rule, claims

SUPPLY = Rule("issuance, and the money of all accounts")
RESERVED = Rule("reserved, and held")
SHOWN = Rule("held as shown by reason, and by case")
TOTALS = Rule("total of a case, and the holds for it")
SUSTAINED = Rule("reasons to live, and positions, lists of unbonding stake, and budgets")


def _account(books: Books, keys: Keys, info: Any, sign: int) -> None:
    owned = sign * (info.data.free + info.data.reserved)
    books[SUPPLY].count(EVERYBODY, owned)
    books[CAP].count(EVERYBODY, owned)
    books[RESERVED].claim(keys[0], sign * info.data.reserved)
    books[SUSTAINED].claim(keys[0], sign * info.sufficients)


def _issued(books: Books, _: Keys, amount: int, sign: int) -> None:
    books[SUPPLY].claim(EVERYBODY, sign * amount)


def _burned(books: Books, _: Keys, amount: int, sign: int) -> None:
    books[CAP].count(EVERYBODY, sign * amount)


def _held(books: Books, keys: Keys, amount: int, sign: int) -> None:
    who, hold = keys
    assert amount > 0
    signed = sign * amount
    books[RESERVED].count(who, signed)
    books[SHOWN].count((who, hold.reason), signed)
    books[TOTALS].count(hold, signed)
    if hold.reason in books.known:
        books[LIMITS if hold.reason in books.loose else CASES].count((who, hold), signed)


def _shown(books: Books, keys: Keys, entries: Any, sign: int) -> None:
    for entry in entries:
        books[SHOWN].claim((keys[0], entry.id), sign * entry.amount)


def _collected(books: Books, _: Keys, amount: int, sign: int) -> None:
    """Count the fees of the executing block, which are in no account and burn at its end."""
    books[SUPPLY].count(EVERYBODY, sign * amount)
    books[CAP].count(EVERYBODY, sign * amount)


WORLDS = (
    PalletBooks(System, ((System.account, _account),)),
    PalletBooks(
        Balances,
        (
            (Balances.total_issuance, _issued),
            (Balances.burned, _burned),
            (Balances.holds, _shown),
            (Balances.held_cases, _held),
            (Balances.case_totals, claims(TOTALS)),
        ),
    ),
    PalletBooks(TransactionPayment, ((TransactionPayment.collected, _collected),)),
)


ARGUMENTS = {
    "remark": lambda world, _: world.chance.randbytes(world.chance.randrange(200)),
    "dest": lambda world, _: world.account(),
    "value": lambda world, _: world.amount(),
    "pay": lambda world, _: world.amount(),
    "keep_alive": one_of(True, False),
    "Balances.transfer_all.dest": lambda _, who: who.stash.account,
    "Balances.burn.value": one_of(1, 100_000, 2**127),
    "Balances.burn.keep_alive": always(True),
}
