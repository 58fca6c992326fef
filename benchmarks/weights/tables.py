"""The generated tables of weights: the place of each row, and the writing of a table."""

from pathlib import Path

from genesis.chain import DEVELOPMENT_PALLETS, PALLETS
from gpu_tasks.market import weights as of_the_market
from runtime.frame import block_weights as of_blocks
from runtime.frame.measured import MeasuredWeights, digest_of
from runtime.frame.pallet import Pallet
from runtime.pallets import weights as of_the_chain

ROOT = Path(__file__).parents[2]
BLOCK_ROWS = ("block", "extrinsic")
MARGIN_PERCENT = 20
"""The percentage by which calls and hooks weigh more than measured. Runs on one machine differ by as much."""
BLOCK_MARGIN_PERCENT = 10
"""The smaller margin of an empty block and of an extrinsic's base. Thousands in a block average out."""
KEPT_ROWS = frozenset(f"TrustStake.on_initialize {part}" for part in ("candidate", "elected", "era"))
"""Rows that are no longer written.

Their measurement covers a tenth of an era's largest turn, so they vary from run to run. Extrapolated, they would leave
no room beside the market's hooks. Each run's cases include the measured turns over these rows.
"""
HOOKS = ("on_initialize", "on_finalize")
FILES = {
    "runtime/frame/block_weights.py": "What an empty block weighs, and an extrinsic besides its call.",
    "runtime/pallets/weights.py": "What calls and hooks of the chain's own pallets weigh.",
    "gpu_tasks/market/weights.py": "What calls and hooks of the market's pallets weigh.",
}
TABLES: dict[str, MeasuredWeights] = {
    "runtime/frame/block_weights.py": of_blocks.WEIGHTS,
    "runtime/pallets/weights.py": of_the_chain.WEIGHTS,
    "gpu_tasks/market/weights.py": of_the_market.WEIGHTS,
}
_FORM = '''"""{doc}

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "{digest}",
    {{
{rows}    }},
)
'''


def listed_pallets() -> tuple[type[Pallet], ...]:
    """Return every pallet that a chain can have."""
    return PALLETS + DEVELOPMENT_PALLETS


def calls_of(pallet: type[Pallet]) -> list[str]:
    """Return the names of a pallet's calls."""
    return [f"{pallet.__name__}.{method.name}" for method in pallet.methods]


def hooks_of(pallet: type[Pallet]) -> list[str]:
    """Return the names of a pallet's hooks."""
    return [f"{pallet.__name__}.{hook}" for hook in HOOKS if getattr(pallet, hook) is not getattr(Pallet, hook)]


def names() -> set[str]:
    """Return the required rows: every call and hook of every pallet, an empty block and an extrinsic."""
    listed = listed_pallets()
    calls = {name for pallet in listed for name in calls_of(pallet)}
    return calls | {name for pallet in listed for name in hooks_of(pallet)} | set(BLOCK_ROWS)


def file_of(row: str) -> str:
    """Return the file of a row's table."""
    if row in BLOCK_ROWS:
        return "runtime/frame/block_weights.py"
    pallets = {pallet.__name__: pallet for pallet in listed_pallets()}
    module = pallets[row.partition(".")[0]].__module__
    return "gpu_tasks/market/weights.py" if module.startswith("gpu_tasks.") else "runtime/pallets/weights.py"


def text_of(file: str, rows: dict[str, int]) -> str:
    """Return the text of a table."""
    lines = "".join(f'        "{name}": {rows[name]:_},\n' for name in sorted(rows))
    return _FORM.format(doc=FILES[file], digest=digest_of(rows), rows=lines)


def with_margin(name: str, measured: int) -> int:
    """Return the weight of a row from its measured cost."""
    return measured * (100 + (BLOCK_MARGIN_PERCENT if name in BLOCK_ROWS else MARGIN_PERCENT)) // 100


def write(rows: dict[str, int], *, only_missing: bool = False) -> None:
    """Write all tables, with the margin. Rows without a measurement are removed, except for the kept rows.

    With `only_missing`, keep every existing row and add only the missing ones.
    """
    for file in FILES:
        kept = {name: cost for name, cost in TABLES[file].rows.items() if only_missing or name in KEPT_ROWS}
        mine = {name: with_margin(name, cost) for name, cost in rows.items() if file_of(name) == file}
        (ROOT / file).write_text(text_of(file, mine | kept), encoding="utf-8")
