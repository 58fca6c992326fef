"""A seat in a case about a task: find what is right, commit to it, open it; appeal if it is outvoted.

Always: the opinion and its salt are in the journal before its commitment leaves; the same opinion is sent after a
restart; no opinion is opened before its commit was seen in the final chain. A slot may come before the courts more than
once, so that a seat is named by the block that drew its bench.
"""

from __future__ import annotations

import os

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Statement, Unanswerable, opinion_commitment
from gpu_tasks.market.courts_api import SeatStatus
from gpu_tasks.market.training.tasks import slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import ChainError, TaskPort, View
from gpu_tasks.provider.duties.appealing import is_outvoted
from gpu_tasks.provider.duties.cases import GIVE_UP_BLOCKS, TASK_CASES, JudgeStep, is_sitting, next_step
from gpu_tasks.provider.duties.duty import Duty, Endings, telling_refusals
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sending import StepBook, StepMessage
from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError
from gpu_tasks.provider.journal.journal import CaseKey
from gpu_tasks.provider.journal.records import Judged
from gpu_tasks.provider.tasks.task_verdicts import Lacking, Search, TaskCase, find_task_verdict, unshown
from gpu_tasks.provider.telemetry import Detail

UNANSWERABLE = Statement(Unanswerable(), bytes(32))


