"""How far a task is, in words, and why it waits: for whom, for what, and until which block.

Always: texts name blocks and not how many are left, so that they change only when something does; every state of a
task has a sentence, and one that has ended says how.
"""

from __future__ import annotations

from gpu_tasks.client.wait_reasons import what_judges_do
from gpu_tasks.market.courts.benches import AUDIT_DELAYS
from gpu_tasks.market.courts_api import CaseStatus
from gpu_tasks.market.training.money import TABLE, TaskOutcome
from gpu_tasks.market.training.orders import is_by_time, is_replicated, runs_program
from gpu_tasks.market.training.tasks import (
    Acceptance,
    JudgedFor,
    Task,
    TaskState,
    agreed_milestone,
    interval_end,
    kept_step,
    panel,
)
from runtime.cryptography import ss58

DISAGREEING = "its providers do not agree on the result"
EXIT_STOPPED = 143
"""Of a program that its provider has ended, as it does when the time is up."""
CAUSES = {
    JudgedFor.AUDIT: "the beacon drew its result for an audit",
    JudgedFor.DISPUTE: "its customer disputes the result",
    JudgedFor.FRAUD_PROOF: "somebody has shown a proof that the result is wrong",
    JudgedFor.INPUT: "a provider says that its input is not to be had",
}


def progress(task: Task) -> str:
    """The state with what has happened in it."""
    name = task.state.name.lower()
    match task.state:
        case TaskState.COMMITTING:
            return f"{name}, {counted(task.bids, 'bid')}"
        case TaskState.REVEALING:
            return f"{name}, {task.revealed} of {counted(task.bids, 'bid')} opened"
        case TaskState.STARTING:
            started = sum(bool(slot.started_at) for slot in task.slots)
            return f"{name}, {started} of {counted(len(task.slots), 'slot')} started"
        case TaskState.RUNNING:
            is_time = is_by_time(task.order)
            if is_replicated(task.order):
                bound = sum(task.slots[place].commitment is not None for place in panel(task))
                return f"{name}, {_of_panel(task, bound)} bound"
            far = f"{task.behind + kept_step(task)} of {task.order.milestones}"
            return f"{name}, interval {far} paid" if is_time else f"{name}, milestone {far}"
        case TaskState.VOLUNTEERING:
            return f"{name}, {counted(task.volunteers, 'device')} offered"
        case TaskState.OPENING:
            opened = sum(task.slots[place].result is not None for place in panel(task))
            return f"{name}, {_of_panel(task, opened)} opened"
        case TaskState.ENDED:
            return f"{name}, {_outcome(task)}"
        case _:
            return name


def why(task: Task, case: CaseStatus | None = None) -> str:
    """A sentence: what the task waits for, and until which block; `case` is one that is open about it."""
    match task.state:
        case TaskState.COMMITTING | TaskState.REVEALING | TaskState.AWARDING:
            return _why_bidding(task)
        case TaskState.STARTING:
            return _why_starting(task)
        case TaskState.RUNNING:
            return _why_running(task)
        case TaskState.VOLUNTEERING | TaskState.OPENING:
            return _why_replicating(task)
        case TaskState.ASKING:
            asked = "the runner-up" if task.standby is None else ss58.encode(task.standby.provider)
            return f"who worked is gone: {asked} may take over up to block {task.deadline}, then the rest is auctioned"
        case TaskState.SUBMITTED:
            return _why_submitted(task)
        case TaskState.SHOWING:
            return _why_showing(task)
        case TaskState.JUDGED:
            return _cause(task) + (f"; {what_judges_do(case)}" if case is not None else "; its judges have said all")
        case TaskState.ENDED:
            return how_ended(task)


def how_ended(task: Task) -> str:
    """A sentence about a task that has ended."""
    match task.outcome:
        case None:
            says = "It has ended"
        case TaskOutcome.NO_AWARD:
            says = _why_not_sold(task)
        case TaskOutcome.TIME_OVER:
            says = _how_time_ended(task)
        case outcome:
            says = TABLE[outcome].says
    return f"{says}. Its record is kept up to block {task.deadline}"


def _outcome(task: Task) -> str:
    """Describe the outcome in a word or two; of bought time the program's own end, if it came first."""
    if task.outcome is None:
        return ""
    result = task.slots[0].result if task.slots else None
    if task.outcome is not TaskOutcome.TIME_OVER or result is None or result.metric == EXIT_STOPPED:
        return task.outcome.name.lower().replace("_", " ")
    return "program done" if result.metric == 0 else f"program failed with exit code {result.metric}"


def _why_not_sold(task: Task) -> str:
    if not task.bids:
        suits = "runs its image within its limits" if runs_program(task.order) else "has the time for it"
        return f"Nobody has bid: no provider that was free {suits} for this price. Nothing moves"
    if is_replicated(task.order):
        return "No bid could win, or too few owners offered a device for the other copies: nothing moves"
    return TABLE[TaskOutcome.NO_AWARD].says


def _how_time_ended(task: Task) -> str:
    result = task.slots[0].result if task.slots else None
    if result is None:
        return TABLE[TaskOutcome.TIME_OVER].says
    is_stopped = result.metric == EXIT_STOPPED
    how = "Its time is up, and its program was stopped" if is_stopped else "Its program has ended"
    return f"{how}, with exit code {result.metric}"


