"""Seats in cases about tasks.

Courts may judge a slot more than once, so a seat is named by the block that drew its bench.
"""

from __future__ import annotations

from gpu_tasks.market.courts.courts_api import SeatStatus
from gpu_tasks.market.courts.opinions import Statement, Unanswerable
from gpu_tasks.market.training.tasks import slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.chain.port import ChainError, TaskPort
from gpu_tasks.provider.duties.cases import GIVE_UP_BLOCKS, Lacking, Search, seated
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.seats import UNANSWERABLE, SeatDuty
from gpu_tasks.provider.tasks.task_verdicts import TaskCase, find_task_verdict, unshown


class TaskJudgeDuty(SeatDuty[TaskCase]):
    """The steps of all cases about tasks."""

    parts: Parts[TaskPort]

    async def _case(self, seat: SeatStatus) -> TaskCase | None:
        if seat.status.case.handler != TrainingMarket.index:
            return None
        task_id = await self.parts.chain.task_of_case(seat.id)
        task = None if task_id is None else (await self.parts.chain.tasks([task_id])).get(task_id)
        if task_id is None or task is None:
            return None
        place = next((place for place in range(len(task.slots)) if slot_case(task_id, place) == seat.id), None)
        return None if place is None else TaskCase(*seated(seat), task_id, task, place)

    def _given_up(self, case: TaskCase, search: Search, newest_height: int) -> Statement | None:
        """Return the statement for missing data.

        If the case is not about the input, a result shows that the input was available.
        """
        if not 0 < case.commits_until <= newest_height + GIVE_UP_BLOCKS:
            return None
        if search.lacks is Lacking.INPUT and case.is_about_input:
            return UNANSWERABLE
        return unshown(case) if search.lacks is Lacking.STATES else None

    async def _found(self, case: TaskCase, search: Search) -> Statement:
        return await find_task_verdict(self.parts, case, search)

    def _keep(self, case: TaskCase, statement: Statement) -> None:
        super()._keep(case, statement)
        kept_opinion = statement.opinion
        opinion_text = (
            "no result is right" if isinstance(kept_opinion, Unanswerable) else f"0x{kept_opinion.root.hex()[:8]}.."
        )
        self.parts.telemetry.tell("judged", **case.subject, said=opinion_text)

    async def _check_final(self, case: TaskCase) -> None:
        final_task = (await self.parts.chain.tasks([case.task_id], final=True)).get(case.task_id)
        # A node could have served another task. An opinion about it would be wrong.
        if (
            final_task is None
            or final_task.order != case.task.order
            or final_task.slots[case.place : case.place + 1] != (case.slot,)
        ):
            raise ChainError(
                "the node's task differs from the final chain's, so the judgement is void", code="task_not_final"
            )
