"""`python -m devnet.proofs.auction`: tasks at auction on a live devnet of five, from a task file to a paid result.

The requirements of each sale:

* Three bids were sealed and opened.
* Each slot ended as the sale states, also if a party was killed during it.
* The root and the last state are those of the undisturbed run.
* Every payment follows the money table. Every account's balance follows from it and from the account's fees, to the
  grain.
* `ogpu task verify` finds no violation.

At last `ogpu task plan` must refuse a task that no device can serve, and state the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from devnet.launcher.folder import DevnetError
from devnet.stage.actors import task_sale
from devnet.stage.actors.purchase import name_of_account
from devnet.stage.actors.task_sale import (
    EXAMPLES,
    LEAST_PRICES,
    RELAY_FILE,
    People,
    SaleRow,
    provider_accounts,
    right_states,
)
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.measuring.task_ledger import TaskLedger, following
from devnet.stage.network import CUSTOMER, CUSTOMER_KEY, FreshDevnet, Stage
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run
from genesis import dev_accounts
from gpu_tasks.market.training.events import (
    BidCommitted,
    BidEnded,
    BidRevealed,
    BidsClosed,
    MilestoneCounted,
    ResultStated,
    SlotSettled,
    SlotStarted,
    TaskEnded,
    TaskReopened,
    TaskRunning,
    TaskSubmitted,
)
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.traces.trace import state_hash, trace_root

VALIDATOR_COUNT, BID_COUNT = 5, 3
DONE_OUTCOMES = {"ON_TIME", "LATE"}
RUNNING_SLOTS_GOAL = 5
"""The goal from the end of the reveal window until the task runs. A miss is reported and is no failure."""
NOT_SERVED = EXAMPLES / "gang.yaml"
"""A task for two devices of a class that no provider here has."""
# The milestone that must count before a kill: it is the middle of six.
STRUCK_AT = 3


@dataclass(frozen=True, slots=True)
class AuctionedTask:
    """A task, its kills midway, and its required outcome."""

    name: str
    title: str
    file: Path
    kills_winner: bool = False
    kills_standby: bool = False
    auctions: int = 1
    legs: tuple[str, ...] = ("ON_TIME",)
    """The outcome of each awarded slot, in the order of the blocks. LATE counts as ON_TIME."""


SALES = (
    AuctionedTask("undisturbed", "Sold, run, claimed, paid", RELAY_FILE),
    AuctionedTask(
        "standby", "The winner is killed midway: the standby goes on", RELAY_FILE,
        kills_winner=True, legs=("DIED", "ON_TIME"),
    ),
    AuctionedTask(
        "auctioned-again", "Winner and standby are killed: the rest is auctioned again", RELAY_FILE,
        kills_winner=True, kills_standby=True, auctions=2, legs=("DIED", "ON_TIME"),
    ),
    AuctionedTask("gang", "Two compute the same run", EXAMPLES / "pair.yaml", legs=("ON_TIME", "ON_TIME")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class UndisturbedRun:
    """The result of a run without a network."""

    root: bytes
    last_state: bytes


@cache
def undisturbed_run_of(file: Path) -> UndisturbedRun:
    """Compute the whole run of the task in `file` with the integer reference."""
    states = right_states(file)
    return UndisturbedRun(trace_root([state_hash(state) for state in states]), states[-1])


@dataclass(slots=True)
class SoldTask:
    """The outcome of a task."""

    task: str
    killed: list[str] = field(default_factory=list)
    milestones_counted: int = 0
    auctions: int = 1
    outcomes: list[str] = field(default_factory=list)
    root: str = ""
    seconds_until_running: float = 0
    slots_after_reveals: int = 0
    seconds_until_paid: float = 0
    grains: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


class TaskStrike:
    """Kills the providers that a sale names, after the customer has signed a milestone midway."""

    def __init__(self, stage: Stage, task: AuctionedTask) -> None:
        """Begin without any kill."""
        self._stage, self._task = stage, task
        self.killed_providers: list[str] = []
        self._dead_providers: list[str] = []

    def on_row(self, row: SaleRow) -> None:
        """Handle a change of the task."""
        if row["state"].startswith("claimed"):  # the standby has taken over, and a dead checker would delay the pay
            self.restart_killed()
        milestones = int(row["milestones"].split("/")[0])
        if (
            self.killed_providers
            or not self._task.kills_winner
            or milestones < STRUCK_AT
            or "running" not in row["state"]
        ):
            return
        record = task_sale.record(self._stage, bytes.fromhex(row["task"][2:]))
        # A milestone counts once the customer has signed it. Before that, a kill would lose its pay.
        if record.owed >= STRUCK_AT:
            for name in self._victims(record):
                pid = self._stage.kill(name)
                self.killed_providers.append(name)
                self._dead_providers.append(name)
                self._stage.narrator.line(
                    f"killed the provider of {name} (process {pid}), behind milestone {record.owed}"
                )

    def _victims(self, record: Task) -> list[str]:
        standby = [record.standby.provider] if self._task.kills_standby and record.standby is not None else []
        return [name_of_account(stash) for stash in (*(slot.provider for slot in record.slots), *standby)]

    def restart_killed(self) -> None:
        """Start the killed providers again, once."""
        dead, self._dead_providers = self._dead_providers, []
        self._stage.start(*dead)


def sell_and_judge(task: AuctionedTask, stage: Stage) -> SoldTask:
    """Sell the task, strike, and judge the outcome."""
    strike = TaskStrike(stage, task)
    people = People(
        {CUSTOMER: (dev_accounts.stash(CUSTOMER),), **{name: provider_accounts(name) for name in LEAST_PRICES}}
    )
    run = undisturbed_run_of(task.file)
    with following(stage.url) as ledger:
        people.wealth_before = stage.wealth(people.accounts, ledger.height)
        sale = task_sale.sell_task(stage, task.file, on_row=strike.on_row)
    people.wealth_after = stage.wealth(people.accounts, ledger.height)
    path = stage.devnet.folder / f"{sale.name[:10]}.state"
    result = json.loads(task_sale.ask_about_task(stage, sale, "task result", "--key", CUSTOMER_KEY, "--out", str(path)))
    sold = judge_sale(task, sale.task_id, ledger, people, result, path.read_bytes(), run, strike.killed_providers)
    sold.failures += unverified_rows(task_sale.verification_rows(stage, sale), sold.auctions)
    strike.restart_killed()
    return sold


def plan_unservable(stage: Stage) -> dict[str, str]:
    """Return the answer of `ogpu task plan` to a task that no provider here can serve."""
    try:
        stage.ogpu("task plan", str(NOT_SERVED), "--key", CUSTOMER_KEY)
    except DevnetError as refusal:
        return {"said": str(refusal)}
    return {"said": ""}


def plan_failures(facts: Mapping[str, str]) -> list[str]:
    """Return a failure unless the plan says that the class of devices is missing."""
    is_refused = "no device can run the task now" in facts["said"] and "class" in facts["said"]
    return [] if is_refused else [f"`ogpu task plan {NOT_SERVED.name}` says {facts['said']!r}"]


def judge_sale(
    task: AuctionedTask,
    task_id: bytes,
    ledger: TaskLedger,
    people: People,
    result: Mapping[str, Any],
    last_state: bytes,
    run: UndisturbedRun,
    killed: list[str],
) -> SoldTask:
    """Judge a task that has ended."""
    trace = ledger.tasks.get(task_id, EventTrace())
    sold = SoldTask("0x" + task_id.hex(), killed, root=str(result["root"]), grains=people.gains)
    sold.milestones_counted = len(trace.all(MilestoneCounted))
    sold.auctions = 1 + len(trace.all(TaskReopened))
    sold.outcomes = [settlement.outcome.name for _, settlement in trace.all(SlotSettled)]
    _record_times(sold, trace, ledger)
    sold.failures = [*_course_failures(task, trace, sold), *_result_failures(sold, trace, last_state, run)]
    sums = ledger.sums.get(task_id)
    sold.failures += ["the chain has no such task"] if sums is None else sums.wrong
    sold.failures += people.wrong(ledger)
    return sold


def unverified_rows(rows: Sequence[Mapping[str, Any]], auctions: int) -> list[str]:
    """Return a sentence for each unconfirmed row of `ogpu task verify`. No slots of earlier auctions are kept."""
    earlier_auctions = {f"auction {auction}" for auction in range(1, auctions)}
    return [
        f"`ogpu task verify` compares no {row['what']}"
        for row in rows
        if row["is_right"] is not True and not (row["is_right"] is None and row["what"] in earlier_auctions)
    ]


def _record_times(sold: SoldTask, trace: EventTrace, ledger: TaskLedger) -> None:
    """Record slots and seconds, by the blocks' timestamps."""
    submission, closing = trace.first(TaskSubmitted), trace.first(BidsClosed)
    running, ended = trace.first(TaskRunning), trace.first(TaskEnded)
    if submission is None or closing is None or running is None or ended is None:
        return
    started = ledger.moments[submission[0]]
    sold.seconds_until_running = round(ledger.moments[running[0]] - started, 1)
    sold.seconds_until_paid = round(ledger.moments[ended[0]] - started, 1)
    sold.slots_after_reveals = running[0] - closing[1].reveal_until


