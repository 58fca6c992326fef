"""The money table as a Markdown page, made of `money.TABLE` alone."""

from gpu_tasks.market.courts.table_page import word_of
from gpu_tasks.market.training.money import TABLE, TaskLine, TaskPayee, TaskPurse, TaskRow, TaskSum

COLUMNS = [payee for payee in TaskPayee if payee is not TaskPayee.FEE]


def task_outcomes_page() -> str:
    """Return a row for each outcome with its payments. Any other money stays with its owner."""
    column_heads = " | ".join(f"to {word_of(payee)}" for payee in COLUMNS[:-1])
    page_lines = [f"| outcome | {column_heads} | burned |", "|---" * (len(COLUMNS) + 1) + "|"]
    for outcome, table_row in TABLE.items():
        row_cells = " | ".join(_cell_text(table_row, payee) for payee in COLUMNS)
        page_lines.append(f"| `{outcome.name}`: {table_row.says} | {row_cells} |")
    return "\n".join(page_lines) + "\n"


def task_words_page() -> str:
    """Return the meanings of the table's short words."""
    page_lines = ["| purse | what it is |", "|---|---|"]
    page_lines += [f"| {word_of(purse)} | {purse.value} |" for purse in TaskPurse]
    page_lines += ["", "| sum | how much |", "|---|---|"]
    page_lines += [f"| {word_of(task_sum)} | {task_sum.value} |" for task_sum in TaskSum]
    return "\n".join(page_lines) + "\n"


def _cell_text(table_row: TaskRow, payee: TaskPayee) -> str:
    return "; ".join(_line_text(table_line) for table_line in table_row.lines if table_line.payee is payee)


def _line_text(table_line: TaskLine) -> str:
    fee_text = " less the fee" if table_line.is_earned else ""
    return f"{word_of(table_line.amount)} of {word_of(table_line.purse)}{fee_text}"
