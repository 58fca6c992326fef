"""A seat in a case about a unit: find the right result, commit to it, open it; appeal if it is outvoted.

Always: the opinion and its salt are in the journal before its commitment leaves; the same opinion is sent after a
restart; no opinion is opened before its commit was seen in the final chain.
"""

from __future__ import annotations

import os

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Statement, Unanswerable, opinion_commitment
from gpu_tasks.market.courts_api import SeatStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.blobs.kept_inputs import InputUse
from gpu_tasks.provider.chain.port import ChainError, UnitCasePort, View
from gpu_tasks.provider.duties.appealing import is_outvoted
from gpu_tasks.provider.duties.cases import (
    Case,
    DisputedLeaf,
    JudgeStep,
    case_of,
    is_sitting,
    leaf_case_of,
    must_give_up,
    next_step,
)
from gpu_tasks.provider.duties.duty import Duty, Endings, telling_refusals
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sending import StepBook, StepMessage
from gpu_tasks.provider.duties.verdicts import find_verdict, leaf_verdict
from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError
from gpu_tasks.provider.journal.journal import CaseKey
from gpu_tasks.provider.journal.records import Judged
from gpu_tasks.provider.telemetry import Detail
from gpu_tasks.workloads.form import WorkloadForm

UNANSWERABLE = Statement(Unanswerable(), bytes(32))


