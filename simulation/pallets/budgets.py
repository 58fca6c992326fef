"""Budgets: deposits of owners, delegates, the accounts that budgets keep alive, and random purchases."""

from typing import Any

from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.records import BUDGET_DEPOSIT, DAY_BLOCKS, Budget, Caps, Delegate
from gpu_tasks.market.devices.devices import Devices
from runtime.frame.holds import Hold
from simulation.actors import OGPU, Actor, World
from simulation.books import Books, Keys, PalletBooks, Rule, at_most, claims, counts
from simulation.pallets.money import SUSTAINED

OF_OWNER = Rule("budgets of an owner, and those listed")
CREATED = Rule("budgets that an owner has ever created, and its budgets", at_most)
DELEGATES = Rule("delegates of a budget, and their records")
NAMED = Rule("delegates, and budgets listed by key")
DEPOSITS = Rule("deposits of a budget, and those of its delegates", at_most)
PRINCIPALS = Rule("budgets' accounts, and accounts that act for an owner")


def _budget(books: Books, keys: Keys, budget: Budget, sign: int) -> None:
    budget_id = keys[0]
    books.case(budget.owner, Hold(BUDGET_DEPOSIT, budget_id), sign * budget.deposits)
    books[OF_OWNER].claim((budget.owner, budget_id), sign)
    books[CREATED].count(budget.owner, sign)
    books[DELEGATES].claim(budget_id, sign * budget.delegates)
    books[DEPOSITS].claim(budget_id, sign * budget.deposits)
    books[PRINCIPALS].claim((budget.account, budget.owner), sign)
    books[SUSTAINED].count(budget.account, sign)


def _delegate(books: Books, keys: Keys, delegate: Delegate, sign: int) -> None:
    budget_id, key = keys
    books[DELEGATES].count(budget_id, sign)
    books[NAMED].claim((key, budget_id), sign)
    books[DEPOSITS].count(budget_id, sign * delegate.record_deposit)
    assert delegate.spent_in_day <= delegate.spent


WORLDS = (
    PalletBooks(
        Budgets,
        (
            (Budgets.budgets, _budget),
            (Budgets.delegates, _delegate),
            (Budgets.owner_budgets, counts(OF_OWNER, lambda keys: keys)),
            (Budgets.key_budgets, counts(NAMED, lambda keys: keys)),
            (Budgets.creation_counts, claims(CREATED)),
            (Devices.principals, lambda books, keys, owner, sign: books[PRINCIPALS].count((keys[0], owner), sign)),
        ),
    ),
)


def _budget_id(world: World, who: Actor) -> bytes:
    """Return mostly a budget of the caller or one that names it, else any budget, or an unknown one."""
    room, account = world.bound[Budgets], who.stash.account
    mine = [key for listed in (room.owner_budgets, room.key_budgets) for key, _ in listed.under(account)]
    known = mine if mine and world.chance.random() < 0.9 else list(room.budgets.keys())
    return world.chance.choice(known) if known and world.chance.random() < 0.9 else world.chance.randbytes(32)


def _caps(world: World, _: Actor) -> Caps:
    chance = world.chance
    return Caps(
        unit=chance.choice((OGPU // 10, 10 * OGPU, 10**15)),
        day=chance.choice((OGPU, 50 * OGPU, 10**15)),
        total=chance.choice((OGPU, 100 * OGPU, 10**15)),
        services=chance.choice(((), (), (0,), (1, 2))),
        expires_at=world.height + chance.choice((0, 50, 500, DAY_BLOCKS)),
    )


ARGUMENTS: dict[str, Any] = {
    "budget": _budget_id,
    "caps": _caps,
    "delegate": lambda world, _: world.account(),
    "amount": lambda world, _: world.amount(),
    "Budgets.create.deposit": lambda world, _: world.chance.choice((0, 1, OGPU, 100 * OGPU, 10**15)),
}
