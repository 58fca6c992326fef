"""A seat in any case: find the right answer, commit to it, open it, and appeal if outvoted.

Invariants:

* The opinion and its salt are in the journal before its commitment is sent.
* A restart sends the same opinion.
* No opinion is opened before its commitment is in the final chain.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Generic, TypeVar

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.courts_api import SeatStatus
from gpu_tasks.market.courts.opinions import Statement, Unanswerable, opinion_commitment
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import ChainError, CourtPort, View
from gpu_tasks.provider.duties.appeals import is_outvoted
from gpu_tasks.provider.duties.cases import JudgeStep, Search, SeatedCase, is_sitting, next_step
from gpu_tasks.provider.duties.duty import Duty, Endings, telling_refusals
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import StepBook, StepMessage
from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError
from gpu_tasks.provider.journal.journal import CaseKey
from gpu_tasks.provider.journal.records import CaseEntry
from gpu_tasks.provider.telemetry import Detail, failure

UNANSWERABLE = Statement(Unanswerable(), bytes(32))

CaseT = TypeVar("CaseT", bound=SeatedCase)


class SeatDuty(Duty, Generic[CaseT]):
    """The steps of all cases of a kind."""

    parts: Parts[CourtPort]

    def __init__(self, parts: Parts[CourtPort]) -> None:
        """It computes on any free device. Races go first (`execution.line`)."""
        self.parts = parts
        self.book: StepBook[JudgeStep] = StepBook(parts)
        self.running = (self.book.tasks,)
        self._seen_final: set[CaseKey] = set()
        self._searches: dict[CaseKey, Search] = {}

    @abstractmethod
    async def _case(self, judge_seat: SeatStatus) -> CaseT | None:
        """Return the case of a seat; None if it is another duty's."""

    @abstractmethod
    async def _found(self, judged_case: CaseT, verdict_search: Search) -> Statement:
        """Return the right statement. Raise UnusableInputError or BadRequestError if there is none.

        Raise BlobError, ExecutionError or ChainError if this judge cannot tell.
        """

    @abstractmethod
    def _given_up(self, judged_case: CaseT, verdict_search: Search, newest_height: int) -> Statement | None:
        """Return the statement for data that others should have but do not provide, shortly before commits close."""

    @abstractmethod
    async def _check_final(self, judged_case: CaseT) -> None:
        """Raise ChainError if the judged subject differs from the final chain's."""

    async def step(self, view: View) -> None:
        """Take the due steps of all seats."""
        self.book.look(view)
        for judge_seat in view.seats:
            with telling_refusals(self.parts.telemetry, judge_seat.id):
                judged_case = await self._case(judge_seat)
                if judged_case is not None and is_outvoted(judge_seat, view.newest):
                    await self._take_if_due(judged_case, JudgeStep.APPEAL)
                elif judged_case is not None and is_sitting(judge_seat):
                    await self._take_seat(judged_case, view)

    def learn(self, ended: Endings) -> None:
        """Forget ended cases."""
        for case_key in ended.cases:
            self.book.forget(case_key)
            self._seen_final.discard(case_key)
            self._searches.pop(case_key, None)

    async def _take_seat(self, judged_case: CaseT, chain_view: View) -> None:
        judge_step = next_step(judged_case, self.parts.journal.cases.get(judged_case.key))
        if judge_step is JudgeStep.JUDGE:
            verdict_search = self._searches.setdefault(judged_case.key, Search())
            # The height of a fresh view counts, so that a slow store can delay the search but not the answer.
            given_up = self._given_up(judged_case, verdict_search, chain_view.newest)
            if given_up is None:
                self.book.tasks.start(judged_case.key, self._judge(judged_case, verdict_search))
                return
            # The search still waits for a store. Its late result must not contradict the statement that is sent now.
            self.book.tasks.cancel(judged_case.key)
            self._keep(judged_case, given_up)
            judge_step = JudgeStep.COMMIT
        if judge_step is not JudgeStep.NOTHING and await self._may_be_seen(judged_case, judge_step):
            await self._take_if_due(judged_case, judge_step)

    async def _judge(self, judged_case: CaseT, verdict_search: Search) -> None:
        """Find the right answer, or send nothing if this machine cannot tell.

        Silence costs a fee at most, and is no lie.
        """
        tell = self.parts.telemetry.tell
        try:
            try:
                statement = await self._found(judged_case, verdict_search)
            except (UnusableInputError, BadRequestError) as judge_error:
                tell("input_bad", **judged_case.subject, **failure(judge_error))
                statement = UNANSWERABLE
            # A node could hand a judge another case, and the judge would lose its stake for the answer.
            await self._check_final(judged_case)
            self._keep(judged_case, statement)
            await self._take_if_due(judged_case, JudgeStep.COMMIT)
        except (BlobError, ExecutionError, ChainError) as judge_error:
            tell("no_verdict", **judged_case.subject, **failure(judge_error))

    def _keep(self, judged_case: CaseT, statement: Statement) -> None:
        """Write an opinion to the journal before any other party learns of it."""
        assert judged_case.key not in self.parts.journal.cases  # no case is judged twice
        self.parts.journal.cases.put(judged_case.key, CaseEntry(statement, os.urandom(32)))

    async def _may_be_seen(self, judged_case: CaseT, judge_step: JudgeStep) -> bool:
        """Return True if a step reveals nothing too early: an opinion is shown only after its commitment is final.

        Other judges could copy it. A node that suppressed the commitment could claim that openings are due.
        """
        if judge_step is not JudgeStep.OPEN or judged_case.key in self._seen_final:
            return True
        own_seats = [own_seat for own_seat in await self.parts.chain.final_seats() if own_seat.id == judged_case.id]
        is_committed = any(own_seat.seat.commitment == self._commitment(judged_case) for own_seat in own_seats)
        if is_committed:
            self._seen_final.add(judged_case.key)
        else:
            difference = "the final chain does not have the opinion's commitment"
            self.parts.telemetry.tell("not_final", **judged_case.subject, problem=difference)
        return is_committed

    async def _take_if_due(self, judged_case: CaseT, judge_step: JudgeStep) -> None:
        if self.book.is_due(judged_case.key, judge_step):
            await self.book.send(self._step_message(judged_case, judge_step))

    def _commitment(self, judged_case: CaseT) -> bytes:
        identity, case_entry = self.parts.identity, self.parts.journal.cases[judged_case.key]
        return opinion_commitment(
            identity.genesis,
            judged_case.id,
            judged_case.seat.bench,
            identity.stash,
            case_entry.statement,
            case_entry.salt,
        )

    def _step_message(self, judged_case: CaseT, judge_step: JudgeStep) -> StepMessage:
        """Return the message of a step. An opinion is in the journal before it is sent."""
        step_details: dict[str, Detail] = {**judged_case.subject, "bench": judged_case.seat.bench}
        match judge_step:
            case JudgeStep.COMMIT:
                open_call = Courts.commit_opinion(case_id=judged_case.id, commitment=self._commitment(judged_case))
                return StepMessage(open_call, "verdict_commit", step_details)
            case JudgeStep.OPEN:
                case_entry = self.parts.journal.cases[judged_case.key]
                open_call = Courts.open_opinion(
                    case_id=judged_case.id, statement=case_entry.statement, salt=case_entry.salt
                )
                return StepMessage(open_call, "verdict_reveal", step_details)
            case JudgeStep.APPEAL:
                return StepMessage(Courts.appeal(case_id=judged_case.id), "appealed", step_details)
            case _:
                raise AssertionError(f"{judge_step.name} is not a step with a transaction")