class TaskJudgeDuty(Duty):
    """Takes the steps of all cases about tasks."""

    def __init__(self, parts: Parts[TaskPort]) -> None:
        """Computes on any device that is free."""
        self.parts = parts
        self.book: StepBook[JudgeStep] = StepBook(parts)
        self.running = (self.book.tasks,)
        self._seen_final: set[CaseKey] = set()
        self._searches: dict[CaseKey, Search] = {}

    async def step(self, view: View) -> None:
        """Do what all seats in cases about tasks ask for now."""
        self.book.look(view)
        for seat in view.seats:
            if seat.status.case.handler == TrainingMarket.index:
                with telling_refusals(self.parts.telemetry, seat.id):
                    await self.step_seat(seat, view)

    async def step_seat(self, seat: SeatStatus, view: View) -> None:
        """Do what a seat asks for now; ChainError if the node does not take it."""
        case = await self._case(seat)
        if case is None:
            return
        if is_outvoted(seat, view.newest):
            await self._take_if_due(case, JudgeStep.APPEAL)
        elif is_sitting(seat):
            await self._sit(case, view)

    def learn(self, ended: Endings) -> None:
        """End the cases that are over."""
        for key in ended.cases:
            self.end(key)

    def end(self, key: CaseKey) -> None:
        """A case is over, and the journal says so."""
        self.book.forget(key)
        self._seen_final.discard(key)
        self._searches.pop(key, None)

    async def _case(self, seat: SeatStatus) -> TaskCase | None:
        task_id = await self.parts.chain.task_of_case(seat.id)
        task = None if task_id is None else (await self.parts.chain.tasks([task_id])).get(task_id)
        if task_id is None or task is None:
            return None
        place = next((place for place in range(len(task.slots)) if slot_case(task_id, place) == seat.id), None)
        status = seat.status
        if place is None:
            return None
        return TaskCase(seat.id, task_id, task, place, status.case, seat.seat, status.commits_until, status.opens_from)

    async def _sit(self, case: TaskCase, view: View) -> None:
        key = case_key(case)
        step = next_step(case, self.parts.journal.cases.get(key))
        given_up = self._given_up(case, view.newest) if step is JudgeStep.JUDGE else None
        if given_up is not None:
            self.book.tasks.cancel(key)
            self._keep(case, given_up)
            await self._take_if_due(case, JudgeStep.COMMIT)
        elif step is JudgeStep.JUDGE:
            self.book.tasks.start(key, self._judge(case))
        elif step is not JudgeStep.NOTHING and await self._may_be_seen(case, step):
            await self._take_if_due(case, step)

    def _given_up(self, case: TaskCase, newest: int) -> Statement | None:
        """What is said where that is not to be had which others should have, and commits are about to close.

        By the height of a fresh view: a store that drips keeps the search, not the way out of the case. An input that
        is not asked about was there once: somebody has a result.
        """
        search = self._searches.get(case_key(case), Search())
        if not 0 < case.commits_until <= newest + GIVE_UP_BLOCKS:
            return None
        if search.lacks is Lacking.INPUT and case.is_about_input:
            return UNANSWERABLE
        return unshown(case) if search.lacks is Lacking.STATES else None

    async def _judge(self, case: TaskCase) -> None:
        """Find what is right. What this machine cannot tell is not said: silence costs a fee, and is no lie."""
        search = self._searches.setdefault(case_key(case), Search())
        tell = self.parts.telemetry.tell
        try:
            try:
                statement = await find_task_verdict(self.parts, case, search)
            except (UnusableInputError, BadRequestError) as error:
                tell("input_bad", task=case.task_id, problem=str(error))
                statement = UNANSWERABLE
            await self._check_final(case)
            self._keep(case, statement)
            await self._take_if_due(case, JudgeStep.COMMIT)
        except (BlobError, ExecutionError, ChainError) as error:
            tell("no_verdict", task=case.task_id, problem=str(error))

    def _keep(self, case: TaskCase, statement: Statement) -> None:
        """An opinion is in the journal before anybody hears of it."""
        key = case_key(case)
        assert key not in self.parts.journal.cases  # nobody is judged twice
        self.parts.journal.append(Judged(*key, statement, os.urandom(32)))
        opinion = statement.opinion
        said = "nothing is right" if isinstance(opinion, Unanswerable) else f"0x{opinion.root.hex()[:8]}.."
        self.parts.telemetry.tell("judged", task=case.task_id, place=case.place, said=said)

    async def _check_final(self, case: TaskCase) -> None:
        """ChainError if what was judged is not what the final chain asks for."""
        final = (await self.parts.chain.tasks([case.task_id], final=True)).get(case.task_id)
        if final is None or final.order != case.task.order or final.slots[case.place : case.place + 1] != (case.slot,):
            raise ChainError("the node said another task than the final chain holds: judged in vain")

    async def _may_be_seen(self, case: TaskCase, step: JudgeStep) -> bool:
        """Whether a step gives nothing away: an opinion is shown only once the final chain holds its commitment."""
        key = case_key(case)
        if step is not JudgeStep.OPEN or key in self._seen_final:
            return True
        own = [seat for seat in await self.parts.chain.final_seats() if seat.id == case.id]
        is_committed = any(seat.seat.commitment == self._commitment(case) for seat in own)
        if is_committed:
            self._seen_final.add(key)
        else:
            problem = "the final chain does not hold the opinion's commitment"
            self.parts.telemetry.tell("not_final", task=case.task_id, problem=problem)
        return is_committed

    async def _take_if_due(self, case: TaskCase, step: JudgeStep) -> None:
        if self.book.is_due(case_key(case), step):
            await self.book.send(self._message(case, step))

    def _commitment(self, case: TaskCase) -> bytes:
        identity, entry = self.parts.identity, self.parts.journal.cases[case_key(case)]
        return opinion_commitment(
            identity.genesis, case.id, case.seat.bench, identity.stash, entry.statement, entry.salt
        )

    def _message(self, case: TaskCase, step: JudgeStep) -> StepMessage:
        """The table of steps: what the world sees of each. `Judged` is in the journal before an opinion leaves."""
        details: dict[str, Detail] = {"task": case.task_id, "place": case.place, "bench": case.seat.bench}
        match step:
            case JudgeStep.COMMIT:
                call = Courts.commit_opinion(case_id=case.id, commitment=self._commitment(case))
                return StepMessage(call, "verdict_commit", details)
            case JudgeStep.OPEN:
                entry = self.parts.journal.cases[case_key(case)]
                call = Courts.open_opinion(case_id=case.id, statement=entry.statement, salt=entry.salt)
                return StepMessage(call, "verdict_reveal", details)
            case JudgeStep.APPEAL:
                return StepMessage(Courts.appeal(case_id=case.id), "appealed", details)
            case _:
                raise AssertionError(f"{step.name} is not a step that the world sees")


def case_key(case: TaskCase) -> CaseKey:
    """How the journal names a seat: the same slot may be judged again, by benches that later blocks draw."""
    drawn_at = 0 if case.record.round is None else case.record.round.drawn_at
    return case.id, TASK_CASES + drawn_at * len(BenchKind) + case.seat.bench