class JudgeDuty(Duty):
    """Takes the steps of all cases."""

    def __init__(self, parts: Parts[UnitCasePort]) -> None:
        """Checks on any device that is free; races go before (`execution.line`)."""
        self.parts = parts
        self.book: StepBook[JudgeStep] = StepBook(parts)
        self.running = (self.book.tasks,)
        self._seen_final: set[CaseKey] = set()
        self._without_input: set[CaseKey] = set()

    async def step(self, view: View) -> None:
        """Do what all seats ask for now."""
        self.book.look(view)
        for seat in view.seats:
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

    async def _case(self, seat: SeatStatus) -> Case | None:
        """The case of a seat; None for one that is another duty's."""
        status = await self.parts.chain.unit(seat.id) if seat.status.case.handler == InferenceMarket.index else None
        if status is None:
            return None
        dispute = await self.parts.chain.final_dispute(seat.id) if status.unit.leaf_audit_ppm else None
        if dispute is None:
            return case_of(seat, status.unit)
        # another stage: its case is not final yet, or over
        return leaf_case_of(seat, status.unit, dispute.leaf) if dispute.stage is DisputeStage.JUDGED else None

    async def _sit(self, case: Case, view: View) -> None:
        step = next_step(case, self.parts.journal.cases.get(case.key))
        if step is JudgeStep.JUDGE and case.key in self._without_input and must_give_up(case, view.newest):
            # By the height of a fresh view: a store that drips keeps the search, not the way out of the case.
            self.book.tasks.cancel(case.key)
            self._without_input.discard(case.key)
            self._keep(case, UNANSWERABLE)
            await self._take_if_due(case, JudgeStep.COMMIT)
        elif step is JudgeStep.JUDGE:
            self.book.tasks.start(case.key, self._judge(case))
        elif step is not JudgeStep.NOTHING and await self._may_be_seen(case, step):
            await self._take_if_due(case, step)

    def learn(self, ended: Endings) -> None:
        """End the cases that are over."""
        for key in ended.cases:
            self.end(key)

    def end(self, key: CaseKey) -> None:
        """A case is over, and the journal says so."""
        assert key not in self.parts.journal.cases or self.parts.journal.cases[key].is_over
        self.book.forget(key)
        self._seen_final.discard(key)
        self._without_input.discard(key)

    async def _may_be_seen(self, case: Case, step: JudgeStep) -> bool:
        """Whether a step gives nothing away: an opinion is shown only once the final chain holds its commitment.

        Other judges would copy it, and a node that swallowed the commit could say that openings are due.
        """
        if step is not JudgeStep.OPEN or case.key in self._seen_final:
            return True
        own = [seat for seat in await self.parts.chain.final_seats() if seat.id == case.unit_id]
        is_committed = any(seat.seat.commitment == self._commitment(case) for seat in own)
        if is_committed:
            self._seen_final.add(case.key)
        else:
            problem = "the final chain does not hold the opinion's commitment"
            self.parts.telemetry.tell("not_final", unit=case.unit_id, problem=problem)
        return is_committed

    async def _take_if_due(self, case: Case, step: JudgeStep) -> None:
        if self.book.is_due(case.key, step):
            await self.book.send(self._message(case, step))

    async def _judge(self, case: Case) -> None:
        """Find the right result. Without the input there is none: silence costs a fee at most, and is no lie."""
        try:
            form = await self.parts.form_of(case.unit)
            self._without_input.add(case.key)
            statement = await self._found(case, form)
            await self._check_final(case)
            self._keep(case, statement)
            await self._take_if_due(case, JudgeStep.COMMIT)
        except (BlobError, ExecutionError, ChainError) as error:
            self.parts.telemetry.tell("no_verdict", unit=case.unit_id, problem=str(error))

    async def _found(self, case: Case, form: WorkloadForm) -> Statement:
        try:
            asked = await self.parts.inputs.open(case.posted_as, case.unit, InputUse.LOOKED_AT)
            self._without_input.discard(case.key)
            return await self._verdict(case, form, asked)
        except (UnusableInputError, BadRequestError) as error:
            self.parts.telemetry.tell("input_bad", unit=case.unit_id, problem=str(error))
            return UNANSWERABLE

    async def _verdict(self, case: Case, form: WorkloadForm, asked: UnitInput) -> Statement:
        if isinstance(case, DisputedLeaf):
            return await leaf_verdict(self.parts, case, form, asked, case.leaf)
        return await find_verdict(self.parts, case, form, asked)

    def _keep(self, case: Case, statement: Statement) -> None:
        """An opinion is in the journal before anybody hears of it."""
        assert case.key not in self.parts.journal.cases  # nobody is judged twice
        self.parts.journal.append(Judged(*case.key, statement, os.urandom(32)))

    async def _check_final(self, case: Case) -> None:
        """ChainError if what was judged is not what the final chain asks for."""
        status = await self.parts.chain.final_unit(case.unit_id)
        if status is None or status.unit.terms != case.unit.terms:
            raise ChainError("the node said another input than the final chain holds: judged in vain")
        if isinstance(case, DisputedLeaf):
            await self._check_leaf(case)

    async def _check_leaf(self, case: DisputedLeaf) -> None:
        """ChainError unless it is still this seat's leaf: a batch may have one case after another."""
        dispute = await self.parts.chain.final_dispute(case.unit_id)
        places = {seat.seat.probe_place for seat in await self.parts.chain.final_seats() if seat.id == case.unit_id}
        is_same = dispute is not None and dispute.stage is DisputeStage.JUDGED and dispute.leaf == case.leaf
        if not is_same or case.seat.probe_place not in places:
            raise ChainError("another leaf is judged by now")

    def _commitment(self, case: Case) -> bytes:
        identity, entry = self.parts.identity, self.parts.journal.cases[case.key]
        return opinion_commitment(
            identity.genesis, case.unit_id, case.seat.bench, identity.stash, entry.statement, entry.salt
        )

    def _message(self, case: Case, step: JudgeStep) -> StepMessage:
        """The table of steps: what the world sees of each. `Judged` is in the journal before an opinion leaves."""
        unit = case.unit_id
        details: dict[str, Detail] = {"unit": unit, "bench": case.seat.bench}
        match step:
            case JudgeStep.COMMIT:
                call = Courts.commit_opinion(case_id=unit, commitment=self._commitment(case))
                return StepMessage(call, "verdict_commit", details)
            case JudgeStep.OPEN:
                entry = self.parts.journal.cases[case.key]
                call = Courts.open_opinion(case_id=unit, statement=entry.statement, salt=entry.salt)
                return StepMessage(call, "verdict_reveal", details)
            case JudgeStep.APPEAL:
                return StepMessage(Courts.appeal(case_id=unit), "appealed", details)
            case _:
                raise AssertionError(f"{step.name} is not a step that the world sees")
