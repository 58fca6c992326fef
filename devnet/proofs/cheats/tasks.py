"""Every attack about a training task, and many concurrent honest tasks: no honest party loses a grain.

A devnet of six, with one more provider that cheats. The chain has the usual rules, except for windows as short as a
network of this size allows, and every claim is checked. Invariant: honest providers and customers use the production
programs. A scene whose cheat a drawn checker finds before the customer does is played again.

Each honest task belongs to one provider and to that provider's own customer. The provider's policy bids when this
customer submits, and the other policies do not until the bids are closed. So each task has its bid and its device.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from devnet.launcher import lifecycle, programs
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, Guest
from devnet.launcher.processes import until
from devnet.proofs.cheats import task_strangers
from devnet.proofs.cheats.findings import AmountCheck, CheatFinding
from devnet.proofs.cheats.task_judgement import (
    CHEAT_SCENES,
    CheatScene,
    Stranger,
    TaskCustomer,
    TaskSize,
    honest_failures,
    is_forestalled,
    judge_scene,
    write_task_file,
)
from devnet.proofs.cheats.task_strangers import AttackTries, Attempt
from devnet.stage.actors.task_sale import TASK_KIND, People, SaleRow, provider_accounts, submit_options
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.measuring.task_ledger import TaskLedger, TaskSums, following
from devnet.stage.network import CHEAT, CUSTOMER, CUSTOMER_KEY, FreshDevnet, Stage
from devnet.stage.scenario import Scenario
from genesis import dev_accounts
from gpu_tasks.market.training.events import BidsClosed, SlotSettled, TaskEnded
from gpu_tasks.provider.tasks.policy import BidPolicy
from gpu_tasks.provider.tasks.policy_file import write_policy
from gpu_tasks.tasks.quantities import Rate, TimeSpan
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.balances import Balances
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

# Beside a provider and two checkers three voters are left.
VALIDATORS = 6
CHAIN_WINDOWS = {
    "TrainingMarket.commit_blocks": 8,
    "TrainingMarket.reveal_blocks": 6,
    "TrainingMarket.grace_blocks": 4,
    "TrainingMarket.check_rate": 1_000_000,
    "ResultClaims.duty_blocks": 20,
    "Disputes.vote_blocks": 20,
}
HOUR_MILLISECONDS = 3_600_000
CHEATS_ASK = 1
HONEST_ASK = 2
"""The lowest honest ask, in oGPU per hour. Each further honest bidder asks 1 more. The cheat asks less."""


PATIENCE_SECONDS = 480.0
POLL_SECONDS = 0.25
TRIES_MAX = 3
"""The tries of a scene: a drawn checker may find the cheat before the customer does."""
ATTACKS_BY_STRANGER: dict[Stranger, Callable[[AttackTries], Awaitable[None]]] = {
    Stranger.COPIES_BID: task_strangers.copy_rival_bid,
    Stranger.NEVER_OPENS: task_strangers.never_reveal_bid,
}


class CheatCourse:
    """One scene on the devnet."""

    def __init__(self, stage: Stage, scene: CheatScene) -> None:
        """Write the task file. Submit nothing yet."""
        self.stage, self.scene = stage, scene
        self.file = write_task_file(stage.devnet.folder / "orders", scene.name, scene.size)
        self.task_id = b""
        self.problems: list[str] = []
        self.attempts: list[Attempt] = []
        self._threads: list[threading.Thread] = []
        self._state = ""
        self._is_disputed = False

    def run_course(self, ledger: TaskLedger) -> None:
        """Submit the task, act as the scene says, and wait for the task's end on the final chain."""
        self._start_thread(self._follow_task)
        if not until(
            lambda: self.task_id in ledger.tasks and bool(ledger.tasks[self.task_id].all(TaskEnded)),
            PATIENCE_SECONDS,
            POLL_SECONDS,
        ):
            self.problems.append(f"the task has not ended after {PATIENCE_SECONDS:.0f} s")
        for worker in self._threads:
            worker.join(task_strangers.PATIENCE_SECONDS)

    def _begin_task(self, text: str) -> None:
        self.task_id = bytes.fromhex(text[2:])
        if self.scene.stranger is not Stranger.NOBODY:
            self._start_thread(self._run_attack)
        if self.scene.customer is TaskCustomer.COMPUTES:
            # Early, as its help advises: the claim may be over a minute after the result.
            self._start_thread(partial(self._dispute, "--compute"))

    def _start_thread(self, thread_work: Callable[[], None]) -> None:
        def noted() -> None:
            try:
                thread_work()
            except Exception as error:  # noqa: BLE001  # recorded as a failure of the scene
                self.problems.append(str(error) or repr(error))

        worker = threading.Thread(target=noted, daemon=True)
        self._threads.append(worker)
        worker.start()

    def _follow_task(self) -> None:
        """Submit, sign checkpoints, and dispute the result if the scene's customer does."""
        arguments = [str(self.file), "--key", CUSTOMER_KEY, "--yes", "--watch", *submit_options(self.stage)]
        try:
            for sale_row in self.stage.ogpu_lines("task submit", *arguments):
                self._take_row(sale_row)
        except programs.ProgramFailedError as error:
            if error.code != "no_result":
                raise

    def _take_row(self, sale_row: SaleRow) -> None:
        if not self.task_id:
            self._begin_task(sale_row["task"])
        if sale_row["state"] != self._state:
            self._state = sale_row["state"]
            self.stage.narrator.line(f"task {sale_row['task'][:10]}  block {sale_row['height']}  {self._state}")
        if sale_row.get("claims") and self.scene.customer is TaskCustomer.DISPUTES and not self._is_disputed:
            self._is_disputed = True
            self._dispute("--item", "0")

    def _dispute(self, *options: str) -> None:
        self.stage.ogpu("task dispute", "0x" + self.task_id.hex(), *options, "--key", CUSTOMER_KEY, "--yes")

    def _run_attack(self) -> None:
        async def tried(chain: ChainClient) -> None:
            tries = AttackTries(chain, self.task_id)
            try:
                await ATTACKS_BY_STRANGER[self.scene.stranger](tries)
            finally:
                self.attempts += tries.attempts

        self.stage.ask(tried)