def counted(count: int, noun: str) -> str:
    """How many, in words."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def outvoted(task: Task) -> int:
    """How many replicas of a task found something else than most."""
    return sum(slot.outcome is TaskOutcome.OUTVOTED for slot in task.slots)


def unheld(task: Task) -> int | None:
    """The number of the milestone that all have stated and that its customer has not signed for; None: there is none.

    What is asked of the customer is to hold its checkpoint: then it counts, and is paid for if its provider dies.
    """
    agreed = agreed_milestone(task) if task.state is TaskState.RUNNING else None
    return agreed.number if agreed is not None and agreed.number > task.behind + task.owed else None


def _why_bidding(task: Task) -> str:
    if task.state is TaskState.COMMITTING:
        return f"{_auction(task)}: sealed bids are committed to up to block {task.deadline}"
    if task.state is TaskState.REVEALING:
        return f"{_auction(task)}: bids are opened up to block {task.deadline}; one that is not loses its bond"
    return f"the beacon of block {task.beacon_at} breaks ties: it is awarded once that block is final"


def _why_replicating(task: Task) -> str:
    if task.state is TaskState.OPENING:
        return f"all are bound to what they found: it is opened up to block {task.deadline}, and compared"
    if not task.deadline:
        return f"the beacon of block {task.beacon_at} draws who computes it too, once that block is final"
    who = "a jury is" if task.jury_from else "replicas are"
    return f"{who} sought: devices are offered up to block {task.deadline}"


def _of_panel(task: Task, count: int) -> str:
    who = "juror" if task.jury_from else "replica"
    return f"{count} of {counted(len(panel(task)), who)}"


def _auction(task: Task) -> str:
    if task.auction == 1:
        return "at auction"
    rest = f"from milestone {task.behind}" if task.behind else "from its beginning"
    return f"at auction {task.auction} of {task.order.auctions}, {rest}"


def _why_starting(task: Task) -> str:
    late = [ss58.encode(slot.provider) for slot in task.slots if not slot.started_at and slot.outcome is None]
    if is_replicated(task.order):
        return f"drawn: {', '.join(late[:3])} may start up to block {task.deadline}; else it pays for that, and is out"
    then = "the runner-up takes its place" if task.standby is not None else "it is auctioned again"
    return f"awarded: {', '.join(late[:3])} may start up to block {task.deadline}; else it pays for that, and {then}"


def _why_running(task: Task) -> str:
    number = task.behind + kept_step(task) + 1
    if is_replicated(task.order):
        who = "jurors" if task.jury_from else "replicas"
        return f"{who} compute it: who is bound to no result by block {task.deadline} is out"
    if is_by_time(task.order):
        return (
            f"the program runs: interval {number} of {task.order.milestones} is over with block {interval_end(task)}; "
            f"who is silent after block {task.deadline} is gone (`ogpu stop` ends it, and pays that interval)"
        )
    what = "the result" if number == task.order.milestones else f"milestone {number}"
    held = unheld(task)
    asked = "" if held is None else f"; milestone {held} counts once its checkpoint is held (`ogpu hold`, or watch)"
    return f"{_work(task)}: {what} is due by block {task.deadline}, and who is silent then is gone{asked}"


def _work(task: Task) -> str:
    """Who works where that is not who began, or where the rest of a task was sold."""
    if not task.behind:
        return "at work"
    who = ", ".join(ss58.encode(slot.provider) for slot in task.slots[:3])
    return f"{who} goes on from the checkpoint of milestone {task.behind}"


def _why_submitted(task: Task) -> str:
    chance = (task.beacon_at or task.finished_at) + AUDIT_DELAYS[-1]
    known = "no audit is asked for" if task.is_checked else f"block {chance} is final and asks for no audit"
    if task.accepted is not None and is_replicated(task.order):
        return "accepted: paid with the next block"
    if task.accepted is not None:
        how = "by silence" if task.accepted is Acceptance.BY_SILENCE else "by its customer"
        return f"accepted {how}: paid once {known}"
    last = task.finished_at + task.windows.dispute
    if is_replicated(task.order):
        return _why_agreed(task, last)
    return (
        f"the result is there: `ogpu accept` it, or `ogpu dispute` it up to block {last}; "
        f"after block {task.deadline} it counts as accepted, and is paid once {known}"
    )


def _why_agreed(task: Task, last: int) -> str:
    """What most replicas agree on, and how many do not: the customer has what each of them found."""
    others = outvoted(task)
    differ = f", {counted(others, 'replica')} found something else: `ogpu result --place` shows it" if others else ""
    return (
        f"most replicas agree{differ}: `ogpu accept` it, or `ogpu dispute` it up to block {last} before a jury; "
        f"after block {task.deadline} it is paid"
    )


def _why_showing(task: Task) -> str:
    if not task.deadline:
        return f"{_cause(task)}; the beacon of block {task.beacon_at} draws what is looked at, once it is final"
    shown = sum(slot.is_shown for slot in task.slots)
    return (
        f"{_cause(task)}; its providers show the states that were drawn up to block {task.deadline} "
        f"({shown} of {len(task.slots)} have), and who does not counts as having lied"
    )


def _cause(task: Task) -> str:
    """Why it is looked at: the chain has one word for an audit that was drawn and for results that differ."""
    if task.judged_for is None:
        return "it is looked at"
    if task.judged_for is JudgedFor.AUDIT and len({slot.result.root for slot in task.slots if slot.result}) > 1:
        return DISAGREEING
    cause = CAUSES[task.judged_for]
    if task.challenge is not None:
        return f"{cause}, in segment {task.challenge.segment}: {ss58.encode(task.challenge.challenger)}"
    return cause if task.named is None else f"{cause}, and names segment {task.named}"
