"""The money table as a Markdown page, made of `money.TABLE` alone."""

from enum import Enum

from gpu_tasks.market.claims.money import TABLE, Charge, Due, Payee, Purse, Remainder, Sum


def events_page() -> str:
    """Return one row for each event: the charges, the payments, and the use of the rest."""
    lines = ["| event | charges | payments, in this order |", "|---|---|---|"]
    for row in TABLE.values():
        charges = "; ".join(map(_charge, row.charges))
        lines.append(f"| {row.title} | {charges} | {'; '.join(map(_due, row.dues)) or 'none'} |")
    return "\n".join(lines) + "\n"


def words_page() -> str:
    """Return the meanings of the table's short words."""
    lines = ["| hold | owner |", "|---|---|"]
    lines += [f"| {word_of(purse)} | {purse.value} |" for purse in Purse]
    lines += ["", "| payee | account |", "|---|---|"]
    lines += [f"| {word_of(payee)} | {payee.value} |" for payee in Payee]
    lines += ["", "| sum | amount |", "|---|---|"]
    lines += [f"| {word_of(each)} | {each.value} |" for each in Sum]
    return "\n".join(lines) + "\n"


def _charge(charge: Charge) -> str:
    rest = "stays" if charge.rest is Remainder.STAYS else "burns"
    return f"{word_of(charge.purse)}: {word_of(charge.amount)}, the rest {rest}"


def _due(due: Due) -> str:
    return f"{word_of(due.payee)}: {word_of(due.amount)} from {', '.join(map(word_of, due.sources))}"


def word_of(name: Enum) -> str:
    """Return a name of the table as the page shows it."""
    return name.name.lower().replace("_", " ")  # deterministic: ASCII names of our own