def let_only_bid(stage: Stage, bidder_names: Iterable[str], *, cheat_bids: bool = False) -> None:
    """Make exactly these providers bid from the next block on. The cheat asks for less than the others."""
    asks_by_name = {bidder: HONEST_ASK + bidder_index for bidder_index, bidder in enumerate(bidder_names)}
    for provider in lifecycle.offering(stage.devnet):
        asked_ogpu = asks_by_name.get(provider.name, CHEATS_ASK if cheat_bids and isinstance(provider, Guest) else 0)
        task_kinds = (TASK_KIND,) if asked_ogpu else ()
        least_price = Rate(asked_ogpu * GRAINS_PER_OGPU, TimeSpan(milliseconds=HOUR_MILLISECONDS))
        bid_policy = BidPolicy(task_kinds, least_price, gangs=True)
        write_policy(stage.devnet.home(provider) / "provider", bid_policy)


def accounts_by_name(stage: Stage) -> dict[str, tuple[bytes, ...]]:
    """Return the accounts by name: a provider's stash and provider key, and the customer."""
    providers = {provider.name: provider_accounts(provider.name) for provider in lifecycle.offering(stage.devnet)}
    return {**providers, CUSTOMER: (dev_accounts.stash(CUSTOMER),)}


def play_until_conclusive(scene: CheatScene, stage: Stage) -> CheatFinding:
    """Play a scene. Repeat it if a drawn check came before its customer's dispute and no honest party lost by that."""
    stage.cheat_in(scene.mode, anew=False)
    for _ in range(TRIES_MAX - 1):
        finding, is_over = play_scene(stage, scene)
        if is_over:
            return finding
        stage.narrator.line(f"{scene.name}: a drawn check came first; once more")
    return play_scene(stage, scene)[0]


