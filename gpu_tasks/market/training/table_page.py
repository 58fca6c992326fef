"""The money table as a Markdown page, made of `money.TABLE` alone."""

from gpu_tasks.market.claims.table_page import word_of
from gpu_tasks.market.training.money import TABLE, TaskLine, TaskPayee, TaskPurse, TaskRow, TaskSum

COLUMNS = [payee for payee in TaskPayee if payee is not TaskPayee.FEE]


def task_outcomes_page() -> str:
    """Return a row for each outcome with its payments. Any other money stays with its owner."""
    heads = " | ".join(f"to {word_of(payee)}" for payee in COLUMNS[:-1])
    lines = [f"| outcome | {heads} | burned |", "|---" * (len(COLUMNS) + 1) + "|"]
    for outcome, row in TABLE.items():
        cells = " | ".join(_cell_text(row, payee) for payee in COLUMNS)
        lines.append(f"| `{outcome.name}`: {row.says} | {cells} |")
    return "\n".join(lines) + "\n"


def task_words_page() -> str:
    """Return the meanings of the table's short words."""
    lines = ["| purse | meaning |", "|---|---|"]
    lines += [f"| {word_of(purse)} | {purse.value} |" for purse in TaskPurse]
    lines += ["", "| sum | amount |", "|---|---|"]
    lines += [f"| {word_of(task_sum)} | {task_sum.value} |" for task_sum in TaskSum]
    return "\n".join(lines) + "\n"


def _cell_text(row: TaskRow, payee: TaskPayee) -> str:
    return "; ".join(_line_text(line) for line in row.lines if line.payee is payee)


def _line_text(line: TaskLine) -> str:
    fee_text = " less the fee" if line.is_earned else ""
    return f"{word_of(line.amount)} of {word_of(line.purse)}{fee_text}"
