"""The money table as a Markdown page, made of `money.TABLE` alone."""

from enum import Enum

from gpu_tasks.market.courts.money import TABLE, Charge, Due, OutcomeRow, Payee, Purse, Remainder, Sum


def outcomes_page() -> str:
    """Return one row for each outcome: the charges, the payments, and the use of the rest."""
    lines = ["| outcome | who loses what | who gets what, and from whom, in this order |", "|---|---|---|"]
    for outcome, row in TABLE.items():
        lines.append(f"| `{outcome.name}`: {row.says} | {_charges(row)} | {_dues(row)} |")
    return "\n".join(lines) + "\n"


def words_page() -> str:
    """Return the meanings of the table's short words."""
    lines = ["| word | who, and of what |", "|---|---|"]
    lines += [f"| {word_of(purse)} | {purse.value} |" for purse in Purse]
    lines += [f"| {word_of(payee)} | {payee.value} |" for payee in Payee if payee is not Payee.CUSTOMER]
    lines += ["", "| sum | how much |", "|---|---|"]
    lines += [f"| {word_of(each)} | {each.value} |" for each in Sum]
    return "\n".join(lines) + "\n"


def _charges(row: OutcomeRow) -> str:
    return "; ".join(_charge(charge) for charge in row.charges)


def _charge(charge: Charge) -> str:
    rest = " (what is left stays)" if charge.rest is Remainder.STAYS else ""
    return f"{word_of(charge.purse)}: {word_of(charge.amount)}{rest}"


def _dues(row: OutcomeRow) -> str:
    charged = [charge.purse for charge in row.charges]
    return "; ".join(_due(due, charged) for due in row.dues) or "nobody"


def _due(due: Due, charged: list[Purse]) -> str:
    sources = [word_of(purse) for purse in due.sources if purse in charged]
    return f"{word_of(due.payee)}: {word_of(due.amount)} from {', '.join(sources)}"


def word_of(name: Enum) -> str:
    """Return a name of the table as the page shows it."""
    return name.name.lower().replace("_", " ")  # deterministic: ASCII names of our own
