"""A customer of tasks: submits a task file with `ogpu`, follows auction and run to the end, and checks its money.

Invariant: every fact about the task comes from the output of the customer's programs or from final blocks.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import devnet
from devnet.launcher.folder import DevnetError
from devnet.stage.actors.purchase import name_of_account
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

TASK_KIND = "train-int8"
EXAMPLES = Path(devnet.__file__).resolve().parent.parent / "examples"
RELAY_FILE = EXAMPLES / "relay.yaml"
"""A task file with short work in six parts."""
LEAST_PRICES = {"Alice": "1 oGPU/h", "Bob": "2 oGPU/h", "Charlie": "3 oGPU/h"}
"""The bidders, with the price of each device's time. The first wins, and the second is the standby."""

SaleRow = dict[str, Any]


@dataclass(slots=True)
class TaskSale:
    """A task that was followed to its end: its id, and every change that the customer's program printed."""

    task_id: bytes
    rows: list[SaleRow] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The task's id as users type it."""
        return "0x" + self.task_id.hex()


class MovedMoney(Protocol):
    """A ledger that knows the expected gain of each account."""

    def moved(self, account: bytes) -> int:
        """Return the expected gain of an account, less its fees."""
        ...


@dataclass(slots=True)
class People:
    """Accounts by name, and the grains of each before and after.

    A provider's stash and its provider key share one name.
    """

    accounts: Mapping[str, tuple[bytes, ...]]
    wealth_before: dict[str, int] = field(default_factory=dict)
    wealth_after: dict[str, int] = field(default_factory=dict)

    @property
    def gains(self) -> dict[str, int]:
        """The gain of each name in grains."""
        return {name: self.wealth_after[name] - self.wealth_before[name] for name in self.accounts}

    def wrong(self, ledger: MovedMoney) -> Iterator[str]:
        """Yield a sentence for each name whose gain differs from the ledger's sum of payments and fees."""
        for name, accounts in self.accounts.items():
            expected = sum(map(ledger.moved, accounts))
            wealth_gain = self.wealth_after[name] - self.wealth_before[name]
            if wealth_gain != expected:
                yield f"{name} has {wealth_gain} grains more, and tasks and fees come to {expected}"


def provider_accounts(name: str) -> tuple[bytes, bytes]:
    """Return a provider's stash and its provider key."""
    return dev_accounts.stash(name), dev_accounts.key(name, dev_accounts.PROVIDER)


def let_bid(stage: Stage, asks: Mapping[str, str]) -> None:
    """Make providers' daemons bid for tasks, by their policies."""
    for name, least_price in asks.items():
        stage.provider(name, "policy", "--kind", TASK_KIND, "--least-price", least_price, "--gangs")


def submit_options(stage: Stage) -> list[str]:
    """Return options for `ogpu task submit`: the customer's folders, and a new purchase even of an equal file."""
    folder = stage.devnet.purchases
    # The devnet's own folders, so that nothing of it is left in the user's home.
    return ["--postings", str(folder / "postings"), "--checkpoints", str(folder / "checkpoints"), "--again"]


def sell_task(
    stage: Stage, file: Path, customer: str = CUSTOMER_KEY, on_row: Callable[[SaleRow], None] = lambda _: None
) -> TaskSale:
    """Submit a task file, and follow the task until it has ended.

    Raise DevnetError if `ogpu` printed nothing about the task or failed.
    """
    arguments = (str(file), "--key", customer, "--watch", "--yes", *submit_options(stage))
    sale: TaskSale | None = None
    for sale_row in stage.ogpu_lines("task submit", *arguments):
        sale = sale or TaskSale(bytes.fromhex(sale_row["task"][2:]))
        _report_state(stage, sale, sale_row)
        sale.rows.append(sale_row)
        on_row(sale_row)
    if sale is None:
        raise DevnetError(f"`ogpu task submit {file}` printed no task")
    return sale


def ask_about_task(stage: Stage, sale: TaskSale, command: str, *options: str, is_shown: bool = False) -> str:
    """Return the output of `ogpu COMMAND TASK`."""
    return stage.ogpu(command, sale.name, *options, is_shown=is_shown)


def files_of(archive: Path) -> dict[str, bytes]:
    """Return the files of a tar archive by name, or no files if the archive does not exist."""
    if not archive.exists():
        return {}
    # Read and not extracted: the names in a stranger's archive are no paths to write to.
    with tarfile.open(archive) as tar_archive:
        file_streams = [(entry.name, tar_archive.extractfile(entry)) for entry in tar_archive if entry.isfile()]
        return {name: file_stream.read() for name, file_stream in file_streams if file_stream is not None}


def record(stage: Stage, task_id: bytes) -> Task:
    """Return the task's record in the newest final block."""
    task_record = stage.ask(lambda chain: training_reads.task(chain, task_id))
    if task_record is None:
        raise DevnetError(f"the chain does not know the task 0x{task_id.hex()}")
    return task_record


def verification_rows(stage: Stage, sale: TaskSale) -> list[dict[str, Any]]:
    """Return what `ogpu task verify` looked at; one row of a failure if it failed."""
    try:
        verified_rows: list[dict[str, Any]] = json.loads(ask_about_task(stage, sale, "task verify"))
    except DevnetError as error:
        return [{"what": str(error), "is_right": False, "says": ""}]
    return verified_rows


def right_states(file: Path) -> list[bytes]:
    """Return all states of a task file's run, computed locally without a network."""
    parsed = load(file)
    assert parsed.task.seed is not None, "without a seed of its own a file has another run each time"
    prepared = prepare(parsed, load_input(file, parsed), parsed.task.seed)
    return list(states(IntegerTraining(arithmetic("reference")).begin(prepared.request)))


def _report_state(stage: Stage, sale: TaskSale, sale_row: SaleRow) -> None:
    """Print each new state. At the award, add each winner and its price."""
    previous_state = sale.rows[-1]["state"] if sale.rows else None
    if sale_row["state"] == previous_state:
        return
    award = f": {_award_text(record(stage, sale.task_id))}" if sale_row["state"].startswith("starting") else ""
    stage.narrator.line(f"task {sale.name[:10]}  block {sale_row['height']}  {sale_row['state']}{award}")


def _award_text(task: Task) -> str:
    slot_texts = [f"{name_of_account(slot.provider)} for {format_amount(slot.price)} oGPU" for slot in task.slots]
    standby_text = "" if task.standby is None else f"; {name_of_account(task.standby.provider)} stands by"
    return f"{', '.join(slot_texts)}{standby_text}"
