"""Replicas of a task, checked against the records of a chain: the draws, and the majority's result.

Invariant: only records of the state are read. A draw is repeated from its seed and the offered devices.
"""

from collections.abc import Sequence

from gpu_tasks.market.training import replicas
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task, TaskResult, TaskState
from gpu_tasks.tasks.task_check import AuctionRecords, Difference, TaskCheck, compared
from wallet.amounts import counted

PAID = (TaskOutcome.ON_TIME, TaskOutcome.LATE)


def check_replicas(task: Task, draws: Sequence[AuctionRecords]) -> list[TaskCheck]:
    """Return checks of the draws of a task's places, in their order, and of the agreement of its replicas."""
    checks = [_check_draw(task, draw_number, records) for draw_number, records in enumerate(draws, 1)]
    return [*checks, *_check_findings(task)]


def agreed_results(task: Task) -> list[tuple[int, TaskResult]]:
    """Return the places and results that the majority agrees on."""
    paid = ((place, slot.result) for place, slot in enumerate(task.slots) if slot.outcome in PAID)
    return [(place, result) for place, result in paid if result is not None]


def _check_draw(task: Task, draw_number: int, records: AuctionRecords) -> TaskCheck:
    name, award = f"draw {draw_number}", records.award
    drawn = [slot.device for slot in task.slots if slot.draw == draw_number]
    if award is None or award.seed is None:
        is_open = task.state is TaskState.VOLUNTEERING and draw_number == task.draws
        text = f"{counted(len(records.bids), 'device')} offered, none drawn"
        return TaskCheck(name, is_right=None if is_open else not drawn, says=text)
    # One place is sold by auction, and only the others are drawn.
    places_to_draw = task.order.slots - 1
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


def _price_differences(task: Task, draw_number: int) -> list[Difference]:
    """Return the drawn places with another price than the award's."""
    award_price = task.slots[0].price
    places = [place for place, slot in enumerate(task.slots) if slot.draw == draw_number and slot.price != award_price]
    return [Difference("price", f"place {place} has a price that differs from the award's") for place in places]


def _check_findings(task: Task) -> list[TaskCheck]:
    """Check the majority's result, and the outcomes that follow from it."""
    findings, place_count = replicas.findings_of(task), len(task.slots)
    if not findings:
        return []
    agreement = replicas.agreed(findings.values(), place_count)
    if task.state is not TaskState.ENDED:
        return [
            TaskCheck("replicas", is_right=None, says=f"{len(findings)} of {place_count} have revealed their results")
        ]
    problems = list[Difference]()
    for place, finding in findings.items():
        outcome, is_agreed = task.slots[place].outcome, agreement is not None and finding == agreement[0]
        if is_agreed and outcome is TaskOutcome.OUTVOTED:
            problems.append(Difference("unpaid", f"place {place} agrees with the majority and is not paid"))
        if outcome in PAID and not is_agreed:
            problems.append(Difference("paid", f"place {place} disagrees with the majority and is paid"))
    right = (
        "no majority agrees"
        if agreement is None
        else f"{agreement[1]} of {place_count} have the result 0x{agreement[0][0].hex()}"
    )
    return [compared("replicas", problems, right)]
