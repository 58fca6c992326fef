"""What must have become of a task, and of everybody's money, judged from the final chain.

The bars, in each scene: three bids were sealed and opened; each slot ended as the scene says; root and last state are
those of the undisturbed run; everything that was paid is what the money table says, and every account has to the grain
what that and the fees of its transactions leave it; `ogpu verify` finds nothing that is not by the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from devnet.measuring.task_ledger import TaskLedger, TaskTrace
from devnet.proofs.auction.scenes import TaskScene
from devnet.proofs.auction.undisturbed import UndisturbedRun
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

BIDS = 3
DONE = {"ON_TIME", "LATE"}
RUNNING_SLOTS_GOAL = 5
"""From the end of the reveal window until the task runs; missed, it is told, and is no failure."""


@dataclass(slots=True)
class People:
    """Accounts by name (a provider's stash and its provider key have one name), and what each owned."""

    accounts: Mapping[str, tuple[bytes, ...]]
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)

    def wrong(self, ledger: TaskLedger) -> Iterator[str]:
        """Everybody who has another sum than tasks and fees leave."""
        for name, accounts in self.accounts.items():
            expected = sum(map(ledger.moved, accounts))
            found = self.after[name] - self.before[name]
            if found != expected:
                yield f"{name} has {found} grains more, and tasks and fees come to {expected}"


@dataclass(slots=True)
class TaskFinding:
    """What became of a scene."""

    scene: str
    task: str = ""
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

    def as_json(self) -> dict[str, Any]:
        """For the report; grains are texts."""
        return asdict(self) | {"grains": {name: str(grains) for name, grains in self.grains.items()}}


def judge(
    scene: TaskScene,
    task_id: bytes,
    ledger: TaskLedger,
    people: People,
    result: Mapping[str, Any],
    state: bytes,
    wanted: UndisturbedRun,
    killed: list[str],
) -> TaskFinding:
    """One scene, when its task has ended."""
    trace = ledger.tasks.get(task_id, TaskTrace())
    finding = TaskFinding(scene.name, "0x" + task_id.hex(), killed)
    finding.root = str(result["root"])
    finding.milestones_counted = len(trace.all(MilestoneCounted))
    finding.auctions = 1 + len(trace.all(TaskReopened))
    finding.outcomes = [event.outcome.name for _, event in trace.all(SlotSettled)]
    finding.grains = {name: people.after[name] - people.before[name] for name in people.accounts}
    _take_times(finding, trace, ledger)
    finding.failures = [*_of_course(scene, trace, finding), *_of_result(finding, trace, result, state, wanted)]
    sums = ledger.sums.get(task_id)
    finding.failures += ["the chain has no such task"] if sums is None else sums.wrong
    finding.failures += people.wrong(ledger)
    return finding


def unverified(rows: Sequence[Mapping[str, Any]], auctions: int) -> list[str]:
    """What `ogpu verify` cannot confirm; who had a slot of an auction before the last the chain does not keep."""
    earlier = {f"auction {number}" for number in range(1, auctions)}
    return [
        f"`ogpu verify` compares no {row['what']}"
        for row in rows
        if row["is_right"] is not True and not (row["is_right"] is None and row["what"] in earlier)
    ]


def _take_times(finding: TaskFinding, trace: TaskTrace, ledger: TaskLedger) -> None:
    """Slots and seconds, by the blocks' own words."""
    submitted, closed = trace.first(TaskSubmitted), trace.first(BidsClosed)
    running, ended = trace.first(TaskRunning), trace.first(TaskEnded)
    if submitted is None or closed is None or running is None or ended is None:
        return
    began = ledger.moments[submitted[0]]
    finding.seconds_until_running = round(ledger.moments[running[0]] - began, 1)
    finding.seconds_until_paid = round(ledger.moments[ended[0]] - began, 1)
    finding.slots_after_reveals = running[0] - closed[1].reveal_until


def _of_course(scene: TaskScene, trace: TaskTrace, finding: TaskFinding) -> Iterator[str]:
    """Bids, awards, milestones, ends."""
    closed = trace.first(BidsClosed)
    until = 0 if closed is None else closed[0]
    committed = [event for height, event in trace.all(BidCommitted) if height <= until]
    again = trace.first(TaskReopened)
    opened = [event for height, event in trace.all(BidRevealed) if again is None or height < again[0]]
    if len(committed) != BIDS or len(opened) != BIDS:
        yield f"{len(committed)} bids were committed to and {len(opened)} opened, instead of {BIDS} each"
    burned = [event for _, event in trace.all(BidEnded) if event.burned]
    yield from (f"the bid of 0x{event.provider.hex()} burned {event.burned} grains" for event in burned)
    said = ["ON_TIME" if outcome in DONE else outcome for outcome in finding.outcomes]
    if tuple(said) != scene.legs:
        yield f"its slots ended as {finding.outcomes}, and {list(scene.legs)} was to come"
    if finding.auctions != scene.auctions:
        yield f"it was auctioned {finding.auctions} times, instead of {scene.auctions}"
    ended = trace.all(TaskEnded)
    if len(ended) != 1 or ended[0][1].outcome.name not in DONE:
        yield f"it ended as {[event.outcome.name for _, event in ended]}"
    if not finding.milestones_counted:
        yield "no milestone counted"
    if finding.killed and not _is_midway(trace):
        yield "who was killed had no milestone behind it, or no work left"
    if len({event.provider for _, event in trace.all(SlotStarted)}) != len(scene.legs):
        yield "who was killed, or a partner, has more than one of its slots"


def _is_midway(trace: TaskTrace) -> bool:
    """Whether whose slot was settled first had earned something, and others the rest."""
    settled = [event for _, event in trace.all(SlotSettled)]
    return len(settled) > 1 and all(event.earned for event in settled)


def _of_result(
    finding: TaskFinding, trace: TaskTrace, result: Mapping[str, Any], state: bytes, wanted: UndisturbedRun
) -> Iterator[str]:
    """The same bits as without any network."""
    roots = {event.result.root for _, event in trace.all(ResultStated)}
    if roots != {wanted.root}:
        yield f"roots {sorted(root.hex() for root in roots)} were stated, and {wanted.root.hex()} is right"
    if finding.root != "0x" + wanted.root.hex():
        yield f"`ogpu result` shows the root {result['root']}, and 0x{wanted.root.hex()} is right"
    if state != wanted.last_state:
        yield "the last state is not that of the undisturbed run"
