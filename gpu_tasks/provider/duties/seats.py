"""A seat in a case, whatever that is about: find what is right, commit to it, open it; appeal if it is outvoted.

Always: the opinion and its salt are in the journal before its commitment leaves; the same opinion is sent after a
restart; no opinion is opened before its commit was seen in the final chain.
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
from gpu_tasks.provider.telemetry import Detail

UNANSWERABLE = Statement(Unanswerable(), bytes(32))

CaseT = TypeVar("CaseT", bound=SeatedCase)


class SeatDuty(Duty, Generic[CaseT]):
    """Takes the steps of all cases of a kind."""

    parts: Parts[CourtPort]

    def __init__(self, parts: Parts[CourtPort]) -> None:
        """Computes on any device that is free; races go before (`execution.line`)."""
        self.parts = parts
        self.book: StepBook[JudgeStep] = StepBook(parts)
        self.running = (self.book.tasks,)
        self._seen_final: set[CaseKey] = set()
        self._searches: dict[CaseKey, Search] = {}

    @abstractmethod
    async def _case(self, seat: SeatStatus) -> CaseT | None:
        """The case of a seat; None for one that is another duty's."""

    @abstractmethod
    async def _found(self, case: CaseT, search: Search) -> Statement:
        """What is right; UnusableInputError and BadRequestError where nothing is.

        BlobError, ExecutionError and ChainError where this judge cannot tell.
        """

    @abstractmethod
    def _given_up(self, case: CaseT, search: Search, newest: int) -> Statement | None:
        """What is said where that is not to be had which others should have, and commits are about to close."""

    @abstractmethod
    async def _check_final(self, case: CaseT) -> None:
        """ChainError if what was judged is not what the final chain asks for."""

    async def step(self, view: View) -> None:
        """Do what all seats ask for now."""
        self.book.look(view)
        for seat in view.seats:
            with telling_refusals(self.parts.telemetry, seat.id):
                case = await self._case(seat)
                if case is not None and is_outvoted(seat, view.newest):
                    await self._take_if_due(case, JudgeStep.APPEAL)
                elif case is not None and is_sitting(seat):
                    await self._sit(case, view)

    def learn(self, ended: Endings) -> None:
        """Forget the cases that are over."""
        for key in ended.cases:
            self.book.forget(key)
            self._seen_final.discard(key)
            self._searches.pop(key, None)

    async def _sit(self, case: CaseT, view: View) -> None:
        step = next_step(case, self.parts.journal.cases.get(case.key))
        if step is JudgeStep.JUDGE:
            search = self._searches.setdefault(case.key, Search())
            # By the height of a fresh view: a store that drips keeps the search, not the way out of the case.
            given_up = self._given_up(case, search, view.newest)
            if given_up is None:
                self.book.tasks.start(case.key, self._judge(case, search))
                return
            self.book.tasks.cancel(case.key)
            self._keep(case, given_up)
            step = JudgeStep.COMMIT
        if step is not JudgeStep.NOTHING and await self._may_be_seen(case, step):
            await self._take_if_due(case, step)

    async def _judge(self, case: CaseT, search: Search) -> None:
        """Find what is right. What this machine cannot tell is not said: silence costs a fee at most, and is no lie."""
        tell = self.parts.telemetry.tell
        try:
            try:
                statement = await self._found(case, search)
            except (UnusableInputError, BadRequestError) as error:
                tell("input_bad", **case.subject, problem=str(error))
                statement = UNANSWERABLE
            await self._check_final(case)
            self._keep(case, statement)
            await self._take_if_due(case, JudgeStep.COMMIT)
        except (BlobError, ExecutionError, ChainError) as error:
            tell("no_verdict", **case.subject, problem=str(error))

    def _keep(self, case: CaseT, statement: Statement) -> None:
        """An opinion is in the journal before anybody hears of it."""
        assert case.key not in self.parts.journal.cases  # nobody is judged twice
        self.parts.journal.cases.put(case.key, CaseEntry(statement, os.urandom(32)))

    async def _may_be_seen(self, case: CaseT, step: JudgeStep) -> bool:
        """Whether a step gives nothing away: an opinion is shown only once the final chain holds its commitment.

        Other judges would copy it, and a node that swallowed the commit could say that openings are due.
        """
        if step is not JudgeStep.OPEN or case.key in self._seen_final:
            return True
        own = [seat for seat in await self.parts.chain.final_seats() if seat.id == case.id]
        is_committed = any(seat.seat.commitment == self._commitment(case) for seat in own)
        if is_committed:
            self._seen_final.add(case.key)
        else:
            problem = "the final chain does not hold the opinion's commitment"
            self.parts.telemetry.tell("not_final", **case.subject, problem=problem)
        return is_committed

    async def _take_if_due(self, case: CaseT, step: JudgeStep) -> None:
        if self.book.is_due(case.key, step):
            await self.book.send(self._message(case, step))

    def _commitment(self, case: CaseT) -> bytes:
        identity, entry = self.parts.identity, self.parts.journal.cases[case.key]
        return opinion_commitment(
            identity.genesis, case.id, case.seat.bench, identity.stash, entry.statement, entry.salt
        )

    def _message(self, case: CaseT, step: JudgeStep) -> StepMessage:
        """The table of steps: what the world sees of each. An opinion is in the journal before it leaves."""
        details: dict[str, Detail] = {**case.subject, "bench": case.seat.bench}
        match step:
            case JudgeStep.COMMIT:
                call = Courts.commit_opinion(case_id=case.id, commitment=self._commitment(case))
                return StepMessage(call, "verdict_commit", details)
            case JudgeStep.OPEN:
                entry = self.parts.journal.cases[case.key]
                call = Courts.open_opinion(case_id=case.id, statement=entry.statement, salt=entry.salt)
                return StepMessage(call, "verdict_reveal", details)
            case JudgeStep.APPEAL:
                return StepMessage(Courts.appeal(case_id=case.id), "appealed", details)
            case _:
                raise AssertionError(f"{step.name} is not a step that the world sees")
