"""A committee seat: find the right result of a disputed unit, commit to it, reveal it.

Always: the verdict and its salt are in the journal before its commitment leaves; the same verdict is sent after a
restart; no verdict is revealed before its commit was seen in the final chain.
"""

from __future__ import annotations

import os

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.market.api import DutyStatus
from gpu_tasks.market.inference.commitments import verdict_commitment
from gpu_tasks.market.inference.committees import member_of
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.chain.port import ChainError, View
from gpu_tasks.provider.duties.cases import Case, JudgeStep, case_of, next_step
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sending import StepBook, StepMessage
from gpu_tasks.provider.duties.verdicts import find_verdict
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.journal.journal import CaseKey
from gpu_tasks.provider.journal.records import Judged
from gpu_tasks.provider.telemetry import Detail


class JudgeDuty:
    """Takes the steps of all cases."""

    def __init__(self, parts: Parts) -> None:
        """Checks on any device that is free; races go before (`execution.line`)."""
        self.parts = parts
        self.book: StepBook[JudgeStep] = StepBook(parts)
        self._seen_final: set[CaseKey] = set()

    async def step(self, duty: DutyStatus, view: View) -> None:
        """Do what a case asks for now; ChainError if the node does not take it."""
        self.book.look(view)
        case = case_of(duty, self.parts.identity.stash)
        if case is None:
            return
        step = next_step(case, self.parts.journal.cases.get(case.key))
        if step is JudgeStep.JUDGE:
            self.book.tasks.start(case.key, self._judge(case))
        elif step is not JudgeStep.NOTHING and await self._may_be_seen(case, step):
            await self._take_if_due(case, step)

    def end(self, key: CaseKey) -> None:
        """A case is over, and the journal says so."""
        assert key not in self.parts.journal.cases or self.parts.journal.cases[key].is_over
        self.book.forget(key)
        self._seen_final.discard(key)

    async def _may_be_seen(self, case: Case, step: JudgeStep) -> bool:
        """Whether a step gives nothing away: a verdict is shown only once the final chain holds its commitment.

        Other judges would copy it, and a node that swallowed the commit could say that reveals are open.
        """
        if step is not JudgeStep.REVEAL or case.key in self._seen_final:
            return True
        status = await self.parts.chain.final_unit(case.unit_id)
        committee = None if status is None else status.committee
        member = None if committee is None else member_of(committee, self.parts.identity.stash)
        if committee is not None and committee.number == case.committee.number and member is not None:
            is_committed = member.commitment == self._commitment(case)
        else:
            is_committed = False
        if is_committed:
            self._seen_final.add(case.key)
        else:
            problem = "the final chain does not hold the verdict's commitment"
            self.parts.telemetry.tell("not_final", unit=case.unit_id, problem=problem)
        return is_committed

    async def _take_if_due(self, case: Case, step: JudgeStep) -> None:
        if self.book.is_due(case.key, step):
            await self.book.send(self._message(case, step))

    async def _judge(self, case: Case) -> None:
        """Find the verdict. Without the input there is none: silence is no lie, and costs a judge nothing."""
        try:
            verdict = await find_verdict(self.parts, case)
            await self._check_final(case)
            assert case.key not in self.parts.journal.cases  # nobody is judged twice
            self.parts.journal.append(Judged(*case.key, verdict, os.urandom(32)))
            await self._take_if_due(case, JudgeStep.COMMIT)
        except (BlobError, ExecutionError, ChainError) as error:
            self.parts.telemetry.tell("no_verdict", unit=case.unit_id, problem=str(error))

    async def _check_final(self, case: Case) -> None:
        """ChainError if what was judged is not what the final chain asks for."""
        status = await self.parts.chain.final_unit(case.unit_id)
        if status is None or status.unit.terms != case.unit.terms:
            raise ChainError("the node said another input than the final chain holds: judged in vain")

    def _commitment(self, case: Case) -> bytes:
        identity, entry, (unit, number) = self.parts.identity, self.parts.journal.cases[case.key], case.key
        return verdict_commitment(identity.genesis, unit, number, identity.stash, entry.verdict, entry.salt)

    def _message(self, case: Case, step: JudgeStep) -> StepMessage:
        """The table of steps: what the world sees of each. `Judged` is in the journal before either."""
        entry, (unit, number) = self.parts.journal.cases[case.key], case.key
        details: dict[str, Detail] = {"unit": unit, "committee": number}
        match step:
            case JudgeStep.COMMIT:
                call = InferenceMarket.commit_verdict(unit=unit, committee=number, commitment=self._commitment(case))
                return StepMessage(call, "verdict_commit", details)
            case JudgeStep.REVEAL:
                call = InferenceMarket.reveal_verdict(
                    unit=unit, committee=number, verdict=entry.verdict, salt=entry.salt
                )
                return StepMessage(call, "verdict_reveal", details)
            case _:
                raise AssertionError(f"{step.name} is not a step that the world sees")
