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
from devnet.stage.actors.purchase import name_of
from devnet.stage.actors.task_sale import ASKS, EXAMPLES, RELAY, People, SaleRow, keyed, right_states
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

VALIDATORS, BIDS = 5, 3
DONE = {"ON_TIME", "LATE"}
RUNNING_SLOTS_GOAL = 5
"""The goal from the end of the reveal window until the task runs. A miss is reported and is no failure."""
NOT_SERVED = EXAMPLES / "gang.yaml"
"""A task for two devices of a class that no provider here has."""
STRUCK_AT = 3
"""The milestone that must count before a kill: it is the middle of six."""


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
    AuctionedTask("undisturbed", "Sold, run, accepted, paid", RELAY),
    AuctionedTask(
        "standby", "The winner is killed midway: the standby goes on", RELAY,
        kills_winner=True, legs=("DIED", "ON_TIME"),
    ),
    AuctionedTask(
        "auctioned-again", "Winner and standby are killed: the rest is auctioned again", RELAY,
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
def undisturbed(path: Path) -> UndisturbedRun:
    """Compute the whole run of the task at `path` with the integer reference."""
    passed = right_states(path)
    return UndisturbedRun(trace_root([state_hash(state) for state in passed]), passed[-1])


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

    def __init__(self, stage: Stage, sale: AuctionedTask) -> None:
        """Begin without any kill."""
        self._stage, self._sale = stage, sale
        self.killed: list[str] = []
        self._dead: list[str] = []

    def on_row(self, row: SaleRow) -> None:
        """Handle a change of the task."""
        if row["state"] == "submitted":  # by who took over; an audit would wait long for judges that are dead
            self.undo()
        stated = int(row["milestones"].split("/")[0])
        if self.killed or not self._sale.kills_winner or stated < STRUCK_AT or "running" not in row["state"]:
            return
        task = task_sale.record(self._stage, bytes.fromhex(row["task"][2:]))
        if task.owed >= STRUCK_AT:
            for name in self._victims(task):
                pid = self._stage.kill(name)
                self.killed.append(name)
                self._dead.append(name)
                self._stage.tell.line(f"killed the provider of {name} (process {pid}), behind milestone {task.owed}")

    def _victims(self, task: Task) -> list[str]:
        standby = [task.standby.provider] if self._sale.kills_standby and task.standby is not None else []
        return [name_of(stash) for stash in (*(slot.provider for slot in task.slots), *standby)]

    def undo(self) -> None:
        """Start the killed providers again, once."""
        dead, self._dead = self._dead, []
        self._stage.start(*dead)


def sold(sale: AuctionedTask, stage: Stage) -> SoldTask:
    """Sell the task, strike, and judge the outcome."""
    strike = TaskStrike(stage, sale)
    people = People({CUSTOMER: (dev_accounts.stash(CUSTOMER),), **{name: keyed(name) for name in ASKS}})
    wanted = undisturbed(sale.file)
    with following(stage.url) as book:
        people.before = stage.wealth(people.accounts, book.height)
        followed = task_sale.sell(stage, sale.file, on_row=strike.on_row)
    people.after = stage.wealth(people.accounts, book.height)
    out = stage.net.folder / f"{followed.name[:10]}.state"
    result = json.loads(task_sale.ask(stage, followed, "task result", "--key", CUSTOMER_KEY, "--out", str(out)))
    found = judge(sale, followed.task_id, book, people, result, out.read_bytes(), wanted, strike.killed)
    found.failures += unverified(task_sale.verified(stage, followed), found.auctions)
    strike.undo()
    return found


def refused(stage: Stage) -> dict[str, str]:
    """Return what `ogpu task plan` says of a task that nobody here can serve."""
    try:
        stage.ogpu("task plan", str(NOT_SERVED), "--key", CUSTOMER_KEY)
    except DevnetError as error:
        return {"said": str(error)}
    return {"said": ""}


def not_refused(facts: Mapping[str, str]) -> list[str]:
    """Return a failure unless the plan says that the class of devices is missing."""
    is_refused = "no device can run the task now" in facts["said"] and "class" in facts["said"]
    return [] if is_refused else [f"`ogpu task plan {NOT_SERVED.name}` says {facts['said']!r}"]


def judge(
    sale: AuctionedTask,
    task_id: bytes,
    ledger: TaskLedger,
    people: People,
    result: Mapping[str, Any],
    state: bytes,
    wanted: UndisturbedRun,
    killed: list[str],
) -> SoldTask:
    """Judge a task that has ended."""
    trace = ledger.tasks.get(task_id, EventTrace())
    found = SoldTask("0x" + task_id.hex(), killed, root=str(result["root"]), grains=people.gains)
    found.milestones_counted = len(trace.all(MilestoneCounted))
    found.auctions = 1 + len(trace.all(TaskReopened))
    found.outcomes = [event.outcome.name for _, event in trace.all(SlotSettled)]
    _take_times(found, trace, ledger)
    found.failures = [*_of_course(sale, trace, found), *_of_result(found, trace, state, wanted)]
    sums = ledger.sums.get(task_id)
    found.failures += ["the chain has no such task"] if sums is None else sums.wrong
    found.failures += people.wrong(ledger)
    return found


def unverified(rows: Sequence[Mapping[str, Any]], auctions: int) -> list[str]:
    """Return what `ogpu task verify` cannot confirm; of auctions before the last the chain does not keep the slots."""
    earlier = {f"auction {number}" for number in range(1, auctions)}
    return [
        f"`ogpu task verify` compares no {row['what']}"
        for row in rows
        if row["is_right"] is not True and not (row["is_right"] is None and row["what"] in earlier)
    ]


def _take_times(found: SoldTask, trace: EventTrace, ledger: TaskLedger) -> None:
    """Record slots and seconds, by the blocks' timestamps."""
    submitted, closed = trace.first(TaskSubmitted), trace.first(BidsClosed)
    running, ended = trace.first(TaskRunning), trace.first(TaskEnded)
    if submitted is None or closed is None or running is None or ended is None:
        return
    began = ledger.moments[submitted[0]]
    found.seconds_until_running = round(ledger.moments[running[0]] - began, 1)
    found.seconds_until_paid = round(ledger.moments[ended[0]] - began, 1)
    found.slots_after_reveals = running[0] - closed[1].reveal_until


def _of_course(sale: AuctionedTask, trace: EventTrace, found: SoldTask) -> Iterator[str]:
    """Judge bids, awards, milestones and outcomes."""
    closed = trace.first(BidsClosed)
    until = 0 if closed is None else closed[0]
    committed = [event for height, event in trace.all(BidCommitted) if height <= until]
    again = trace.first(TaskReopened)
    opened = [event for height, event in trace.all(BidRevealed) if again is None or height < again[0]]
    if len(committed) != BIDS or len(opened) != BIDS:
        yield f"{len(committed)} bids were committed to and {len(opened)} opened, instead of {BIDS} each"
    burned = [event for _, event in trace.all(BidEnded) if event.burned]
    yield from (f"the bid of 0x{event.provider.hex()} burned {event.burned} grains" for event in burned)
    said = ["ON_TIME" if outcome in DONE else outcome for outcome in found.outcomes]
    if tuple(said) != sale.legs:
        yield f"its slots ended as {found.outcomes}, and {list(sale.legs)} was to come"
    if found.auctions != sale.auctions:
        yield f"it was auctioned {found.auctions} times, instead of {sale.auctions}"
    ended = trace.all(TaskEnded)
    if len(ended) != 1 or ended[0][1].outcome.name not in DONE:
        yield f"it ended as {[event.outcome.name for _, event in ended]}"
    if not found.milestones_counted:
        yield "no milestone counted"
    settled = [event for _, event in trace.all(SlotSettled)]
    if found.killed and not (len(settled) > 1 and all(event.earned for event in settled)):
        yield "who was killed had no milestone behind it, or no work left"
    if len({event.provider for _, event in trace.all(SlotStarted)}) != len(sale.legs):
        yield "who was killed, or a partner, has more than one of its slots"


def _of_result(found: SoldTask, trace: EventTrace, state: bytes, wanted: UndisturbedRun) -> Iterator[str]:
    """Compare the result with the undisturbed run's."""
    roots = {event.result.root for _, event in trace.all(ResultStated)}
    if roots != {wanted.root}:
        yield f"roots {sorted(root.hex() for root in roots)} were stated, and {wanted.root.hex()} is right"
    if found.root != "0x" + wanted.root.hex():
        yield f"`ogpu task result` shows the root {found.root}, and 0x{wanted.root.hex()} is right"
    if state != wanted.last_state:
        yield "the last state is not that of the undisturbed run"


def figures(facts: Mapping[str, Any]) -> str:
    """Return the line of figures."""
    found = [each for each in facts.values() if isinstance(each, SoldTask)]
    slots = [each.slots_after_reveals for each in found]
    met = f"{sum(0 < each <= RUNNING_SLOTS_GOAL for each in slots)} of {len(slots)} within {RUNNING_SLOTS_GOAL}"
    return (
        f"{len(found)} tasks, {sum(len(each.killed) for each in found)} providers killed; running "
        f"{max(slots, default=0)} slots after the reveals at most ({met}); paid "
        f"{max((each.seconds_until_paid for each in found), default=0)} s after submission at most"
    )


NETWORK = FreshDevnet(VALIDATORS, is_resizable=True, prepare=lambda stage: task_sale.let_bid(stage, ASKS))
PROOF = LiveProof(
    "auction",
    "Tasks at auction, whoever dies on the way.",
    (
        *(Scenario(sale.name, sale.title, NETWORK.open, partial(sold, sale)) for sale in SALES),
        Scenario("not-served", "A task that nobody can serve", NETWORK.open, refused, not_refused),
    ),
    figures,
    (ProofOption("--validators", VALIDATORS, "of the network, each a provider too"),),
)

if __name__ == "__main__":
    run(PROOF)