def play_scene(stage: Stage, scene: CheatScene) -> tuple[CheatFinding, bool]:
    """Return the finding of a scene, and whether it is conclusive."""
    let_only_bid(stage, scene.bidders, cheat_bids=scene.cheat_bids)
    if scene.checkers:
        stage.restart(scene.checkers)
    cheat_course, people = CheatCourse(stage, scene), People(accounts_by_name(stage))
    rows_before = len(stage.telemetry(CHEAT))
    with following(stage.url) as ledger:
        ledger.claims.cheats = scene.truth
        people.wealth_before = stage.wealth(people.accounts, ledger.height)
        cheat_course.run_course(ledger)
    people.wealth_after = stage.wealth(people.accounts, ledger.height)
    if scene.checkers:
        stage.restart(dict.fromkeys(scene.checkers))
        stage.resume(*scene.checkers)  # the chain pauses the device of a convicted checker
    cheat_course.attempts += [row for row in stage.telemetry(CHEAT)[rows_before:] if row["event"] == "cheat"]
    finding = judge_scene(scene, cheat_course.task_id, ledger, people, cheat_course.attempts)
    finding.failures += cheat_course.problems
    # A loss of an honest party counts, even if a check prevented the attack.
    is_grave = bool(honest_failures(scene, cheat_course.task_id, ledger, people))
    return finding, not finding.failures or is_grave or not is_forestalled(scene, cheat_course.task_id, ledger)


HONEST_TASKS = "honest-tasks"
INITIAL_GRAINS = 200 * GRAINS_PER_OGPU
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

    def has_event(self, ledger: TaskLedger, event_type: type[BidsClosed | TaskEnded]) -> bool:
        """Return whether the final chain has an event of this kind about it."""
        return bool(self.task_id in ledger.tasks and ledger.tasks[self.task_id].all(event_type))


@dataclass(slots=True)
class HonestSales:
    """All honest tasks. A provider has one at a time."""

    stage: Stage
    book: TaskLedger
    sales: list[HonestSale] = field(default_factory=list)

    def sell_tasks(self, task_count: int) -> None:
        """Submit `count` tasks, each as soon as its provider is free, and wait until all have ended."""
        provider_names = [member.name for member in self.stage.devnet.members]
        newest_sales: dict[str, HonestSale] = {}
        for number in range(task_count):
            name = provider_names[number % len(provider_names)]
            if name in newest_sales:
                self._wait_for_event(newest_sales[name], TaskEnded, END_SECONDS)
            let_only_bid(self.stage, (name,))
            newest_sales[name] = HonestSale(number, name)
            self._begin_sale(newest_sales[name])
            self._wait_for_event(newest_sales[name], BidsClosed, BID_SECONDS)
        for sale in newest_sales.values():
            self._wait_for_event(sale, TaskEnded, END_SECONDS)

    def _begin_sale(self, sale: HonestSale) -> None:
        self.sales.append(sale)
        sale.thread = threading.Thread(target=self._follow_task, args=(sale,), daemon=True)
        sale.thread.start()

    def _follow_task(self, sale: HonestSale) -> None:
        file = write_task_file(self.stage.devnet.folder / "orders", f"honest-{sale.number}", TaskSize())
        node_url = self.stage.devnet.member(sale.provider).rpc_url
        arguments = [
            "--url",
            node_url,
            "task",
            "submit",
            str(file),
            "--key",
            customer_secret(sale.provider),
            "--yes",
            "--watch",
        ]
        try:
            for sale_row in programs.lines(
                "ogpu", *arguments, *submit_options(self.stage), keyring=self.stage.devnet.keyring
            ):
                sale.task_id = bytes.fromhex(sale_row["task"][2:])
        except DevnetError as error:
            sale.problem = str(error)

    def _wait_for_event(self, sale: HonestSale, event_type: type[BidsClosed | TaskEnded], seconds: float) -> None:
        until(lambda: sale.has_event(self.book, event_type) or bool(sale.problem), seconds, POLL_SECONDS)
        if event_type is TaskEnded:
            done_text = "ended" if sale.has_event(self.book, TaskEnded) else f"not ended {sale.problem}"
            self.stage.narrator.line(f"task {sale.number + 1:>3}  {sale.provider}  {done_text}")