def _course_failures(task: AuctionedTask, trace: EventTrace, sold: SoldTask) -> Iterator[str]:
    """Judge bids, awards, milestones and outcomes."""
    closing = trace.first(BidsClosed)
    bids_until = 0 if closing is None else closing[0]
    committed = [event for height, event in trace.all(BidCommitted) if height <= bids_until]
    reopening = trace.first(TaskReopened)
    opened = [event for height, event in trace.all(BidRevealed) if reopening is None or height < reopening[0]]
    if len(committed) != BID_COUNT or len(opened) != BID_COUNT:
        yield f"{len(committed)} bids were committed to and {len(opened)} opened, instead of {BID_COUNT} each"
    burned = [event for _, event in trace.all(BidEnded) if event.burned]
    yield from (f"the bid of 0x{event.provider.hex()} burned {event.burned} grains" for event in burned)
    outcomes = ["ON_TIME" if outcome in DONE_OUTCOMES else outcome for outcome in sold.outcomes]
    if tuple(outcomes) != task.legs:
        yield f"its slots ended as {sold.outcomes}, and {list(task.legs)} was to come"
    if sold.auctions != task.auctions:
        yield f"it was auctioned {sold.auctions} times, instead of {task.auctions}"
    endings = trace.all(TaskEnded)
    if len(endings) != 1 or endings[0][1].outcome.name not in DONE_OUTCOMES:
        yield f"it ended as {[event.outcome.name for _, event in endings]}"
    if not sold.milestones_counted:
        yield "no milestone counted"
    settled = [event for _, event in trace.all(SlotSettled)]
    if sold.killed and not (len(settled) > 1 and all(event.earned for event in settled)):
        yield "the killed provider had no milestone behind it, or no work left"
    # A gang counts on different providers, and a killed one must not win the rest of its task.
    if len({event.provider for _, event in trace.all(SlotStarted)}) != len(task.legs):
        yield "the killed provider, or a partner, has more than one of its slots"


