"""Every attack about a training task, and many concurrent honest tasks: no honest party loses a grain.

A devnet of five, with one more provider that cheats. The chain has the usual rules, except for windows as short as a
network of this size allows. Invariant: honest providers and customers use the production programs. A scene that the
beacon's own audit prevents is played again.

Each honest task belongs to one provider and to that provider's own customer. The provider's policy bids when this
customer submits, and the other policies do not until the bids are closed. So each task has its bid and its device.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from devnet.launcher import lifecycle, programs
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, Guest
from devnet.launcher.processes import until
from devnet.proofs.cheats import task_strangers
from devnet.proofs.cheats.task_judgement import (
    SCENES,
    CheatScene,
    Stranger,
    TaskCustomer,
    TaskSize,
    is_forestalled,
    judge,
    of_the_honest,
    write,
)
from devnet.proofs.cheats.task_strangers import Attempt, Tries
from devnet.proofs.cheats.units import Check, Finding
from devnet.stage.actors.task_sale import TASK_KIND, People, SaleRow, provider_accounts, submit_options
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.measuring.task_ledger import TaskLedger, TaskSums, following
from devnet.stage.network import CUSTOMER, CUSTOMER_KEY, FreshDevnet, Stage
from devnet.stage.scenario import Scenario
from genesis import dev_accounts
from gpu_tasks.market.training.events import BidsClosed, SlotSettled, TaskEnded, TaskJudged
from gpu_tasks.provider.tasks.policy import BidPolicy
from gpu_tasks.provider.tasks.policy_file import write_policy
from gpu_tasks.tasks.quantities import Rate, TimeSpan
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.balances import Balances
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

VALIDATORS = 5
"""Enough for a pair of judges and a committee beside a single liar."""
WINDOWS = {
    "TrainingMarket.commit_blocks": 8,
    "TrainingMarket.reveal_blocks": 6,
    "TrainingMarket.grace_blocks": 4,
    "TrainingMarket.dispute_blocks": 16,
    "TrainingMarket.accept_blocks": 24,
    "Courts.commit_blocks": 12,
}
HOUR_MS = 3_600_000
CHEATS_ASK = 1
HONEST_ASK = 2
"""The lowest honest ask, in oGPU per hour. Each further honest bidder asks 1 more. The cheat asks less."""


PATIENCE_SECONDS = 240.0
LOOK_SECONDS = 0.25
TRIES = 6
"""The tries of a scene: the beacon audits one task in four."""
DISPUTERS: dict[TaskCustomer, tuple[str, ...]] = {
    TaskCustomer.DISPUTES: (),
    TaskCustomer.COMPUTES: ("--compute",),
}
"""The options of the customers that dispute a result."""
PLAYS: dict[Stranger, Callable[[Tries], Awaitable[None]]] = {
    Stranger.COPIES_BID: task_strangers.copy_bid,
    Stranger.NEVER_OPENS: task_strangers.never_open,
    Stranger.STEALS_PROOF: task_strangers.steal_proof,
}


class CheatCourse:
    """One scene on the devnet."""

    def __init__(self, stage: Stage, scene: CheatScene) -> None:
        """Write the task file. Submit nothing yet."""
        self.stage, self.scene = stage, scene
        self.file = write(stage.devnet.folder / "orders", scene.name, scene.size)
        self.task_id = b""
        self.problems: list[str] = []
        self.attempts: list[Attempt] = []
        self._threads: list[threading.Thread] = []
        self._is_disputed = False

    def play(self, book: TaskLedger) -> None:
        """Submit the task, act as the scene says, and wait for the task's end on the final chain."""
        if self.scene.customer is TaskCustomer.SILENT:
            self._began(
                json.loads(self._ogpu("task submit", str(self.file), "--yes", *submit_options(self.stage)))["task"]
            )
        else:
            self._start(self._follow)
        if not until(
            lambda: self.task_id in book.tasks and bool(book.tasks[self.task_id].all(TaskEnded)),
            PATIENCE_SECONDS,
            LOOK_SECONDS,
        ):
            self.problems.append(f"the task has not ended after {PATIENCE_SECONDS:.0f} s")
        for thread in self._threads:
            thread.join(task_strangers.PATIENCE_SECONDS)

    def _began(self, name: str) -> None:
        self.task_id = bytes.fromhex(name[2:])
        if self.scene.stranger is Stranger.PROVES:
            self._start(self._prove)
        elif self.scene.stranger is not Stranger.NOBODY:
            self._start(self._estrange)

    def _start(self, work: Callable[[], None]) -> None:
        def noted() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  # recorded as a failure of the scene
                self.problems.append(f"{work.__name__.strip('_')}: {str(error) or repr(error)}")

        thread = threading.Thread(target=noted, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _follow(self) -> None:
        """Submit, sign checkpoints, and decide about the result as the scene's customer does."""
        arguments = [str(self.file), "--key", CUSTOMER_KEY, "--yes", "--watch", *submit_options(self.stage)]
        arguments += ["--accept"] if self.scene.customer is TaskCustomer.ACCEPTS else []
        try:
            for row in self.stage.ogpu_lines("task submit", *arguments):
                self._take(row)
        except programs.ProgramFailedError as error:
            if error.code != "no_result":
                raise

    def _take(self, row: SaleRow) -> None:
        if not self.task_id:
            self._began(row["task"])
        self.stage.narrator.line(f"task {row['task'][:10]}  block {row['height']}  {row['state']}")
        if row["state"] == "submitted" and self.scene.customer in DISPUTERS and not self._is_disputed:
            self._is_disputed = True
            self._ogpu("task dispute", row["task"], *DISPUTERS[self.scene.customer], "--yes")

    def _ogpu(self, command: str, *arguments: str) -> str:
        return self.stage.ogpu(command, *arguments, "--key", CUSTOMER_KEY)

    def _prove(self) -> None:
        """Let an account outside the task compute it, beside its own daemon, and show its first wrong step."""
        key, base = f"//{task_strangers.PROVER}//provider", str(self.stage.devnet.folder / "prover")
        arguments = (
            "--url",
            self.stage.url,
            "--key",
            key,
            "--base-path",
            base,
            "prove",
            "0x" + self.task_id.hex(),
            "--yes",
        )
        programs.run("ogpu-provider", *arguments, keyring=self.stage.devnet.keyring, show=self.stage.narrator.command)

    def _estrange(self) -> None:
        async def tried(chain: ChainClient) -> None:
            tries = Tries(chain, self.task_id, self.file)
            try:
                await PLAYS[self.scene.stranger](tries)
            finally:
                self.attempts += tries.made

        self.stage.ask(tried)


def let_bid(stage: Stage, names: Iterable[str], *, cheat_bids: bool = False) -> None:
    """Make exactly these providers bid from the next block on. The cheat asks for less than the others."""
    asks = {name: HONEST_ASK + number for number, name in enumerate(names)}
    for who in lifecycle.offering(stage.devnet):
        ask = asks.get(who.name, CHEATS_ASK if cheat_bids and isinstance(who, Guest) else 0)
        kinds = (TASK_KIND,) if ask else ()
        policy = BidPolicy(kinds, Rate(ask * GRAINS_PER_OGPU, TimeSpan(milliseconds=HOUR_MS)))
        write_policy(stage.devnet.home(who) / "provider", policy)


def accounts(stage: Stage) -> dict[str, tuple[bytes, ...]]:
    """Return the accounts by name: a provider's stash and provider key, and the customer."""
    providers = {who.name: provider_accounts(who.name) for who in lifecycle.offering(stage.devnet)}
    return {**providers, CUSTOMER: (dev_accounts.stash(CUSTOMER),)}


def cheated(scene: CheatScene, stage: Stage) -> Finding:
    """Play a scene. Repeat it if the beacon ordered an audit before the cheat and no honest party lost by that."""
    stage.cheat_in(scene.mode, anew=False)
    for _ in range(TRIES - 1):
        finding, is_over = play(stage, scene)
        if is_over:
            return finding
        stage.narrator.line(f"{scene.name}: the beacon asked for an audit; once more")
    return play(stage, scene)[0]


def play(stage: Stage, scene: CheatScene) -> tuple[Finding, bool]:
    """Return the finding of a scene, and whether it is conclusive."""
    let_bid(stage, scene.bidders, cheat_bids=scene.cheat_bids)
    if scene.lazy_judge:
        stage.restart({scene.lazy_judge: "lazy-judge"})
    course, people = CheatCourse(stage, scene), People(accounts(stage))
    before = {name: len(stage.telemetry(name)) for name in scene.cheats if name != CUSTOMER}
    with following(stage.url) as book:
        book.audits.may_lie = True
        people.wealth_before = stage.wealth(people.accounts, book.height)
        course.play(book)
    people.wealth_after = stage.wealth(people.accounts, book.height)
    if scene.lazy_judge:
        stage.restart({scene.lazy_judge: None})
    tried = [line for name, first in before.items() for line in stage.telemetry(name)[first:]]
    course.attempts += [line for line in tried if line["event"] == "cheat"]
    finding = judge(scene, course.task_id, book, people, course.attempts)
    finding.failures += course.problems
    trace = book.tasks.get(course.task_id, EventTrace())
    is_grave = bool(of_the_honest(scene, course.task_id, book, people))
    return finding, not finding.failures or is_grave or not is_forestalled(trace)


HONEST = "honest-tasks"
PURSE = 200 * GRAINS_PER_OGPU
"""A customer's initial balance."""
BID_SECONDS = 40.0
END_SECONDS = 240.0


@dataclass(slots=True)
class HonestSale:
    """A task in progress, from a customer to the provider with the bidding policy."""

    number: int
    provider: str
    task_id: bytes = b""
    problem: str = ""
    thread: threading.Thread | None = None

    def has(self, book: TaskLedger, kind: type[BidsClosed | TaskEnded]) -> bool:
        """Return whether the final chain has an event of this kind about it."""
        return bool(self.task_id in book.tasks and book.tasks[self.task_id].all(kind))


@dataclass(slots=True)
class HonestSales:
    """All honest tasks. A provider has one at a time."""

    stage: Stage
    book: TaskLedger
    sales: list[HonestSale] = field(default_factory=list)

    def sell(self, count: int) -> None:
        """Submit `count` tasks, each as soon as its provider is free, and wait until all have ended."""
        names = [member.name for member in self.stage.devnet.members]
        newest: dict[str, HonestSale] = {}
        for number in range(count):
            name = names[number % len(names)]
            if name in newest:
                self._wait(newest[name], TaskEnded, END_SECONDS)
            let_bid(self.stage, (name,))
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
        path = write(self.stage.devnet.folder / "orders", f"honest-{sale.number}", TaskSize())
        url = self.stage.devnet.member(sale.provider).rpc_url
        arguments = [
            "--url",
            url,
            "task",
            "submit",
            str(path),
            "--key",
            secret(sale.provider),
            "--yes",
            "--watch",
            "--accept",
        ]
        try:
            for row in programs.lines(
                "ogpu", *arguments, *submit_options(self.stage), keyring=self.stage.devnet.keyring
            ):
                sale.task_id = bytes.fromhex(row["task"][2:])
        except DevnetError as error:
            sale.problem = str(error)

    def _wait(self, sale: HonestSale, kind: type[BidsClosed | TaskEnded], seconds: float) -> None:
        until(lambda: sale.has(self.book, kind) or bool(sale.problem), seconds, LOOK_SECONDS)
        if kind is TaskEnded:
            done = "ended" if sale.has(self.book, TaskEnded) else f"not ended {sale.problem}"
            self.stage.narrator.line(f"task {sale.number + 1:>3}  {sale.provider}  {done}")


def sold_honestly(stage: Stage) -> Finding:
    """Sell the tasks, and judge every account."""
    stage.cheat_in("honest", anew=False)
    customers = {f"{each.name}'s customer": (_customer(each.name).account,) for each in stage.devnet.members}
    people = People({**accounts(stage), **customers})
    stage.ask(lambda chain: _endow(chain, stage.devnet))
    with following(stage.url) as book:
        people.wealth_before = stage.wealth(people.accounts, book.height)
        sales = HonestSales(stage, book)
        sales.sell(stage.options.tasks)
    people.wealth_after = stage.wealth(people.accounts, book.height)
    return judged(sales.sales, book, people)


def judged(sales: list[HonestSale], book: TaskLedger, people: People) -> Finding:
    """Judge that every account has the money table's sum and no honest party lost money."""
    finding = Finding(HONEST, units=0, tasks=len(sales))
    traces = {sale.number: book.tasks.get(sale.task_id, EventTrace()) for sale in sales}
    sums = [book.sums.get(sale.task_id, TaskSums()) for sale in sales]
    losses = [(sale, loss) for sale, each in zip(sales, sums, strict=True) for loss in each.losses]
    finding.checks = [
        Check(loss.what, "0x" + sale.task_id.hex(), loss.height, loss.taken, loss.expected) for sale, loss in losses
    ]
    finding.drawn = sum(len(trace.all(SlotSettled)) for trace in traces.values())
    audits = sum(len(trace.all(TaskJudged)) for trace in traces.values())
    finding.answers = {"tasks that the beacon had audited": audits}
    finding.grains = people.gains
    finding.failures = [*_failures(sales, traces), *(wrong for each in sums for wrong in each.wrong)]
    finding.failures += [
        f"{sale.provider} is honest and lost {loss.taken} grains: {loss.what}" for sale, loss in losses
    ]
    finding.failures += people.wrong(book)
    return finding


def _failures(sales: list[HonestSale], traces: dict[int, EventTrace]) -> Iterator[str]:
    for sale in sales:
        ends = [event.outcome.name for _, event in traces[sale.number].all(SlotSettled)]
        if ends != ["ON_TIME"]:
            yield f"task {sale.number + 1} of {sale.provider} ended as {ends} {sale.problem}"


def secret(provider: str) -> str:
    """Return the secret of the customer of a provider."""
    return f"//{provider}//customer"


def _customer(provider: str) -> Keypair:
    return keypair_from_suri(secret(provider))


async def _endow(chain: ChainClient, devnet: Devnet) -> None:
    """Transfer an initial balance to each customer."""
    for member in devnet.members:
        call = Balances.transfer_keep_alive(dest=_customer(member.name).account, value=PURSE)
        outcome = await chain.submit(call, keypair_from_suri(CUSTOMER_KEY))
        if outcome.error:
            raise DevnetError(f"a customer got nothing: {outcome.error}")


NETWORK = FreshDevnet(VALIDATORS, "tasks", numbers=WINDOWS, prepare=lambda stage: stage.add_cheat("honest"))
SCENARIOS = (
    *(Scenario(scene.name, scene.title, NETWORK.open, partial(cheated, scene)) for scene in SCENES),
    Scenario(HONEST, "{tasks} honest tasks", NETWORK.open, sold_honestly),
)
