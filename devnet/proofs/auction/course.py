"""One scene after the other on one devnet: a task is sold, somebody is killed midway, and what came of it is judged.

Always: everything is done by the programs that people run; whoever was killed is started again before the next scene.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from devnet.demo import stage, task_sale
from devnet.demo.purchase import name_of
from devnet.demo.task_sale import SaleRow, TaskSale
from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher import processes, programs
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.launcher.lifecycle import provider_process
from devnet.measuring import ledger
from devnet.measuring.task_following import following
from devnet.measuring.task_ledger import TaskLedger
from devnet.proofs.auction.judging import People, TaskFinding, judge, unverified
from devnet.proofs.auction.scenes import NOT_SERVED, STRUCK_AT, TaskScene
from devnet.proofs.auction.undisturbed import UndisturbedRun, run
from genesis import dev_accounts
from gpu_tasks.market.training.tasks import Task
from runtime.cryptography.ss58 import encode as ss58
from wallet.client import ChainClient

CUSTOMER_KEY = f"//{stage.CUSTOMER}"
undisturbed = cache(run)


class TaskStrike:
    """Kills with -9 whom a scene names, when the customer has signed for a milestone midway."""

    def __init__(self, net: Devnet, scene: TaskScene, tell: Narrator) -> None:
        """Nobody is killed yet."""
        self._net = net
        self._scene = scene
        self._tell = tell
        self.killed: list[str] = []
        self._dead: list[str] = []
        """Of these, who was not started again yet."""

    def on_row(self, row: SaleRow) -> None:
        """The task has changed."""
        if row["state"] == "submitted":  # by who took over; an audit would wait long for judges that are dead
            self.undo()
        stated = int(row["milestones"].split("/")[0])
        if self.killed or not self._scene.kills_winner or stated < STRUCK_AT or "running" not in row["state"]:
            return
        task = task_sale.record(self._net, TaskSale(bytes.fromhex(row["task"][2:])))
        if task.owed >= STRUCK_AT:
            for name in self._victims(task):
                pid = processes.kill(provider_process(self._net, self._net.member(name)))
                self.killed.append(name)
                self._dead.append(name)
                self._tell.line(f"killed the provider of {name} (process {pid}), behind milestone {task.owed}")

    def _victims(self, task: Task) -> list[str]:
        stashes = [slot.provider for slot in task.slots]
        if self._scene.kills_standby and task.standby is not None:
            stashes.append(task.standby.provider)
        return [name_of(ss58(stash)) for stash in stashes]

    def undo(self) -> None:
        """Start again whoever was killed, once."""
        dead, self._dead = self._dead, []
        for name in dead:
            processes.start(provider_process(self._net, self._net.member(name)))
        for name in dead:
            network.wait_for_provider(self._net, self._net.member(name))


def play(net: Devnet, scene: TaskScene, tell: Narrator) -> TaskFinding:
    """Sell the task of a scene, strike, and judge what came of it."""
    tell.step(scene.title)
    strike, people = TaskStrike(net, scene, tell), People(_accounts())
    wanted = undisturbed(scene.file)
    with following(net.members[0].rpc_url) as book:
        first = book.height
        people.before = _wealth(net, people, first)
        sale = task_sale.sell(net, scene.file, CUSTOMER_KEY, tell, strike.on_row)
    people.after = _wealth(net, people, book.height)
    finding = _judged(net, scene, sale, book, people, wanted, strike.killed)
    strike.undo()
    for failure in finding.failures:
        tell.line(f"FAILED: {failure}")
    tell.line(
        f"{scene.name}: runs {finding.slots_after_reveals} slots after the reveals, {finding.seconds_until_running} s "
        f"after its submission; paid after {finding.seconds_until_paid} s"
    )
    return finding


def refused(net: Devnet, tell: Narrator) -> dict[str, Any]:
    """What `ogpu plan` says of a task that nobody here can serve; with `failures` where it does not refuse it."""
    tell.step("A task that nobody can serve")
    words = ("--url", net.members[0].rpc_url, "plan", str(NOT_SERVED), "--key", CUSTOMER_KEY)
    try:
        programs.run("ogpu", *words, keyring=net.keyring, show=tell.command)
    except DevnetError as error:
        said = str(error)
        tell.line(said.rpartition(": ")[2] if "nobody" not in said else said[said.index("nobody") :])
        failures = [] if "nobody could serve the task now" in said and "class" in said else [said]
        return {"said": said, "failures": failures}
    return {"said": "", "failures": [f"`ogpu plan {NOT_SERVED.name}` refuses nothing"]}


def _judged(
    net: Devnet,
    scene: TaskScene,
    sale: TaskSale,
    book: TaskLedger,
    people: People,
    wanted: UndisturbedRun,
    killed: list[str],
) -> TaskFinding:
    out = net.folder / f"{sale.name[:10]}.state"
    result = json.loads(task_sale.ask(net, sale, "result", "--key", CUSTOMER_KEY, "--out", str(out), tell=None))
    finding = judge(scene, sale.task_id, book, people, result, out.read_bytes(), wanted, killed)
    finding.failures += _verified(net, sale, finding.auctions)
    return finding


def _verified(net: Devnet, sale: TaskSale, auctions: int) -> list[str]:
    """What `ogpu verify` finds not to be by the rules."""
    try:
        rows: list[Mapping[str, Any]] = json.loads(task_sale.ask(net, sale, "verify"))
    except DevnetError as error:
        return [str(error)]
    return unverified(rows, auctions)


def _accounts() -> dict[str, tuple[bytes, ...]]:
    """The customer, and who bids: with the key that signs for it."""
    keys = {name: dev_accounts.key(name, dev_accounts.PROVIDER) for name in task_sale.ASKS}
    bidders = {name: (dev_accounts.stash(name), key) for name, key in keys.items()}
    return {stage.CUSTOMER: (dev_accounts.stash(stage.CUSTOMER),), **bidders}


def _wealth(net: Devnet, people: People, height: int) -> dict[str, int]:
    return asyncio.run(_wealth_at(net.members[0].rpc_url, people, height))


async def _wealth_at(url: str, people: People, height: int) -> dict[str, int]:
    async with await ChainClient.connect(url) as chain:
        return {
            name: sum([await ledger.wealth(chain, account, height) for account in accounts])
            for name, accounts in people.accounts.items()
        }


def let_everybody_bid(net: Devnet, tell: Narrator) -> None:
    """Three providers bid, each at a price of its own."""
    for name, least_price in task_sale.ASKS.items():
        task_sale.let_bid(net, name, least_price, tell)


def fresh(folder: Path, validators: int, tell: Narrator) -> Devnet:
    """A devnet of validators with a provider each."""
    return stage.fresh_network(folder, validators, any_ports=True, detach=False, tell=tell)
