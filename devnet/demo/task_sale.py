"""A task goes to auction: providers are told to bid, a customer submits it with `ogpu`, and it is followed to its end.

Always: what is told of the task is what the programs of its customer print, and records of the final chain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import devnet
from devnet.demo.purchase import name_of
from devnet.demo.telling import Narrator
from devnet.launcher import programs
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from gpu_tasks.data import training_reads
from gpu_tasks.market.training.tasks import Task
from runtime.cryptography.ss58 import encode as ss58
from wallet.amounts import format_amount
from wallet.client import ChainClient

KIND = "train-int8"
EXAMPLES = Path(devnet.__file__).resolve().parent.parent / "examples"
RELAY = EXAMPLES / "relay.yaml"
"""Short work in six parts."""
ASKS = {"Alice": "1 oGPU/h", "Bob": "2 oGPU/h", "Charlie": "3 oGPU/h"}
"""Who bids, and what each wants for its device's time: the first wins, the second stands by."""

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


def let_bid(net: Devnet, name: str, least_price: str, tell: Narrator) -> None:
    """Tell a provider's daemon, by its policy, to bid for tasks."""
    member = net.member(name)
    words = ["--url", member.rpc_url, "--key", f"//{name}//provider", "--base-path", str(net.home(member) / "provider")]
    words += ["policy", "--kind", KIND, "--least-price", least_price, "--gangs"]
    programs.run("ogpu-provider", *words, keyring=net.keyring, show=tell.command)


def sell(
    net: Devnet, file: Path, key: str, tell: Narrator, on_row: Callable[[SaleRow], None] = lambda _: None
) -> TaskSale:
    """Submit the task of a file, and follow it until it has ended; `DevnetError` if it ended without a result."""
    words = ["--url", net.members[0].rpc_url, "submit", str(file), "--key", key, "--watch", "--accept", "--yes"]
    words += ["--postings", str(net.folder / "postings"), "--checkpoints", str(net.folder / "checkpoints"), "--again"]
    sale: TaskSale | None = None
    for row in programs.lines("ogpu", *words, keyring=net.keyring, show=tell.command):
        sale = sale or TaskSale(bytes.fromhex(row["task"][2:]))
        _tell(net, sale, row, tell)
        sale.rows.append(row)
        on_row(row)
    if sale is None:
        raise DevnetError(f"`ogpu submit {file}` said nothing of its task")
    return sale


def ask(net: Devnet, sale: TaskSale, *words: str, tell: Narrator | None = None) -> str:
    """What `ogpu COMMAND TASK` says, as JSON."""
    show = None if tell is None else tell.command
    command, *options = words
    return programs.run(
        "ogpu", "--url", net.members[0].rpc_url, command, sale.name, *options, keyring=net.keyring, show=show
    )


def record(net: Devnet, sale: TaskSale) -> Task:
    """The task in the newest final block."""
    return asyncio.run(_record(net.members[0].rpc_url, sale.task_id))


async def _record(url: str, task_id: bytes) -> Task:
    async with await ChainClient.connect(url) as chain:
        found = await training_reads.task(chain, task_id)
    if found is None:
        raise DevnetError(f"the chain does not know the task 0x{task_id.hex()}")
    return found


def _tell(net: Devnet, sale: TaskSale, row: SaleRow, tell: Narrator) -> None:
    """A line for each new state; with the award, who has it for how much."""
    before = sale.rows[-1]["state"] if sale.rows else None
    if row["state"] == before:
        return
    award = f": {_award(record(net, sale))}" if row["state"].startswith("starting") else ""
    tell.line(f"task {sale.name[:10]}  block {row['height']}  {row['state']}{award}")


def _award(task: Task) -> str:
    """Who has the slots, for how much, and who stands by."""
    given = [f"{name_of(ss58(slot.provider))} for {format_amount(slot.price)} oGPU" for slot in task.slots]
    standby = "" if task.standby is None else f"; {name_of(ss58(task.standby.provider))} stands by"
    return f"{', '.join(given)}{standby}"
