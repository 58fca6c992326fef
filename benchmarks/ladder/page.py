"""The findings as tables for the documents and as a line of figures."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from benchmarks.ladder.rungs import SPOT_RUNG, TASK_RUNGS, UNIT_RUNGS, Found, Rung

RUNGS: Mapping[str, Mapping[str, Rung]] = {"unit": {**UNIT_RUNGS, SPOT_RUNG.name: SPOT_RUNG}, "task": TASK_RUNGS}
LEADING = {"unit": "check", "task": "item"}
"""The rung that the line of figures shows: the computation of a checker."""


def page(rows: Sequence[Found]) -> str:
    """Return a table for each kind of work, with its sizes side by side."""
    return "\n\n".join(_table(list(group)) for _, group in groupby(rows, key=lambda row: (row.workload, row.work)))


def line(rows: Sequence[Found], failed: int, seconds: int) -> str:
    """Return the share of a checker of each kind of work, from its smallest size to its largest."""
    parts = [
        f"{workload} {work} {' '.join(share(row.share) for row in group)}"
        for (workload, work), group in groupby(
            (row for row in rows if row.rung == LEADING[row.work]), key=lambda row: (row.workload, row.work)
        )
    ]
    bars = f"{len(rows) - failed} of {len(rows)} bars hold"
    return f"ladder: a checker over the provider, small to large: {'; '.join(parts)}; {bars}; {seconds} s"


def share(value: float) -> str:
    """Return a share with two significant figures. A share below a thousandth becomes a fraction."""
    if value < 0.001:
        return f"1/{round(1 / value, 1 - len(str(int(1 / value)))):,.0f}" if value else "0"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _table(rows: Sequence[Found]) -> str:
    sizes = list(dict.fromkeys(row.size for row in rows))
    found = {(row.rung, row.size): row for row in rows}
    first = rows[0]
    lines = [f"| {first.workload}, a {first.work} | work | {' | '.join(sizes)} | bar |"]
    lines.append("|---|---|" + "---|" * (len(sizes) + 1))
    lines.append(
        f"| *provider* | *the work, CPU ms* | {_cells(f'*{1_000 * _work(rows, size):,.0f}*' for size in sizes)} | |"
    )
    for name, rung in RUNGS[first.work].items():
        if (name, first.size) not in found:
            continue
        shares = _cells(
            share(found[name, size].share) + ("" if found[name, size].holds else " **missed**") for size in sizes
        )
        lines.append(f"| {name} | {rung.does} | {shares} | {rung.bar} |")
    return "\n".join(lines)


def _cells(texts: Iterable[str]) -> str:
    return " | ".join(texts)


def _work(rows: Sequence[Found], size: str) -> float:
    return next(row.provider_s for row in rows if row.size == size)
