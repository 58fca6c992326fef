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
    async def _found(self, case: CaseT, search: Search) -> Statement:
        """Return the right statement. Raise UnusableInputError or BadRequestError if there is none.

        Raise BlobError, ExecutionError or ChainError if this judge cannot tell.
        """

    @abstractmethod
    def _given_up(self, case: CaseT, search: Search, newest_height: int) -> Statement | None:
        """Return the statement for data that others should have but do not provide, shortly before commits close."""

    @abstractmethod
    async def _check_final(self, case: CaseT) -> None:
        """Raise ChainError if the judged subject differs from the final chain's."""

    async def step(self, view: View) -> None:
        """Take the due steps of all seats."""
        self.book.look(view)
        for judge_seat in view.seats:
            with telling_refusals(self.parts.telemetry, judge_seat.id):
                case = await self._case(judge_seat)
                if case is not None and is_outvoted(judge_seat, view.newest):
                    await self._take_if_due(case, JudgeStep.APPEAL)
                elif case is not None and is_sitting(judge_seat):
                    await self._take_seat(case, view)

    def learn(self, ended: Endings) -> None:
        """Forget ended cases."""
        for case_key in ended.cases:
            self.book.forget(case_key)
            self._seen_final.discard(case_key)
            self._searches.pop(case_key, None)

    async def _take_seat(self, case: CaseT, view: View) -> None:
        judge_step = next_step(case, self.parts.journal.cases.get(case.key))
        if judge_step is JudgeStep.JUDGE:
            search = self._searches.setdefault(case.key, Search())
            # The height of a fresh view counts, so that a slow store can delay the search but not the answer.
            given_up = self._given_up(case, search, view.newest)
            if given_up is None:
                self.book.tasks.start(case.key, self._judge(case, search))
                return
            # The search still waits for a store. Its late result must not contradict the statement that is sent now.
            self.book.tasks.cancel(case.key)
            self._keep(case, given_up)
            judge_step = JudgeStep.COMMIT
        if judge_step is not JudgeStep.NOTHING and await self._may_be_seen(case, judge_step):
            await self._take_if_due(case, judge_step)

    async def _judge(self, case: CaseT, search: Search) -> None:
        """Find the right answer, or send nothing if this machine cannot tell.

        Silence costs a fee at most, and is no lie.
        """
        tell = self.parts.telemetry.tell
        try:
            try:
                statement = await self._found(case, search)
            except (UnusableInputError, BadRequestError) as error:
                tell("input_bad", **case.subject, **failure(error))
                statement = UNANSWERABLE
            # A node could hand a judge another case, and the judge would lose its stake for the answer.
            await self._check_final(case)
            self._keep(case, statement)
            await self._take_if_due(case, JudgeStep.COMMIT)
        except (BlobError, ExecutionError, ChainError) as error:
            tell("no_verdict", **case.subject, **failure(error))

    def _keep(self, case: CaseT, statement: Statement) -> None:
        """Write an opinion to the journal before any other party learns of it."""
        assert case.key not in self.parts.journal.cases  # no case is judged twice
        self.parts.journal.cases.put(case.key, CaseEntry(statement, os.urandom(32)))

    async def _may_be_seen(self, case: CaseT, judge_step: JudgeStep) -> bool:
        """Return True if a step reveals nothing too early: an opinion is shown only after its commitment is final.

        Other judges could copy it. A node that suppressed the commitment could claim that openings are due.
        """
        if judge_step is not JudgeStep.OPEN or case.key in self._seen_final:
            return True
        own_seats = [own_seat for own_seat in await self.parts.chain.final_seats() if own_seat.id == case.id]
        is_committed = any(own_seat.seat.commitment == self._commitment(case) for own_seat in own_seats)
        if is_committed:
            self._seen_final.add(case.key)
        else:
            problem = "the final chain does not have the opinion's commitment"
            self.parts.telemetry.tell("not_final", **case.subject, problem=problem)
        return is_committed

    async def _take_if_due(self, case: CaseT, judge_step: JudgeStep) -> None:
        if self.book.is_due(case.key, judge_step):
            await self.book.send(self._step_message(case, judge_step))

    def _commitment(self, case: CaseT) -> bytes:
        identity, case_entry = self.parts.identity, self.parts.journal.cases[case.key]
        return opinion_commitment(
            identity.genesis, case.id, case.seat.bench, identity.stash, case_entry.statement, case_entry.salt
        )

    def _step_message(self, case: CaseT, judge_step: JudgeStep) -> StepMessage:
        """Return the message of a step. An opinion is in the journal before it is sent."""
        step_details: dict[str, Detail] = {**case.subject, "bench": case.seat.bench}
        match judge_step:
            case JudgeStep.COMMIT:
                call = Courts.commit_opinion(case_id=case.id, commitment=self._commitment(case))
                return StepMessage(call, "verdict_commit", step_details)
            case JudgeStep.OPEN:
                case_entry = self.parts.journal.cases[case.key]
                call = Courts.open_opinion(case_id=case.id, statement=case_entry.statement, salt=case_entry.salt)
                return StepMessage(call, "verdict_reveal", step_details)
            case JudgeStep.APPEAL:
                return StepMessage(Courts.appeal(case_id=case.id), "appealed", step_details)
            case _:
                raise AssertionError(f"{judge_step.name} is not a step with a transaction")
