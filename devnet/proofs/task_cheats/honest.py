"""Many honest tasks, several open at once: nobody who does as it should loses a grain.

Each provider has a customer of its own: a provider is told to bid when a task of its customer is submitted, and the
others are not until its bids are closed, so that each task has its bid and its device. Always: daemons and customers
are the programs that people run, and nothing else; the beacon audits whichever it picks.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from devnet.demo.stage import CUSTOMER
from devnet.demo.telling import Narrator
from devnet.launcher import programs
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.measuring.task_following import following
from devnet.measuring.task_ledger import TaskLedger, TaskSums, TaskTrace
from devnet.proofs.auction.judging import People
from devnet.proofs.cheat_judgement import Check, Finding
from devnet.proofs.task_cheats import network, orders
from gpu_tasks.market.training.events import BidsClosed, SlotSettled, TaskEnded, TaskJudged
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.balances import Balances
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

NAME = "honest-tasks"
PURSE = 200 * GRAINS_PER_OGPU
"""What a customer starts with."""
BID_SECONDS = 40.0
END_SECONDS = 240.0
LOOK_SECONDS = 0.25


@dataclass(slots=True)
class HonestSale:
    """A task on its way, from a customer to the provider that was told to bid for it."""

    number: int
    provider: str
    task_id: bytes = b""
    problem: str = ""
    thread: threading.Thread | None = None

    def has(self, book: TaskLedger, kind: type[BidsClosed | TaskEnded]) -> bool:
        """Whether something has happened to it, in the final chain."""
        return bool(self.task_id in book.tasks and book.tasks[self.task_id].all(kind))


@dataclass(slots=True)
class HonestSales:
    """All of them; a provider has one at a time."""

    net: Devnet
    tell: Narrator
    book: TaskLedger
    sales: list[HonestSale] = field(default_factory=list)

    def sell(self, count: int) -> None:
        """Submit so many, each as soon as its provider is free, and wait until all have ended."""
        names = [member.name for member in self.net.members]
        newest: dict[str, HonestSale] = {}
        for number in range(count):
            name = names[number % len(names)]
            if name in newest:
                self._wait(newest[name], TaskEnded, END_SECONDS)
            network.let_bid(self.net, (name,), cheat_bids=False)
            newest[name] = HonestSale(number, name)
            self._begin(newest[name])
            self._wait(newest[name], BidsClosed, BID_SECONDS)
        for sale in newest.values():
            self._wait(sale, TaskEnded, END_SECONDS)

    def _begin(self, sale: HonestSale) -> None:
        self.sales.append(sale)
        sale.thread = threading.Thread(target=self._follow, args=(sale,), daemon=True)
        sale.thread.start()

    def _follow(self, sale: HonestSale) -> None:
        path = orders.write(self.net.folder / "orders", f"honest-{sale.number}", orders.TaskSize())
        words = ["--url", self.net.member(sale.provider).rpc_url, "submit", str(path), "--key", secret(sale.provider)]
        words += ["--yes", "--watch", "--accept", "--postings", str(self.net.folder / "postings")]
        words += ["--checkpoints", str(self.net.folder / "checkpoints")]
        try:
            for row in programs.lines("ogpu", *words, keyring=self.net.keyring):
                sale.task_id = bytes.fromhex(row["task"][2:])
        except DevnetError as error:
            sale.problem = str(error)

    def _wait(self, sale: HonestSale, kind: type[BidsClosed | TaskEnded], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not (sale.has(self.book, kind) or sale.problem or time.monotonic() > end):
            time.sleep(LOOK_SECONDS)
        if kind is TaskEnded:
            done = "ended" if sale.has(self.book, TaskEnded) else f"not ended {sale.problem}"
            self.tell.line(f"task {sale.number + 1:>3}  {sale.provider}  {done}")


def play(net: Devnet, count: int, tell: Narrator) -> Finding:
    """Sell so many tasks, and judge what became of everybody."""
    tell.step(f"{count} honest tasks")
    people = People({name: tuple(accounts) for name, accounts in _accounts(net).items()})
    asyncio.run(_endow(net))
    with following(net.members[0].rpc_url) as book:
        people.before = network.wealth(net, people.accounts, book.height)
        sales = HonestSales(net, tell, book)
        sales.sell(count)
    people.after = network.wealth(net, people.accounts, book.height)
    finding = judged(sales.sales, book, people)
    for failure in finding.failures:
        tell.line(f"FAILED: {failure}")
    return finding


def judged(sales: list[HonestSale], book: TaskLedger, people: People) -> Finding:
    """Everybody was paid what the table says, and nothing was taken of anybody."""
    finding = Finding(NAME, units=0, tasks=len(sales))
    traces = {sale.number: book.tasks.get(sale.task_id, TaskTrace()) for sale in sales}
    sums = [book.sums.get(sale.task_id, TaskSums()) for sale in sales]
    losses = [(sale, loss) for sale, each in zip(sales, sums, strict=True) for loss in each.losses]
    finding.checks = [
        Check(loss.what, "0x" + sale.task_id.hex(), loss.height, loss.taken, loss.expected) for sale, loss in losses
    ]
    finding.drawn = sum(len(trace.all(SlotSettled)) for trace in traces.values())
    audits = sum(len(trace.all(TaskJudged)) for trace in traces.values())
    finding.answers = {"tasks that the beacon had audited": audits}
    finding.grains = {name: people.after[name] - people.before[name] for name in people.accounts}
    finding.failures = [*_failures(sales, traces), *(wrong for each in sums for wrong in each.wrong)]
    finding.failures += [
        f"{sale.provider} is honest and lost {loss.taken} grains: {loss.what}" for sale, loss in losses
    ]
    finding.failures += people.wrong(book)
    return finding


def _failures(sales: list[HonestSale], traces: dict[int, TaskTrace]) -> Iterator[str]:
    for sale in sales:
        ends = [event.outcome.name for _, event in traces[sale.number].all(SlotSettled)]
        if ends != ["ON_TIME"]:
            yield f"task {sale.number + 1} of {sale.provider} ended as {ends} {sale.problem}"


def secret(provider: str) -> str:
    """The secret of the customer of a provider."""
    return f"//{provider}//customer"


def _accounts(net: Devnet) -> dict[str, list[bytes]]:
    """Everybody, and the customers."""
    found = {name: list(accounts) for name, accounts in network.accounts(net).items()}
    for member in net.members:
        found[f"{member.name}'s customer"] = [keypair_from_suri(secret(member.name)).account]
    return found


async def _endow(net: Devnet) -> None:
    """Give each customer something to spend."""
    async with await ChainClient.connect(net.members[0].rpc_url) as chain:
        for member in net.members:
            account = keypair_from_suri(secret(member.name)).account
            call = Balances.transfer_keep_alive(dest=account, value=PURSE)
            outcome = await chain.submit(call, keypair_from_suri(f"//{CUSTOMER}"))
            if outcome.error:
                raise DevnetError(f"a customer got nothing: {outcome.error}")
