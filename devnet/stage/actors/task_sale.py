"""A customer of tasks: submits a task file with `ogpu`, follows auction and run to the end, and checks its money.

Always: what is told of the task is what the programs of its customer print, and records of the final chain.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import devnet
from devnet.launcher.folder import DevnetError
from devnet.stage.actors.purchase import name_of
from devnet.stage.measuring.task_ledger import TaskLedger
from devnet.stage.network import CUSTOMER_KEY, Stage
from genesis import dev_accounts
from gpu_tasks.client.tasks.orders import load, load_input
from gpu_tasks.data import training_reads
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.tasks.canonical import prepare
from gpu_tasks.workloads.stepwise import states
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.service import IntegerTraining
from wallet.amounts import format_amount

KIND = "train-int8"
EXAMPLES = Path(devnet.__file__).resolve().parent.parent / "examples"
RELAY = EXAMPLES / "relay.yaml"
"""Short work in six parts."""
ASKS = {"Alice": "1 oGPU/h", "Bob": "2 oGPU/h", "Charlie": "3 oGPU/h"}
"""The bidders, and the price of each device's time: the first wins, the second stands by."""

SaleRow = dict[str, Any]


@dataclass(slots=True)
class TaskSale:
    """A task that was followed to its end: its id, and every change of it that its customer's program printed."""

    task_id: bytes
    rows: list[SaleRow] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its id, as people type it."""
        return "0x" + self.task_id.hex()


@dataclass(slots=True)
class People:
    """Accounts by name (a provider's stash and its provider key have one name), and what each owned."""

    accounts: Mapping[str, tuple[bytes, ...]]
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)

    @property
    def gains(self) -> dict[str, int]:
        """The grains that each name has more than before."""
        return {name: self.after[name] - self.before[name] for name in self.accounts}

    def wrong(self, ledger: TaskLedger) -> Iterator[str]:
        """Yield everybody who has another sum than tasks and fees leave."""
        for name, accounts in self.accounts.items():
            expected = sum(map(ledger.moved, accounts))
            found = self.after[name] - self.before[name]
            if found != expected:
                yield f"{name} has {found} grains more, and tasks and fees come to {expected}"


def keyed(name: str) -> tuple[bytes, bytes]:
    """Return a provider's stash, and the key that signs for it."""
    return dev_accounts.stash(name), dev_accounts.key(name, dev_accounts.PROVIDER)


def let_bid(stage: Stage, asks: Mapping[str, str]) -> None:
    """Tell providers' daemons, by their policies, to bid for tasks."""
    for name, least_price in asks.items():
        stage.provider(name, "policy", "--kind", KIND, "--least-price", least_price, "--gangs")


def submit_options(stage: Stage) -> list[str]:
    """Return options for `ogpu submit`: the customer's folders, and a new purchase even of an equal file."""
    folder = stage.net.folder
    return ["--postings", str(folder / "postings"), "--checkpoints", str(folder / "checkpoints"), "--again"]


def sell(
    stage: Stage, file: Path, key: str = CUSTOMER_KEY, on_row: Callable[[SaleRow], None] = lambda _: None
) -> TaskSale:
    """Submit the task of a file, and follow it until it has ended; `DevnetError` if it ended without a result."""
    words = (str(file), "--key", key, "--watch", "--accept", "--yes", *submit_options(stage))
    sale: TaskSale | None = None
    for row in stage.ogpu_lines("submit", *words):
        sale = sale or TaskSale(bytes.fromhex(row["task"][2:]))
        _tell(stage, sale, row)
        sale.rows.append(row)
        on_row(row)
    if sale is None:
        raise DevnetError(f"`ogpu submit {file}` said nothing of its task")
    return sale


def ask(stage: Stage, sale: TaskSale, command: str, *options: str, is_shown: bool = False) -> str:
    """Return what `ogpu COMMAND TASK` prints."""
    return stage.ogpu(command, sale.name, *options, is_shown=is_shown)


def files_of(archive: Path) -> dict[str, bytes]:
    """Return the files of a tar by name; none where there is no tar."""
    if not archive.exists():
        return {}
    with tarfile.open(archive) as entries:
        files = [(entry.name, entries.extractfile(entry)) for entry in entries if entry.isfile()]
        return {name: content.read() for name, content in files if content is not None}


def record(stage: Stage, task_id: bytes) -> Task:
    """Return the task in the newest final block."""
    found = stage.ask(lambda chain: training_reads.task(chain, task_id))
    if found is None:
        raise DevnetError(f"the chain does not know the task 0x{task_id.hex()}")
    return found


def verified(stage: Stage, sale: TaskSale) -> list[dict[str, Any]]:
    """Return what `ogpu verify` looked at; one row of a failure if it failed."""
    try:
        rows: list[dict[str, Any]] = json.loads(ask(stage, sale, "verify"))
    except DevnetError as error:
        return [{"what": str(error), "is_right": False, "says": ""}]
    return rows


def right_states(path: Path, backend: str = "reference") -> list[bytes]:
    """Return all states of the run of a task file, computed here without any network."""
    file = load(path)
    assert file.task.seed is not None, "without a seed of its own a file has another run each time"
    prepared = prepare(file, load_input(path, file), file.task.seed)
    return list(states(IntegerTraining(arithmetic(backend)).begin(prepared.request)))


def _tell(stage: Stage, sale: TaskSale, row: SaleRow) -> None:
    """Tell each new state; with the award, who has it for how much."""
    before = sale.rows[-1]["state"] if sale.rows else None
    if row["state"] == before:
        return
    award = f": {_award(record(stage, sale.task_id))}" if row["state"].startswith("starting") else ""
    stage.tell.line(f"task {sale.name[:10]}  block {row['height']}  {row['state']}{award}")


def _award(task: Task) -> str:
    given = [f"{name_of(slot.provider)} for {format_amount(slot.price)} oGPU" for slot in task.slots]
    standby = "" if task.standby is None else f"; {name_of(task.standby.provider)} stands by"
    return f"{', '.join(given)}{standby}"
