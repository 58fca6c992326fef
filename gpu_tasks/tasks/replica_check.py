"""Replicas of a task, checked against the records of a chain: the draws, and the majority's result.

Invariant: only records of the state are read. A draw is repeated from its seed and the offered devices.
"""

from collections.abc import Sequence

from gpu_tasks.market.training import replicas
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import JURORS
from gpu_tasks.market.training.tasks import Task, TaskResult, TaskState
from gpu_tasks.tasks.task_check import AuctionRecords, Difference, TaskCheck, compared
from wallet.amounts import counted

PAID = (TaskOutcome.ON_TIME, TaskOutcome.LATE)
UNPAID = (TaskOutcome.OUTVOTED, TaskOutcome.LIED)


def check_replicas(task: Task, draws: Sequence[AuctionRecords]) -> list[TaskCheck]:
    """Return checks of the draws of a task's places, in their order, and of the agreement of its replicas."""
    checks = [_check_draw(task, draw_number, records) for draw_number, records in enumerate(draws, 1)]
    return [*checks, *_check_findings(task)]


def agreed_results(task: Task) -> list[tuple[int, TaskResult]]:
    """Return the places and results that count, or that would be paid without a dispute."""
    if task.state is TaskState.OPENING:
        return []
    stated = ((place, slot) for place, slot in enumerate(task.slots) if slot.outcome in (None, *PAID))
    return [(place, slot.result) for place, slot in stated if slot.result is not None]


def _check_draw(task: Task, draw_number: int, records: AuctionRecords) -> TaskCheck:
    name, award = f"draw {draw_number}", records.award
    drawn = [slot.device for slot in task.slots if slot.draw == draw_number]
    if award is None or award.seed is None:
        is_open = task.state is TaskState.VOLUNTEERING and draw_number == task.draws
        text = f"{counted(len(records.bids), 'device')} offered, none drawn"
        return TaskCheck(name, is_right=None if is_open else not drawn, says=text)
    # One place is sold by auction, and only the others are drawn.
    places_to_draw = JURORS if _is_of_jury(task, draw_number) else task.order.slots - 1
    due = replicas.drawn(records.bids, award.seed, places_to_draw)
    if not drawn:  # Too few were offered, or the place was sold again since
        too_few = len(due) < places_to_draw
        return TaskCheck(
            name,
            is_right=True if too_few else None,
            says=f"{counted(len(due), 'owner')} offered for {counted(places_to_draw, 'place')}",
        )
    problems = [] if drawn == due else [Difference("draw", "the places differ from the draw with this seed")]
    problems += _price_differences(task, draw_number)
    text = f"{len(due)} of {counted(len(records.bids), 'device')}, as drawn with this seed"
    return compared(name, problems, text)


def _is_of_jury(task: Task, draw_number: int) -> bool:
    return bool(task.jury_from) and draw_number == task.draws


def _price_differences(task: Task, draw_number: int) -> list[Difference]:
    """Return the drawn places with another price than the award's."""
    award_price = task.slots[0].price
    places = [place for place, slot in enumerate(task.slots) if slot.draw == draw_number and slot.price != award_price]
    return [Difference("price", f"place {place} has a price that differs from the award's") for place in places]


def _check_findings(task: Task) -> list[TaskCheck]:
    """Check the majority's result, the jury's if there is one, and the outcomes that follow from it."""
    places = range(task.jury_from, len(task.slots)) if task.jury_from else range(len(task.slots))
    findings = replicas.findings_of(task, places)
    if not findings:
        return []
    name, place_count = ("jury" if task.jury_from else "replicas"), len(places)
    agreement = replicas.agreed(findings.values(), place_count)
    if task.state is not TaskState.ENDED:
        return [TaskCheck(name, is_right=None, says=f"{len(findings)} of {place_count} have revealed their results")]
    problems = list[Difference]()
    for place, finding in replicas.findings_of(task, range(len(task.slots))).items():
        outcome = task.slots[place].outcome
        if agreement is not None and finding == agreement[0] and outcome in UNPAID:
            problems.append(Difference("unpaid", f"place {place} agrees with the majority and is not paid"))
        if (
            outcome in PAID
            and (agreement is None or finding != agreement[0])
            and not _is_unheard(task, place_count, len(findings))
        ):
            problems.append(Difference("paid", f"place {place} disagrees with the majority and is paid"))
    right = (
        "no majority agrees"
        if agreement is None
        else f"{agreement[1]} of {place_count} have the result 0x{agreement[0][0].hex()}"
    )
    return [compared(name, problems, right)]


def _is_unheard(task: Task, place_count: int, opened: int) -> bool:
    """Return True if half or less of the jurors opened a result, so that the jury does not count."""
    return bool(task.jury_from) and 2 * opened <= place_count
