"""Replicas of a task, checked against the records of a chain: the draws, and the majority's result.

Invariant: only records of the state are read. A draw is repeated from its seed and the offered devices.
"""

from collections.abc import Sequence

from gpu_tasks.market.training import replicas
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import JURORS
from gpu_tasks.market.training.tasks import Task, TaskResult, TaskState
from gpu_tasks.tasks.task_check import AuctionRecords, Difference, TaskCheck, compared

PAID = (TaskOutcome.ON_TIME, TaskOutcome.LATE)
UNPAID = (TaskOutcome.OUTVOTED, TaskOutcome.LIED)


def check_replicas(task: Task, draws: Sequence[AuctionRecords]) -> list[TaskCheck]:
    """Return checks of the draws of a task's places, in their order, and of the agreement of its replicas."""
    checks = [_check_draw(task, number, records) for number, records in enumerate(draws, 1)]
    return [*checks, *_check_findings(task)]


def agreed_results(task: Task) -> list[tuple[int, TaskResult]]:
    """Return the places and results that count, or that would be paid without a dispute."""
    if task.state is TaskState.OPENING:
        return []
    stated = ((place, slot) for place, slot in enumerate(task.slots) if slot.outcome in (None, *PAID))
    return [(place, slot.result) for place, slot in stated if slot.result is not None]


def _check_draw(task: Task, number: int, records: AuctionRecords) -> TaskCheck:
    name, award = f"draw {number}", records.award
    drawn = [slot.device for slot in task.slots if slot.draw == number]
    if award is None or award.seed is None:
        is_open = task.state is TaskState.VOLUNTEERING and number == task.draws
        says = f"{len(records.bids)} devices were offered, and none was drawn"
        return TaskCheck(name, is_right=None if is_open else not drawn, says=says)
    # One place is sold by auction, and only the others are drawn.
    wanted = JURORS if _is_of_jury(task, number) else task.order.slots - 1
    due = replicas.drawn(records.bids, award.seed, wanted)
    if not drawn:  # Too few were offered, or the place was sold again since
        too_few = len(due) < wanted
        return TaskCheck(name, is_right=True if too_few else None, says=f"{len(due)} owners of {wanted} were offered")
    problems = [] if drawn == due else [Difference("draw", "the places differ from the draw with this seed")]
    problems += _unlike(task, number)
    says = f"{len(due)} of {len(records.bids)} devices, as drawn with this seed"
    return compared(name, problems, says)


def _is_of_jury(task: Task, number: int) -> bool:
    return bool(task.jury_from) and number == task.draws


def _unlike(task: Task, number: int) -> list[Difference]:
    """Return the drawn places with another price than the award's."""
    price = task.slots[0].price
    others = [place for place, slot in enumerate(task.slots) if slot.draw == number and slot.price != price]
    return [Difference("price", f"place {place} has a price that differs from the award's") for place in others]


def _check_findings(task: Task) -> list[TaskCheck]:
    """Check the majority's result, the jury's if there is one, and the outcomes that follow from it."""
    places = range(task.jury_from, len(task.slots)) if task.jury_from else range(len(task.slots))
    found = replicas.findings_of(task, places)
    if not found:
        return []
    name, seats = ("jury" if task.jury_from else "replicas"), len(places)
    agreed = replicas.agreed(found.values(), seats)
    if task.state is not TaskState.ENDED:
        return [TaskCheck(name, is_right=None, says=f"{len(found)} of {seats} have revealed their results")]
    problems = list[Difference]()
    for place, said in replicas.findings_of(task, range(len(task.slots))).items():
        outcome = task.slots[place].outcome
        if agreed is not None and said == agreed[0] and outcome in UNPAID:
            problems.append(Difference("unpaid", f"place {place} agrees with the majority and is not paid"))
        if outcome in PAID and (agreed is None or said != agreed[0]) and not _is_unheard(task, seats, len(found)):
            problems.append(Difference("paid", f"place {place} disagrees with the majority and is paid"))
    most = "no majority agrees" if agreed is None else f"{agreed[1]} of {seats} have the result 0x{agreed[0][0].hex()}"
    return [compared(name, problems, most)]


def _is_unheard(task: Task, seats: int, opened: int) -> bool:
    """Return True if half or less of the jurors opened a result, so that the jury does not count."""
    return bool(task.jury_from) and 2 * opened <= seats
