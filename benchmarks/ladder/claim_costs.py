"""The costs of a claim for each workload: check, answer, fees, collateral, and the time from claim to end.

The shares of work are measured (`units.py`, `tasks.py`). Fees and collateral follow from the default parameters and
`gpu_tasks/market/claims/collateral.py`. Prices are above those at which the least fee of a check counts, and one
provider races. The times are calculated: from the draws, from windows, and from honest parties that act at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from statistics import fmean

from benchmarks.ladder.rungs import Found
from gpu_tasks.batches.item_draws import BEACONS
from gpu_tasks.market.claims.claims import SECOND_PPM
from gpu_tasks.market.claims.collateral import PPM, check_share, item_rate, least_collateral
from gpu_tasks.market.claims.draws import beacon_heights
from gpu_tasks.market.claims.numbers import RUNS, ClaimNumbers
from gpu_tasks.market.training.numbers import TrainingNumbers

BLOCK_S = 2.0
FINAL_BLOCKS = 2
"""The blocks from a call to the block that makes it final, on an undisturbed network."""
CALLS = 3
"""The calls of a check: commitment, samples, and opening."""
BATCH = 40
"""The requests of the batch in the table. Four points are drawn in it."""
PRICE = 10**9
"""Any price: only ratios are shown."""
DAY_S = 86_400.0
_SECOND = SECOND_PPM / PPM
_DRAWS = [beacon_heights(recorded)[-1] - recorded for recorded in range(BEACONS)]


@dataclass(frozen=True, slots=True)
class CloseTimes:
    """Seconds from a claim to its end: without a drawn item, checked by parties that act at once, and the longest."""

    undrawn: float
    checked: float
    latest: float


@dataclass(frozen=True, slots=True)
class ClaimCosts:
    """A row of the table."""

    workload: str
    work: str
    """`unit` or `task`."""
    size: str
    check: float
    """The computation of a checker of one item over that of the item."""
    answer: float
    """The computation of the provider's sample of one item over that of the item."""
    fees: float
    """The expected fees of checks over the price. The customer pays them: there is no premium."""
    k_prices: float
    k_days: float
    """K in days of the provider's income, if it always computes such work."""
    all_k_days: float
    """K of all its open claims then."""
    close: CloseTimes


def close_times(check_s: float, run_s: float) -> CloseTimes:
    """Return the times of a claim whose check takes `check_s`, and whose whole result takes `run_s` to compute."""
    window = max(int(ClaimNumbers.duty_blocks.default), RUNS * ceil(run_s / BLOCK_S))
    draw, calls = fmean(_DRAWS) + FINAL_BLOCKS, CALLS * (1 + FINAL_BLOCKS) + ceil(check_s / BLOCK_S)
    checked = draw + calls + draw + _SECOND * calls
    latest = 2 * (max(_DRAWS) + FINAL_BLOCKS + CALLS * (window + FINAL_BLOCKS))
    return CloseTimes(BLOCK_S * draw, BLOCK_S * checked, BLOCK_S * latest)


def costs_of(rows: Sequence[Found], check_ppms: dict[str, int]) -> Iterator[ClaimCosts]:
    """Yield the costs of each size of a task, and of each workload's largest request, alone and in a batch.

    `check_ppms` has the stated cost of a check by workload.
    """
    found = {(row.workload, row.work, row.size, row.rung): row for row in rows}
    largest = {row.workload: row.size for row in rows if row.work == "unit"}
    for name, work, size in dict.fromkeys((row.workload, row.work, row.size) for row in rows):
        if work == "unit" and size != largest[name]:
            continue
        if work == "unit":
            check, answer = found[name, work, size, "check"], found[name, work, size, "sample"]
            for items in (1, BATCH):
                label = size if items == 1 else f"{items} requests, {size} each"
                yield _costs(
                    (name, work, label), items, items * check.provider_s, (check.share, answer.share),
                    int(ClaimNumbers.check_rate.default), check_share(check_ppms[name]),
                )  # fmt: skip
        else:
            check, answer = found[name, work, size, "item"], found[name, work, size, "sample"]
            items = int(size.partition(" ")[0])
            yield _costs(
                (name, work, size), items, check.provider_s, (items * check.share, items * answer.share),
                int(TrainingNumbers.check_rate.default), check_share(PPM),
            )  # fmt: skip


def _costs(
    named: tuple[str, str, str], items: int, work_s: float, shares: tuple[float, float], rate_ppm: int, fee_ppm: int
) -> ClaimCosts:
    points = items * item_rate(items, rate_ppm) / PPM
    drawn_items = points / items
    is_task = named[1] == "task"
    # Voters about a unit are paid for the whole, those about a task for one segment.
    vote_fee = PRICE * fee_ppm // PPM // (items if is_task else 1)
    k_prices = least_collateral(PRICE, items=items, rate_ppm=rate_ppm, vote_fee=vote_fee) / PRICE
    check_s = max(1.0, points) * shares[0] * work_s / items
    close = close_times(check_s, work_s)
    chance = min(1.0, points)
    open_s = chance * close.checked + (1 - chance) * close.undrawn
    return ClaimCosts(
        *named, *shares, drawn_items * (1 + _SECOND) * fee_ppm / PPM, k_prices, k_prices * work_s / DAY_S,
        k_prices * max(work_s, open_s) / DAY_S, close,
    )  # fmt: skip


def table(costs: Iterable[ClaimCosts]) -> str:
    """Return the table for the documents."""
    lines = [
        "| work | check | answer | fees | K, prices | K, days | all K, days | undrawn | checked | latest |",
        "|---" * 10 + "|",
    ]
    for row in costs:
        cells = (
            f"{row.workload}, a {row.work}: {row.size}", f"{row.check:.2f}", f"{row.answer:.2g}", f"{row.fees:.1%}",
            f"{row.k_prices:.3g}", f"{row.k_days:.5f}", f"{row.all_k_days:.3f}",
            *(f"{seconds:,.0f} s" for seconds in asdict(row.close).values()),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