def sell_honest_tasks(stage: Stage) -> CheatFinding:
    """Sell the tasks, and judge every account."""
    stage.cheat_in("honest", anew=False)
    customer_accounts = {
        f"{member.name}'s customer": (_customer_keypair(member.name).account,) for member in stage.devnet.members
    }
    people = People({**accounts_by_name(stage), **customer_accounts})
    stage.ask(lambda chain: _endow_customers(chain, stage.devnet))
    with following(stage.url) as ledger:
        people.wealth_before = stage.wealth(people.accounts, ledger.height)
        honest_sales = HonestSales(stage, ledger)
        honest_sales.sell_tasks(stage.options.tasks)
    people.wealth_after = stage.wealth(people.accounts, ledger.height)
    return judge_sales(honest_sales.sales, ledger, people)


def judge_sales(honest_sales: list[HonestSale], ledger: TaskLedger, people: People) -> CheatFinding:
    """Judge that every account has the money table's sum and no honest party lost money."""
    finding = CheatFinding(HONEST_TASKS, units=0, tasks=len(honest_sales))
    traces_by_number = {sale.number: ledger.tasks.get(sale.task_id, EventTrace()) for sale in honest_sales}
    sums_of_sales = [ledger.sums.get(sale.task_id, TaskSums()) for sale in honest_sales]
    sale_losses = [
        (sale, loss) for sale, task_sums in zip(honest_sales, sums_of_sales, strict=True) for loss in task_sums.losses
    ]
    finding.checks = [
        AmountCheck(loss.what, "0x" + sale.task_id.hex(), loss.height, loss.taken, loss.expected)
        for sale, loss in sale_losses
    ]
    finding.drawn = sum(len(trace.all(SlotSettled)) for trace in traces_by_number.values())
    finding.answers = {"checks": sum(len(claim.checks) for claim in ledger.claims.claims.values())}
    finding.grains = people.gains
    finding.failures = [
        *_sale_failures(honest_sales, traces_by_number),
        *(wrong_sum for task_sums in sums_of_sales for wrong_sum in task_sums.wrong),
    ]
    finding.failures += [
        f"{sale.provider} is honest and lost {loss.taken} grains: {loss.what}" for sale, loss in sale_losses
    ]
    finding.failures += people.wrong(ledger)
    return finding


def _sale_failures(honest_sales: list[HonestSale], traces_by_number: dict[int, EventTrace]) -> Iterator[str]:
    for sale in honest_sales:
        slot_outcomes = [settlement.outcome.name for _, settlement in traces_by_number[sale.number].all(SlotSettled)]
        if slot_outcomes != ["ON_TIME"]:
            yield (f"task {sale.number + 1} of {sale.provider} ended as {slot_outcomes} {sale.problem}")


def customer_secret(provider: str) -> str:
    """Return the secret of the customer of a provider."""
    return f"//{provider}//customer"


def _customer_keypair(provider: str) -> Keypair:
    return keypair_from_suri(customer_secret(provider))


async def _endow_customers(chain: ChainClient, devnet: Devnet) -> None:
    """Transfer an initial balance to each customer."""
    for member in devnet.members:
        call = Balances.transfer_keep_alive(dest=_customer_keypair(member.name).account, value=INITIAL_GRAINS)
        transfer_outcome = await chain.submit(call, keypair_from_suri(CUSTOMER_KEY))
        if transfer_outcome.error:
            raise DevnetError(f"a customer got nothing: {transfer_outcome.error}")


TASKS_NETWORK = FreshDevnet(VALIDATORS, "tasks", numbers=CHAIN_WINDOWS, prepare=lambda stage: stage.add_cheat("honest"))
SCENARIOS = (
    *(
        Scenario(scene.name, scene.title, TASKS_NETWORK.open, partial(play_until_conclusive, scene))
        for scene in CHEAT_SCENES
    ),
    Scenario(HONEST_TASKS, "{tasks} honest tasks", TASKS_NETWORK.open, sell_honest_tasks),
)
