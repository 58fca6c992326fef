"""A committee seat: find the right result of a disputed unit, commit to it, reveal it.

A racer's output that can be had is checked by one prefill, which is several times cheaper than generating; only where
none is right, or none can be had, the whole request is executed. Always: the verdict and its salt are in the journal
before its commitment leaves; the same verdict is sent after a restart.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum, auto

from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.sealing import SealError
from gpu_tasks.data.unit_input import UnitInput, output_root
from gpu_tasks.market.api import DutyStatus
from gpu_tasks.market.inference.commitments import InputBad, Recomputed, verdict_commitment
from gpu_tasks.market.inference.committees import Committee, Judge, member_of
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.provider.blobs import reseal
from gpu_tasks.provider.blobs.inputs import Inputs, UnusableInputError
from gpu_tasks.provider.chain.port import ChainError, ChainPort, Identity, View
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.racing import RESEND_BLOCKS
from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError, Executor
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.records import CaseEntry, Judged
from gpu_tasks.provider.telemetry import Telemetry


class JudgeStep(Enum):
    """What to do next about a case."""

    NOTHING = auto()
    JUDGE = auto()
    COMMIT = auto()
    REVEAL = auto()


@dataclass(frozen=True, slots=True)
class Case:
    """One committee that this provider sits on."""

    unit_id: bytes
    unit: Unit
    committee: Committee
    member: Judge
    reveals_from: int

    @property
    def key(self) -> tuple[bytes, int]:
        """How the journal names it."""
        return self.unit_id, self.committee.number


def case_of(duty: DutyStatus, stash: bytes) -> Case | None:
    """The case that a duty is about; None if it is one no more."""
    committee = duty.status.committee
    member = member_of(committee, stash) if committee else None
    if committee is None or member is None or committee.round is None:
        return None
    return Case(duty.id, duty.status.unit, committee, member, duty.status.reveals_from)


def next_step(case: Case, entry: CaseEntry | None) -> JudgeStep:
    """What chain and journal ask for."""
    is_closed = case.committee.round is None or case.committee.round.closed_at > 0
    if case.member.verdict is not None:
        return JudgeStep.NOTHING
    if case.member.commitment is None:
        if is_closed:
            return JudgeStep.NOTHING
        return JudgeStep.JUDGE if entry is None else JudgeStep.COMMIT
    return JudgeStep.REVEAL if entry is not None and case.reveals_from else JudgeStep.NOTHING


class Judging:
    """Takes the steps of all cases."""

    def __init__(
        self,
        identity: Identity,
        chain: ChainPort,
        journal: Journal,
        executor: Executor,
        inputs: Inputs,
        blobs: BlobClient,
        telemetry: Telemetry,
    ) -> None:
        """Shares the executor with the races."""
        self.identity = identity
        self.chain = chain
        self.journal = journal
        self.executor = executor
        self.inputs = inputs
        self.blobs = blobs
        self.telemetry = telemetry
        self.tasks = KeyedTasks()
        self.height = 0
        self._taken: dict[tuple[bytes, int, JudgeStep], int] = {}

    async def step(self, duty: DutyStatus, view: View) -> None:
        """Do what a case asks for now; ChainError if the node does not take it."""
        self.height = view.height
        case = case_of(duty, self.identity.stash)
        if case is None:
            return
        step = next_step(case, self.journal.cases.get(case.key))
        if step is JudgeStep.JUDGE:
            self.tasks.start(case.key, self._judge(case))
        elif step is not JudgeStep.NOTHING:
            await self._take(case, step)

    async def _take(self, case: Case, step: JudgeStep) -> None:
        if self.height < self._taken.get((*case.key, step), -RESEND_BLOCKS) + RESEND_BLOCKS:
            return
        self._taken[(*case.key, step)] = self.height
        unit, number, entry = case.unit_id, case.committee.number, self.journal.cases[case.key]
        if step is JudgeStep.COMMIT:
            commitment = verdict_commitment(
                self.identity.genesis, unit, number, self.identity.stash, entry.verdict, entry.salt
            )
            call = InferenceMarket.commit_verdict(unit=unit, committee=number, commitment=commitment)
        else:
            call = InferenceMarket.reveal_verdict(unit=unit, committee=number, verdict=entry.verdict, salt=entry.salt)
        await self.chain.submit(call)
        self.telemetry.tell(f"verdict_{step.name.lower()}", unit=unit, committee=number)

    async def _judge(self, case: Case) -> None:
        """Find the verdict. Without the input there is none: silence is no lie, and costs a judge nothing."""
        try:
            verdict = await self.verdict(case)
            self.journal.append(Judged(case.unit_id, case.committee.number, verdict, os.urandom(32)))
            await self._take(case, JudgeStep.COMMIT)
        except (BlobError, ExecutionError, ChainError) as error:
            self.telemetry.tell("no_verdict", unit=case.unit_id, problem=str(error))

    async def verdict(self, case: Case) -> Recomputed | InputBad:
        """What the input gives, by checking the racers' outputs first."""
        try:
            asked = await self.inputs.open(case.unit)
            return Recomputed(await self._right_root(case, asked))
        except (UnusableInputError, BadRequestError) as error:
            self.telemetry.tell("input_bad", unit=case.unit_id, problem=str(error))
            return InputBad()

    async def _right_root(self, case: Case, asked: UnitInput) -> bytes:
        seen: set[bytes] = set()
        for racer in case.unit.racers:
            if racer.reveal is None or racer.reveal.output_root in seen:
                continue
            output = await self._output_of(case, racer.owner)
            if output is None or self._root(case, asked, output) != racer.reveal.output_root:
                continue
            seen.add(racer.reveal.output_root)
            is_short = len(output) <= case.unit.terms.tokens_max
            if is_short and await self.executor.verify(asked.request, output):
                self.telemetry.tell("verified", unit=case.unit_id, racer=racer.owner, way="prefill")
                return racer.reveal.output_root
            self.telemetry.tell("refuted", unit=case.unit_id, racer=racer.owner, way="prefill")
        execution = await self.executor.run(asked.request)
        if len(execution.output) > case.unit.terms.tokens_max:
            raise UnusableInputError("the request asks for more tokens than the unit")
        self.telemetry.tell("recomputed", unit=case.unit_id)
        return self._root(case, asked, execution.output)

    def _root(self, case: Case, asked: UnitInput, output: bytes) -> bytes:
        return output_root(self.identity.genesis, case.unit_id, asked.salt, output)

    async def _output_of(self, case: Case, racer: bytes) -> bytes | None:
        """A racer's output, sealed again to this judge; None where it cannot be had."""
        provider = (await self.chain.providers()).get(racer)
        if provider is None:
            return None
        url = provider.endpoint.decode("ascii").rstrip("/") + "/reseal"
        try:
            blob = await self.blobs.ask(url, reseal.question(self.identity, case.unit_id, case.committee.number))
            return self.identity.seal_key.open(blob)
        except (BlobError, SealError) as error:
            self.telemetry.tell("not_resealed", unit=case.unit_id, racer=racer, reason=str(error))
            return None