def _result_failures(sold: SoldTask, trace: EventTrace, last_state: bytes, run: UndisturbedRun) -> Iterator[str]:
    """Compare the result with the undisturbed run's."""
    roots = {statement.result.root for _, statement in trace.all(ResultStated)}
    if roots != {run.root}:
        yield (f"roots {sorted(root.hex() for root in roots)} were stated, and {run.root.hex()} is right")
    if sold.root != "0x" + run.root.hex():
        yield f"`ogpu task result` shows the root {sold.root}, and 0x{run.root.hex()} is right"
    if last_state != run.last_state:
        yield "the last state is not that of the undisturbed run"


def figures(facts_by_scenario: Mapping[str, Any]) -> str:
    """Return the line of figures."""
    tasks = [task for task in facts_by_scenario.values() if isinstance(task, SoldTask)]
    running = [task.slots_after_reveals for task in tasks]
    within = f"{sum(0 < task <= RUNNING_SLOTS_GOAL for task in running)} of {len(running)} within {RUNNING_SLOTS_GOAL}"
    return (
        f"{len(tasks)} tasks, {sum(len(task.killed) for task in tasks)} providers killed; running "
        f"{max(running, default=0)} slots after the reveals at most ({within}); paid "
        f"{max((task.seconds_until_paid for task in tasks), default=0)} s after submission at most"
    )


AUCTION_NETWORK = FreshDevnet(
    VALIDATOR_COUNT, is_resizable=True, prepare=lambda stage: task_sale.let_bid(stage, LEAST_PRICES)
)
PROOF = LiveProof(
    "auction",
    "Sell tasks at auction while providers die.",
    (
        *(Scenario(sale.name, sale.title, AUCTION_NETWORK.open, partial(sell_and_judge, sale)) for sale in SALES),
        Scenario(
            "not-served", "A task without a suitable provider", AUCTION_NETWORK.open, plan_unservable, plan_failures
        ),
    ),
    figures,
    (ProofOption("--validators", VALIDATOR_COUNT, "of the network, each a provider too"),),
)

if __name__ == "__main__":
    run(PROOF)
