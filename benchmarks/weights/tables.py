"""The generated tables of weights: which row belongs where, and how a table is written."""

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
"""Calls and hooks weigh this much more than was measured: so far apart are runs on one machine."""
BLOCK_MARGIN_PERCENT = 10
"""An empty block and an extrinsic besides its call do: thousands of a block even each other out."""
KEPT_ROWS = frozenset(f"TrustStake.on_initialize {part}" for part in ("candidate", "elected", "era"))
"""Written no more: found from a tenth of what an era's turn can come to, they swing from run to run, and extrapolated
they leave no room beside the market's hooks. What measured turns take over them is among the cases of each run."""
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
    """Every pallet that a chain may have."""
    return PALLETS + DEVELOPMENT_PALLETS


def calls_of(pallet: type[Pallet]) -> list[str]:
    """The names of a pallet's calls."""
    return [f"{pallet.__name__}.{method.name}" for method in pallet.methods]


def hooks_of(pallet: type[Pallet]) -> list[str]:
    """The names of the hooks that a pallet has."""
    return [f"{pallet.__name__}.{hook}" for hook in HOOKS if getattr(pallet, hook) is not getattr(Pallet, hook)]


def names() -> set[str]:
    """The rows that there must be: every call and every hook of every pallet, and an empty block and extrinsic."""
    listed = listed_pallets()
    calls = {name for pallet in listed for name in calls_of(pallet)}
    return calls | {name for pallet in listed for name in hooks_of(pallet)} | set(BLOCK_ROWS)


def file_of(row: str) -> str:
    """The table that a row belongs into."""
    if row in BLOCK_ROWS:
        return "runtime/frame/block_weights.py"
    pallets = {pallet.__name__: pallet for pallet in listed_pallets()}
    module = pallets[row.partition(".")[0]].__module__
    return "gpu_tasks/market/weights.py" if module.startswith("gpu_tasks.") else "runtime/pallets/weights.py"


def text_of(file: str, rows: dict[str, int]) -> str:
    """A table as it is written."""
    lines = "".join(f'        "{name}": {rows[name]:_},\n' for name in sorted(rows))
    return _FORM.format(doc=FILES[file], digest=digest_of(rows), rows=lines)


def with_margin(name: str, measured: int) -> int:
    """What a row weighs of which this was measured."""
    return measured * (100 + (BLOCK_MARGIN_PERCENT if name in BLOCK_ROWS else MARGIN_PERCENT)) // 100


def write(rows: dict[str, int], *, only_missing: bool = False) -> None:
    """Write all tables anew, with the margin: what is not measured any more is gone, what is kept stays.

    With `only_missing` every row stays that there is, and what no table had is put beside them.
    """
    for file in FILES:
        kept = {name: cost for name, cost in TABLES[file].rows.items() if only_missing or name in KEPT_ROWS}
        mine = {name: with_margin(name, cost) for name, cost in rows.items() if file_of(name) == file}
        (ROOT / file).write_text(text_of(file, mine | kept), encoding="utf-8")
